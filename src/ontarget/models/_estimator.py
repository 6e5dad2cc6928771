"""The scikit-learn interface that the models share: checked input and clear errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import column_or_1d, validate_data

from ontarget._arrays import read_only
from ontarget._threads import threads_at_most
from ontarget._typing import ArrayLike, FloatArray, KeyArray
from ontarget.errors import Argument, InputError, UnfittedError
from ontarget.models.base import (
    Side,
    TrainingRows,
    check_features,
    check_levels,
    check_side,
    check_values,
)


class _NotFittedError(UnfittedError, NotFittedError):  # type: ignore[misc]  # untyped base
    """A model was used before it was fitted; also the error type that scikit-learn expects."""


class DistributionEstimator(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """The base class of models of a conditional distribution, as scikit-learn estimators.

    A subclass implements `_limits` and `_quantiles`. In its ``fit`` it calls `_training_rows`,
    which sets ``n_features_in_``.
    """

    n_features_in_: int
    training_keys_: KeyArray | None
    n_jobs: int | None = None
    _learned_: Any

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        left, right = np.empty(values.shape), np.empty(values.shape)
        with threads_at_most(self.n_jobs):
            self._limits(rows, values, left, right)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def cdf(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """``P(Y <= y | x)`` for each row of X.

        A number y, or one number per row, gives an array of shape (n,) for n rows. A table y of
        shape (n, m), m values per row, gives an array of shape (n, m).
        """
        return self.cdf_limits(X, y)[1]

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X, which invert `cdf` exactly.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``,
        where F is the CDF.
        """
        rows = self._query_rows(X)
        levels, flat = check_levels(q)
        strictly = check_side(side) == "right"
        found = np.empty((rows.shape[0], levels.size))
        with threads_at_most(self.n_jobs):
            self._quantiles(rows, levels, strictly, found)
        return found[:, 0] if flat else found

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        """Write both limits of the CDF of each row at its values; all tables are (rows, values)."""
        raise NotImplementedError

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        """Write the quantiles of each row, (rows, levels): from the right if ``strictly``."""
        raise NotImplementedError

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # A monitor copies a model many times, and to read a signature takes long.
        names: list[str] = super()._get_param_names()
        return names

    def _training_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        *,
        ids: ArrayLike | None,
        steps: ArrayLike | None,
    ) -> TrainingRows:
        """The training rows, after checks; also stores the number and the names of the columns."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        rows = self._matrix(X, reset=True)
        try:
            outcomes = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(Argument("y"), f" needs a flat list of numbers: {error}") from error
        checked = TrainingRows.of(rows, outcomes, sample_weight, ids=ids, steps=steps)
        # So that calibration can refuse the episodes that the model has seen.
        self.training_keys_ = None if checked.keys is None else np.sort(checked.keys)
        return checked

    def _query_rows(self, X: ArrayLike) -> FloatArray:
        """The rows to answer for, after checks; raises an error if the model is not fitted.

        A float64 matrix with the right number of columns is not copied.
        """
        self._check_fitted()
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2
        if plain and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_"):  # type: ignore[union-attr]
            rows: FloatArray = np.ascontiguousarray(X)
        else:
            rows = self._matrix(X, reset=False)
        check_features(rows)
        return rows

    def _matrix(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        try:
            matrix: FloatArray = validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float64,
                order="C",
                ensure_all_finite=False,
                ensure_min_samples=1 if reset else 0,
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        return matrix

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call its fit first"
            )

    def _learned(self) -> Any:
        """The data that `fit` stored for out-of-bag answers; an error says why it is missing.

        Out-of-bag answers are answers about training episodes, by parts of the model that never saw
        the episode.
        """
        self._check_fitted()
        if not hasattr(self, "_learned_"):
            raise InputError(
                f"out-of-bag answers need a {type(self).__name__} as fit returns it, got one that "
                f"was loaded, converted or copied, which does not keep what they need; fit it again"
            )
        return self._learned_

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_learned_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies of arrays come back writable, and the kernels would compile once more for them.
        arrays = {n: read_only(a) for n, a in state.items() if isinstance(a, np.ndarray)}
        super().__setstate__({**state, **arrays})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
