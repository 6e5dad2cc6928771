"""Kernels of the shift, a model with one shape of distribution for all rows (M15)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray


class ShiftTable(NamedTuple):
    """One shape that is shifted and stretched for each row; flat read-only arrays."""

    units: FloatArray
    shape: FloatArray
    values: FloatArray


@inner_kernel
def _share_below(shape: FloatArray, distance: float) -> float:
    """The CDF of the shape at this distance, interpolated linearly between its quantiles."""
    last = shape.size - 1
    if not distance > shape[0]:
        return 0.0
    if distance >= shape[last]:
        return 1.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) >> 1
        if shape[middle] < distance:
            low = middle
        else:
            high = middle
    part = (distance - shape[low]) / (shape[high] - shape[low])
    return float(min((low + part) / last, high / last))


@inner_kernel
def _limits(law: ShiftTable, place: tuple[float, float], y: float) -> tuple[float, float]:
    """P(Y < y) and P(Y <= y) of a row; ``place`` is its location and scale."""
    location, scale = place
    if law.values.size == 0:
        share = _share_below(law.shape, (y - location) / scale)
        return share, share
    below = int(np.searchsorted(law.values, y))
    upto = below + (1 if below < law.values.size and law.values[below] == y else 0)
    left = _share_before(law, place, below)
    return left, left if upto == below else _share_before(law, place, upto)


@inner_kernel
def _share_before(law: ShiftTable, place: tuple[float, float], count: int) -> float:
    """The probability of the first ``count`` atoms (outcomes with positive probability)."""
    if count == 0:
        return 0.0
    if count == law.values.size:
        return 1.0
    middle = 0.5 * law.values[count - 1] + 0.5 * law.values[count]
    return _share_below(law.shape, (middle - place[0]) / place[1])


@kernel
def shifts_of_guides(
    law: ShiftTable, location: FloatArray, scale: FloatArray, out: FloatArray
) -> None:
    """Write each row's location and scale, (rows, 2), from the guides that predict them."""
    units = law.units
    for i in range(location.size):
        out[i, 0] = units[0] + units[1] * location[i]
        out[i, 1] = max(units[4], units[2] + units[3] * scale[i])


@kernel
def limits_of_shifts(
    law: ShiftTable, places: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row at each of its values y.

    ``places`` holds each row's location and scale, (rows, 2). ``y`` and the two arrays in ``out``
    are (rows, values).
    """
    for i in range(y.shape[0]):
        place = (places[i, 0], places[i, 1])
        for j in range(y.shape[1]):
            out[0][i, j], out[1][i, j] = _limits(law, place, y[i, j])
