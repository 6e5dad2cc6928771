"""Behaviors: a behavior is the number that a run is judged by, updated with every reward."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.target import Target

# A float, or a tuple of floats, whole numbers, booleans and such tuples. Typed loosely, since the
# built-in behaviors take arrays of floats too.
State: TypeAlias = Any
# The least and the greatest reward of one step; None or an infinity where there is no bound.
Bounds: TypeAlias = tuple[float | None, float | None]


class Translation(IntEnum):
    """How a target for the outcome becomes a target for the remainder.

    A behavior is the number that a run is judged by, and the outcome is its value at the end. With
    `KEEP`, the remainder is the outcome itself. With `SHIFT`, the remainder is the outcome minus
    the behavior so far, and the target is shifted by the same amount. With `FLOOR`, the outcome is
    the larger of the behavior so far and what follows; with `CEILING`, the smaller. With `OWN`, the
    remainder is the outcome, and the behavior defines its own `translate`.
    """

    KEEP = 0
    SHIFT = 1
    FLOOR = 2
    CEILING = 3
    OWN = 4


class Behavior(ABC):
    """The number that a run is judged by. Its value at the end of the run is the outcome.

    Models learn the distribution of the *remainder*: what is still to come. `translate` turns a
    target for the outcome into one for the remainder, given the behavior so far.

    To define your own behavior, subclass this and write `update` and, if needed, `start`, `value`
    and `translate`. If the subclass is a frozen dataclass, its fields become part of the behavior's
    name. The outcome must be a finite number.

    Attributes
    ----------
    column
        The column that holds the behavior's values; None if the behavior is computed from rewards,
        as in every class that you write.
    vectorised
        Whether the state is a float, and `update` and `value` also take arrays of such states.

    Examples
    --------
    The first step with a negative reward, or 20 if there is none:

    >>> class FirstLoss(Behavior):
    ...     def start(self):
    ...         return (False, 20.0)
    ...
    ...     def update(self, state, reward, t):
    ...         lost, _ = state
    ...         return state if lost or reward >= 0 else (True, float(t))
    ...
    ...     def value(self, state):
    ...         return state[1]
    >>> from ontarget import Episodes
    >>> rewards = np.array([[1.0, -1.0, -2.0], [3.0, 0.0, 1.0]])
    >>> print(Episodes.from_arrays(np.zeros((2, 3, 1)), rewards, behavior=FirstLoss()).outcomes)
    [ 1. 20.]
    """

    vectorised: ClassVar[bool] = False
    column: str | None = None

    @property
    def spec(self) -> str:
        """The name of this behavior, such as "sum"."""
        this: Any = self  # a subclass may be a dataclass
        settings = [one.name for one in fields(this)] if is_dataclass(this) else []
        shown = ", ".join(f"{name}={getattr(this, name)!r}" for name in settings)
        return f"own:{type(self).__name__}({shown})"

    @property
    def label(self) -> str:
        """What people call the number that a run is judged by, such as "sum of rewards"."""
        return "outcome"

    @property
    def told(self) -> bool:
        """Whether the value is read from a column of the data, not computed from rewards."""
        return self.column is not None

    @property
    def forgets(self) -> bool:
        """Whether an invalid reward (such as NaN) no longer matters once a valid one follows."""
        return False

    @property
    def translation(self) -> Translation:
        """How a target for the outcome becomes one for the remainder."""
        return Translation.KEEP if type(self).translate is Behavior.translate else Translation.OWN

    @property
    def additive(self) -> bool:
        """Whether the outcome is a sum: what a run has so far plus what is still to come."""
        return self.translation is Translation.SHIFT

    @property
    def reads_so_far(self) -> bool:
        """Whether models get what a run has reached so far (such as its sum) as a feature."""
        return self.translation is not Translation.SHIFT

    @property
    def initial(self) -> float:
        """The behavior before the first step; NaN if it has none."""
        return float(self.value(self.start()))

    def start(self) -> State:
        """What must be remembered of a run before its first step: a float, or a tuple of values."""
        return math.nan

    @abstractmethod
    def update(self, state: State, reward: Any, t: int) -> State:
        """What must be remembered after step t, from what was before it and the step's reward.

        If the behavior is read from a column, ``reward`` is the value of the column.
        """

    def value(self, state: State) -> Any:
        """The behavior so far, from what was remembered of the run; NaN if there is none yet."""
        return state

    def scale(self, t: int) -> float:
        """The factor by which a model scales what is still to come at step t."""
        return 1.0

    def translate(self, target: Target, so_far: float, t: int, grid: float | None = None) -> Target:
        """The target for the remainder, if ``so_far`` is reached at step t.

        The run meets ``target`` exactly if its remainder is in the returned target. ``so_far`` is
        the behavior (the number that the run is judged by) up to step t. If the returned target is
        empty, the run cannot meet its target any more. If the returned target contains every
        number, the run cannot miss its target.

        Examples
        --------
        >>> from ontarget import Target
        >>> from ontarget.episodes import Max, Sum
        >>> Sum().translate(Target.at_least(10), 4.0, t=3)
        Target('[6, inf)')
        >>> Max().translate(Target(2, 8), 4.0, t=3)
        Target('(-inf, 8]')
        >>> Max().translate(Target(2, 8), 9.0, t=3)
        Target('empty')
        """
        wanted, had = target.snap(grid), float(snap(so_far, grid))
        if self.translation is Translation.SHIFT:
            return wanted.shift(-had, grid)
        if self.translation in (Translation.KEEP, Translation.OWN) or math.isnan(had):
            return wanted
        ends = (had, math.inf) if self.translation is Translation.FLOOR else (-math.inf, had)
        beyond = Target(*ends, "neither")
        ahead = wanted & beyond
        # A remainder that does not go beyond the behavior so far does not change the outcome.
        return ahead | ~beyond if wanted.contains(had) else ahead

    def combine(self, so_far: ArrayLike, remainder: ArrayLike) -> FloatArray:
        """The outcomes of runs, from the behavior so far and the remainder."""
        had, ahead = np.asarray(so_far, np.float64), np.asarray(remainder, np.float64)
        if self.translation is Translation.SHIFT:
            return had + ahead
        if self.translation is Translation.FLOOR:
            return np.fmax(had, ahead)
        if self.translation is Translation.CEILING:
            return np.fmin(had, ahead)
        return np.broadcast_arrays(had, ahead)[1]

    def ahead(self, t: int, *, bounds: Bounds, horizon: int, declared: bool) -> tuple[float, float]:
        """The range that must contain the remainder from step t on.

        It follows from bounds on the rewards.

        Parameters
        ----------
        t
            The step. The run is still going there, so at least one reward follows.
        bounds
            The least and the greatest reward of one step; None or an infinity for no bound.
        horizon, declared
            The number of steps after which a run is complete, and whether it was declared. An
            inferred horizon, which is only the longest run seen, gives no bound.
        """
        return -math.inf, math.inf


class Walk(NamedTuple):
    """The behavior at each recorded row and at each run's end."""

    before: FloatArray  # the behavior so far, before acting, one per row
    outcomes: FloatArray  # one per episode
    ahead: FloatArray | None  # for max and min: the extreme of a row's reward and all later ones


def begin(behavior: Behavior, n: int) -> AnyArray:
    """What a behavior remembers of each of n runs before their first step, (n,)."""
    # To compute it, something must be remembered of a run, such as its sum so far: a float, or any
    # object. The array has floats or objects accordingly.
    states = np.empty(n, dtype=np.float64 if behavior.vectorised else np.object_)
    states.fill(behavior.start())
    return states


def advance(behavior: Behavior, states: AnyArray, rewards: FloatArray, t: int) -> AnyArray:
    """What a behavior remembers after step t, for many runs at once."""
    if behavior.vectorised:
        return np.asarray(behavior.update(states, rewards, t))
    one_by_one = np.frompyfunc(lambda state, reward: behavior.update(state, reward, t), 2, 1)
    return np.asarray(one_by_one(states, rewards), dtype=np.object_)


def values_of(behavior: Behavior, states: AnyArray) -> FloatArray:
    """The behavior so far of many runs, (n,)."""
    if behavior.vectorised:
        return np.asarray(behavior.value(states), dtype=np.float64)
    return np.asarray(np.frompyfunc(behavior.value, 1, 1)(states), dtype=np.float64)


def walk(behavior: Behavior, values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> Walk:
    """The behavior at each recorded row and at each run's end."""
    before = np.empty(values.size)
    states = begin(behavior, lengths.size)
    with np.errstate(over="ignore", invalid="ignore"):  # a NaN outcome is refused later
        for t, rows, alive in steps_of(lengths, offsets):
            own = states[alive]
            before[rows] = values_of(behavior, own)
            states[alive] = advance(behavior, own, values[rows], t)
    outcomes = values_of(behavior, states)
    if behavior.translation not in (Translation.FLOOR, Translation.CEILING):
        return Walk(before, outcomes, None)
    # A maximum or minimum does not depend on the order of the rewards, so what lies ahead of each
    # row is computed from the last step back to the first.
    ahead = np.empty(values.size)
    states = begin(behavior, lengths.size)
    for t, rows, alive in steps_of(lengths, offsets, backwards=True):
        states[alive] = own = advance(behavior, states[alive], values[rows], t)
        ahead[rows] = values_of(behavior, own)
    return Walk(before, outcomes, ahead)


def steps_of(
    lengths: IndexArray, offsets: IndexArray, *, backwards: bool = False
) -> Iterator[tuple[int, slice, IndexArray]]:
    """For each step: its number, the slice of its rows, and the episodes still going there."""
    alive: IndexArray = np.arange(lengths.size)
    steps = range(offsets.size - 1)
    for t in reversed(steps) if backwards else steps:
        rows = slice(int(offsets[t]), int(offsets[t + 1]))
        if rows.stop - rows.start != alive.size:
            alive = np.flatnonzero(lengths > t)
        yield t, rows, alive
