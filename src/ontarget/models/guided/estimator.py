"""`GuidedForest`: a quantile forest that also reads predictions of the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ontarget._arguments import seed_parts, whole_number
from ontarget._threads import threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IntArray
from ontarget.models._stored import require
from ontarget.models.base import Side, check_categorical
from ontarget.models.forest._estimator import ForestEstimator
from ontarget.models.forest._growing import in_canonical_order, prepare_ground
from ontarget.models.forest._members import Members, most_members
from ontarget.models.forest.estimator import QuantileForest, SplitRule
from ontarget.models.guided._guides import (
    GUIDES,
    FoldGuides,
    Guide,
    GuidePlan,
    fit_guides,
    guide_plan,
    guide_rows,
)
from ontarget.models.guided._guides_kernel import Guides
from ontarget.models.guided._live import LiveGuidedForest
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays, width_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class GuidedForest(ForestEstimator):
    """A quantile forest that uses predictions of the mean as additional features.

    Trees are slow to learn sums of many features. So two other models, the *guides*, predict the
    mean outcome: a linear (ridge) regression and small boosted trees. The forest reads their
    predictions as features. For a training row, the guides come from models that have not learned
    from its episode; for new rows, from models of all training rows. Outcomes are not changed, so
    atoms (outcomes with positive probability) remain atoms. See method M14 in docs/methods.md.

    Parameters
    ----------
    n_trees, min_leaf, max_features, smooth, seed, max_depth, split
        As in `QuantileForest`; guides count as features. In a monitor ``min_leaf`` counts episodes.
    bootstrap, max_samples, max_entries, max_bins, n_jobs
        As in `QuantileForest`.
    guides
        ``"ridge"``, ``"boosted"`` or both.
    n_folds
        Into how many parts the episodes are divided to make the guides of training rows; a row's
        guides are fitted without its part.
    n_boosted, boosted_depth, boosted_rate
        The largest number of boosted trees, their depth, and the learning rate. Fewer trees are
        used if more would not lower the squared error on episodes that they have not learned from.

    Attributes
    ----------
    forest_
        The fitted quantile forest. It reads the features and then the guides.

    Notes
    -----
    The same rows in any order give the same model, whatever the number of threads. If a feature was
    missing in training, missing values have their own linear effect, and go to the better side of a
    boosted split. A category that was not in training has no linear effect.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 6))
    >>> y = X.sum(axis=1) + 0.1 * rng.normal(size=400)
    >>> plain, guided = QuantileForest().fit(X, y), GuidedForest().fit(X, y)
    >>> queries = rng.random((100, 6))
    >>> error = [np.abs(m.predict(queries) - queries.sum(axis=1)).mean() for m in (plain, guided)]
    >>> bool(error[1] < 0.5 * error[0])
    True
    """

    kind: ClassVar[str] = "guided_forest"
    fits_side_by_side: ClassVar[bool] = True

    forest_: QuantileForest
    guides_: Guides
    _learned_: FoldGuides

    def __init__(
        self,
        n_trees: int = 100,
        min_leaf: int = 15,
        max_features: float | int = 0.5,
        smooth: bool = True,
        *,
        guides: Sequence[Guide] = GUIDES,
        n_folds: int = 5,
        n_boosted: int = 80,
        boosted_depth: int = 2,
        boosted_rate: float = 0.1,
        seed: int | Sequence[int] = 0,
        max_depth: int | None = None,
        split: SplitRule = "distribution",
        bootstrap: bool = True,
        max_samples: float = 1.0,
        max_entries: int | None = None,
        max_bins: int = 255,
        n_jobs: int | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.smooth = smooth
        self.guides = guides
        self.n_folds = n_folds
        self.n_boosted = n_boosted
        self.boosted_depth = boosted_depth
        self.boosted_rate = boosted_rate
        self.seed = seed
        self.max_depth = max_depth
        self.split = split
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.max_entries = max_entries
        self.max_bins = max_bins
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
        """Fit the guides (models of the mean) and the forest to these rows; returns the model.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row, as in `QuantileForest.fit`. Without ids every row
            is an episode.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns = check_categorical(categorical, rows.X.shape[1])
        plan, forest = self._plan(), self._unfitted_forest()
        growth = forest._plan(rows.X.shape[1] + len(plan.guides))
        rows = in_canonical_order(rows)
        with threads_at_most(self.n_jobs):
            self.guides_, folds = fit_guides(rows, plan, columns)
            rows = replace(rows, X=folds.guide_rows(rows.X, rows.units))
            if not rows.has_ids:
                # Equal rows may stand in different folds; then only their guides tell them apart.
                rows = in_canonical_order(rows)
            ground = prepare_ground(rows, growth, columns)
            self.forest_, self._learned_ = forest._grow(rows, growth, ground), folds
        return self

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``P(Y < y | x)`` and ``P(Y <= y | x)`` for each row of X, as two arrays.

        A number y, or one number per row, gives arrays of shape (n,) for n rows. A table y of shape
        (n, m), m values per row, gives arrays of shape (n, m). Several values per row take little
        more time than one.
        """
        with threads_at_most(self.n_jobs):
            rows = self._guided(X)
            return self.forest_.cdf_limits(rows, y)

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, by trees that never saw the episode.

        See `QuantileForest.out_of_bag_limits`. Pass X without guides (predictions of the mean). The
        method appends guides from models that have not learned from the row's episode.
        """
        folds = self._learned()
        with threads_at_most(self.n_jobs):
            rows = self._query_rows(X)
            episodes = self.forest_._learned().episodes_of(ids, rows.shape[0])
            return self.forest_._out_of_bag(folds.guide_rows(rows, episodes), y, episodes)

    def out_of_bag_members(self, X: ArrayLike, ids: ArrayLike) -> Members:
        """As `members`, for rows of training episodes, by trees that never saw the episode.

        Members are the training rows that a prediction is made from, each with its weight. See
        `QuantileForest.out_of_bag_members`. The guides (predictions of the mean), too, come from
        models that have not learned from the row's episode.
        """
        folds = self._learned()
        with threads_at_most(self.n_jobs):
            rows = self._query_rows(X)
            episodes = self.forest_._learned().episodes_of(ids, rows.shape[0])
            found = Members.room(rows.shape[0], most_members(self.forest_.table_))
            guided = folds.guide_rows(rows, episodes)
            self.forest_._add_out_of_bag_members(guided, episodes, 1.0, found)
        return found

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The weight of each training row in the prediction for each row of X; a sparse matrix.

        The shape is (rows of X, training rows). See `QuantileForest.row_weights`.
        """
        with threads_at_most(self.n_jobs):
            return self.forest_.row_weights(self._guided(X))

    def number_episodes(self, numbers: ArrayLike) -> Self:
        """Give the episodes of the training rows other numbers; returns the model.

        See `QuantileForest.number_episodes`.
        """
        self.forest_.number_episodes(numbers)
        return self

    @property
    def training_episodes_(self) -> IntArray:  # type: ignore[override]
        """The episode number of each training row, in the order of the columns of `row_weights`."""
        return self.forest_.training_episodes_

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, in the order of the columns of `row_weights`."""
        return self.forest_.training_outcomes_

    @property
    def training_steps_(self) -> IntArray:  # type: ignore[override]
        """The step of each training row, in the order of the columns of `row_weights`."""
        return self.forest_.training_steps_

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X, which invert `cdf` exactly.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``,
        where F is the CDF.
        """
        with threads_at_most(self.n_jobs):
            rows = self._guided(X)
            return self.forest_.quantile(rows, q, side=side)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row: the mean of the training outcomes in its leaves."""
        with threads_at_most(self.n_jobs):
            rows = self._guided(X)
            return self.forest_.predict(rows)

    def live(self) -> LiveGuidedForest:
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
        self._check_fitted()
        return LiveGuidedForest(self.guides_, self.forest_.table_)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        return {**self.forest_.to_arrays(), **guides_to_arrays(self.guides_)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned.

        It raises a `ModelFileError` if the arrays are damaged.
        """
        guides = guides_from_arrays(arrays)
        forest = QuantileForest.from_arrays(arrays)
        n_features, n_guides = width_of(guides)
        whole = forest.n_features_in_ == n_features + n_guides
        require(whole, "the forest of a guided forest needs to read the features and the guides")
        present = (guides.linear.terms.size > 0, guides.boosted.values.size > 0)
        model = cls(
            n_trees=forest.n_trees,
            smooth=forest.smooth,
            guides=tuple(name for name, given in zip(GUIDES, present, strict=True) if given),
        )
        model.forest_, model.guides_ = forest, guides
        model.n_features_in_ = n_features
        return model

    def _guided(self, X: ArrayLike) -> FloatArray:
        rows = self._query_rows(X)
        return guide_rows(self.guides_, rows)

    def _unfitted_forest(self) -> QuantileForest:
        mine = self.get_params(deep=False)
        names = set(QuantileForest._get_param_names()) & set(mine)
        return QuantileForest(**{name: mine[name] for name in names})

    def _plan(self) -> GuidePlan:
        """The constructor's arguments about guides (models that predict the mean), after checks."""
        return guide_plan(
            self.guides,
            n_folds=whole_number("n_folds", self.n_folds, least=2),
            seed=seed_parts(self.seed),
            boosting=(self.n_boosted, self.boosted_depth, self.boosted_rate),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "guides_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self.guides_ = guides_from_arrays(guides_to_arrays(self.guides_))
