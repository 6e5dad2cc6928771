"""`PipelineDistribution`: a scikit-learn Pipeline that ends in a model, used as a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import UnfittedError
from ontarget.models.base import Side


def accepted(function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that the function has a parameter for; all of them if it has ``**kwargs``.

    Examples
    --------
    >>> accepted(lambda X, y, *, ids=None: None, {"ids": [1], "steps": [0]})
    {'ids': [1]}
    """
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return dict(keywords)
    by_name = {
        name
        for name, one in parameters.items()
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    }
    return {name: value for name, value in keywords.items() if name in by_name}


class PipelineDistribution(BaseEstimator):  # type: ignore[misc]  # untyped base
    """A scikit-learn Pipeline whose last step is a conditional distribution, used as a model.

    If you pass a `sklearn.pipeline.Pipeline` to a monitor, it is converted to this class.

    Parameters
    ----------
    pipeline
        A Pipeline of transformers that ends in a conditional distribution.

    Attributes
    ----------
    transformers_, model_
        The fitted steps: all but the last as a Pipeline (None if there are none), and the last.

    Notes
    -----
    If a transformer changes categorical columns, you must take care of them. The last step is told
    which columns are categorical only if the transformers leave the number of columns unchanged, so
    keep these columns in their places, or encode them in the pipeline. If a transformer's result
    for a row depends on the other rows of the same call, so does the answer of this model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from ontarget.models import QuantileForest
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> pipeline = make_pipeline(StandardScaler(), QuantileForest(n_trees=20))
    >>> model = PipelineDistribution(pipeline).fit(X, X[:, 0])
    >>> bool(model.quantile([[20.0, 21.0]], 0.5)[0] < model.quantile([[150.0, 151.0]], 0.5)[0])
    True
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    @property
    def last_step(self) -> Any:
        """The unfitted model at the end of the pipeline, or None if the pipeline is empty."""
        return self.pipeline.steps[-1][1] if self.pipeline.steps else None

    def pooled_over(self, n_steps: float) -> Self:
        """An unfitted copy for training rows that come from ``n_steps`` steps of each episode.

        If the last step of the pipeline has a method ``pooled_over``, it is called.
        """
        copy: Self = clone(self)
        name, model = copy.pipeline.steps[-1]
        if hasattr(model, "pooled_over"):
            copy.pipeline.steps[-1] = (name, model.pooled_over(n_steps))
        return copy

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
        """Fit the pipeline step by step; only the last step gets weights, ids and steps."""
        pipeline = clone(self.pipeline)
        self.transformers_ = pipeline[:-1] if len(pipeline.steps) > 1 else None
        rows: Any = X
        if self.transformers_ is not None:
            rows = _dense(self.transformers_.fit_transform(X, y))
            if rows.shape[1] != _width(X):
                categorical = None
        model = pipeline.steps[-1][1]
        keywords = {"ids": ids, "steps": steps, "categorical": categorical}
        if sample_weight is not None:
            keywords["sample_weight"] = sample_weight
        fitted = model.fit(rows, y, **accepted(model.fit, keywords))
        self.model_ = model if fitted is None else fitted
        # So that calibration can refuse the episodes that the model has seen.
        self.training_keys_ = getattr(self.model_, "training_keys_", None)
        return self

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m).
        """
        rows = self._rows(X)
        limits: tuple[FloatArray, FloatArray] = self.model_.cdf_limits(rows, y)
        return limits

    @available_if(lambda self: hasattr(self.last_step, "out_of_bag_limits"))  # type: ignore[untyped-decorator]
    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, each answered as if it were new.

        The model at the end of the pipeline answers by its `out_of_bag_limits`, with parts that
        have not learned from the row's episode. The transformers, however, have seen every training
        row. This method exists only if the last step of the pipeline has it.
        """
        rows = self._rows(X)
        limits: tuple[FloatArray, FloatArray] = self.model_.out_of_bag_limits(rows, y, ids)
        return limits

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        """
        rows = self._rows(X)
        found: FloatArray = self.model_.quantile(rows, q, side=side)
        return found

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row, if the last step predicts it."""
        rows = self._rows(X)
        means: FloatArray = self.model_.predict(rows)
        return means

    def _rows(self, X: ArrayLike) -> Any:
        if not hasattr(self, "model_"):
            raise UnfittedError("this PipelineDistribution is not fitted yet; call fit first")
        return X if self.transformers_ is None else _dense(self.transformers_.transform(X))


def _dense(rows: Any) -> Any:
    """The rows as a dense matrix; one-hot encoders return sparse matrices by default."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def _width(X: Any) -> int:
    return int(X.shape[1]) if hasattr(X, "shape") else len(X[0])
