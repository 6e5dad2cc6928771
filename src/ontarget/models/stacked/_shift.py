"""The shift: one shape of distribution, shifted and stretched for each row (M15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.models.base import Side, TrainingRows, check_values
from ontarget.models.stacked._stack_kernel import ShiftTable, limits_of_shifts
from ontarget.models.stored import flat_array, require

# The scale of a row is at least this share of the mean distance.
_LEAST_SCALE = 0.05
# The shape is kept at so many levels: more than its noise can tell apart.
_LEVELS = 513
_NONE: FloatArray = read_only(np.empty(0))
NO_SHIFT: Final = ShiftTable(_NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class ShiftLaw:
    """The shift (one shape, moved and stretched for each row) as a part of a mixture of models."""

    table: ShiftTable

    def fit(self, X: ArrayLike, y: ArrayLike, *args: object, **kwargs: object) -> ShiftLaw:
        """Return the object itself; there is nothing to fit."""
        return self

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row, as two arrays."""
        places = np.ascontiguousarray(X, dtype=np.float64)
        values, flat = check_values(y, places.shape[0])
        left, right = np.empty(values.shape), np.empty(values.shape)
        limits_of_shifts(self.table, places, values, (left, right))
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Approximate quantiles of each row, near which a mixture searches for the exact ones."""
        places, levels = np.asarray(X, dtype=np.float64), np.atleast_1d(np.asarray(q))
        shape, values = self.table.shape, self.table.values
        distance = np.interp(levels, np.linspace(0.0, 1.0, shape.size), shape)
        found: FloatArray = places[:, :1] + places[:, 1:] * distance
        if values.size:
            found = values[np.minimum(np.searchsorted(values, found), values.size - 1)]
        return found[:, 0] if np.ndim(q) == 0 else found


def learned_shift(
    rows: TrainingRows, location: FloatArray, scale: FloatArray, *, atoms: bool
) -> ShiftTable | None:
    """The distribution of (outcome − location) / scale over these rows: a shape for all rows."""
    y = rows.y
    mean, spread = spread_around_mean(y)
    distance = np.abs(y - (mean + spread * location))
    mean_distance, spread_of_distance = spread_around_mean(distance)
    if not (spread > 0.0 and mean_distance > 0.0):
        return None
    units = np.array(
        [mean, spread, mean_distance, spread_of_distance, _LEAST_SCALE * mean_distance]
    )
    scales = np.maximum(units[4], units[2] + units[3] * scale)
    standardised = (y - (mean + spread * location)) / scales
    order = np.argsort(standardised, kind="stable")
    mass = np.ones(y.size) if rows.weight is None else rows.weight[order]
    level = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    shape = np.interp(np.linspace(0.0, 1.0, _LEVELS), level, standardised[order])
    values = np.unique(y) if atoms else _NONE
    return ShiftTable(read_only(units), read_only(shape), read_only(values))


def spread_around_mean(y: FloatArray) -> tuple[float, float]:
    """The mean and the standard deviation of the outcomes."""
    # Guides predict how far an outcome is from this mean, in units of this deviation. The outcomes
    # are scaled first, so that their squares neither overflow nor vanish.
    size = float(np.abs(y).max())
    if size == 0.0:
        return 0.0, 0.0
    scaled = y / size
    mean = float(scaled.mean())
    return mean * size, float(np.sqrt(np.square(scaled - mean).mean())) * size


def shift_to_arrays(table: ShiftTable) -> dict[str, AnyArray]:
    """The shift (one shape of distribution for all rows) as flat read-only arrays by name."""
    return {
        "shift_units": table.units,
        "shift_shape": table.shape,
        "shift_values": table.values,
    }


def shift_from_arrays(arrays: Mapping[str, AnyArray]) -> ShiftTable:
    """The shift (one shape of distribution for all rows) in these arrays, after checks."""
    units, shape, values = (
        flat_array(arrays, f"shift_{name}", np.float64) for name in ShiftTable._fields
    )
    if not units.size:
        require(
            shape.size == 0 and values.size == 0,
            "shift_shape and shift_values need to be empty if shift_units is",
        )
        return NO_SHIFT
    require(
        units.size == 5 and shape.size >= 2,
        "shift_units needs five numbers, and shift_shape at least two",
    )
    small = all((np.abs(part) <= LARGEST_OUTCOME).all() for part in (units, shape, values))
    require(small, "the arrays of a shift need numbers up to 1e300 in size")  # NaN is not
    require(units[4] > 0.0, "shift_units needs a number above 0 at the end, the smallest scale")
    require(bool((shape[1:] >= shape[:-1]).all()), "shift_shape needs to rise")
    require(bool((values[1:] > values[:-1]).all()), "shift_values needs to rise")
    return ShiftTable(units, shape, values)
