"""Isotonic regression of labels on scores with one label added, for every place of this label.

This is the algorithm of Venn–Abers (method M7 in docs/methods.md). Vovk, Petej and Fedorova (2015)
read the values of isotonic regression as slopes: plot the running number of successes against the
running number of labels, and take the largest convex curve below these points. If the added label,
a success, moves to the next score, only one point moves. So one pass with one stack of corner
points gives the values for all places, in linear time. All numbers are whole, so comparisons are
exact; a slope is a fraction that the caller divides.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import IndexArray


@inner_kernel
def _turn(ox: int, oy: int, ax: int, ay: int, bx: int, by: int) -> int:
    """The turn from the points o to a to b: positive if b lies above the line from o through a."""
    return (ax - ox) * (by - oy) - (ay - oy) * (bx - ox)


@kernel
def success_slopes(weights: IndexArray, successes: IndexArray) -> IndexArray:
    """The isotonic value at each group if one success is added to it, as fractions: (groups, 2).

    A group is all labels with the same score; groups are in ascending order of their scores.
    ``weights`` and ``successes``, (groups,), are the numbers of labels and of successes in each.
    The two columns of the result are numerator and denominator.
    """
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
