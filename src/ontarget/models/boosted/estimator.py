"""`BoostedQuantiles`: boosted trees that shift and stretch one shape, as an estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from ontarget._arguments import seed_parts, whole_number
from ontarget._threads import threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.models.base import check_categorical
from ontarget.models.boosted._fitting import (
    Boosted,
    boosted_from_arrays,
    boosted_to_arrays,
    fit_boosted,
    knots_of_rows,
)
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.guided._guides import guide_plan
from ontarget.models.ranked._estimator import RankedEstimator
from ontarget.models.ranked._law_kernel import RankedOutcomes
from ontarget.models.ranked._ranks import check_time, ranks_from_arrays, ranks_to_arrays

__all__ = ["BoostedQuantiles"]


class BoostedQuantiles(RankedEstimator):
    """A conditional distribution of one shape that boosted trees shift and stretch.

    The model works with the *rank* of an outcome: the share of the training outcomes around the
    same step that are smaller. Gradient-boosted trees, on top of a ridge regression, predict a
    row's rank and how far the actual rank may be from this prediction. The distribution of these
    distances is learned from all rows. The model is smaller and faster than a forest, keeps atoms
    (outcomes with positive probability), and works best if rows differ only in location and spread.
    See methods M15 and M27 in docs/methods.md.

    Parameters
    ----------
    n_boosted, boosted_depth, boosted_rate
        The largest number of trees, the depth of each tree, and the learning rate. Fewer trees are
        kept if more would not help on episodes that they have not learned from.
    n_folds
        Into how many parts the episodes are divided. For each part, models are fitted without it;
        they give the distances and `out_of_bag_limits` of the episodes in the part.
    seed
        One or several whole numbers from 0 up, which determine all random choices.
    n_jobs
        At most this many threads; None for all.

    Attributes
    ----------
    boosted_
        The trees and regressions that predict location and spread, and the shape.
    ranks_
        The distribution of the training outcomes around each step.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget.models import BoostedQuantiles
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2_000, 2))
    >>> y = X[:, 0] ** 2 + rng.normal(size=2_000)
    >>> model = BoostedQuantiles().fit(X, y)
    >>> print(model.quantile([[0.0, 0.0], [2.0, 0.0]], 0.5).round(1))
    [0.1 3.9]
    """

    kind: ClassVar[str] = "boosted_quantiles"

    boosted_: Boosted

    def __init__(
        self,
        n_boosted: int = 200,
        *,
        boosted_depth: int = 3,
        boosted_rate: float = 0.1,
        n_folds: int = 5,
        seed: int | Sequence[int] = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_boosted = n_boosted
        self.boosted_depth = boosted_depth
        self.boosted_rate = boosted_rate
        self.n_folds = n_folds
        self.seed = seed
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        steps: ArrayLike | None = None,
        categorical: Sequence[int] | None = None,
    ) -> Self:
        """Fit the trees to these rows; returns the model.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row. A row is ranked among outcomes around its step.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        plan = guide_plan(
            n_folds=whole_number("n_folds", self.n_folds, least=2),
            seed=seed_parts(self.seed),
            boosting=(self.n_boosted, self.boosted_depth, self.boosted_rate),
        )
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns = check_categorical(categorical, rows.X.shape[1])
        with threads_at_most(self.n_jobs):
            fitted = fit_boosted(in_canonical_order(rows), plan, columns)
        self.ranks_, self.boosted_ = fitted.ranks, fitted.model
        self._learned_ = fitted.without, fitted.fold, rows.keys
        return self

    @property
    def _model(self) -> Boosted:
        return self.boosted_

    @staticmethod
    def _knots(model: Boosted, ranks: RankedOutcomes, rows: FloatArray) -> FloatArray:
        return knots_of_rows(model, ranks, rows)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        return boosted_to_arrays(self.boosted_) | ranks_to_arrays(self.ranks_)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned.

        It raises a `ModelFileError` if the arrays are damaged.
        """
        model = cls()
        model._hold(arrays)
        return model

    def _hold(self, arrays: Mapping[str, AnyArray]) -> None:
        self.ranks_ = ranks_from_arrays(arrays)
        self.boosted_, self.n_features_in_ = boosted_from_arrays(arrays, self.ranks_.odds.size)
        check_time(self.ranks_, self.n_features_in_)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "boosted_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self._hold(self.to_arrays())
