"""The rounding grid for outcomes and targets (method M1 in docs/methods.md).

Sums of decimal rewards differ in their last bits, so two runs that earned the same amount may
compare as unequal. Before any comparison, outcomes, the behavior so far, remainders and the bounds
of targets are therefore rounded to the same number of decimals, the *grid*.
"""

from __future__ import annotations

import math

import numpy as np

from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import InputError

__all__ = ["LARGEST_OUTCOME", "grid_of", "scale_of", "snap"]

# Far enough from the largest float that the distance of two outcomes is still a number.
LARGEST_OUTCOME = 1e300

_DIGITS = 9
# A power of ten up to 10**22 is exact in float64; a finer grid than that would not be decimal.
_FINEST = -22


def grid_of(outcomes: ArrayLike) -> float:
    """The unit to which these outcomes are rounded (their *grid*): a power of ten.

    It is 1e-9 to 1e-8 times the largest outcome in absolute value, but never below 1e-22.

    Examples
    --------
    >>> grid_of([-67.1, -14.5])
    1e-07
    """
    values = np.asarray(outcomes, dtype=np.float64)
    largest = float(np.max(np.abs(values), initial=0.0))
    if not math.isfinite(largest):
        raise InputError(f"the rounding grid needs finite outcomes, got {largest}")
    exponent = math.ceil(math.log10(largest)) if largest > 0.0 else 0
    return float(f"1e{max(exponent - _DIGITS, _FINEST)}")


def scale_of(grid: float) -> float:
    """The factor that turns grid points into whole numbers, such as 1000 for a grid of 0.001.

    The grid is the unit to which outcomes are rounded. The factor is 0 if the grid is 1 or more, or
    is not a power of ten. To round a number, multiply it by the factor, round, and divide by the
    factor. The result is the float64 that Python gives for the decimal as a user types it. Rounding
    by division by the unit, such as 1e-7, would not give that.
    """
    if not (math.isfinite(grid) and grid > 0.0):
        raise InputError(f"grid needs a finite number above 0, got {grid}")
    exponent = round(math.log10(grid))
    return float(f"1e{-exponent}") if exponent < 0 and grid == float(f"1e{exponent}") else 0.0


def snap(values: ArrayLike, grid: float | None) -> FloatArray:
    """The values rounded to the nearest multiple of ``grid``; infinities and NaN stay as they are.

    If ``grid`` is None, the values are not rounded.

    Examples
    --------
    >>> print(snap([0.1 + 0.2, -0.0], 1e-9))
    [0.3 0. ]
    """
    array = np.asarray(values, dtype=np.float64)
    if grid is None:
        return array
    scale = scale_of(grid)
    with np.errstate(over="ignore"):
        snapped = np.rint(array * scale) / scale if scale else np.rint(array / grid) * grid
    # A value so large that it overflows is coarser than the grid already; adding 0 drops -0.
    kept: FloatArray = np.where(np.isfinite(snapped), snapped, array) + 0.0
    return kept
