"""The skirmish: simulated battles of Marines, our replacement for the paper's StarCraft II domain.

Many battles are simulated at once, under the blue side's fixed policy. No data of the game are
used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.domains import _skirmish_kernels as kernels
from ontarget.errors import Argument, InputError

FEATURES = (
    "blue_count",
    "red_count",
    "blue_health",
    "red_health",
    "distance",
    "reinforced",
)
LOOPS_PER_STEP = 8
# Chosen: an open field, wide enough for the march and with room to retreat.
FIELD = (36.0, 18.0)


class Order(IntEnum):
    """The order that a side follows for one step."""

    HOLD = kernels.HOLD
    """Stand; fire at and chase enemies that come within scan range."""
    ATTACK = kernels.ATTACK
    """Walk toward the enemy's centroid; fire at and chase enemies within scan range."""
    RETREAT = kernels.RETREAT
    """Walk straight away from the enemy's centroid without firing."""


@dataclass(frozen=True)
class Battle:
    """The full state of many battles: one row per episode, one column per unit.

    The columns are blue units, red units, then places for red's reinforcements. What happens next
    depends only on this state, so a battle can be continued from a copy of its row. The number of
    reinforcements is not part of the state; it is drawn when they arrive.
    """

    x: FloatArray
    y: FloatArray
    health: FloatArray
    """Hit points left; 0 for the dead and for places that nobody holds."""
    cooldown: FloatArray
    """Game loops until the unit may fire again."""
    target: AnyArray
    """The column of the enemy that the unit has chosen, or -1."""
    reinforcements: IndexArray
    """How many reinforcements have arrived so far; one number per episode."""

    @property
    def units(self) -> kernels.Units:
        """The arrays with one column per unit, as the compiled code expects them."""
        return kernels.Units(self.x, self.y, self.health, self.cooldown, self.target)


class Armies(NamedTuple):
    """How many units each episode starts with, and how many join later; one entry per episode."""

    blue: IndexArray
    red: IndexArray
    reinforcements: IndexArray


@dataclass(frozen=True, kw_only=True)
class Battles:
    """What simulators of battles share: the sizes of the armies, drawn alike, and the features."""

    blue: tuple[int, int] = (5, 20)
    red: tuple[int, int] = (5, 10)
    most_reinforcements: int = 15
    reinforcement_step: int = 14
    horizon: int = 57

    def __post_init__(self) -> None:
        for side in ("blue", "red"):
            fewest, most = getattr(self, side)
            if not 0 <= fewest <= most:
                raise InputError(
                    Argument(side),
                    f" needs (fewest, most) with 0 <= fewest <= most, got {(fewest, most)}",
                )
        for name in ("most_reinforcements", "reinforcement_step"):
            whole_number(name, getattr(self, name), least=0)
        whole_number("horizon", self.horizon, least=1)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns that `observe` returns."""
        return FEATURES

    @property
    def categorical(self) -> tuple[str, ...]:
        """The features that are codes of categories: none."""
        return ()

    @property
    def places(self) -> FloatArray:
        """The start locations of blue and red, one row each."""
        raise NotImplementedError

    def armies(self, keys: KeyArray) -> Armies:
        """For each key, how many units the episode starts with, and how many join red later."""
        sizes, _ = self._draw_armies(keys)
        return Armies(sizes[0], sizes[1], self._draw_reinforcements(keys)[0])

    def _features(
        self, x: FloatArray, y: FloatArray, health: FloatArray, reinforcements: IndexArray
    ) -> FloatArray:
        n_blue, places = self.blue[1], self.places
        return features_of(
            x, y, health, n_blue=n_blue, places=places, reinforcements=reinforcements
        )

    def _draw_armies(self, keys: KeyArray) -> tuple[IndexArray, FloatArray]:
        sizes = np.empty((2, keys.shape[0]), dtype=np.intp)
        angles = np.empty((2, keys.shape[0]))
        kernels.draw_armies(keys, np.array([self.blue, self.red]), sizes, angles)
        return sizes, angles

    def _draw_reinforcements(self, keys: KeyArray) -> tuple[IndexArray, FloatArray]:
        sizes, angles = np.empty(keys.shape[0], dtype=np.intp), np.empty(keys.shape[0])
        kernels.draw_reinforcements(
            keys, self.reinforcement_step, self.most_reinforcements, sizes, angles
        )
        return sizes, angles


@dataclass(frozen=True, kw_only=True)
class Skirmish(Battles):
    """The simulator of Marine battles in which blue attack-moves toward red.

    It is a stand-in, written for this library. It uses the Marine's published numbers and a simple
    form of the game's rules. Nothing in it was recorded from StarCraft II or fitted to it, so don't
    call results from it StarCraft data.

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
        The number of steps of every episode, 8 game loops each. An episode has all its steps even
        if a side loses its last unit; later rewards are then 0.
    distance
        How far apart the start locations are.
    red_attacks
        Whether red advances as blue does, instead of waiting; that makes both sides equal.

    Notes
    -----
    Known from the paper: the numbers of units and of reinforcements, that these arrive at t = 14,
    blue's policy, the reward (+1 per red unit killed, -1 per blue unit lost) and the horizon of 57.
    Known from the game: the Marine's health, damage, range, radius, speed and weapon period with
    its jitter, and that a unit fires at the nearest enemy in scan range and keeps that target.

    All else is chosen, because no source tells it; docs/skirmish.md lists it. The features are not
    the full state: a model that sees only them does not know positions, cooldowns and targets. A
    side without a living unit counts as standing at its start location.

    Examples
    --------
    >>> from ontarget.domains.draws import episode_keys
    >>> skirmish, keys = Skirmish(red=(8, 8)), episode_keys(0, 0, 2)
    >>> battle = skirmish.start(keys)
    >>> print(skirmish.observe(battle)[:, 1:4:2])  # red's units, and their total health
    [[  8. 360.]
     [  8. 360.]]
    >>> [skirmish.step(battle, t, keys).tolist() for t in (0, 1)]  # still on the march
    [[0.0, 0.0], [0.0, 0.0]]
    """

    distance: float = 20.0
    red_attacks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.distance <= FIELD[0]:
            raise InputError(
                Argument("distance"),
                f" needs a number from 0 to the field's width {FIELD[0]}, got {self.distance}",
            )

    @property
    def name(self) -> str:
        """The domain's name: ``"skirmish"``."""
        return "skirmish"

    @property
    def places(self) -> FloatArray:
        """The start locations of blue and red, one row each."""
        middle_x, middle_y = FIELD[0] / 2.0, FIELD[1] / 2.0
        half = self.distance / 2.0
        return np.array([[middle_x - half, middle_y], [middle_x + half, middle_y]])

    def start(self, keys: KeyArray) -> Battle:
        """The state at t = 0 of one episode for each key."""
        sizes, angles = self._draw_armies(keys)
        shape = (keys.shape[0], self.blue[1] + self.red[1] + self.most_reinforcements)
        battle = Battle(
            x=np.zeros(shape),
            y=np.zeros(shape),
            health=np.zeros(shape),
            cooldown=np.zeros(shape),
            target=np.full(shape, -1, dtype=np.int16),
            reinforcements=np.zeros(shape[0], dtype=np.intp),
        )
        for side, first in ((0, 0), (1, self.blue[1])):
            kernels.arrange(battle.units, first, sizes[side], angles[side], self.places[side])
        return battle

    def observe(self, battle: Battle) -> FloatArray:
        """The features of each battle that are known before acting: one row per episode."""
        return self._features(battle.x, battle.y, battle.health, battle.reinforcements)

    def step(self, battle: Battle, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t, in which blue attack-moves; the battles are advanced in place."""
        return self.command(battle, t, keys, blue=Order.ATTACK)

    def command(
        self, battle: Battle, t: int, keys: KeyArray, *, blue: Order | ArrayLike
    ) -> FloatArray:
        """The rewards of step t if blue follows these orders; the battles are advanced in place."""
        if t == self.reinforcement_step and self.most_reinforcements:
            self._reinforce(battle, keys)
        orders = np.empty((keys.shape[0], 2), dtype=np.int8)
        orders[:, 0] = blue
        orders[:, 1] = Order.ATTACK if self.red_attacks else Order.HOLD
        return kernels.advance(
            battle.units, self.blue[1], orders, keys, t, LOOPS_PER_STEP, np.array(FIELD)
        )

    def _reinforce(self, battle: Battle, keys: KeyArray) -> None:
        sizes, angles = self._draw_reinforcements(keys)
        first = self.blue[1] + self.red[1]
        kernels.arrange(battle.units, first, sizes, angles, self.places[1])
        battle.reinforcements[:] = sizes


def features_of(
    x: FloatArray,
    y: FloatArray,
    health: FloatArray,
    *,
    n_blue: int,
    places: FloatArray,
    reinforcements: IndexArray,
) -> FloatArray:
    """The features of a battle, from the positions and health of its units."""
    described = kernels.summarize(x, y, health, n_blue, places)
    return np.column_stack([described, reinforcements > 0])
