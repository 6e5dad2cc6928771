"""Computes a behavior (the number a run is judged by) for many runs at once.

That works even if the behavior's methods do not take arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior, Translation


class Walk(NamedTuple):
    """The behavior (the number a run is judged by) at each recorded row and at each run's end."""

    before: FloatArray  # the behavior so far, before acting, one per row
    outcomes: FloatArray  # one per episode
    ahead: FloatArray | None  # for max and min: the extreme of a row's reward and all later ones


def begin(behavior: Behavior, n: int) -> AnyArray:
    """What a behavior remembers of each of n runs before their first step, (n,).

    A behavior is the number that a run is judged by. To compute it, something must be remembered of
    a run, such as its sum so far: a float, or any object. The array has floats or objects
    accordingly.
    """
    states = np.empty(n, dtype=np.float64 if behavior.vectorised else np.object_)
    states.fill(behavior.start())
    return states


def advance(behavior: Behavior, states: AnyArray, rewards: FloatArray, t: int) -> AnyArray:
    """What a behavior remembers after step t, for many runs at once.

    A behavior is the number that a run is judged by. ``states`` is what the behavior remembered of
    each run before step t, such as the sum so far; ``rewards`` are the runs' rewards at step t.
    """
    if behavior.vectorised:
        return np.asarray(behavior.update(states, rewards, t))
    one_by_one = np.frompyfunc(lambda state, reward: behavior.update(state, reward, t), 2, 1)
    return np.asarray(one_by_one(states, rewards), dtype=np.object_)


def values_of(behavior: Behavior, states: AnyArray) -> FloatArray:
    """The behavior so far (the number a run is judged by) of many runs, (n,).

    It is computed from what the behavior remembers of each run, ``states``.
    """
    if behavior.vectorised:
        return np.asarray(behavior.value(states), dtype=np.float64)
    return np.asarray(np.frompyfunc(behavior.value, 1, 1)(states), dtype=np.float64)


def walk(behavior: Behavior, values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> Walk:
    """The behavior (the number a run is judged by) at each recorded row and at each run's end.

    Rows are sorted by step, and within a step by episode. ``values`` are the rewards. If the
    behavior is read from a column, they are the values of this column after each row.
    """
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
    """For each step: its number, the slice of its rows, and the episodes still going there.

    Episodes are given by their positions. Rows are sorted by step, and within a step by episode.
    """
    alive: IndexArray = np.arange(lengths.size)
    steps = range(offsets.size - 1)
    for t in reversed(steps) if backwards else steps:
        rows = slice(int(offsets[t]), int(offsets[t + 1]))
        if rows.stop - rows.start != alive.size:
            alive = np.flatnonzero(lengths > t)
        yield t, rows, alive
