"""The rounding grid for outcomes and targets (method M1 in docs/methods.md).

Sums of decimal rewards differ in their last bits, so two runs that earned the same amount may
compare as unequal. Before any comparison, outcomes, the behavior so far, remainders and the bounds
of targets are therefore rounded to the same number of decimals, the *grid*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.errors import Argument, InputError

# Far enough from the largest float that the distance of two outcomes is still a number.
LARGEST_OUTCOME = 1e300

_DIGITS = 9
# A power of ten up to 10**22 is exact in float64; a finer grid than that would not be decimal.
_FINEST = -22
# Numbers of a simulator have some 16 decimals, and nearly none of them passes for one with 12.
_MOST_DECIMALS = 12
_HEAD = 256  # numbers that tell whether it is worth looking at all of them
# From here on, float64 (float32) has no digits behind the point.
_WHOLE, _WHOLE32 = 2.0**52, 2.0**23


def grid_of(outcomes: ArrayLike, *, decimals: int | None = None, noise: float = 0.0) -> float:
    """The unit to which these outcomes are rounded (their *grid*): a power of ten."""
    # It is nine digits below the typical outcome (the median size m): below the largest one, if
    # that is at most 10 m, or else below 10 m. If the ``decimals`` of the rewards are finer, it has
    # these. It is not below 1e-22, and at least ``noise``, the distance at which sums of
    # floating-point numbers cannot be told apart (method M1).
    typical = typical_size(outcomes)
    largest = float(np.max(np.abs(np.asarray(outcomes)), initial=0.0)) or typical
    exponent = math.ceil(math.log10(min(largest, 10.0 * typical))) - _DIGITS
    if decimals is not None:
        exponent = min(exponent, -decimals)
    if noise > 0.0:
        exponent = max(exponent, math.ceil(math.log10(noise)))
    return float(f"1e{max(exponent, _FINEST)}")


def typical_size(outcomes: ArrayLike) -> float:
    """The median size of the outcomes other than 0; 1 if all of them are 0."""
    sizes = np.abs(np.asarray(outcomes, dtype=np.float64))
    if not np.isfinite(sizes).all():
        worst = sizes[~np.isfinite(sizes)][0]
        raise InputError(Argument("outcomes"), f" need finite numbers, got {worst}")
    sizes = sizes[sizes > 0.0]
    return float(np.median(sizes)) if sizes.size else 1.0


def decimals_of(pieces: Iterable[FloatArray]) -> int | None:
    """The largest number of decimals of any of these numbers; None if one has more than 12."""
    most = 0
    for values in pieces:
        for some in (values[:_HEAD], values[_HEAD:]):
            found = _decimals(some)
            if found is None:
                return None
            most = max(most, found)
    return most


def _decimals(values: FloatArray) -> int | None:
    """The largest number of decimals of any of these numbers; None if it is above 12."""
    rest = values[np.isfinite(values)]
    for decimals in range(_MOST_DECIMALS + 1):
        rest = rest[~_has_decimals(rest, float(f"1e{decimals}"))]
        if not rest.size:
            return decimals
    return None


def _has_decimals(values: FloatArray, scale: float) -> BoolArray:
    """Whether each value is the float64, or the float32, of a whole number divided by scale."""
    whole = np.rint(values * scale)
    decimal = whole / scale
    with np.errstate(over="ignore"):
        stored = decimal.astype(np.float32)
    alike: BoolArray = (decimal == values) & (np.abs(whole) < _WHOLE)
    alike |= (np.abs(values) >= _WHOLE) | ((stored == values) & (np.abs(whole) < _WHOLE32))
    return alike


def scale_of(grid: float) -> float:
    """The factor that turns grid points into whole numbers, such as 1000 for a grid of 0.001.

    The grid is the unit to which outcomes are rounded. The factor is 0 if the grid is 1 or more, or
    is not a power of ten. To round a number, multiply it by the factor, round, and divide by the
    factor. The result is the float64 that Python gives for the decimal as a user types it. Rounding
    by division by the unit, such as 1e-7, would not give that.
    """
    if not (math.isfinite(grid) and grid > 0.0):
        raise InputError(Argument("grid"), f" needs a finite number above 0, got {grid}")
    exponent = round(math.log10(grid))
    return float(f"1e{-exponent}") if exponent < 0 and grid == float(f"1e{exponent}") else 0.0


def snap(values: ArrayLike, grid: float | None) -> FloatArray:
    """The values rounded to the nearest multiple of ``grid``; infinities and NaN stay."""
    array = np.asarray(values, dtype=np.float64)
    if grid is None:
        return array
    scale = scale_of(grid)
    with np.errstate(over="ignore"):
        units = array * scale if scale else array / grid
        snapped = np.rint(units) / scale if scale else np.rint(units) * grid
    # A large value is coarser than the grid already; adding 0 drops -0.
    kept: FloatArray = np.where(np.abs(units) < _WHOLE, snapped, array) + 0.0
    return kept


def next_point(bound: float, grid: float) -> tuple[float, bool]:
    """A bound rounded to the grid, and whether it was between two points of the grid."""
    near = float(snap(bound, grid))
    beside = near - bound if math.isfinite(bound) else 0.0
    if abs(beside) <= max(1e-6 * grid, abs(bound) * 2.0**-43):
        return near, False
    return near if beside > 0.0 else float(snap(near + grid, grid)), True
