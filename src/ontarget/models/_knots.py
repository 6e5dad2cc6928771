"""The base class of models that compute quantiles of a row and turn them into a distribution."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ontarget._arguments import whole_number
from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, FloatArray
from ontarget.models._estimator import DistributionEstimator
from ontarget.models._knots_kernel import knot_limits, knot_means, knot_quantiles
from ontarget.models.base import Side, TrainingRows, check_levels, check_side, check_values

_BLOCK = 4096


class KnotEstimator(DistributionEstimator):
    """A base class: a row's distribution passes through its predicted quantiles (*knots*).

    The quantiles of a row are sorted (monotone rearrangement), which never raises their pinball
    loss. Between two quantiles the CDF is linear. Where several quantiles are equal it jumps (an
    *atom*: a value with positive probability). Beyond the outermost quantiles it is exponential,
    with a scale taken from the outer quantiles, so that the CDF is strictly increasing on the whole
    line.

    A subclass implements `_knots`. In ``fit`` it sets ``levels_``, the levels of the quantiles, and
    ``floor_``, the smallest scale of a tail.
    """

    levels_: FloatArray
    floor_: float

    @abstractmethod
    def _knots(self, rows: FloatArray) -> FloatArray:
        """The quantiles of each row at ``levels_``, in ascending order: (rows, levels)."""

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        limits = np.empty((*values.shape, 2))

        def fill(a: int, b: int) -> None:
            knots = self._knots(rows[a:b])
            knot_limits(knots, self.levels_, self.floor_, values[a:b], limits[a:b])

        run_blocks(fill, rows.shape[0], block=_BLOCK)
        left, right = limits[..., 0], limits[..., 1]
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        """
        rows = self._query_rows(X)
        asked, flat = check_levels(q)
        strictly = check_side(side) == "right"
        table = np.empty((rows.shape[0], asked.size))

        def fill(a: int, b: int) -> None:
            knots = self._knots(rows[a:b])
            table[a:b] = knot_quantiles(knots, self.levels_, self.floor_, asked, strictly)

        run_blocks(fill, rows.shape[0], block=_BLOCK)
        return table[:, 0] if flat else table

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's predicted distribution, including its tails."""
        rows = self._query_rows(X)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            means[a:b] = knot_means(self._knots(rows[a:b]), self.levels_, self.floor_)

        run_blocks(fill, rows.shape[0], block=_BLOCK)
        return means

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "levels_")


def even_levels(n_levels: int) -> FloatArray:
    """The n levels 1/(n + 1), 2/(n + 1), … n/(n + 1), read-only."""
    n = whole_number("n_levels", n_levels, least=3)
    return read_only(np.arange(1, n + 1) / (n + 1))


def outcome_floor(rows: TrainingRows) -> float:
    """The smallest scale of a distribution's tail, for outcomes like those of these rows.

    It is a thousandth of the interquartile range of the outcomes. If this range is 0, the whole
    range of the outcomes is used instead; if that is 0, the size of an outcome; and if that is 0
    too, 1. So the result is always above 0.
    """
    order = np.argsort(rows.y)
    mass = np.cumsum(np.ones(order.size) if rows.weight is None else rows.weight[order])
    spots = np.searchsorted(mass, [0.25 * mass[-1], 0.75 * mass[-1]])
    quarter, three_quarters = rows.y[order][spots]
    spreads = (three_quarters - quarter, np.ptp(rows.y), abs(rows.y[0]), 1.0)
    return 1e-3 * next(float(spread) for spread in spreads if spread > 0.0)
