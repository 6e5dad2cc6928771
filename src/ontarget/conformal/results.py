"""The results of conformal methods: named tuples of arrays, one entry per row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import ArrayLike, BoolArray, FloatArray


class Probability(NamedTuple):
    """The probability of a target by a conformal method, per row: ``low <= p <= high``."""

    low: FloatArray
    p: FloatArray
    high: FloatArray


class CalibratedCDF(NamedTuple):
    """The calibrated CDF at a value, one entry per row: ``low <= mid <= high``."""

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
        """Whether each row's outcome lies in its interval, (rows,).

        The ends belong to the interval if ``closed`` is True.
        """
        values = np.asarray(outcomes, dtype=np.float64)
        if closed:
            return (values >= self.lower) & (values <= self.upper)
        return (values > self.lower) & (values < self.upper)
