"""Finds features that only rise or only fall from step to step, as time does.

If several features change in this way, a recording cannot show which of them caused a change of the
monitor's answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes.episodes import Episodes
from ontarget.episodes.schema import Schema

_PAIRS = 8  # how many pairs of neighboring steps are examined
_ENOUGH = 20  # the fewest changes that count as evidence


class Clocks(NamedTuple):
    """Which features only rise or only fall during a run, and whether the behavior so far does.

    The behavior is the number that a run is judged by, such as the sum of its rewards.
    """

    features: frozenset[str] = frozenset()
    so_far: bool = False


def clocks_of(episodes: Episodes | None, schema: Schema) -> Clocks:
    """Which features only rise or only fall during the runs of these episodes.

    The answer comes from a few pairs of neighboring steps, spread over the length of the episodes.
    """
    if episodes is None or episodes.horizon < 2:
        return Clocks()
    moves = []
    for t in np.unique(np.linspace(0, episodes.horizon - 2, _PAIRS).round().astype(np.intp)):
        now, then = (_rows(episodes, int(step)) for step in (t + 1, t))
        shared = np.intersect1d(now[0], then[0], return_indices=True)[1:]
        with np.errstate(invalid="ignore"):  # from one infinity to the same is no move
            moves.append(now[1][shared[0]] - then[1][shared[1]])
    one_way = _one_way(np.concatenate(moves))
    if one_way.size != len(schema.names) + 1:
        return Clocks()
    named = zip(schema.names, schema.features, one_way[:-1].tolist(), strict=True)
    numeric = (name for name, one, clock in named if clock and one.categories is None)
    return Clocks(frozenset(numeric), bool(one_way[-1]))


def _rows(episodes: Episodes, t: int) -> tuple[IndexArray, FloatArray]:
    """At step t: which episodes are still going, and their states with the behavior so far.

    The behavior is the number that a run is judged by, such as the sum of its rewards.
    """
    rows = episodes.at(t)
    return rows.index, np.column_stack([rows.states, rows.behavior])


def _one_way(moves: FloatArray) -> BoolArray:
    """Which columns of ``moves`` (changes from step to step) are above 0, or below 0, in all rows.

    If there are too few rows to tell, the answer is False for all columns.
    """
    up, down = (np.count_nonzero(one, axis=0) for one in (moves > 0.0, moves < 0.0))
    found: BoolArray = (np.maximum(up, down) == len(moves)) & (len(moves) >= _ENOUGH)
    return found
