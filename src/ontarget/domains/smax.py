"""Battles in SMAX, an engine in the style of StarCraft II by the authors of JaxMARL.

The engine is compiled to advance many battles by one step at a time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from ontarget._package import require
from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray
from ontarget.domains.draws import streams, uniforms
from ontarget.domains.skirmish import Battles

# The engine's own values: a Marine's hit points, the start locations of both sides on its map of
# 32 x 32, and how far from there a unit may start in x and in y.
HEALTH: Final = 45.0
PLACES: Final = ((8.0, 16.0), (24.0, 16.0))
START_NOISE: Final = 2.0

# The engine's four ways to walk, in the order of its actions.
_DIRECTIONS: Final = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))
# Every call advances this many battles, the last ones as copies if there are fewer. So one shape
# is compiled, and a battle's bits do not depend on how many are fought beside it.
_BATCH: Final = 256

_lock = Lock()
# How many numbers of a stream the sizes of the armies, and of the reinforcements, are drawn from.
_FOR_ARMIES, _FOR_REINFORCEMENTS = 4, 3


class Library(NamedTuple):
    """The modules of JAX and JaxMARL that the engine uses."""

    jax: ModuleType
    smax: ModuleType
    policy: ModuleType
    battle: ModuleType


@cache
def library() -> Library:
    """The imported modules of JAX and JaxMARL."""
    rooms = ("smax_env", "heuristic_enemy", "heuristic_enemy_smax_env")
    with _silence():
        require("jaxmarl", extra="smax")
        inner = [require(f"jaxmarl.environments.smax.{room}", extra="smax") for room in rooms]
    return Library(require("jax", extra="smax"), *inner)


@contextmanager
def _silence() -> Iterator[None]:
    """A context in which importing JaxMARL prints nothing."""
    before = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # type: ignore[misc,assignment]  # put back
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = before  # type: ignore[misc]  # as it was


class Units(NamedTuple):
    """The units of many battles, or of one: blue's first, then red's."""

    positions: AnyArray
    health: AnyArray
    cooldown: AnyArray
    target: AnyArray
    heading: AnyArray


class Engine:
    """SMAX for a fixed number of blue and red units, compiled once."""

    def __init__(self, n_blue: int, n_red: int, *, mirror: bool) -> None:
        jax = library().jax
        real, whole, n = np.float32, np.int32, n_blue + n_red
        kinds = (((2,), real), ((), real), ((), real), ((), whole), ((2,), real))
        units = Units(*(jax.ShapeDtypeStruct((_BATCH, n, *more), kind) for more, kind in kinds))
        keys = jax.ShapeDtypeStruct((_BATCH, 2), np.uint32)
        step = jax.vmap(_step_of(n_blue, n_red, mirror=mirror))
        self._step = jax.jit(step).lower(keys, units).compile()

    def advance(self, streams: KeyArray, units: Units) -> Units:
        """The units of each battle after one step, given each battle's random numbers."""
        n = streams.size
        words = np.stack([streams >> np.uint64(32), streams], axis=-1).astype(np.uint32)
        rows = np.minimum(np.arange(-(-n // _BATCH) * _BATCH), n - 1)
        parts = []
        for start in range(0, rows.size, _BATCH):
            chosen = rows[start : start + _BATCH]
            moved = self._step(words[chosen], Units(*(array[chosen] for array in units)))
            parts.append([np.asarray(array) for array in moved])
        return Units(*(np.concatenate(arrays)[:n] for arrays in zip(*parts, strict=True)))


def engine_of(n_blue: int, n_red: int, *, mirror: bool) -> Engine:
    """The engine with room for this many blue and red units. It is compiled on first use."""
    with _lock:  # so that two threads do not compile the same engine
        return _built(n_blue, n_red, mirror)


@cache
def _built(n_blue: int, n_red: int, mirror: bool) -> Engine:
    return Engine(n_blue, n_red, mirror=mirror)


def _step_of(n_blue: int, n_red: int, *, mirror: bool) -> Callable[[Any, Units], Units]:
    """One step of one battle, as a function that JAX can compile."""
    jax, smax, policy, battle = library()
    marines = smax.Scenario(np.zeros(n_blue + n_red, np.uint8), n_blue, n_red, False, False)
    # Walls would kill units that others push against them. Without that, every death is a kill.
    env = battle.HeuristicEnemySMAX(scenario=marines, walls_cause_death=False)
    _, template = env.reset(jax.random.PRNGKey(0))
    decide = jax.vmap(policy.create_heuristic_policy(env, team=0))
    sight = float(env.unit_type_sight_ranges[0])
    memory, join = policy.HeuristicPolicyState, jax.numpy.concatenate

    def step(key: Any, units: Units) -> Units:
        state = template.replace(
            state=template.state.replace(
                unit_positions=units.positions,
                unit_alive=units.health > 0.0,
                unit_health=units.health,
                unit_weapon_cooldowns=units.cooldown,
            ),
            enemy_policy_state=memory(units.heading[n_blue:], units.target[n_blue:]),
        )
        blue_key, battle_key = jax.random.split(key)
        seen = env.get_all_unit_obs(state)
        actions, blue = decide(
            jax.random.split(blue_key, n_blue),
            memory(units.heading[:n_blue], units.target[:n_blue]),
            jax.numpy.stack([seen[agent] for agent in env.agents]),
        )
        if not mirror:
            actions = _advance(actions, units, n_blue, sight)
        orders = dict(zip(env.agents, actions, strict=True))
        _, moved, *_ = env.step_env(battle_key, state, orders)
        red = moved.enemy_policy_state
        return Units(
            moved.state.unit_positions,
            moved.state.unit_health,
            moved.state.unit_weapon_cooldowns,
            join([blue.last_attacked_enemy, red.last_attacked_enemy]),
            join([blue.default_target, red.default_target]),
        )

    return step


def _advance(actions: Any, units: Units, n_blue: int, sight: float) -> Any:
    """Blue's actions, changed so that a unit that sees no enemy walks toward red's centroid."""
    jnp = library().jax.numpy
    blue, red = units.positions[:n_blue], units.positions[n_blue:]
    alive = units.health[n_blue:] > 0.0
    apart = jnp.linalg.norm(blue[:, None] - red[None], axis=-1)
    sees = jnp.any((apart < sight) & alive, axis=1)
    centroid = jnp.sum(red * alive[:, None], axis=0) / jnp.maximum(jnp.sum(alive), 1)
    walk = jnp.argmax((centroid - blue) @ jnp.array(_DIRECTIONS).T, axis=1)
    return jnp.where(sees, actions, walk)


@dataclass(frozen=True)
class SmaxBattle:
    """The full state of many battles: one row per episode, one column per unit.

    The columns are blue units, red units, then places for red's reinforcements. What happens next
    depends only on this state, so a battle can be continued from a copy of its row.
    """

    positions: AnyArray
    """Where each unit is: x and y."""
    health: AnyArray
    """Hit points left; 0 for the dead and for places that nobody holds."""
    cooldown: AnyArray
    """Seconds until the unit may fire again, at most 0 when it may."""
    target: AnyArray
    """The enemy that the unit fired at, by the engine's number, or -1."""
    heading: AnyArray
    """Where the engine's policy walks while it sees nobody; (0, 0) before it has chosen."""
    reinforcements: IndexArray
    """How many reinforcements have arrived so far; one number per episode."""

    @property
    def units(self) -> Units:
        """The arrays with one column per unit, as the engine expects them."""
        return Units(self.positions, self.health, self.cooldown, self.target, self.heading)


@dataclass(frozen=True, kw_only=True)
class Smax(Battles):
    """The paper's battles in SMAX, the StarCraft-like engine of JaxMARL (extra ``smax``).

    JaxMARL's authors wrote the engine, its Marines and red's policy. We only chose the scenario, so
    it is a check on `Skirmish`, which is our own in every part. It is not StarCraft II either:
    don't call results from it StarCraft data.

    Parameters
    ----------
    blue, red
        The fewest and the most units that a side starts with, drawn uniformly.
    most_reinforcements
        The most units that can join red later; 0 for none. First N is drawn uniformly from 0 to
        this number, then the number of units uniformly from 0 to N.
    reinforcement_step
        The step at which the reinforcements arrive: after its state was observed, before anybody
        acts.
    horizon
        The number of steps of every episode, half a second each.
    mirror
        Whether blue follows the engine's policy throughout, as red does; that makes both sides
        equal.

    Notes
    -----
    As in the paper: the numbers of units and of reinforcements, that these arrive at t = 14, the
    reward (+1 per red unit killed, -1 per blue unit lost), the horizon of 57, and blue's policy: a
    blue unit that sees no enemy walks toward red's centroid; one that sees an enemy fights by the
    engine's logic.

    The engine decides the rest; docs/skirmish.md lists it beside `Skirmish`.

    What differs from the paper, as far as the paper says: **red attacks too**, because the engine's
    policy walks to the opposite half of the map and chases the enemies it sees. Reinforcements
    appear around red's start location, with weapons that are ready. The engine ends a battle when a
    side has no unit left. Here nobody moves from then on, until reinforcements arrive, so that
    every episode has the same length. Walls do not kill. The features are those of `Skirmish`.

    Examples
    --------
    With the extra installed::

        simulate(Smax(), 10_000, seed=0)
    """

    mirror: bool = False

    def __post_init__(self) -> None:
        library()
        super().__post_init__()

    @property
    def name(self) -> str:
        """The domain's name: ``"smax"``."""
        return "smax"

    @property
    def places(self) -> FloatArray:
        """The start locations of blue and red, one row each."""
        return np.array(PLACES)

    def start(self, keys: KeyArray) -> SmaxBattle:
        """The state at t = 0 of one episode for each key."""
        n = keys.size, self.blue[1] + self.red[1] + self.most_reinforcements
        battle = SmaxBattle(
            positions=np.zeros((*n, 2), np.float32),
            health=np.zeros(n, np.float32),
            cooldown=np.zeros(n, np.float32),
            target=np.full(n, -1, np.int32),
            heading=np.zeros((*n, 2), np.float32),
            reinforcements=np.zeros(keys.size, np.intp),
        )
        armies, first_red = self.armies(keys), self.blue[1]
        at = uniforms(keys, -1, _FOR_ARMIES + 2 * (self.blue[1] + self.red[1]))[:, _FOR_ARMIES:]
        self._place(battle, 0, armies.blue, at[:, : 2 * first_red])
        self._place(battle, first_red, armies.red, at[:, 2 * first_red :])
        return battle

    def observe(self, battle: SmaxBattle) -> FloatArray:
        """The features of each battle that are known before acting: one row per episode."""
        x, y = (np.array(battle.positions[..., axis], np.float64) for axis in (0, 1))
        return self._features(x, y, battle.health.astype(np.float64), battle.reinforcements)

    def step(self, battle: SmaxBattle, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t; the battles are advanced in place."""
        if t == self.reinforcement_step and self.most_reinforcements:
            self._reinforce(battle, keys)
        blue, red = self._living(battle)
        fought = np.flatnonzero((blue > 0) & (red > 0))
        if fought.size:
            # Places that nobody can hold yet would only cost time, most of it.
            n_red = self.red[1] + self.most_reinforcements * (t >= self.reinforcement_step)
            compiled = engine_of(self.blue[1], n_red, mirror=self.mirror)
            held = [array[:, : self.blue[1] + n_red] for array in battle.units]
            before = Units(*(array[fought] for array in held))
            after = compiled.advance(streams(keys[fought], t), before)
            for array, new in zip(held, after, strict=True):
                array[fought] = new
        blue_left, red_left = self._living(battle)
        return ((red - red_left) - (blue - blue_left)).astype(np.float64)

    def _living(self, battle: SmaxBattle) -> tuple[IndexArray, IndexArray]:
        alive, n_blue = battle.health > 0.0, self.blue[1]
        return alive[:, :n_blue].sum(axis=1), alive[:, n_blue:].sum(axis=1)

    def _reinforce(self, battle: SmaxBattle, keys: KeyArray) -> None:
        sizes, n = self.armies(keys).reinforcements, _FOR_REINFORCEMENTS
        at = uniforms(keys, self.reinforcement_step, n + 2 * self.most_reinforcements)[:, n:]
        first = self.blue[1] + self.red[1]
        self._place(battle, first, sizes, at)
        battle.reinforcements[:] = sizes

    def _place(
        self, battle: SmaxBattle, first: int, sizes: IndexArray, uniform: FloatArray
    ) -> None:
        """Put new units around their side's start location, in the columns from ``first`` on."""
        n = uniform.shape[1] // 2
        columns, centre = slice(first, first + n), self.places[int(first > 0)]
        noise = START_NOISE * (2.0 * uniform.reshape(-1, n, 2) - 1.0)
        new = np.arange(n) < sizes[:, None]
        battle.positions[:, columns] = np.where(new[..., None], centre + noise, 0.0)
        battle.health[:, columns] = np.where(new, HEALTH, 0.0)
