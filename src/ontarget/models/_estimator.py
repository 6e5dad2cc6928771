"""The scikit-learn interface that the models share: checked input and clear errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import column_or_1d, validate_data

from ontarget._arrays import read_only
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray, KeyArray
from ontarget.errors import Argument, InputError, UnfittedError
from ontarget.models.base import (
    Side,
    TrainingRows,
    check_categorical,
    check_features,
    check_levels,
    check_side,
    check_values,
    episodes_of,
)

# With many values a row, fewer rows of a block fit into the fastest memory.
_MOST_ANSWERS = 4096


class _NotFittedError(UnfittedError, NotFittedError):  # type: ignore[misc]  # untyped base
    """A model was used before it was fitted; also the error type that scikit-learn expects."""


class DistributionEstimator(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """The base class of models of a conditional distribution, as scikit-learn estimators.

    A subclass implements `_fit`, `limits` and `_quantiles`.
    """

    takes_threads: ClassVar[bool] = True  # whether several threads may call `limits` at once
    _fitted_by: ClassVar[str]  # the attribute that a fit sets
    # Rows that one thread answers before it takes the next block. A tree that was fetched for one
    # row serves all rows of a block.
    _block: ClassVar[int] = 256

    n_features_in_: int
    training_keys_: KeyArray | None
    n_jobs: int | None = None

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
        """Learn from these rows; returns the model.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row. An outcome that two episodes have at the same step
            is an atom (keeps a positive probability). If ``ids`` is not given, every row is an
            episode; if ``steps`` is not given, all rows are at one step.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns = check_categorical(categorical, rows.X.shape[1])
        with threads_at_most(self.n_jobs):
            self._fit(rows, columns)
        return self

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        left, right = np.empty(values.shape), np.empty(values.shape)
        self._in_blocks(
            lambda a, b: self.limits(rows[a:b], values[a:b], left[a:b], right[a:b]),
            rows.shape[0],
            most=_MOST_ANSWERS // max(1, values.shape[1]),
        )
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
        self._in_blocks(
            lambda a, b: self._quantiles(rows[a:b], levels, strictly, found[a:b]), rows.shape[0]
        )
        return found[:, 0] if flat else found

    def live(self) -> Self:
        """The model as a `LiveModel`, which is asked at every step of a run."""
        self._check_fitted()
        return self

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write `cdf_limits` into ``left`` and ``right``, in this thread; nothing is checked."""
        raise NotImplementedError

    def _fit(self, rows: TrainingRows, categorical: tuple[int, ...]) -> None:
        """Learn from these checked rows."""
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
        """The rows to answer for, after checks; raises an error if the model is not fitted."""
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

    def _in_blocks(
        self, answer: Callable[[int, int], object], n_rows: int, *, most: int = 0
    ) -> None:
        with threads_at_most(self.n_jobs):
            run_blocks(answer, n_rows, block=self._block, most=most)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call its fit first"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies of arrays come back writable, and the kernels would compile once more for them.
        arrays = {n: read_only(a) for n, a in state.items() if isinstance(a, np.ndarray)}
        super().__setstate__({**state, **arrays})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._fitted_by)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class StoredEstimator(DistributionEstimator):
    """A model that a file can hold; a subclass implements `_arrays` and `_restore`."""

    kind: ClassVar[str]

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        return self._arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model in the arrays of `to_arrays`; a `ModelFileError` if they are damaged."""
        model = cls()
        model._restore(arrays)
        return model

    def _arrays(self) -> dict[str, AnyArray]:
        raise NotImplementedError

    def _restore(self, arrays: Mapping[str, AnyArray]) -> None:
        """Become the fitted model in these arrays, after checking them."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            self._restore(self._arrays())


class HonestEstimator(StoredEstimator):
    """A model that also answers for training episodes, by parts that did not learn from them."""

    _learned_: Any  # with ``keys``: one hash per training episode, or None without ids

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, by parts that never saw the episode.

        A forest answers by the trees that did not draw the row's episode, about 37 of 100 by
        default; a regression or a network by a fit that left out the part of the episodes (fold)
        with this episode. So the answer is like one for a new episode.

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
            As `cdf_limits`; NaN for a row whose episode every part has learned from.

        Notes
        -----
        The model must have been fitted with ``ids``. Models that were loaded or copied do not keep
        which part saw which episode, so this works only with the fitted object itself.
        """
        rows, episodes = self._training_query(X, ids)
        values, flat = check_values(y, rows.shape[0])
        with threads_at_most(self.n_jobs):
            left, right = self._out_of_bag(rows, values, episodes)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def _out_of_bag(
        self, rows: FloatArray, values: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """(rows, values), twice: both limits for rows of these training episodes."""
        raise NotImplementedError

    def _training_query(self, X: ArrayLike, ids: ArrayLike) -> tuple[FloatArray, IndexArray]:
        """The rows to answer for, and the number of each row's training episode."""
        rows = self._query_rows(X)
        keys = getattr(self._learned(), "keys", None)
        return rows, episodes_of(keys, ids, rows.shape[0])

    def _learned(self) -> Any:
        """The data that `fit` stored for out-of-bag answers; an error says why it is missing."""
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
