"""Turns a scikit-learn regressor that predicts quantiles into a conditional distribution."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from ontarget._arguments import whole_number
from ontarget._arrays import read_only
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import DistributionEstimator
from ontarget.models._knots_kernel import knot_limits, knot_means, knot_quantiles
from ontarget.models.base import TrainingRows

# Parameters that hold the level of a regressor with one level per fit.
_LEVEL_NAMES = ("quantile", "alpha")
_BLOCK = 4096


class RegressorQuantiles(DistributionEstimator):
    """A conditional distribution made from the quantiles that a regressor predicts.

    Parameters
    ----------
    regressor
        An unfitted regressor of one of two kinds. If its ``predict`` takes ``quantiles=``, as in
        quantile forests, it is fitted once. Otherwise the level must be a parameter of the
        regressor: ``quantile``, or ``alpha`` together with a quantile loss (`QuantileRegressor`,
        `HistGradientBoostingRegressor`, `GradientBoostingRegressor`, LightGBM). Then one clone is
        fitted for each level.
    n_levels
        The number n of quantiles, at the levels 1/(n + 1) … n/(n + 1).

    Notes
    -----
    A row's quantiles are put in ascending order (monotone rearrangement). The CDF is linear between
    two of them, exponential beyond the outermost ones, and jumps where several are equal. The model
    works in a monitor but cannot be saved: it holds objects of another library, and a model file
    never contains a pickle. If the regressor's prediction for a row depends on the other rows of
    the same call, even in the last bit, so does the answer of this model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import QuantileRegressor
    >>> X = np.arange(60.0).reshape(-1, 1)
    >>> model = RegressorQuantiles(QuantileRegressor(alpha=0.0), n_levels=5).fit(X, X[:, 0] % 7)
    >>> left, right = model.cdf_limits([[30.0]], 3.0)
    >>> bool(0.2 < left[0] <= right[0] < 0.8)
    True
    """

    levels_: FloatArray
    floor_: float  # the smallest scale of a tail

    def __init__(self, regressor: Any = None, n_levels: int = 19) -> None:
        self.regressor = regressor
        self.n_levels = n_levels

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
        """Fit the regressor to these rows; ``steps`` and ``categorical`` are not passed to it."""
        n_levels = whole_number("n_levels", self.n_levels, least=3)
        levels = read_only(np.arange(1, n_levels + 1) / (n_levels + 1))
        level_name = _level_name(self.regressor)
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        if level_name is None:
            self.fitted_ = [_fit(clone(self.regressor), rows)]
        else:
            self.fitted_ = [
                _fit(clone(self.regressor).set_params(**{level_name: float(q)}), rows)
                for q in levels
            ]
        self.by_call_ = level_name is None
        self.floor_ = _outcome_floor(rows)
        self.levels_ = levels
        return self

    @classmethod
    def prefit(cls, regressors: Mapping[float, Any], *, floor: float = 1e-9) -> Self:
        """A model made from regressors that are already fitted.

        ``regressors`` maps each level, such as 0.1, to the regressor that predicts this quantile.
        ``floor`` is the smallest scale that a tail of the distribution may have, in units of the
        outcome.
        """
        levels = np.array(sorted(regressors), dtype=np.float64)
        if levels.size < 3 or not (levels[0] > 0.0 and levels[-1] < 1.0):
            raise InputError(
                Argument("regressors"),
                f" needs at least three levels between 0 and 1 as keys, got {levels.tolist()}",
            )
        if not (np.isfinite(floor) and floor > 0.0):
            raise InputError(Argument("floor"), f" needs a positive number, got {floor}")
        model = cls(n_levels=int(levels.size))
        model.fitted_ = [regressors[level] for level in sorted(regressors)]
        model.n_features_in_ = int(model.fitted_[0].n_features_in_)
        model.by_call_, model.floor_ = False, float(floor)
        model.training_keys_ = None
        model.levels_ = read_only(levels)
        return model

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        def fill(a: int, b: int) -> None:
            limits = np.empty((*values[a:b].shape, 2))
            knot_limits(self._knots(rows[a:b]), self.levels_, self.floor_, values[a:b], limits)
            left[a:b], right[a:b] = limits[..., 0], limits[..., 1]

        run_blocks(fill, rows.shape[0], block=_BLOCK)

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        def fill(a: int, b: int) -> None:
            knots = self._knots(rows[a:b])
            found[a:b] = knot_quantiles(knots, self.levels_, self.floor_, levels, strictly)

        run_blocks(fill, rows.shape[0], block=_BLOCK)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's predicted distribution, including its tails."""
        rows = self._query_rows(X)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            means[a:b] = knot_means(self._knots(rows[a:b]), self.levels_, self.floor_)

        run_blocks(fill, rows.shape[0], block=_BLOCK)
        return means

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.regressor, "__sklearn_tags__"):
            tags.input_tags.allow_nan = get_tags(self.regressor).input_tags.allow_nan
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "levels_")

    def _knots(self, rows: FloatArray) -> FloatArray:
        """The quantiles of each row at ``levels_``, in ascending order: (rows, levels)."""
        if rows.shape[0] == 0:
            return np.empty((0, self.levels_.size))
        if self.by_call_:
            table = self.fitted_[0].predict(rows, quantiles=self.levels_.tolist())
        else:
            table = np.column_stack([regressor.predict(rows) for regressor in self.fitted_])
        return np.ascontiguousarray(np.sort(np.asarray(table, dtype=np.float64), axis=1))


def _level_name(regressor: Any) -> str | None:
    """The parameter of the regressor that holds the quantile level, such as ``"alpha"``.

    None if the regressor's ``predict`` takes ``quantiles=``.
    """
    if callable(getattr(regressor, "predict", None)):
        if "quantiles" in inspect.signature(regressor.predict).parameters:
            return None
        names = regressor.get_params(deep=False) if hasattr(regressor, "get_params") else {}
        if "quantile" in names and names.get("loss", "quantile") == "quantile":
            return "quantile"
        if "alpha" in names and "quantile" in (names.get("loss"), names.get("objective")):
            return "alpha"
    raise InputError(
        Argument("regressor"),
        " needs predict(X, quantiles=...), or the level as a parameter "
        f"({' or '.join(_LEVEL_NAMES)}, with the loss set to 'quantile'), got {regressor!r}",
    )


def _fit(regressor: Any, rows: TrainingRows) -> Any:
    if rows.weight is None:
        return regressor.fit(rows.X, rows.y)
    return regressor.fit(rows.X, rows.y, sample_weight=rows.weight)


def _outcome_floor(rows: TrainingRows) -> float:
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
