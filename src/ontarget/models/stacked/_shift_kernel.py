"""A location and a scale for each row, and one shape for all of them (M15)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray

__all__ = ["ShiftTable", "limits_of_shifts", "shifts_of_guides"]


class ShiftTable(NamedTuple):
    """The law as the kernels take it; flat, all arrays read-only.

    ``units`` holds what turns guides into a row's location and scale: the mean outcome, its spread,
    the mean distance from the location, the spread of that, and the least scale. ``shape`` holds
    standardised distances at even levels from 0 to 1. Where outcomes are atoms, ``values`` are all
    of them, ascending, and mass is cut halfway between neighbours; else there are none.
    """

    units: FloatArray
    shape: FloatArray
    values: FloatArray


@inner_kernel
def _share_below(shape: FloatArray, distance: float) -> float:
    """The share of the shape below this distance: straight between its levels."""
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
    """Both limits of a row's CDF at y; its place is the location and the scale."""
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
    """The share on the first so many atoms: what lies before the middle of the next gap."""
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
    """Write each row's location and scale, (rows, 2), from the guides of both."""
    units = law.units
    for i in range(location.size):
        out[i, 0] = units[0] + units[1] * location[i]
        out[i, 1] = max(units[4], units[2] + units[3] * scale[i])


@kernel
def limits_of_shifts(
    law: ShiftTable, places: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write both limits of the CDF at each row's values, from its location and scale."""
    for i in range(y.shape[0]):
        place = (places[i, 0], places[i, 1])
        for j in range(y.shape[1]):
            out[0][i, j], out[1][i, j] = _limits(law, place, y[i, j])
