"""JaxMARL's SMAX, compiled to advance many battles by one step at a time."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from ontarget._extras import require
from ontarget._typing import AnyArray, KeyArray

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


class Library(NamedTuple):
    """The modules of JAX and JaxMARL that the engine uses."""

    jax: ModuleType
    smax: ModuleType
    policy: ModuleType
    battle: ModuleType


@cache
def library() -> Library:
    """The imported modules of JAX and JaxMARL.

    If they are missing, an error says what to install.
    """
    rooms = ("smax_env", "heuristic_enemy", "heuristic_enemy_smax_env")
    with _silence():
        require("jaxmarl", extra="smax")
        inner = [require(f"jaxmarl.environments.smax.{room}", extra="smax") for room in rooms]
    return Library(require("jax", extra="smax"), *inner)


@contextmanager
def _silence() -> Iterator[None]:
    """A context in which importing JaxMARL prints nothing.

    JaxMARL's import prints which of its environments are missing, and it replaces ``sys.stdout`` by
    the interpreter's own stream. Afterwards all streams are as they were before.
    """
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
    """SMAX for a fixed number of blue and red units, compiled once.

    Parameters
    ----------
    n_blue, n_red
        How many units each side has room for; a place without a living unit has no effect.
    mirror
        Whether blue follows the engine's policy throughout, as red does.
    """

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
