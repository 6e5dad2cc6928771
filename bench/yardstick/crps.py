"""The continuous ranked probability score (CRPS) of a whole predicted distribution.

For a predicted CDF F and an outcome y, CRPS(F, y) = ∫ (F(x) − 1[x ≥ y])² dx. It is in the unit of
the outcome; lower is better.
"""

from __future__ import annotations

import numpy as np

# Rows are processed in blocks, so that temporary arrays take only some tens of megabytes.
_BLOCK = 2**20


def crps(knots: np.ndarray, left: np.ndarray, right: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The exact CRPS of each row's predicted distribution, (n,).

    A distribution is given by its CDF F at ascending values, the knots (m,). At each knot, ``left``
    is the limit of F from the left and ``right`` is F itself, (n, m). Between two knots F is
    linear, from ``right`` of the one to ``left`` of the next. F is 0 before the first knot and 1
    from the last knot on.
    """
    rows = max(1, _BLOCK // knots.size)
    parts = [slice(start, start + rows) for start in range(0, y.size, rows)]
    return np.concatenate([_scores(knots, left[one], right[one], y[one]) for one in parts])


def _scores(knots: np.ndarray, left: np.ndarray, right: np.ndarray, y: np.ndarray) -> np.ndarray:
    """∫ F² below y plus ∫ (1 − F)² above y, as sums over the gaps between neighbouring knots."""
    start, stop = knots[:-1], knots[1:]
    first, last = right[:, :-1], left[:, 1:]
    # The part of each gap that is below y; a gap that contains y is cut in two at y.
    cut = np.clip(y[:, None], start, stop)
    middle = first + (cut - start) / (stop - start) * (last - first)
    below = (cut - start) * _mean_square(first, middle)
    above = (stop - cut) * _mean_square(1.0 - middle, 1.0 - last)
    outside = np.maximum(knots[0] - y, 0.0) + np.maximum(y - knots[-1], 0.0)
    return (below + above).sum(axis=1) + outside


def _mean_square(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The mean square of a linear function that runs from a to b."""
    return (a * a + a * b + b * b) / 3.0
