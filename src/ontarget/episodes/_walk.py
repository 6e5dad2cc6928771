"""Computes a behavior along many runs at once, even if its methods do not take arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior, Translation

__all__ = ["Walk", "advance", "begin", "steps_of", "values_of", "walk"]


class Walk(NamedTuple):
    """The values of a behavior along recorded rows."""

    before: FloatArray  # the behavior so far, before acting, one per row
    outcomes: FloatArray  # one per episode
    ahead: FloatArray | None  # for max and min: the extreme of a row's reward and all later ones


def begin(behavior: Behavior, n: int) -> AnyArray:
    """The behavior's internal states of n runs before their first step, (n,).

    The array is of floats if the states are floats, otherwise of objects.
    """
    states = np.empty(n, dtype=np.float64 if behavior.vectorised else np.object_)
    states.fill(behavior.start())
    return states


def advance(behavior: Behavior, states: AnyArray, rewards: FloatArray, t: int) -> AnyArray:
    """The behavior's internal states after step t, from the states before it and the rewards."""
    if behavior.vectorised:
        return np.asarray(behavior.update(states, rewards, t))
    one_by_one = np.frompyfunc(lambda state, reward: behavior.update(state, reward, t), 2, 1)
    return np.asarray(one_by_one(states, rewards), dtype=np.object_)


def values_of(behavior: Behavior, states: AnyArray) -> FloatArray:
    """The behavior so far of many runs, (n,), from their internal states."""
    if behavior.vectorised:
        return np.asarray(behavior.value(states), dtype=np.float64)
    return np.asarray(np.frompyfunc(behavior.value, 1, 1)(states), dtype=np.float64)


def walk(behavior: Behavior, values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> Walk:
    """The values of a behavior along recorded rows, which are sorted by step, then by episode.

    ``values`` are the rewards, or the values of the behavior's column after each row.
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
    """Each step, its slice of rows, and the positions of the episodes still going there."""
    alive: IndexArray = np.arange(lengths.size)
    steps = range(offsets.size - 1)
    for t in reversed(steps) if backwards else steps:
        rows = slice(int(offsets[t]), int(offsets[t + 1]))
        if rows.stop - rows.start != alive.size:
            alive = np.flatnonzero(lengths > t)
        yield t, rows, alive
