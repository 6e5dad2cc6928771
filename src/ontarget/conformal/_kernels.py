"""Counting among sorted ranks, one row or many, in whole numbers (M3, M4).

An infinite end of a target is an infinite query, and nothing else is: a finite outcome whose CDF is
0 or 1 keeps its slack. All results are numerators: ``low`` and ``high`` over n + 1, ``mid`` over
2(n + 1). The live path and the batch path share `target_row`, so they agree by construction.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray

__all__ = ["end_counts", "end_counts_many", "target_row", "target_rows", "weighted_row"]


@inner_kernel
def end_counts(ranks: FloatArray, query: float) -> tuple[int, int]:
    """Numerators of lo and hi at one end: (below, upto + 1), or exactly 0 or n + 1 at infinity."""
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
    # Ties: gallop past them, then search the last stride.
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
    """Numerators (low, mid, high) of a target whose components, in order, have these CDF limits."""
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


@inner_kernel
def _end_weights(
    ranks: FloatArray, upto: FloatArray, own: float, query: float
) -> tuple[float, float]:
    """Numerators of lo and hi at one end, as `end_counts`, where ranks have weights (M25)."""
    n = ranks.size
    total = (upto[n - 1] if n > 0 else 0.0) + own
    if query == np.inf:
        return total, total
    if query == -np.inf:
        return 0.0, 0.0
    below, after = end_counts(ranks, query)
    low = upto[below - 1] if below > 0 else 0.0
    high = upto[after - 2] if after > 1 else 0.0
    return low, high + own


@inner_kernel
def weighted_row(
    ranks: FloatArray, upto: FloatArray, own: float, a_minus: FloatArray, a_plus: FloatArray
) -> tuple[float, float]:
    """The low and high of a target, as of `target_row`, where ranks and the run have weights (M25).

    ``upto`` is the weight of each rank and all below it, ``own`` that of the new run.
    """
    whole = (upto[-1] if ranks.size > 0 else 0.0) + own
    low, missed, reached = 0.0, 0.0, 0.0
    for j in range(a_minus.size):
        minus_lo, minus_hi = _end_weights(ranks, upto, own, a_minus[j])
        plus_lo, plus_hi = _end_weights(ranks, upto, own, a_plus[j])
        low += max(0.0, plus_lo - minus_hi)
        missed += max(0.0, minus_lo - reached)
        reached = plus_hi
    missed += max(0.0, whole - reached)
    return low / whole, (whole - missed) / whole


@kernel
def target_rows(
    ranks: FloatArray,
    a_minus: FloatArray,
    a_plus: FloatArray,
    first: IndexArray,
    counts: IndexArray,
) -> None:
    """Fill counts (rows, targets, 3) from limits (rows, components).

    Target j owns the components ``first[j]`` up to ``first[j + 1]``.
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
    """Fill counts (queries, 2) with the numerators of lo and hi at each end."""
    for i in range(queries.size):
        lo, hi = end_counts(ranks, queries[i])
        counts[i, 0] = lo
        counts[i, 1] = hi
