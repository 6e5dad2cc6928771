"""Finds features that, like time, only rise or only fall from step to step.

A recording cannot show which of several such features caused a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes.episodes import Episodes
from ontarget.episodes.schema import Schema

__all__ = ["Clocks", "clocks_of"]

_PAIRS = 8  # how many pairs of neighboring steps are examined
_ENOUGH = 20  # the fewest changes that count as evidence


class Clocks(NamedTuple):
    """The features that only rise or only fall, and whether the behavior so far does too."""

    features: frozenset[str] = frozenset()
    so_far: bool = False


def clocks_of(episodes: Episodes | None, schema: Schema) -> Clocks:
    """Which features only rise or only fall in these episodes.

    Some pairs of neighboring steps, spread over the length of the episodes, are examined.
    """
    if episodes is None or episodes.horizon < 2:
        return Clocks()
    moves = []
    for t in np.unique(np.linspace(0, episodes.horizon - 2, _PAIRS).round().astype(np.intp)):
        now, then = (_rows(episodes, int(step)) for step in (t + 1, t))
        shared = np.intersect1d(now[0], then[0], return_indices=True)[1:]
        moves.append(now[1][shared[0]] - then[1][shared[1]])
    one_way = _one_way(np.concatenate(moves))
    if one_way.size != len(schema.names) + 1:
        return Clocks()
    named = zip(schema.names, schema.features, one_way[:-1].tolist(), strict=True)
    numeric = (name for name, one, clock in named if clock and one.categories is None)
    return Clocks(frozenset(numeric), bool(one_way[-1]))


def _rows(episodes: Episodes, t: int) -> tuple[IndexArray, FloatArray]:
    """Which episodes reach a step, and their states and behavior so far there."""
    rows = episodes.at(t)
    return rows.index, np.column_stack([rows.states, rows.behavior])


def _one_way(moves: FloatArray) -> BoolArray:
    """Which columns have enough changes that are not 0, all of the same sign."""
    up, down = (np.count_nonzero(one, axis=0) for one in (moves > 0.0, moves < 0.0))
    found: BoolArray = (np.maximum(up, down) == len(moves)) & (len(moves) >= _ENOUGH)
    return found
