"""What models that rank outcomes among those of the same step have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.models._estimator import DistributionEstimator
from ontarget.models.base import Side, check_levels, check_side, check_values, episodes_of
from ontarget.models.ranked._law_kernel import (
    RankedOutcomes,
    limits_of_knots,
    masses_of_knots,
    quantiles_of_knots,
)

__all__ = ["LiveRanked", "RankedEstimator"]

_BLOCK = 256


class RankedEstimator(DistributionEstimator):
    """The base class of models whose quantiles (knots) are outcomes around the row's step.

    A subclass sets ``ranks_`` in fit, and ``_learned_`` to the table and model of each fold, the
    fold of each episode, and the episodes' keys. It implements `_knots` and `_model`.
    """

    ranks_: RankedOutcomes
    n_jobs: int | None
    _learned_: tuple[tuple[tuple[RankedOutcomes, Any], ...], IndexArray, KeyArray | None]

    @property
    @abstractmethod
    def _model(self) -> Any:
        """The fitted model that answers for new rows."""

    @staticmethod
    @abstractmethod
    def _knots(model: Any, ranks: RankedOutcomes, rows: FloatArray) -> FloatArray:
        """The knots of each row by a model, in ascending order."""

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Left and right limits of the CDF at y: ``P(Y < y | x)`` and ``P(Y <= y | x)``.

        Y scalar or (n,) gives (n,), (n, m) gives (n, m).
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        left, right = self._limits(self.ranks_, self._model, rows, values)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Both limits of the CDF at y for rows of training episodes, by a fit without their fold.

        Parameters
        ----------
        X
            Any rows of training episodes, also of steps that `fit` did not get.
        y
            The values, as in `cdf_limits`.
        ids
            The episode of each row, as in `fit`.

        Returns
        -------
        left, right
            As `cdf_limits`; NaN if there was only one training episode.
        """
        rows = self._query_rows(X)
        without, fold, keys = self._learned()
        own = fold[episodes_of(keys, ids, rows.shape[0])]
        values, flat = check_values(y, rows.shape[0])
        left, right = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
        for k, (ranks, model) in enumerate(without):
            here = np.flatnonzero(own == k)
            left[here], right[here] = self._limits(ranks, model, rows[here], values[here])
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Quantiles of each row: q scalar gives (n,), 1-D gives (n, m).

        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``,
        to the last bit of `cdf`.
        """
        rows = self._query_rows(X)
        levels, flat = check_levels(q)
        asked = levels, check_side(side) == "right"
        found = np.empty((rows.shape[0], levels.size))

        def fill(a: int, b: int) -> None:
            knots = self._knots(self._model, self.ranks_, rows[a:b])
            quantiles_of_knots(self.ranks_, rows[a:b], knots, asked, found[a:b])

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return found[:, 0] if flat else found

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's distribution, without the millionth in its tails."""
        rows = self._query_rows(X)
        values, atoms, tail = self.ranks_.support
        starts = np.concatenate(([tail[0]], values[:-1]))
        middles = np.where(atoms, values, 0.5 * starts + 0.5 * values)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            masses = np.empty((b - a, values.size + 1))
            knots = self._knots(self._model, self.ranks_, rows[a:b])
            masses_of_knots(self.ranks_, rows[a:b], knots, masses)
            means[a:b] = (np.diff(masses, axis=1) * middles).sum(axis=1)

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return means

    def live(self) -> LiveRanked:
        """The model for live rows, which are not checked."""
        self._check_fitted()
        return LiveRanked(self)

    def _limits(
        self, ranks: RankedOutcomes, model: Any, rows: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        left, right = np.empty(values.shape), np.empty(values.shape)

        def fill(a: int, b: int) -> None:
            knots = self._knots(model, ranks, rows[a:b])
            limits_of_knots(ranks, rows[a:b], knots, values[a:b], (left[a:b], right[a:b]))

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return left, right

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ranks_")


class LiveRanked:
    """A ranking model that answers without checks; safe for threads."""

    __slots__ = ("_estimator", "_knots", "_model", "_ranks")

    takes_threads: ClassVar[bool] = True

    def __init__(self, estimator: RankedEstimator) -> None:
        self._estimator = estimator
        self._knots, self._model = estimator._knots, estimator._model
        self._ranks = estimator.ranks_

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write both limits of the CDF of each row at each of its values.

        X is (rows, features), the others (rows, values); all contiguous float64.
        """
        knots = self._knots(self._model, self._ranks, X)
        limits_of_knots(self._ranks, X, knots, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveRanked, (self._estimator,)
