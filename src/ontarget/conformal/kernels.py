"""Kernels of PCQR and of Venn–Abers: they count ranks, and fit isotonic regressions.

The counts of ranks below the two ends of a target give its calibrated probability (methods M3 and
M4 in docs/methods.md). They are whole numbers, the numerators of fractions: divide ``low`` and
``high`` by n + 1, and ``mid`` by 2(n + 1). An infinite end of a target is passed as an infinite
query and counts as exactly 0 or n + 1. A finite end never does, even if the model's CDF there is 0
or 1. Watching a run and answering for many rows use the same `target_row`, so their answers are
equal.

`success_slopes` is the algorithm of Venn–Abers (method M7 in docs/methods.md). Vovk, Petej and
Fedorova (2015) read the values of isotonic regression as slopes: plot the running number of
successes against the running number of labels, and take the largest convex curve below these
points. If the added label, a success, moves to the next score, only one point moves. So one pass
with one stack of corner points gives the values for all places, in linear time. All numbers are
whole, so comparisons are exact; a slope is a fraction that the caller divides.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray


@inner_kernel
def end_counts(ranks: FloatArray, query: float) -> tuple[int, int]:
    """The lower and upper calibrated CDF at one end of a target, as counts to divide by n + 1."""
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
    """The probability of one target as counts: (low, mid, high)."""
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
    """Write the counts (low, mid, high) of `target_row` for every row and target."""
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


@inner_kernel
def _turn(ox: int, oy: int, ax: int, ay: int, bx: int, by: int) -> int:
    """The turn from the points o to a to b: positive if b lies above the line from o through a."""
    return (ax - ox) * (by - oy) - (ay - oy) * (bx - ox)


@kernel
def success_slopes(weights: IndexArray, successes: IndexArray) -> IndexArray:
    """The isotonic value at each group if one success is added to it, as fractions: (groups, 2)."""
    n = weights.size
    slopes = np.empty((n, 2), dtype=np.intp)
    if n == 0:
        return slopes
    px = np.zeros(n + 1, dtype=np.intp)
    py = np.zeros(n + 1, dtype=np.intp)
    for i in range(n):
        px[i + 1] = px[i] + weights[i]
        py[i + 1] = py[i] + successes[i]
    # A stack of the corners of the convex curve, from right to left. The top is the corner left of
    # the extra success. At first this is the origin, moved by one label and one success.
    x = np.empty(n + 2, dtype=np.intp)
    y = np.empty(n + 2, dtype=np.intp)
    size = 0
    for i in range(n, -1, -1):
        qx = px[i] if i > 0 else -1
        qy = py[i] if i > 0 else -1
        while size > 1 and _turn(qx, qy, x[size - 1], y[size - 1], x[size - 2], y[size - 2]) <= 0:
            size -= 1
        x[size], y[size] = qx, qy
        size += 1
    for j in range(1, n + 1):
        slopes[j - 1, 0] = y[size - 2] - y[size - 1]
        slopes[j - 1, 1] = x[size - 2] - x[size - 1]
        if j == n:
            break
        qx, qy = px[j] - 1, py[j] - 1
        if _turn(x[size - 1], y[size - 1], x[size - 2], y[size - 2], qx, qy) >= 0:
            continue
        size -= 1
        while size > 1 and _turn(qx, qy, x[size - 1], y[size - 1], x[size - 2], y[size - 2]) <= 0:
            size -= 1
        x[size], y[size] = qx, qy
        size += 1
    return slopes
