"""A distribution through quantiles: linear between them, exponential beyond them (M2)."""

from __future__ import annotations

import math

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray
from ontarget.models._support_kernel import inverse_of, reaches

# A tail follows the slope, on the log scale, from the outermost quantile to the first one with at
# least four times its tail mass: the outermost two alone may lie next to each other by chance.
_TAIL_RATIO = 4.0


@inner_kernel
def _first_reaching(ascending: FloatArray, q: float, strictly: bool) -> int:
    """The index of the first number that is >= q (> q if ``strictly``)."""
    start, stop = 0, ascending.size
    while start < stop:
        middle = (start + stop) >> 1
        if reaches(ascending[middle], q, strictly):
            stop = middle
        else:
            start = middle + 1
    return start


@kernel
def tail_scales(values: FloatArray, levels: FloatArray, floor: float) -> tuple[float, float]:
    """The scales of the lower and upper exponential tail of a row; neither is below ``floor``."""
    last = levels.size - 1
    j = 0
    while j < last and levels[j] < _TAIL_RATIO * levels[0]:
        j += 1
    k = last
    while k > 0 and 1.0 - levels[k] < _TAIL_RATIO * (1.0 - levels[last]):
        k -= 1
    lower, upper = floor, floor
    if j > 0:
        lower = max(floor, (values[j] - values[0]) / math.log(levels[j] / levels[0]))
    if k < last:
        ratio = (1.0 - levels[k]) / (1.0 - levels[last])
        upper = max(floor, (values[last] - values[k]) / math.log(ratio))
    return lower, upper


@inner_kernel
def _mass(y: float, j: int, law: tuple[FloatArray, FloatArray, tuple[float, float]]) -> float:
    """The CDF at a y that is not one of the quantiles."""
    values, levels, tails = law
    if j == 0:
        return float(levels[0] * math.exp((y - values[0]) / tails[0]))
    last = levels.size - 1
    if j > last:
        return float(1.0 - (1.0 - levels[last]) * math.exp((values[last] - y) / tails[1]))
    part = (y - values[j - 1]) / (values[j] - values[j - 1])
    return float(min(levels[j - 1] + part * (levels[j] - levels[j - 1]), levels[j]))


_inverse = inverse_of(_mass)


@inner_kernel
def _limits(
    y: float, values: FloatArray, levels: FloatArray, tails: tuple[float, float]
) -> tuple[float, float]:
    """The CDF just before y, and at y: P(Y < y) and P(Y <= y)."""
    if y == -np.inf:
        return 0.0, 0.0
    if y == np.inf:
        return 1.0, 1.0
    below = _first_reaching(values, y, False)
    if below < values.size and values[below] == y:
        upto = below
        while upto + 1 < values.size and values[upto + 1] == y:
            upto += 1
        return levels[below], levels[upto]
    mass = _mass(y, below, (values, levels, tails))
    return mass, mass


@inner_kernel
def _quantile(
    q: float, strictly: bool, values: FloatArray, levels: FloatArray, tails: tuple[float, float]
) -> float:
    """The smallest float at which the CDF is >= q (> q if ``strictly``)."""
    if q < 0.0 or (q == 0.0 and not strictly):
        return -np.inf
    if q > 1.0 or (q == 1.0 and strictly):
        return np.inf
    j = _first_reaching(levels, q, strictly)
    if 0 < j < values.size and values[j - 1] == values[j]:
        return float(values[j])
    return _inverse(q, strictly, j, values, tails, (values, levels, tails))


@kernel
def knot_limits(
    knots: FloatArray, levels: FloatArray, floor: float, y: FloatArray, out: FloatArray
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row into ``out``, (rows, values, 2).

    ``knots`` holds the quantiles of each row at ``levels``, (rows, levels). ``y`` holds the values
    that each row is asked about, (rows, values).
    """
    for i in range(knots.shape[0]):
        tails = tail_scales(knots[i], levels, floor)
        for k in range(y.shape[1]):
            out[i, k, 0], out[i, k, 1] = _limits(y[i, k], knots[i], levels, tails)


@kernel
def knot_quantiles(
    knots: FloatArray, levels: FloatArray, floor: float, q: FloatArray, strictly: bool
) -> FloatArray:
    """The quantiles of each row at the levels ``q``: (rows, size of q).

    ``knots`` holds the quantiles that the model computed, at ``levels``: (rows, levels).
    """
    out = np.empty((knots.shape[0], q.size))
    for i in range(knots.shape[0]):
        tails = tail_scales(knots[i], levels, floor)
        for k in range(q.size):
            out[i, k] = _quantile(q[k], strictly, knots[i], levels, tails)
    return out


@kernel
def knot_means(knots: FloatArray, levels: FloatArray, floor: float) -> FloatArray:
    """The mean of each row's distribution, which passes through its quantiles ``knots``."""
    out = np.empty(knots.shape[0])
    last = levels.size - 1
    for i in range(knots.shape[0]):
        lower, upper = tail_scales(knots[i], levels, floor)
        mean = levels[0] * (knots[i, 0] - lower) + (1.0 - levels[last]) * (knots[i, last] + upper)
        for j in range(last):
            mean += (levels[j + 1] - levels[j]) * 0.5 * (knots[i, j] + knots[i, j + 1])
        out[i] = mean
    return out
