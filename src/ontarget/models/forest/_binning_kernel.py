"""Replaces the numbers of a feature by the codes of their bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray

# No bin has this code: a feature has at most 65,535 bins, with codes from 0 to 65,534.
MISSING = 65_535


class BinTable(NamedTuple):
    """The bins of all features, flat: those of f are from ``start[f]`` to ``start[f+1]``.

    The code of a number is how many of its feature's edges are smaller. For a categorical feature,
    the edges are the numbers of its categories, and ``order`` gives their codes. ``order`` is empty
    if no feature is categorical.
    """

    edges: FloatArray
    start: IntArray
    categorical: BoolArray
    order: IntArray


@inner_kernel
def bin_value(value: float, feature: int, bins: BinTable) -> int:
    """The code of one feature's number; `MISSING` for NaN and for an unknown category."""
    n_edges = bins.start[feature + 1] - bins.start[feature]
    at, size = np.uint64(bins.start[feature]), np.uint64(n_edges)
    while size > 0:
        half = (size + np.uint64(1)) >> np.uint64(1)
        at = _halve(bins.edges, value, at, half)
        size -= half
    return _code_at(value, feature, int(np.int64(at)) - bins.start[feature], bins)


@inner_kernel
def bin_values(column: FloatArray, feature: int, bins: BinTable, codes: AnyArray) -> None:
    """Write the codes of one feature's numbers, as `bin_value` gives them.

    All searches take one step before any takes its next, because a single search would wait for
    memory at each step.
    """
    edges = bins.edges[bins.start[feature] : bins.start[feature + 1]]
    for i in range(column.size):
        codes[i] = 0
    size = np.uint64(edges.size)
    while size > 0:
        half = (size + np.uint64(1)) >> np.uint64(1)
        for i in range(column.size):
            codes[i] = _halve(edges, column[i], np.uint64(codes[i]), half)
        size -= half
    for i in range(column.size):
        codes[i] = _code_at(column[i], feature, int(np.int64(codes[i])), bins)


@inner_kernel
def _halve(edges: FloatArray, value: float, at: np.uint64, half: np.uint64) -> np.uint64:
    """The start of the remaining search: beyond this half if all its edges are below the value."""
    return at + (half if edges[at + half - np.uint64(1)] < value else np.uint64(0))


@inner_kernel
def _code_at(value: float, feature: int, n_smaller: int, bins: BinTable) -> int:
    """The code of a number that is larger than ``n_smaller`` of its feature's edges."""
    if np.isnan(value):
        return MISSING
    if bins.categorical[feature]:
        at = bins.start[feature] + n_smaller
        known = at < bins.start[feature + 1] and bins.edges[at] == value
        return int(np.int64(bins.order[at])) if known else MISSING
    return n_smaller


@inner_kernel
def bin_row(row: FloatArray, bins: BinTable, codes: AnyArray) -> None:
    """Write the bin codes of a row's features twice, with two codes for missing values.

    In the first half, a missing value has the highest code; in the second half, the lowest code. A
    split that sends missing values to the right reads the first half, and one that sends them to
    the left reads the second half. So the way down a tree need not check for missing values.
    """
    for f in range(row.size):
        write_code(codes, f, row.size, bin_value(row[f], f, bins))


@inner_kernel
def write_code(codes: AnyArray, at: int, n_features: int, code: int) -> None:
    """Write the code of one feature of a row twice, as `bin_row` does."""
    codes[at] = code
    codes[at + n_features] = 0 if code == MISSING else code


@kernel
def bin_column(column: FloatArray, feature: int, bins: BinTable, codes: AnyArray) -> None:
    """Write the codes of one feature for all rows."""
    bin_values(column, feature, bins, codes)
