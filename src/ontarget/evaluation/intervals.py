"""Measures of prediction intervals: how often they contain the outcome, and how wide they are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.conformal.levels import Level, ceil_rank
from ontarget.evaluation._inputs import (
    check_numbers,
    check_same_size,
)
from ontarget.evaluation.binomial import Rate, beta_binomial_band


class Band(NamedTuple):
    """The range in which a calibrated method's coverage lies with a stated probability."""

    low: float
    high: float

    def __contains__(self, share: object) -> bool:
        return isinstance(share, int | float) and self.low <= share <= self.high


def covered(lower: ArrayLike, upper: ArrayLike, y: ArrayLike) -> BoolArray:
    """Whether each closed interval contains its outcome; never if lower > upper (it is empty)."""
    low, high = _ends(lower, upper)
    outcomes = check_numbers("y", y)
    check_same_size(lower=low, y=outcomes)
    held: BoolArray = (low <= outcomes) & (outcomes <= high)
    return held


def coverage(lower: ArrayLike, upper: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> Rate:
    """The share of closed intervals that contain their outcome, with its confidence interval.

    Notes
    -----
    The confidence interval is exact for independent runs, so use it for one step at a time.
    ``level`` belongs to this interval; it is not the level of the prediction intervals.

    Examples
    --------
    >>> print(coverage([0, 0, 0, 0], [1, 1, 1, 1], [0.5, 1.0, 0.2, 3.0]))
    0.750 (0.194 to 0.994, 3 of 4)
    """
    held = covered(lower, upper, y)
    return Rate.of(int(held.sum()), held.size, level=level)


def coverage_band(n_calibration: int, n_test: int, level: Level, *, band: float = 0.99) -> Band:
    """The range in which the measured coverage of a valid conformal method lies.

    Parameters
    ----------
    n_calibration, n_test
        How many calibration and test episodes there are.
    level
        The level of the prediction intervals; 0.8 is taken as exactly eight in ten.
    band
        The probability that the measured coverage lies in the band.

    Notes
    -----
    If episodes are exchangeable and have no ties, the true coverage that one calibration set gives
    follows Beta(k, n + 1 − k), with n calibration episodes and k = ⌈level (n + 1)⌉. So the number
    of test episodes that are covered is Beta-binomial. With ties, coverage is the same or higher.

    Examples
    --------
    >>> low, high = coverage_band(2500, 5000, 0.8)
    >>> print(round(low, 4), round(high, 4))
    0.7744 0.8248
    """
    n, tests = (
        whole_number("n_calibration", n_calibration, least=1),
        whole_number("n_test", n_test, least=1),
    )
    fraction("band", band)
    rank = ceil_rank(level, n)
    if rank == n + 1:  # the whole line
        return Band(1.0, 1.0)
    fewest, most = beta_binomial_band(tests, rank, n + 1 - rank, band=band)
    return Band(fewest / tests, most / tests)


def mean_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """The mean width of the finite intervals; NaN if there are none. Empty ones have width 0.

    Examples
    --------
    >>> mean_width([0.0, 0.0, 0.0], [1.0, 2.0, float("inf")])
    1.5
    """
    low, high = _ends(lower, upper)
    # The ends of an empty interval may both be the same infinity.
    empty = low >= high
    size = np.where(empty, 0.0, np.where(empty, 0.0, high) - np.where(empty, 0.0, low))
    finite = np.isfinite(size)
    return float(size[finite].mean()) if finite.any() else math.nan


def _ends(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    low, high = check_numbers("lower", lower), check_numbers("upper", upper)
    check_same_size(lower=low, upper=high)
    return low, high
