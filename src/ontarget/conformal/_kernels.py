"""Kernels that count how many of n sorted ranks are below the two ends of a target.

A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1. The counts
give the calibrated probability of the target (methods M3 and M4 in docs/methods.md). All results
are whole numbers, the numerators of fractions: divide ``low`` and ``high`` by n + 1, and ``mid`` by
2(n + 1). An infinite end of a target is passed as an infinite query and counts as exactly 0 or n +
1. A finite end never does, even if the model's CDF there is 0 or 1. Watching a run and answering
for many rows use the same `target_row`, so their answers are equal.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray


@inner_kernel
def end_counts(ranks: FloatArray, query: float) -> tuple[int, int]:
    """The lower and upper calibrated CDF at one end of a target, as counts to divide by n + 1.

    The counts are (ranks below the query, 1 + ranks up to the query). A rank is where an episode's
    outcome fell in its predicted distribution; n is the number of ranks. The query is the model's
    CDF at this end. For an infinite query, both are 0 or both are n + 1.
    """
    n = ranks.size
    if query == np.inf:
        return n + 1, n + 1
    if query == -np.inf:
        return 0, 0
    # A branch-free lower bound: the number of ranks below the query.
    start, length = 0, n
    while length > 1:
        half = length >> 1
        start += half if ranks[start + half - 1] < query else 0
        length -= half
    below = start
    if length == 1 and ranks[start] < query:
        below = start + 1
    if below == n or ranks[below] != query:
        return below, below + 1
    # Ties: double the stride until past them, then search within the last stride.
    stride = 1
    while below + stride < n and ranks[below + stride] == query:
        stride <<= 1
    start, stop = below + (stride >> 1), min(below + stride, n)
    while start < stop:
        middle = (start + stop) >> 1
        if ranks[middle] <= query:
            start = middle + 1
        else:
            stop = middle
    return below, start + 1


@inner_kernel
def target_row(ranks: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> tuple[int, int, int]:
    """The probability of one target as counts: (low, mid, high).

    With n ranks, divide low and high by n + 1, and mid by 2(n + 1). A rank is where an episode's
    outcome fell in its predicted distribution. A target is a union of components (intervals) in
    ascending order. ``a_minus`` and ``a_plus``, (components,), are the model's CDF at their lower
    and upper ends.
    """
    whole = ranks.size + 1
    low, mid, missed, reached = 0, 0, 0, 0
    for j in range(a_minus.size):
        minus_lo, minus_hi = end_counts(ranks, a_minus[j])
        plus_lo, plus_hi = end_counts(ranks, a_plus[j])
        low += max(0, plus_lo - minus_hi)
        mid += max(0, plus_lo + plus_hi - minus_lo - minus_hi)
        missed += max(0, minus_lo - reached)
        reached = plus_hi
    missed += max(0, whole - reached)
    return low, mid, whole - missed


@kernel
def target_rows(
    ranks: FloatArray,
    a_minus: FloatArray,
    a_plus: FloatArray,
    first: IndexArray,
    counts: IndexArray,
) -> None:
    """Write the counts (low, mid, high) of `target_row` for every row and target.

    ``counts`` has shape (rows, targets, 3). ``a_minus`` and ``a_plus``, (rows, components), are the
    model's CDF at the lower and upper ends of all components. Those from ``first[j]`` up to, but
    not including, ``first[j + 1]`` belong to target j.
    """
    for row in range(a_minus.shape[0]):
        for j in range(first.size - 1):
            low, mid, high = target_row(
                ranks,
                a_minus[row, first[j] : first[j + 1]],
                a_plus[row, first[j] : first[j + 1]],
            )
            counts[row, j, 0] = low
            counts[row, j, 1] = mid
            counts[row, j, 2] = high


@kernel
def end_counts_many(ranks: FloatArray, queries: FloatArray, counts: IndexArray) -> None:
    """Write the result of `end_counts` for each query into ``counts``, (queries, 2)."""
    for i in range(queries.size):
        lo, hi = end_counts(ranks, queries[i])
        counts[i, 0] = lo
        counts[i, 1] = hi
