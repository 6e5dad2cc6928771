"""The forward pass of trained networks: from a row's features to its predicted quantiles (M27)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray
from ontarget.models.ranked._columns_kernel import Columns, column_of, time_of

# After the columns a network reads the time: as it is, and as logarithms from either end.
TIMES = 3


class Networks(NamedTuple):
    """Networks of two hidden layers that answer together; flat read-only float32 arrays."""

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
