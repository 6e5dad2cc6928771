"""Reads a row's columns and the levels of outcomes around its step."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import AnyArray, FloatArray, IntArray

# How many spreads from its centre a feature counts at most.
_FURTHEST = 6.0


class Clocked(Protocol):
    """A table that tells the time of a row."""

    @property
    def time(self) -> IntArray: ...

    @property
    def clock(self) -> FloatArray: ...


class Columns(NamedTuple):
    """How the features of a row become input columns; flat read-only arrays.

    Feature f has the columns from ``start[f]`` up to ``start[f + 1]``. A categorical feature has
    one column for each known category (its ``codes``, ascending); any other has one for its
    standardised number. In both cases a last column says whether the feature is missing. The
    feature that holds the step has no columns.
    """

    start: IntArray
    categorical: AnyArray
    codes: FloatArray
    location: FloatArray  # centre and one over spread of each feature; 0 spreads: it is constant
    time: IntArray  # the feature that holds the step, or -1
    clock: FloatArray  # the first and the last step


@inner_kernel
def column_of(row: FloatArray, f: int, columns: Columns) -> tuple[int, float]:
    """The one column that feature f of a row fills, and the number in it.

    The column is -1 if the feature has no effect: it is the step, constant, or an unknown category.
    """
    first, last = columns.start[f], columns.start[f + 1]
    value = row[f]
    if first == last:
        return -1, 0.0
    if np.isnan(value):
        return last - 1, 1.0
    if columns.categorical[f]:
        place = first + np.searchsorted(columns.codes[first : last - 1], value)
        known = place < last - 1 and columns.codes[place] == value
        return (place, 1.0) if known else (-1, 0.0)
    scale = columns.location[2 * f + 1]
    if scale == 0.0:
        return -1, 0.0
    spreads = (value - columns.location[2 * f]) * scale
    return first, min(max(spreads, -_FURTHEST), _FURTHEST)


@inner_kernel
def time_of(row: FloatArray, columns: Clocked) -> float:
    """The time of a row, from 0 at the first step to 1 at the last.

    It is 0 if no feature holds the step, and 0.5 if the row's step is missing.
    """
    at = columns.time[0]
    if at < 0:
        return 0.0
    if np.isnan(row[at]):
        return 0.5
    first, last = columns.clock[0], columns.clock[1]
    return float(min(max((row[at] - first) / (last - first), 0.0), 1.0))


@inner_kernel
def node_at(t: float, n_nodes: int) -> tuple[int, float]:
    """The last node at or before time t, from 0 to 1, and the weight of the node after it.

    A *node* is one of the evenly spaced times at which levels are stored.
    """
    place = t * (n_nodes - 1)
    node = max(0, min(int(place), n_nodes - 2))
    return node, place - node


@inner_kernel
def level_of(levels: AnyArray, n_cuts: int, cut: int, at: tuple[int, float]) -> float:
    """The level of a cut: the log odds of the share of outcomes before the cut, at one time.

    A cut divides the sorted outcomes into lower and higher ones. The level is interpolated between
    two nodes, the times at which levels are stored. ``at`` is what `node_at` returns. ``levels``
    holds ``n_cuts`` numbers for each node.
    """
    node, weight = at
    before = np.float64(levels[node * n_cuts + cut - 1])
    if weight == 0.0:
        return float(before)
    after = np.float64(levels[(node + 1) * n_cuts + cut - 1])
    return float((1.0 - weight) * before + weight * after)
