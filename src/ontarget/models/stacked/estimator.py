"""`StackedForest`: several models (experts) that answer together, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ontarget._arguments import seed_parts, whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
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
from ontarget.models.guided._boosting_kernel import BoostingRules
from ontarget.models.guided._guides import GuidePlan, guide_rows
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
    FOREST,
    LINEAR,
    SECOND,
    SHIFT,
    Stack,
)
from ontarget.models.stacked._store import stack_from_arrays, stack_to_arrays

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# A tree that was fetched for one row serves all rows of a block; with many values, fewer rows fit
# into the fastest memory.
_BLOCK, _MOST_ANSWERS = 256, 4096
# Boosting ends when 20 trees have not lowered the error in rows that they have not seen.
_BOOSTING = BoostingRules(
    n_trees=200, depth=3, rate=0.1, least_weight=20.0, penalty=1.0, patience=20
)


class StackedForest(ForestEstimator):
    """A weighted mixture of three models (*experts*); the default model of a monitor.

    One expert is a quantile forest. It reads the features and two *guides*: predictions of the mean
    by a ridge regression, and by small boosted trees that correct it, because a forest is slow to
    learn sums of many features. The second expert, the *shift*, moves and stretches one shape of
    distribution; it helps if outcomes differ only in location and scale, where a forest smooths too
    much. The third is a `DistributionRegression`, which needs few episodes. An expert gets more
    weight if it gives more probability to outcomes of episodes that it has not learned from. An
    expert of very small weight is left out. See methods M14 to M16 in docs/methods.md.

    Parameters
    ----------
    n_trees
        The number of trees of the forest.
    min_leaf
        The fewest rows in a leaf. In a monitor it counts episodes.
    experts
        The experts to use: ``"forest"`` and any of ``"shift"`` and ``"linear"``.
    max_features, max_depth, split, max_entries, max_bins, n_jobs
        As in `QuantileForest`; guides count as features.
    bootstrap, max_samples
        As in `QuantileForest`. By default each tree draws half of the episodes, without
        replacement. The other half is used to judge the tree, and leaves need half the memory.
    n_folds
        Into how many parts the episodes are divided. The guides of a training row are fitted
        without its part.
    seed
        One or several whole numbers from 0 up, which determine all random choices.

    Attributes
    ----------
    weights_
        The weight of each expert, by name; they add up to 1.
    training_episodes_, training_steps_
        The episode and the step of each training row, in the order of the columns of `row_weights`.

    Notes
    -----
    The same rows in any order give the same model, whatever the number of threads. The shift is
    left out if some outcomes are atoms (have positive probability) and others are not. Without ids
    there are no out-of-bag answers, so only the forest counts. If a feature was missing in
    training, missing values have their own linear effect. A category that was not in training has
    no linear effect.

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
        n_trees: int = 60,
        min_leaf: int = 4,
        *,
        experts: Sequence[Expert] = EXPERTS,
        max_features: float | int = 0.75,
        n_folds: int = 5,
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
        self.experts = experts
        self.max_features = max_features
        self.n_folds = n_folds
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
        """Fit all models of the mixture, and their weights, to these rows; returns the model.

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
        """The weight of each expert (model of the mixture), by name; the weights add up to 1.

        A file of version 0.2 may have two forests, which count together here.
        """
        _, _, shift, linear = self.stack_.weights.tolist()
        return {"forest": self.row_share, "shift": shift, "linear": linear}

    def _limits(
        self, rows: FloatArray, values: FloatArray, left: FloatArray, right: FloatArray
    ) -> None:
        live = self.live()

        def answer(a: int, b: int) -> None:
            live.limits(rows[a:b], values[a:b], left[a:b], right[a:b])

        run_blocks(
            answer, rows.shape[0], block=_BLOCK, most=_MOST_ANSWERS // max(1, values.shape[1])
        )

    def out_of_bag_limits(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """As `cdf_limits`, for rows of training episodes, by parts that never saw the episode.

        The forests answer by the trees that did not draw the row's episode. The guides (models that
        predict the mean) and the regression answer by fits that left out the part of the episodes
        (fold) with this episode. See `QuantileForest.out_of_bag_limits`.
        """
        rows, honest = self._query_rows(X), self._learned()
        episodes = episodes_of(honest.keys, ids, rows.shape[0])
        values, flat = check_values(y, rows.shape[0])
        with threads_at_most(self.n_jobs):
            left, right = honest.limits(rows, values, episodes)
        return (left[:, 0], right[:, 0]) if flat else (left, right)

    def out_of_bag_members(self, X: ArrayLike, ids: ArrayLike) -> Members:
        """As `members`, for rows of training episodes, by trees that never saw the episode.

        Members are the training rows that a prediction is made from, each with its weight. ``ids``
        are the episodes of the rows. See `QuantileForest.out_of_bag_members`.
        """
        rows, honest = self._query_rows(X), self._learned()
        episodes = episodes_of(honest.keys, ids, rows.shape[0])
        found = Members.room(rows.shape[0], most_members(self.stack_.forest, self.stack_.second))
        with threads_at_most(self.n_jobs):
            honest.add_members(rows, episodes, found)
        return found

    @property
    def row_share(self) -> float:
        """The total weight of the training rows in a prediction: the weight of the forest.

        The two other models of the mixture, the shift and the linear expert, give no weight to
        single training rows.
        """
        self._check_fitted()
        return float(self.stack_.weights[FOREST] + self.stack_.weights[SECOND])

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, in the order of the columns of `row_weights`.

        The outcomes are ascending.
        """
        return self._forests()[0][1].training_outcomes_

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The weight of each training row in the prediction for each row of X; a sparse matrix.

        Only the forest gives weight to training rows. The shape is (rows of X, training rows),
        and each row of the matrix adds up to `row_share`. See `QuantileForest.row_weights`.
        """
        rows = self._query_rows(X)
        with threads_at_most(self.n_jobs):
            guided = guide_rows(self.stack_.guides, rows)
            return sum(weight * forest.row_weights(guided) for weight, forest in self._forests())

    def quantile(self, X: ArrayLike, q: ArrayLike, *, side: Side = "left") -> FloatArray:
        """The quantiles at level q for each row of X, which invert `cdf` exactly.

        A number q gives an array of shape (n,) for n rows. A list of m levels gives shape (n, m).
        ``side="left"`` is ``inf{y : F(y) >= q}`` and ``side="right"`` is ``inf{y : F(y) > q}``,
        where F is the CDF.
        """
        with threads_at_most(self.n_jobs):
            parts, inputs = self._parts(self._query_rows(X))
            return mixture_quantile(parts, inputs, q, side)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row, from the forest alone."""
        rows = self._query_rows(X)
        with threads_at_most(self.n_jobs):
            guided = guide_rows(self.stack_.guides, rows)
            forests = self._forests()
            whole = sum(weight for weight, _ in forests)
            found = sum(weight / whole * forest.predict(guided) for weight, forest in forests)
        return np.asarray(found)

    def live(self) -> LiveStackedForest:
        """The model, prepared to be asked at every step of a run (a `LiveModel`).

        It does not check the rows that it gets.
        """
        self._check_fitted()
        return self._live_

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything the fitted model needs to answer, as flat read-only arrays by name."""
        self._check_fitted()
        origins = RowOrigins(self.training_episodes_, self.training_steps_)
        return {**stack_to_arrays(self.stack_), **origins.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model, made from the arrays that `to_arrays` returned.

        It raises a `ModelFileError` if the arrays are damaged.
        """
        stack = stack_from_arrays(arrays)
        some = stack.forest if stack.weights[FOREST] > 0.0 else stack.second
        origins = RowOrigins.from_arrays(arrays, int(some.row_start[-1]))
        places = dict(zip(EXPERTS[1:], (SHIFT, LINEAR), strict=True))
        others = [name for name, at in places.items() if stack.weights[at] > 0.0]
        used: tuple[Expert, ...] = ("forest", *others)
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
        """The forests with a weight above 0, as (weight, forest) pairs.

        They read rows to which the guides (predictions of the mean) have been appended.
        """
        origins = RowOrigins(self.training_episodes_, self.training_steps_)
        tables: list[tuple[int, ForestTable]] = [
            (FOREST, self.stack_.forest),
            (SECOND, self.stack_.second),
        ]
        return [
            (weight, QuantileForest()._hold(table, origins))
            for place, table in tables
            if (weight := float(self.stack_.weights[place])) > 0.0
        ]

    def _parts(
        self, rows: FloatArray
    ) -> tuple[list[tuple[float, ConditionalDistribution]], list[FloatArray]]:
        """The (weight, expert) pairs of the experts (models) in use, and the rows that each reads.

        An expert is in use if its weight is above 0.
        """
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
        """The constructor's arguments, after checks."""
        named = (self.experts,) if isinstance(self.experts, str) else tuple(self.experts)
        if any(name not in EXPERTS for name in named) or "forest" not in named:
            raise InputError(
                Argument("experts"),
                f" needs names out of {', '.join(EXPERTS)}, and forest among them, got "
                f"{self.experts!r}",
            )
        seeds = seed_parts(self.seed)
        n_folds = whole_number("n_folds", self.n_folds, least=2)
        return StackPlan(
            experts=tuple(name for name in EXPERTS if name in named),
            guides=GuidePlan(n_folds, seeds, _BOOSTING),
            forest=self._unfitted_forest((*seeds, FOREST)),
            regression=RegressionPlan(n_folds=n_folds, seed=seeds),
            seed=seeds,
        )

    def _unfitted_forest(self, seed: tuple[int, ...]) -> QuantileForest:
        mine = self.get_params(deep=False)
        names = set(QuantileForest._get_param_names()) & set(mine)
        own = {name: mine[name] for name in names}
        return QuantileForest(**{**own, "seed": seed, "category_order": "bag"})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_live_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "stack_" in state:
            # Copies come back writable, and the kernels would compile once more for them.
            self._serve(stack_from_arrays(stack_to_arrays(self.stack_)))
