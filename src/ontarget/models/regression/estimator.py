"""`DistributionRegression`: a logistic regression at every outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from ontarget._arguments import seed_parts, whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import DistributionEstimator
from ontarget.models._ranked import columns_from_arrays
from ontarget.models._support import Support
from ontarget.models.base import (
    check_categorical,
    check_values,
    episodes_of,
)
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.regression._fitting import (
    FoldRegressions,
    RegressionPlan,
    answer_limits,
    fit_regression,
)
from ontarget.models.regression._law_kernel import (
    GLOBALS,
    WIDTH,
    Regression,
    limits_of_rows,
    masses_of_rows,
    quantiles_of_rows,
)
from ontarget.models.stored import flat_array, require

# So that a model with other parts can hold these arrays beside theirs.
_PREFIX = "regression_"
# Effects of standardised columns are small; beyond this a sum may overflow.
_LARGEST_EFFECT = 1e100
# The logit of a share of rows: e^100 rows there never are.
_LARGEST_LEVEL = 100.0


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
    n_values, mass = model.support[0].size, model.mass
    rising = mass.size == n_values + 1 and mass[0] == 0.0 and mass[-1] == 1.0
    rising = rising and bool((mass[1:] >= mass[:-1]).all())
    require(
        bool(rising),
        "regression_mass needs to rise from 0 to 1, with one number more than regression_support",
    )
    n_cuts, levels = n_values - 1, model.levels
    whole = levels.size > 0 and levels.size % n_cuts == 0 if n_cuts else levels.size == 0
    require(
        bool(whole), "regression_levels needs one number per stored time and cut between outcomes"
    )
    by_node = levels.reshape(-1, max(1, n_cuts))
    require(
        bool(
            (np.abs(levels) <= _LARGEST_LEVEL).all() and (by_node[:, 1:] >= by_node[:, :-1]).all()
        ),
        f"regression_levels need to rise at each stored time, at most {_LARGEST_LEVEL:g} in size",
    )


_BLOCK = 256


class DistributionRegression(DistributionEstimator):
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
        """Fit the regression to these rows; returns the model.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row. A row is compared with outcomes of its own step.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns, plan = check_categorical(categorical, rows.X.shape[1]), self._plan()
        with threads_at_most(self.n_jobs):
            self.table_, self._learned_ = fit_regression(in_canonical_order(rows), plan, columns)
        return self

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        left[...], right[...] = answer_limits(self.table_, rows, values)

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
        rows, folds = self._query_rows(X), self._learned()
        keys = None if folds is None else folds.keys
        episodes = episodes_of(keys, ids, rows.shape[0])
        values, flat = check_values(y, rows.shape[0])
        with threads_at_most(self.n_jobs):
            left, right = folds.limits(rows, values, episodes)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        def fill(a: int, b: int) -> None:
            quantiles_of_rows(self.table_, rows[a:b], (levels, strictly), found[a:b])

        run_blocks(fill, rows.shape[0], block=_BLOCK)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's predicted distribution.

        A millionth of the probability lies in wide tails; the mean leaves it out.
        """
        rows = self._query_rows(X)
        values, atoms, tail = self.table_.support
        starts = np.concatenate(([tail[0]], values[:-1]))
        middles = np.where(atoms, values, 0.5 * starts + 0.5 * values)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            masses = np.empty((b - a, values.size + 1))
            masses_of_rows(self.table_, rows[a:b], masses)
            means[a:b] = (np.diff(masses, axis=1) * middles).sum(axis=1)

        with threads_at_most(self.n_jobs):
            run_blocks(fill, rows.shape[0], block=_BLOCK)
        return means

    def live(self) -> LiveRegression:
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
        self._check_fitted()
        return LiveRegression(self.table_)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        return regression_to_arrays(self.table_)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned.

        It raises a `ModelFileError` if the arrays are damaged.
        """
        return cls()._hold(regression_from_arrays(arrays))

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "table_")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "table_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self.table_ = regression_from_arrays(regression_to_arrays(self.table_))


class LiveRegression:
    """A distribution regression that does not check its rows; several threads may ask it."""

    __slots__ = ("_model",)

    takes_threads: ClassVar[bool] = True

    def __init__(self, model: Regression) -> None:
        self._model = model

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``."""
        limits_of_rows(self._model, X, y, (left, right))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and the kernel would compile once more for them.
        return _live_from_arrays, (regression_to_arrays(self._model),)


def _live_from_arrays(arrays: dict[str, Any]) -> LiveRegression:
    return LiveRegression(regression_from_arrays(arrays))
