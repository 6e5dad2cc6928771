"""From a feature's number to its bin code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = [
    "MISSING",
    "BinTable",
    "bin_column",
    "bin_row",
    "bin_values",
    "outcomes_by_code",
    "write_code",
]

# No bin has this code: a feature has at most 65,535 bins, with codes from 0 to 65,534.
MISSING = 65_535


class BinTable(NamedTuple):
    """The bins of all features, flat: those of feature f lie from ``start[f]`` to ``start[f+1]``.

    A number's code is how many of its feature's edges are smaller than it. Of a categorical
    feature the edges are the category's numbers, and ``order`` gives their codes; ``order`` is
    empty where no feature is categorical.
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

    All searches take a step before any takes its next: one alone waits for memory at each.
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
    """Where the search goes on: beyond this half of the edges if all are smaller than the value."""
    return at + (half if edges[at + half - np.uint64(1)] < value else np.uint64(0))


@inner_kernel
def _code_at(value: float, feature: int, n_smaller: int, bins: BinTable) -> int:
    """The code of a number that is larger than so many of its feature's edges."""
    if np.isnan(value):
        return MISSING
    if bins.categorical[feature]:
        at = bins.start[feature] + n_smaller
        known = at < bins.start[feature + 1] and bins.edges[at] == value
        return int(np.int64(bins.order[at])) if known else MISSING
    return n_smaller


@inner_kernel
def bin_row(row: FloatArray, bins: BinTable, codes: AnyArray) -> None:
    """Write a row's codes twice: missing as the highest code, then missing as the lowest one.

    A tree that sends missing values to the right reads the first half, to the left the second, so
    that a descent needs no question about missing values.
    """
    for f in range(row.size):
        write_code(codes, f, row.size, bin_value(row[f], f, bins))


@inner_kernel
def write_code(codes: AnyArray, at: int, n_features: int, code: int) -> None:
    """Write one feature's code of a row twice, as `bin_row` does."""
    codes[at] = code
    codes[at + n_features] = 0 if code == MISSING else code


@kernel
def bin_column(column: FloatArray, feature: int, bins: BinTable, codes: AnyArray) -> None:
    """Write the codes of one feature over all rows."""
    bin_values(column, feature, bins, codes)


@kernel
def outcomes_by_code(
    codes: AnyArray,
    features: IntArray,
    rows: tuple[FloatArray, BoolArray],
    found: tuple[IntArray, FloatArray],
) -> None:
    """Add up the rows that are seen, for each code of these features: (features, codes).

    ``rows`` are the outcomes, and which rows are seen; found are their number and their outcomes.
    """
    y, seen = rows
    counts, sums = found
    for j in range(features.size):
        own = codes[features[j]]
        for i in range(y.size):
            if seen[i]:
                counts[j, own[i]] += 1
                sums[j, own[i]] += y[i]
