"""The stacked forest: several experts on one set of guides, and their weights (M15, M16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ontarget._arguments import seed_parts, whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import InputError
from ontarget.models._mixture import mixture_quantile
from ontarget.models.base import (
    ConditionalDistribution,
    Side,
    check_categorical,
    check_values,
    episodes_of,
)
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._estimator import ForestEstimator
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.forest._members import Members, most_members
from ontarget.models.forest._origins import RowOrigins
from ontarget.models.forest.estimator import QuantileForest
from ontarget.models.guided._guides import guide_plan, guide_rows
from ontarget.models.regression._fitting import RegressionPlan
from ontarget.models.regression.estimator import DistributionRegression
from ontarget.models.stacked._experts import (
    EXPERTS,
    Expert,
    HonestStack,
    StackPlan,
    fit_stack,
    places_of,
)
from ontarget.models.stacked._live import LiveStackedForest
from ontarget.models.stacked._shift import ShiftLaw
from ontarget.models.stacked._stack_kernel import (
    LARGE,
    LINEAR,
    SHIFT,
    SMALL,
    Stack,
)
from ontarget.models.stacked._store import stack_from_arrays, stack_to_arrays

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["StackedForest"]

# A tree that was fetched for one row serves all rows of a block; with many values, fewer rows fit
# into the fastest memory.
_BLOCK, _MOST_ANSWERS = 256, 4096


class StackedForest(ForestEstimator):
    """A weighted mixture of several models (*experts*); the model of a default monitor.

    Two experts are quantile forests, one with small leaves and one with large ones, which read the
    features and the *guides* of a `GuidedForest`. The third, the *shift*, moves and stretches one
    shape: if outcomes differ only in location and scale, forests smooth too much. The fourth is a
    `DistributionRegression`, which needs few episodes. The weight of an expert depends on how much
    probability it gives to outcomes of episodes that it has not learned from. An expert of very
    small weight is left out.

    Parameters
    ----------
    n_trees
        The trees of each forest.
    experts
        Names out of ``"small_leaves"``, ``"large_leaves"``, ``"shift"`` and ``"linear"``, with at
        least one of the first two.
    min_leaf, large_leaf
        The fewest rows in a leaf of each forest. In a monitor they count episodes.
    max_features, max_depth, split, max_entries, max_bins, n_jobs
        As in `QuantileForest`; guides count as features.
    bootstrap, max_samples
        As in `QuantileForest`. By default each tree draws half of the episodes, without
        replacement. The other half is used to judge it, and leaves need half the memory.
    n_folds, n_boosted, boosted_depth, boosted_rate
        As in `GuidedForest`.
    seed
        A whole number from 0 up, or several.

    Attributes
    ----------
    weights_
        The weight of each expert, by name; they add up to 1.
    training_episodes_, training_steps_
        The episode and the step of each training row, rows in the order of `row_weights`.

    Notes
    -----
    The same rows in any order give the same model, whatever the number of threads. The shift is
    left out if some outcomes are atoms (have positive probability) and others are not. Without ids
    there are no out-of-bag answers, so both forests have equal weights and the other experts none.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 4))
    >>> y = 3.0 * X[:, 0] + 2.0 * X[:, 1] + rng.normal(size=600)
    >>> model = StackedForest(n_trees=20).fit(X, y, ids=np.arange(600))
    >>> print(max(model.weights_, key=model.weights_.get), round(sum(model.weights_.values()), 3))
    shift 1.0
    """

    kind: ClassVar[str] = "stacked_forest"
    fits_side_by_side: ClassVar[bool] = True

    stack_: Stack
    _learned_: HonestStack
    _live_: LiveStackedForest

    def __init__(
        self,
        n_trees: int = 40,
        min_leaf: int = 3,
        large_leaf: int = 15,
        *,
        experts: Sequence[Expert] = EXPERTS,
        max_features: float | int = 0.5,
        n_folds: int = 5,
        n_boosted: int = 200,
        boosted_depth: int = 3,
        boosted_rate: float = 0.1,
        seed: int | Sequence[int] = 0,
        max_depth: int | None = None,
        split: str = "distribution",
        bootstrap: bool = False,
        max_samples: float = 0.5,
        max_entries: int | None = None,
        max_bins: int = 255,
        n_jobs: int | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_leaf = min_leaf
        self.large_leaf = large_leaf
        self.experts = experts
        self.max_features = max_features
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
        """The model itself, after fitting the guides, the experts and their weights.

        Parameters
        ----------
        X, y, sample_weight
            Features (NaN is missing), outcomes, and weights from 0 up.
        ids, steps
            The episode and the step of each row, as in `QuantileForest.fit`.
        categorical
            The columns of X that hold category numbers, whose order has no meaning.
        """
        rows = self._training_rows(X, y, sample_weight, ids=ids, steps=steps)
        columns, plan = check_categorical(categorical, rows.X.shape[1]), self._plan()
        rows = in_canonical_order(rows)
        with threads_at_most(self.n_jobs):
            stack, self._learned_ = fit_stack(rows, plan, columns)
        return self._hold(stack, RowOrigins.of(rows))

    @property
    def weights_(self) -> dict[str, float]:
        """The weight of each expert, by name."""
        self._check_fitted()
        return dict(zip(EXPERTS, self.stack_.weights.tolist(), strict=True))

    def cdf_limits(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Left and right limits of the CDF at y: ``P(Y < y | x)`` and ``P(Y <= y | x)``.

        y scalar or (n,) gives (n,), (n, m) gives (n, m); several values of a row cost little more
        than one.
        """
        rows = self._query_rows(X)
        values, flat = check_values(y, rows.shape[0])
        left, right = np.empty(values.shape), np.empty(values.shape)
        live = self.live()

        def answer(a: int, b: int) -> None:
            live.limits(rows[a:b], values[a:b], left[a:b], right[a:b])

        with threads_at_most(self.n_jobs):
            most = _MOST_ANSWERS // max(1, values.shape[1])
            run_blocks(answer, rows.shape[0], block=_BLOCK, most=most)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Both limits of the CDF at y for rows of training episodes, by parts that never saw them.

        As `QuantileForest.out_of_bag_limits`: forests answer by the trees that did not draw the
        episode, guides and the regression by fits without its fold.
        """
        rows, honest = self._query_rows(X), self._learned()
        episodes = episodes_of(honest.keys, ids, rows.shape[0])
        values, flat = check_values(y, rows.shape[0])
        with threads_at_most(self.n_jobs):
            left, right = honest.limits(rows, values, episodes)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def out_of_bag_members(self, X: ArrayLike, ids: ArrayLike) -> Members:
        """The members behind rows of training episodes, from trees and guides that never saw them.

        ``ids`` are the episodes of the rows; see `QuantileForest.out_of_bag_members`.
        """
        rows, honest = self._query_rows(X), self._learned()
        episodes = episodes_of(honest.keys, ids, rows.shape[0])
        found = Members.room(rows.shape[0], most_members(self.stack_.small, self.stack_.large))
        with threads_at_most(self.n_jobs):
            honest.add_members(rows, episodes, found)
        return found

    @property
    def row_share(self) -> float:
        """The share of the distribution that consists of training rows: the weight of both forests.

        The shift and the linear expert do not consist of training rows.
        """
        self._check_fitted()
        return float(self.stack_.weights[SMALL] + self.stack_.weights[LARGE])

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, rows in the order of `row_weights`: ascending."""
        return self._forests()[0][1].training_outcomes_

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The mass on each training row, (rows, training rows), sparse; rows sum to `row_share`.

        As `QuantileForest.row_weights`, from both forests.
        """
        rows = self._query_rows(X)
        with threads_at_most(self.n_jobs):
            guided = guide_rows(self.stack_.guides, rows)
            return sum(weight * forest.row_weights(guided) for weight, forest in self._forests())

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """Quantiles of each row: q scalar gives (n,), 1-D gives (n, m), to the last bit of `cdf`.

        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``.
        """
        with threads_at_most(self.n_jobs):
            parts, inputs = self._parts(self._query_rows(X))
            return mixture_quantile(parts, inputs, q, side)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row, from the forests alone."""
        rows = self._query_rows(X)
        with threads_at_most(self.n_jobs):
            guided = guide_rows(self.stack_.guides, rows)
            forests = self._forests()
            whole = sum(weight for weight, _ in forests)
            found = sum(weight / whole * forest.predict(guided) for weight, forest in forests)
        return np.asarray(found)

    def pooled_over(self, n_steps: int | float) -> Self:
        """An unfitted copy for rows that pool this many steps, so that leaves count episodes (M14).

        As `QuantileForest.pooled_over`, for both forests.
        """
        copy = super().pooled_over(n_steps)
        other = clone(self).set_params(min_leaf=self.large_leaf)
        copy.large_leaf = super(StackedForest, other).pooled_over(n_steps).min_leaf
        return copy

    def live(self) -> LiveStackedForest:
        """The model for live rows, which are not checked."""
        self._check_fitted()
        return self._live_

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays."""
        self._check_fitted()
        origins = RowOrigins(self.training_episodes_, self.training_steps_)
        return {**stack_to_arrays(self.stack_), **origins.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model whose `to_arrays` gave these; a `ModelFileError` if they are damaged."""
        stack = stack_from_arrays(arrays)
        some = stack.small if stack.weights[SMALL] > 0.0 else stack.large
        origins = RowOrigins.from_arrays(arrays, int(some.row_start[-1]))
        used = tuple(name for name, w in zip(EXPERTS, stack.weights, strict=True) if w > 0.0)
        return cls(n_trees=some.roots.size, experts=used)._hold(stack, origins)

    def _hold(self, stack: Stack, origins: RowOrigins) -> Self:
        self._serve(stack)
        self.training_episodes_, self.training_steps_ = origins
        self.n_features_in_ = stack.guides.linear.start.size - 1
        return self

    def _serve(self, stack: Stack) -> None:
        self.stack_ = stack
        self._live_ = LiveStackedForest(stack)  # packed once: that takes as long as ten rows

    def _forests(self) -> list[tuple[float, QuantileForest]]:
        """The forests that count, with their weights; they read guided rows."""
        origins = RowOrigins(self.training_episodes_, self.training_steps_)
        tables: list[tuple[int, ForestTable]] = [
            (SMALL, self.stack_.small),
            (LARGE, self.stack_.large),
        ]
        return [
            (weight, QuantileForest()._hold(table, origins))
            for place, table in tables
            if (weight := float(self.stack_.weights[place])) > 0.0
        ]

    def _parts(
        self, rows: FloatArray
    ) -> tuple[list[tuple[float, ConditionalDistribution]], list[FloatArray]]:
        """The experts that count, and the rows as each reads them."""
        stack, guided = self.stack_, guide_rows(self.stack_.guides, rows)
        parts: list[tuple[float, ConditionalDistribution]] = [*self._forests()]
        inputs = [guided] * len(parts)
        if stack.weights[SHIFT] > 0.0:
            parts.append((float(stack.weights[SHIFT]), ShiftLaw(stack.shift)))
            inputs.append(places_of(stack.shift, guided, guide_rows(stack.spread, rows)))
        if stack.weights[LINEAR] > 0.0:
            regression = DistributionRegression()._hold(stack.linear)
            parts.append((float(stack.weights[LINEAR]), regression))
            inputs.append(rows)
        return parts, inputs

    def _plan(self) -> StackPlan:
        """The constructor's arguments, checked."""
        named = (self.experts,) if isinstance(self.experts, str) else tuple(self.experts)
        if any(name not in EXPERTS for name in named) or not set(named) & set(EXPERTS[:2]):
            raise InputError(
                f"experts needs names out of {', '.join(EXPERTS)}, with at least one of the first "
                f"two, got {self.experts!r}"
            )
        seeds = seed_parts(self.seed)
        n_folds = whole_number("n_folds", self.n_folds, least=2)
        boosting = (self.n_boosted, self.boosted_depth, self.boosted_rate)
        return StackPlan(
            experts=tuple(name for name in EXPERTS if name in named),
            guides=guide_plan(n_folds=n_folds, seed=seeds, boosting=boosting),
            small=self._unfitted_forest(self.min_leaf, (*seeds, SMALL)),
            large=self._unfitted_forest(self.large_leaf, (*seeds, LARGE)),
            regression=RegressionPlan(n_folds=n_folds, seed=seeds),
            seed=seeds,
        )

    def _unfitted_forest(self, min_leaf: int, seed: tuple[int, ...]) -> QuantileForest:
        mine = self.get_params(deep=False)
        names = set(QuantileForest._get_param_names()) & set(mine)
        own = {name: mine[name] for name in names}
        return QuantileForest(**{**own, "min_leaf": min_leaf, "seed": seed})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_live_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "stack_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self._serve(stack_from_arrays(stack_to_arrays(self.stack_)))
