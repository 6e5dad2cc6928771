"""The base class of models that predict the rank of an outcome.

The rank is the share of the training outcomes around the same step that are lower.
"""

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

_BLOCK = 256


class RankedEstimator(DistributionEstimator):
    """The base class of models that predict the rank of an outcome (method M27 in docs/methods.md).

    The rank of an outcome is the share of the training outcomes around the same step that are below
    it. The *knots* of a row are its predicted quantiles of the rank, as log odds, at 64 fixed
    levels.

    A subclass implements `_knots` and `_model`. In ``fit`` it sets ``ranks_``, the outcomes around
    each step, and ``_learned_``, which holds three things: for each fold (part of the episodes),
    the outcomes and the model without this fold; the fold of each episode; and hashes of the
    episodes' ids.
    """

    ranks_: RankedOutcomes
    n_jobs: int | None
    _learned_: tuple[tuple[tuple[RankedOutcomes, Any], ...], IndexArray, KeyArray | None]

    @property
    @abstractmethod
    def _model(self) -> Any:
        """The fitted model that answers for new rows, in the form that `_knots` takes."""

    @staticmethod
    @abstractmethod
    def _knots(model: Any, ranks: RankedOutcomes, rows: FloatArray) -> FloatArray:
        """The predicted quantiles of the rank of each row's outcome, as log odds: (rows, levels).

        The rank of an outcome is the share of the training outcomes around the same step that are
        lower. The quantiles, the *knots*, are ascending.
        """

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        left, right = self._limits(self.ranks_, self._model, rows, values)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, by a fit without the row's episode.

        The episodes are divided into parts (folds). A row is answered by the fit that left out the
        part with its episode, so the answer is like one for a new episode.

        Parameters
        ----------
        X
            Rows of training episodes. They may be of steps that `fit` did not get.
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
        """The quantiles at level q for each row of X, which invert `cdf` exactly.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``,
        where F is the CDF.
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
        """The mean of each row's predicted distribution.

        A millionth of the probability lies in wide tails; the mean leaves it out.
        """
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
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
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
    """A model of ranks, ready to be asked at every step of a run, by several threads at once.

    The rank of an outcome is the share of training outcomes around the same step that are lower.
    The rows are not checked.
    """

    __slots__ = ("_estimator", "_knots", "_model", "_ranks")

    takes_threads: ClassVar[bool] = True

    def __init__(self, estimator: RankedEstimator) -> None:
        self._estimator = estimator
        self._knots, self._model = estimator._knots, estimator._model
        self._ranks = estimator.ranks_

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``.

        X has the shape (rows, features); ``y``, ``left`` and ``right`` have the shape (rows,
        values). All are contiguous float64 arrays.
        """
        knots = self._knots(self._model, self._ranks, X)
        limits_of_knots(self._ranks, X, knots, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        return LiveRanked, (self._estimator,)
