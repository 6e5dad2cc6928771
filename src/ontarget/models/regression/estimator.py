"""`DistributionRegression`: a logistic regression at every outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from ontarget._arguments import seed_parts, whole_number
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.models._ranked import RankedEstimator, check_law, columns_from_arrays
from ontarget.models._support import Support
from ontarget.models.base import (
    TrainingRows,
)
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.regression._fitting import (
    FoldRegressions,
    RegressionPlan,
    fit_regression,
)
from ontarget.models.regression._law_kernel import (
    GLOBALS,
    WIDTH,
    Regression,
    limits_of_rows,
    masses_of_rows,
)
from ontarget.models.stored import flat_array, require

# So that a model with other parts can hold these arrays beside theirs.
_PREFIX = "regression_"
# Effects of standardised columns are small; beyond this a sum may overflow.
_LARGEST_EFFECT = 1e100


def regression_to_arrays(model: Regression) -> dict[str, AnyArray]:
    """The regression as flat read-only arrays by name; all names begin with ``regression_``."""
    own = {"effects": model.effects, "levels": model.levels, "mass": model.mass}
    arrays = model.columns._asdict() | own | Support(*model.support).to_arrays()
    return {_PREFIX + name: array for name, array in arrays.items()}


def regression_from_arrays(arrays: Mapping[str, AnyArray]) -> Regression:
    """The regression in these arrays, after checking that every index is in bounds."""
    columns = columns_from_arrays(arrays, _PREFIX)
    names = [name for name in arrays if name.startswith(_PREFIX)]
    support = Support.from_arrays({name.removeprefix(_PREFIX): arrays[name] for name in names})
    model = Regression(
        columns=columns,
        effects=flat_array(arrays, _PREFIX + "effects", np.float64),
        levels=flat_array(arrays, _PREFIX + "levels", np.float32),
        mass=flat_array(arrays, _PREFIX + "mass", np.float64),
        support=support.as_tuple(),
    )
    _check_law(model)
    return model


def _check_law(model: Regression) -> None:
    n_effects = GLOBALS + WIDTH * model.columns.codes.size
    require(model.effects.size == n_effects, f"regression_effects needs {n_effects} numbers")
    small = bool((np.abs(model.effects) <= _LARGEST_EFFECT).all())  # NaN is not
    require(small, f"regression_effects needs numbers up to {_LARGEST_EFFECT:g} in size")
    check_law(model.levels, model.mass, model.support[0].size, _PREFIX)


class DistributionRegression(RankedEstimator):
    """A conditional distribution whose log odds are linear in the features.

    One logistic regression serves all thresholds c. The log odds of ``Y <= c`` are linear in the
    features and in z(c), the log odds of ``Y <= c`` among the training outcomes around the same
    step. The model starts from the distribution of those outcomes and learns how a row differs from
    it, so it needs few episodes. See method M16 in docs/methods.md.

    Parameters
    ----------
    penalty
        The penalty that pulls the coefficients (*effects*) towards 0, like ``1 / C`` of
        scikit-learn's ``LogisticRegression`` on standardised columns. Squares and interactions have
        ten times this penalty.
    n_folds
        Into how many parts the episodes are divided for `out_of_bag_limits`.
    max_rows
        The effects are learned from at most this many rows, chosen by a hash of episode and step.
    seed
        One or several whole numbers from 0 up. They determine the random thresholds at which the
        regression learns from each row.
    n_jobs
        At most this many threads; None for all.

    Attributes
    ----------
    table_
        The fitted regression: how features become columns, the effects, and the distribution of
        the training outcomes around each step.

    Notes
    -----
    Numbers are standardised and clipped at six standard deviations. The most frequent categories
    have an effect each; a category that was not in training has none. A missing value has its own
    effect if values were missing in training. If a feature equals the ``steps`` of `fit` in every
    row, effects may change with the step: by a linear spline with knots at 50 and 80 % of the
    steps.

    The CDF always rises: the log odds rise with z by four linear pieces (divided at z = -2, 0
    and 2), and the slope of each piece is at least a small positive number. Atoms (outcomes with
    positive probability) remain atoms, and all other probability is spread out over the gaps
    between outcomes (method M2 in docs/methods.md). If more than a thousand distinct outcomes are
    not atoms, only about a thousand quantiles of them are kept.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5_000, 3))
    >>> y = X[:, 0] + rng.logistic(size=5_000)
    >>> model = DistributionRegression().fit(X, y)
    >>> print(model.cdf([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 0.0).round(1))
    [0.5 0.3]
    """

    kind: ClassVar[str] = "distribution_regression"
    _fitted_by: ClassVar[str] = "table_"

    table_: Regression
    _learned_: FoldRegressions | None

    def __init__(
        self,
        penalty: float = 1.0,
        *,
        n_folds: int = 5,
        max_rows: int = 20_000,
        seed: int | Sequence[int] = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.n_folds = n_folds
        self.max_rows = max_rows
        self.seed = seed
        self.n_jobs = n_jobs

    def _fit(self, rows: TrainingRows, categorical: tuple[int, ...]) -> None:
        ordered = in_canonical_order(rows)
        self.table_, self._learned_ = fit_regression(ordered, self._plan(), categorical)

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write `cdf_limits` into ``left`` and ``right``, in this thread; nothing is checked."""
        limits_of_rows(self.table_, X, y, (left, right))

    def _out_of_bag(
        self, rows: FloatArray, values: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        found: tuple[FloatArray, FloatArray] = self._learned().limits(rows, values, episodes)
        return found

    def _support_of_law(self) -> tuple[FloatArray, AnyArray, FloatArray]:
        return self.table_.support

    def _masses(self, rows: FloatArray) -> FloatArray:
        masses = np.empty((rows.shape[0], self.table_.mass.size))
        masses_of_rows(self.table_, rows, masses)
        return masses

    def _arrays(self) -> dict[str, AnyArray]:
        return regression_to_arrays(self.table_)

    def _restore(self, arrays: Mapping[str, AnyArray]) -> None:
        self._hold(regression_from_arrays(arrays))

    def _hold(self, table: Regression) -> Self:
        self.table_ = table
        self.n_features_in_ = table.columns.start.size - 1
        return self

    def _plan(self) -> RegressionPlan:
        """The constructor's arguments, after checks."""
        penalty: Any = self.penalty
        if not (isinstance(penalty, Real) and 0.0 < float(penalty) < np.inf):
            raise InputError(Argument("penalty"), f" needs a number above 0, got {penalty!r}")
        return RegressionPlan(
            penalty=float(penalty),
            n_folds=whole_number("n_folds", self.n_folds, least=2),
            max_rows=whole_number("max_rows", self.max_rows, least=1),
            seed=seed_parts(self.seed),
        )
