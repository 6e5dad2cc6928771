"""The results of conformal methods: named tuples of arrays, one entry per row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import ArrayLike, BoolArray, FloatArray

__all__ = ["CalibratedCDF", "Interval", "Probability"]


class Probability(NamedTuple):
    """The calibrated probability of a target: ``low <= p <= high`` for every row."""

    low: FloatArray
    p: FloatArray
    high: FloatArray


class CalibratedCDF(NamedTuple):
    """The calibrated CDF at a value: ``low <= mid <= high`` for every row."""

    low: FloatArray
    mid: FloatArray
    high: FloatArray


class Interval(NamedTuple):
    """The ends of one interval per row.

    Intervals of ``kind="at_least"`` are closed, those of ``kind="at_most"`` are open. An interval
    with ``lower > upper`` (for an open one, ``lower >= upper``) is empty.
    """

    lower: FloatArray
    upper: FloatArray

    def contains(self, outcomes: ArrayLike, *, closed: bool = True) -> BoolArray:
        """Whether each row's outcome lies in its interval, with or without the ends."""
        values = np.asarray(outcomes, dtype=np.float64)
        if closed:
            return (values >= self.lower) & (values <= self.upper)
        return (values > self.lower) & (values < self.upper)
