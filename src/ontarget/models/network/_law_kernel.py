"""The predicted distribution of a row whose outcome is ranked among those around its step (M27)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models._marginal_kernel import marginal_quantiles
from ontarget.models._support_kernel import cdf_in_cell
from ontarget.models.ranked._columns_kernel import time_of
from ontarget.models.ranked._levels_kernel import level_of, node_at


class RankedOutcomes(NamedTuple):
    """The training outcomes around each step, as kernels take them; flat read-only arrays."""

    time: IntArray  # the feature that holds the step, or -1
    clock: FloatArray  # the first and the last step
    levels: AnyArray  # float32
    mass: FloatArray
    support: tuple[FloatArray, AnyArray, FloatArray]
    odds: FloatArray


@inner_kernel
def _at(row: FloatArray, table: RankedOutcomes) -> tuple[int, float]:
    """The last node at or before the row's step, and the weight of the next node."""
    n_cuts = table.support[0].size - 1
    if n_cuts == 0:
        return 0, 0.0
    return node_at(time_of(row, table), table.levels.size // n_cuts)


@inner_kernel
def _log_odds(z: float, knots: FloatArray, odds: FloatArray) -> float:
    """The log odds of the row's predicted CDF at z, a rank as log odds."""
    last = knots.size - 1
    if z <= knots[0]:
        return float(odds[0] + (z - knots[0]))
    if z > knots[last]:
        return float(odds[last] + (z - knots[last]))
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) >> 1
        if knots[middle] < z:
            low = middle
        else:
            high = middle
    part = (z - knots[low]) / (knots[high] - knots[low])
    return float(min(odds[low] + part * (odds[high] - odds[low]), odds[high]))


@inner_kernel
def _mass(cut: int, at: tuple[int, float], knots: FloatArray, table: RankedOutcomes) -> float:
    """The row's probability of the first ``cut`` distinct outcomes (M2)."""
    n_cuts = table.support[0].size - 1
    if cut == 0:
        return 0.0
    if cut > n_cuts:
        return 1.0
    z = level_of(table.levels, n_cuts, cut, at)
    mass = 1.0 / (1.0 + math.exp(-_log_odds(z, knots, table.odds)))
    tail = table.support[2]
    if tail[2] > 0.0:
        return mass
    return float((1.0 - tail[3]) * mass + tail[3] * table.mass[cut])


@kernel
def limits_of_knots(
    table: RankedOutcomes,
    X: FloatArray,
    knots: FloatArray,
    y: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row at each of its values y.

    ``knots`` is (rows, levels), ``y`` is (rows, values), and ``out`` holds two arrays of the shape
    of ``y``.
    """
    values = table.support[0]
    left, right = out
    for i in range(X.shape[0]):
        at = _at(X[i], table)
        for k in range(y.shape[1]):
            j = np.searchsorted(values, y[i, k])
            below = _mass(j, at, knots[i], table)
            upto = _mass(min(j + 1, values.size), at, knots[i], table)
            left[i, k], right[i, k] = cdf_in_cell(y[i, k], j, below, upto, table.support)


@inner_kernel
def _fill_masses(
    table: RankedOutcomes, row: FloatArray, knots: FloatArray, masses: FloatArray
) -> None:
    at = _at(row, table)
    for cut in range(masses.size):
        masses[cut] = _mass(cut, at, knots, table)


@kernel
def masses_of_knots(
    table: RankedOutcomes, X: FloatArray, knots: FloatArray, out: FloatArray
) -> None:
    """Write each row's probability of the first k distinct outcomes, for every k from 0 up.

    The numbers of a row rise from 0 to 1.
    """
    for i in range(X.shape[0]):
        _fill_masses(table, X[i], knots[i], out[i])


@kernel
def quantiles_of_knots(
    table: RankedOutcomes,
    X: FloatArray,
    knots: FloatArray,
    asked: tuple[FloatArray, bool],
    found: FloatArray,
) -> None:
    """Write the quantiles of each row: (rows, levels).

    ``asked`` is the levels, and whether the CDF must exceed a level instead of reaching it.
    """
    q, strictly = asked
    masses = np.empty(table.mass.size)
    for i in range(X.shape[0]):
        _fill_masses(table, X[i], knots[i], masses)
        marginal_quantiles(q, strictly, masses, table.support, found[i])
