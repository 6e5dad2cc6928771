"""Isotonic regression with one more success, for every place it can have, in linear time (M7).

Vovk, Petej and Fedorova (2015) see isotonic regression as the slopes of the greatest convex
minorant of a cumulative sum diagram. Moving the extra success one group to the right moves one
point of the diagram, so a single stack serves all places. Everything is a whole number here: the
turns are exact, and a slope is a fraction that the caller divides once.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import IndexArray

__all__ = ["success_slopes"]


@inner_kernel
def _turn(ox: int, oy: int, ax: int, ay: int, bx: int, by: int) -> int:
    """Positive where b lies above the line from o through a."""
    return (ax - ox) * (by - oy) - (ay - oy) * (bx - ox)


@kernel
def success_slopes(weights: IndexArray, successes: IndexArray) -> IndexArray:
    """Isotonic value at each group with one success added to it: (groups, 2) fractions.

    Groups come in order of their scores, with the number of labels and of successes in each.
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
    # The hull of what lies right of the extra success, its leftmost corner on top, and on top of
    # that the corner from which the extra success is crossed: at first the origin, moved by it.
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
