"""Fits logistic curves that correct p for one target, by penalised Newton steps (M17)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray

_MOST_STEPS: Final = 50
_LONGEST: Final = 2.0  # the largest change of a coefficient in one step
_ZERO: Final = 1e-12  # a slope below this is 0, up to rounding
_SHORT: Final = 1e-4  # a step this short ends the search: the error left is about its square


@inner_kernel
def _uphill(
    rows: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    precision: FloatArray,
    found: FloatArray,
    g: FloatArray,
    h: FloatArray,
) -> None:
    """Write the gradient g of the penalised log likelihood, and its curvature h."""
    low, high, hits, weights = rows
    for j in range(3):
        g[j] = precision[j] * ((0.0 if j == 0 else 1.0) - found[j])
        for i in range(3):
            h[i, j] = precision[j] if i == j else 0.0
    for i in range(low.size):
        m = 1.0 / (1.0 + np.exp(-(found[0] + found[1] * low[i] + found[2] * high[i])))
        r, c = hits[i] - weights[i] * m, weights[i] * m * (1.0 - m)
        g[0] += r
        g[1] += r * low[i]
        g[2] += r * high[i]
        h[0, 0] += c
        h[0, 1] += c * low[i]
        h[0, 2] += c * high[i]
        h[1, 1] += c * low[i] * low[i]
        h[1, 2] += c * low[i] * high[i]
        h[2, 2] += c * high[i] * high[i]


@inner_kernel
def _hold(j: int, g: FloatArray, h: FloatArray) -> None:
    """Take coefficient j out of the Newton step, so that the coefficient keeps its value."""
    g[j] = 0.0
    h[0, j] = 0.0
    h[1, 2] = 0.0
    h[j, j] = 1.0


@inner_kernel
def _solve(g: FloatArray, h: FloatArray, step: FloatArray) -> None:
    """Write h⁻¹ g into ``step``: the solution of the linear equations h · step = g."""
    a, b = h[0, 1] / h[0, 0], h[0, 2] / h[0, 0]
    h11, h12, h22 = h[1, 1] - a * h[0, 1], h[1, 2] - a * h[0, 2], h[2, 2] - b * h[0, 2]
    g1, g2 = g[1] - a * g[0], g[2] - b * g[0]
    step[2] = (g2 - h12 / h11 * g1) / (h22 - h12 / h11 * h12)
    step[1] = (g1 - h12 * step[2]) / h11
    step[0] = (g[0] - h[0, 1] * step[1] - h[0, 2] * step[2]) / h[0, 0]


@inner_kernel
def _newton(g: FloatArray, h: FloatArray, found: FloatArray, step: FloatArray) -> float:
    """Write the Newton step, shortened so that no slope gets below 0."""
    # Returns the largest change of a coefficient that the full step would have made.
    for _ in range(3):
        _solve(g, h, step)
        free = True
        for j in range(1, 3):
            if found[j] <= 0.0 and step[j] < 0.0:
                _hold(j, g, h)
                free = False
        if free:
            break
    longest = max(abs(step[0]), max(abs(step[1]), abs(step[2])))
    part = _LONGEST / longest if longest > _LONGEST else 1.0
    for j in range(1, 3):
        if found[j] + part * step[j] < 0.0:
            part = -found[j] / step[j]
    for j in range(3):
        step[j] *= part
    return float(longest)


@kernel
def fit_slopes(
    low: FloatArray,
    high: FloatArray,
    hits: FloatArray,
    weights: FloatArray,
    precision: FloatArray,
    found: FloatArray,
) -> None:
    """Fit a logistic regression: write the best (a, b, c) of logit(p) = a + b·low + c·high."""
    rows = (low, high, hits, weights)
    g, h, step = np.empty(3), np.empty((3, 3)), np.zeros(3)
    rise = 0.0
    for _ in range(_MOST_STEPS):
        _uphill(rows, precision, found, g, h)
        if g[0] * step[0] + g[1] * step[1] + g[2] * step[2] < -0.5 * rise:
            # The step went too far beyond the maximum: go back half of it.
            for j in range(3):
                step[j] *= 0.5
                found[j] -= step[j]
            rise *= 0.5
            continue
        slope = (g[0], g[1], g[2])
        longest = _newton(g, h, found, step)
        rise = 0.0
        for j in range(3):
            found[j] += step[j]
            if j > 0 and found[j] < _ZERO:
                found[j] = 0.0
            rise += slope[j] * step[j]
        if longest < _SHORT:
            break
