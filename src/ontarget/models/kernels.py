"""Kernels that several models share: cells of outcomes, quantile knots, mixtures, Cholesky."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray


@inner_kernel
def cdf_in_cell(
    y: float,
    j: int,
    below: float,
    upto: float,
    support: tuple[FloatArray, AnyArray, FloatArray],
) -> tuple[float, float]:
    """P(Y < y) and P(Y <= y), where j of the training outcomes are smaller than y.

    ``below`` and ``upto`` are the model's probability of the first j and of the first j + 1
    training outcomes. ``support`` describes the training outcomes and the smoothing, as
    `Support.as_tuple`.
    """
    values, atoms, tail = support
    if j == values.size:
        left = right = below
    elif values[j] == y:
        right = upto
        left = below if atoms[j] else upto
    elif atoms[j]:
        left = right = below
    else:
        start = values[j - 1] if j > 0 else tail[0]
        left = right = below
        if y > start:
            part = (y - start) / (values[j] - start)
            left = right = min(below + part * (upto - below), upto)
    mix = tail[3]
    if tail[2] > 0.0:  # else all are atoms, and what is mixed in is part of the masses
        spread = mix / (1.0 + math.exp((tail[1] - y) / tail[2]))
        keep = 1.0 - mix
        left = keep * left + spread
        right = keep * right + spread
    return left, right


@inner_kernel
def reaches(mass: float, q: float, strictly: bool) -> bool:
    """Whether the CDF value ``mass`` is >= q, or > q if ``strictly``."""
    return mass > q if strictly else mass >= q


def inverse_of(mass: Callable[[float, int, Any], float]) -> Callable[..., float]:
    """A kernel that inverts a CDF by bisection, which is exact to the last bit."""

    @inner_kernel
    def inverse(
        q: float, strictly: bool, j: int, values: FloatArray, steps: tuple[float, float], law: Any
    ) -> float:
        """The smallest float between values j − 1 and j at which the CDF is >= q.

        If ``strictly``, the CDF must be > q there. Before the first and after the last value, the
        search goes outwards by steps that double; ``steps`` are the first step down and the first
        step up.
        """
        n = values.size
        if j < n:
            high = values[j]
        else:
            step = steps[1]
            high = values[n - 1] + step
            while high < np.inf and not reaches(mass(high, j, law), q, strictly):
                step *= 2.0
                high += step
        if j > 0:
            low = values[j - 1]
        else:
            step = steps[0]
            low = values[0] - step
            while low > -np.inf and reaches(mass(low, j, law), q, strictly):
                step *= 2.0
                low -= step
        if high == np.inf or low == -np.inf:
            return np.inf if high == np.inf else -np.inf
        while True:
            middle = 0.5 * low + 0.5 * high
            if not low < middle < high:
                return float(high)
            if reaches(mass(middle, j, law), q, strictly):
                high = middle
            else:
                low = middle

    return inverse


@inner_kernel
def _mass_in_cell(
    y: float, j: int, cell: tuple[float, float, tuple[FloatArray, AnyArray, FloatArray]]
) -> float:
    below, upto, support = cell
    return cdf_in_cell(y, j, below, upto, support)[1]


_inverse_in_cell = inverse_of(_mass_in_cell)


@inner_kernel
def quantile_in_cell(
    q: float,
    strictly: bool,
    j: int,
    below: float,
    upto: float,
    support: tuple[FloatArray, AnyArray, FloatArray],
) -> float:
    """The smallest number at which the CDF is >= q (> q if ``strictly``)."""
    values, tail = support[0], support[2]
    if tail[2] == 0.0:  # all atoms: the CDF moves at support values only
        return float(values[j]) if j < values.size else np.inf
    cell = below, upto, support
    return _inverse_in_cell(q, strictly, j, values, (tail[2], tail[2]), cell)


@kernel
def marginal_limits(
    y: FloatArray,
    mass: FloatArray,
    support: tuple[FloatArray, AnyArray, FloatArray],
    left: FloatArray,
    right: FloatArray,
) -> None:
    """Write P(Y < y) and P(Y <= y) for each number in ``y``.

    ``mass[j]`` is the probability of the first j training outcomes. ``support`` describes these
    outcomes and the smoothing between them, as `Support.as_tuple`.
    """
    n_values = support[0].size
    for k in range(y.size):
        j = np.searchsorted(support[0], y[k])
        upto = mass[min(j + 1, n_values)]
        left[k], right[k] = cdf_in_cell(y[k], j, mass[j], upto, support)


@kernel
def marginal_quantiles(
    q: FloatArray,
    strictly: bool,
    mass: FloatArray,
    support: tuple[FloatArray, AnyArray, FloatArray],
    found: FloatArray,
) -> None:
    """Write the quantile at each level in ``q``: ``inf{y : F(y) >= q}`` (``> q`` if ``strictly``).

    F is the CDF. ``mass[j]`` is the probability of the first j training outcomes, and ``support``
    is `Support.as_tuple`.
    """
    values = support[0]
    n_values = values.size
    for k in range(q.size):
        if q[k] < 0.0 or (q[k] == 0.0 and not strictly):
            found[k] = -np.inf
            continue
        if q[k] > 1.0 or (q[k] == 1.0 and strictly):
            found[k] = np.inf
            continue
        low, high = 0, n_values
        while low < high:
            j = (low + high) // 2
            here = cdf_in_cell(values[j], j, mass[j], mass[j + 1], support)[1]
            if reaches(here, q[k], strictly):
                high = j
            else:
                low = j + 1
        upto = mass[min(low + 1, n_values)]
        found[k] = quantile_in_cell(q[k], strictly, low, mass[low], upto, support)


@kernel
def quantiles_of_masses(
    masses: FloatArray,
    support: tuple[FloatArray, AnyArray, FloatArray],
    asked: tuple[FloatArray, bool],
    found: FloatArray,
) -> None:
    """Write the quantiles of each row, whose masses are those before each outcome."""
    q, strictly = asked
    for i in range(masses.shape[0]):
        marginal_quantiles(q, strictly, masses[i], support, found[i])


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


@kernel
def blend(found: FloatArray, weights: FloatArray, left: FloatArray, right: FloatArray) -> None:
    """Write P(Y < y) and P(Y <= y) of a mixture of models, exactly as `weighted` computes them.

    ``found`` holds the answers of the parts: (parts, 2, rows, values), where the second axis is P(Y
    < y) and P(Y <= y). ``left`` and ``right`` are (rows, values).
    """
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            for side in range(2):
                total, certain = 0.0, True
                for part in range(weights.size):
                    limit = found[part, side, i, j]
                    total = weights[part] * limit + (total if part > 0 else 0.0)
                    certain = certain and limit == 1.0
                total = 1.0 if certain else min(total, 1.0)
                if side == 0:
                    left[i, j] = total
                else:
                    right[i, j] = total


@kernel
def factor(matrix: FloatArray, least: FloatArray, instead: float) -> None:
    """Replace a symmetric matrix by its lower Cholesky factor; only its lower triangle is read."""
    n = matrix.shape[0]
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
        pivot = math.sqrt(matrix[j, j]) if matrix[j, j] > least[j] else instead
        for i in range(j + 1, n):
            matrix[i, j] /= pivot
        matrix[j, j] = pivot


@kernel
def solve(lower: FloatArray, rhs: FloatArray) -> FloatArray:
    """The solution x of (lower · lower') x = rhs, where ``lower`` is a Cholesky factor."""
    n = rhs.size
    x = rhs.copy()
    for i in range(n):
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]
    return x
