"""Answers of quantile networks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models._ranked_kernel import Columns, column_of, level_of, node_at, time_of
from ontarget.models.kernels import cdf_in_cell


class RankedOutcomes(NamedTuple):
    """The training outcomes around each step, as kernels take them; flat read-only arrays.

    A *cut* j divides the sorted distinct outcomes into the first j and the rest. ``levels`` holds,
    for each of several evenly spaced times (*nodes*), the log odds of the share of outcomes before
    each cut. ``mass`` is the share of all training outcomes before each cut, from 0 to 1. ``odds``
    are the levels of the knots (a row's predicted quantiles), as log odds, ascending.
    """

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


@kernel
def masses_of_knots(
    table: RankedOutcomes, X: FloatArray, knots: FloatArray, out: FloatArray
) -> None:
    """Write the probability before each outcome of the support, for each row."""
    for i in range(X.shape[0]):
        at = _at(X[i], table)
        for cut in range(out.shape[1]):
            out[i, cut] = _mass(cut, at, knots[i], table)


# After the columns a network reads the time: as it is, and as logarithms from either end.
TIMES = 3


class Networks(NamedTuple):
    """Networks of two hidden layers that answer together; flat read-only float32 arrays.

    For n networks with h units in each hidden layer, ``first`` is (n, inputs, h), ``second`` is (n,
    h, h), and both biases are (n, h). ``head`` is (n, h + inputs + 1, knots): the weight of each
    hidden unit for each quantile, then the weight of each input, and last a constant.
    """

    columns: Columns
    first: AnyArray
    first_bias: AnyArray
    second: AnyArray
    second_bias: AnyArray
    head: AnyArray


@inner_kernel
def _fill_inputs(row: FloatArray, columns: Columns, places: AnyArray, numbers: AnyArray) -> int:
    """Write the inputs of a row that are not 0; return how many there are."""
    count = 0
    for f in range(row.size):
        k, v = column_of(row, f, columns)
        if k >= 0 and v != 0.0:
            places[count], numbers[count] = k, v
            count += 1
    if columns.time[0] < 0:
        return count
    t, n_steps = time_of(row, columns), columns.clock[1] - columns.clock[0]
    whole = math.log1p(n_steps)
    at = columns.codes.size
    places[count], numbers[count] = at, 2.0 * t - 1.0
    places[count + 1], numbers[count + 1] = at + 1, 2.0 * math.log1p(t * n_steps) / whole - 1.0
    rest = 2.0 * math.log1p((1.0 - t) * n_steps) / whole - 1.0
    places[count + 2], numbers[count + 2] = at + 2, rest
    return count + TIMES


@inner_kernel
def _add(weights: AnyArray, start: int, number: np.float32, out: AnyArray) -> None:
    """Add ``number`` times the weights, from index ``start`` on, to the outputs."""
    own = weights[start : start + out.size]
    for j in range(out.size):
        out[j] += number * own[j]


@inner_kernel
def _add_layer(weights: AnyArray, start: int, given: AnyArray, out: AnyArray) -> None:
    """Add a layer's weighted inputs to its outputs; inputs of 0 or below are left out (ReLU)."""
    for i in range(given.size):
        if given[i] > 0.0:
            _add(weights, start + i * out.size, given[i], out)


@inner_kernel
def _sort(values: FloatArray) -> None:
    """Sort the values in place, by insertion; they are nearly sorted, so this is fast."""
    for i in range(1, values.size):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@kernel
def knots_of_rows(
    model: Networks, odds: FloatArray, used: tuple[int, int], X: FloatArray, knots: FloatArray
) -> None:
    """Write the quantiles that the networks predict for each row, ascending: (rows, levels).

    They are the mean over the networks from ``used[0]`` up to, not including, ``used[1]``.
    """
    begin, stop = used
    h = model.second.size // model.first_bias.size
    n_knots, n_inputs = odds.size, model.columns.codes.size + TIMES
    n_places = X.shape[1] + TIMES
    places, numbers = np.empty(n_places, dtype=np.int64), np.empty(n_places, dtype=np.float32)
    one, two = np.empty(h, dtype=np.float32), np.empty(h, dtype=np.float32)
    sums = np.empty(n_knots, dtype=np.float32)
    for i in range(X.shape[0]):
        count = _fill_inputs(X[i], model.columns, places, numbers)
        sums[:] = 0.0
        for m in range(begin, stop):
            one[:] = model.first_bias[m * h : (m + 1) * h]
            for c in range(count):
                _add(model.first, (m * n_inputs + places[c]) * h, numbers[c], one)
            two[:] = model.second_bias[m * h : (m + 1) * h]
            _add_layer(model.second, m * h * h, one, two)
            at = m * (h + n_inputs + 1) * n_knots
            _add_layer(model.head, at, two, sums)
            for c in range(count):
                _add(model.head, at + (h + places[c]) * n_knots, numbers[c], sums)
            _add(model.head, at + (h + n_inputs) * n_knots, np.float32(1.0), sums)
        for j in range(n_knots):
            knots[i, j] = odds[j] + np.float64(sums[j]) / (stop - begin)
        _sort(knots[i])


@kernel
def inputs_of_rows(columns: Columns, X: FloatArray, out: AnyArray) -> None:
    """Write each row's inputs for training: (rows, columns + numbers that describe the time)."""
    n_places = X.shape[1] + TIMES
    places, numbers = np.empty(n_places, dtype=np.int64), np.empty(n_places, dtype=np.float32)
    for i in range(X.shape[0]):
        out[i] = 0.0
        for c in range(_fill_inputs(X[i], columns, places, numbers)):
            out[i, places[c]] = numbers[c]
