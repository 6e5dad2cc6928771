"""The smoothed CDF between two neighbouring training outcomes, and its inverse there (M2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ontarget._kernel import inner_kernel
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
