"""`Marginal`: the distribution of the training outcomes, a baseline that ignores the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.models._estimator import DistributionEstimator
from ontarget.models._marginal_kernel import marginal_limits, marginal_quantiles
from ontarget.models._stored import flat_array, require, stored_width
from ontarget.models._support import Support, find_atoms


class Marginal(DistributionEstimator):
    """A model that ignores the features: every row gets the distribution of the training outcomes.

    Parameters
    ----------
    smooth
        Whether to spread the probability of an outcome over the gap before it, unless several
        episodes share the outcome (method M2 in docs/methods.md). If not, the CDF is the step
        function of the training outcomes.

    Examples
    --------
    >>> model = Marginal().fit([[0.0], [0.0], [0.0], [0.0]], [1, 1, 2, 2])
    >>> left, right = model.cdf_limits([[5.0]], 2)
    >>> print(left, right, model.quantile([[5.0]], 0.5), model.predict([[5.0]]))
    [0.5] [1.] [1.] [1.5]
    """

    kind: ClassVar[str] = "marginal"

    def __init__(self, smooth: bool = True) -> None:
        self.smooth = smooth

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
        """Learn the distribution of the outcomes y; of X, only the number of columns matters."""
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        values, ranks = np.unique(rows.y, return_inverse=True)
        mass = np.bincount(ranks, weights=rows.weight, minlength=values.size).astype(np.float64)
        atoms = find_atoms(ranks, rows.episodes, rows.steps)
        self.support_ = Support.of(values, atoms, mass, smooth=self.smooth)
        total = np.cumsum(mass)
        self.mass_: FloatArray = read_only(np.concatenate(([0.0], total / total[-1])))
        return self

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        marginal_limits(
            values.ravel(), self.mass_, self.support_.as_tuple(), left.ravel(), right.ravel()
        )

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        same = np.empty(levels.size)
        marginal_quantiles(levels, strictly, self.mass_, self.support_.as_tuple(), same)
        found[...] = same

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of the training outcomes, once for each row of X."""
        n_rows = self._query_rows(X).shape[0]
        return np.full(n_rows, np.diff(self.mass_) @ self.support_.values)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        width = read_only(np.array([self.n_features_in_], dtype=np.int64))
        return {**self.support_.to_arrays(), "mass": self.mass_, "n_features": width}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned."""
        model = cls()
        support, mass = Support.from_arrays(arrays), flat_array(arrays, "mass", np.float64)
        require(mass.size == support.values.size + 1, "mass needs one number more than support")
        rising = mass[0] == 0.0 and mass[-1] == 1.0 and (mass[1:] >= mass[:-1]).all()
        require(bool(rising), "mass needs to rise from 0 to 1")
        model.support_, model.mass_ = support, mass
        model.n_features_in_ = stored_width(arrays)
        return model
