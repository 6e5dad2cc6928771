"""From a feature's number to its bin code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget.kernel import inner_kernel, kernel
from ontarget.typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = ["MISSING", "BinTable", "bin_column", "bin_row", "bin_value"]

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
    if np.isnan(value):
        return MISSING
    first = low = bins.start[feature]
    last = high = bins.start[feature + 1]
    while low < high:
        middle = (low + high) >> 1
        if bins.edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    if bins.categorical[feature]:
        known = low < last and bins.edges[low] == value
        return int(np.int64(bins.order[low])) if known else MISSING
    return int(low - first)


@inner_kernel
def bin_row(row: FloatArray, bins: BinTable, codes: AnyArray) -> None:
    """Write a row's codes twice: missing as the highest code, then missing as the lowest one.

    A tree that sends missing values to the right reads the first half, to the left the second, so
    that a descent needs no question about missing values.
    """
    n_features = row.size
    for f in range(n_features):
        code = bin_value(row[f], f, bins)
        codes[f] = code
        codes[n_features + f] = 0 if code == MISSING else code


@kernel
def bin_column(column: FloatArray, feature: int, bins: BinTable, codes: AnyArray) -> None:
    """Write the codes of one feature over all rows."""
    for i in range(column.size):
        codes[i] = bin_value(column[i], feature, bins)
