"""`QuantileForest`: a random forest that predicts the distribution of the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

import numpy as np

from ontarget._arguments import seed_parts, share, whole_number
from ontarget._threads import threads_at_most
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.models.base import (
    TrainingRows,
)
from ontarget.models.forest._asking_kernel import LOW32, MAX_SLOTS, ForestTable
from ontarget.models.forest._batch_kernel import (
    add_members_of_rows,
    leaves_of_rows,
    limits_of_rows,
    means_of_leaves,
    means_of_rows,
    out_of_bag_limits_of_rows,
    quantiles_of_rows,
)
from ontarget.models.forest._binning import MAX_BINS
from ontarget.models.forest._growing import (
    SPLIT_SCORES,
    Bags,
    Ground,
    GrowthPlan,
    Sampling,
    grow_forest,
    in_canonical_order,
    prepare_ground,
)
from ontarget.models.forest._presorted_kernel import GrowthRules
from ontarget.models.forest._store import RowOrigins, table_from_arrays, table_to_arrays
from ontarget.models.forest.base import (
    ForestEstimator,
    Members,
    by_row,
    every_tree,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SplitRule: TypeAlias = Literal["distribution", "variance"]
CategoryOrder: TypeAlias = Literal["bag", "all"]

_MOST_ANSWERS = 4096  # of one call, beyond the first rows
_MOST_ALIKE = 1024  # rows of which many ask about the same values and fall into the same leaf
_NO_LIMIT = 2**31 - 1
# However small the budget of entries is, a tree may have this many leaves.
_LEAST_LEAVES = 4


class QuantileForest(ForestEstimator):
    """A random forest that predicts the whole distribution of the outcome.

    The CDF of a row at y is the share of training outcomes up to y in the row's leaf, averaged over
    the trees (Meinshausen, 2006). By default it is smoothed between outcomes, except at *atoms*,
    which are outcomes that several episodes share (method M2 in docs/methods.md).

    Parameters
    ----------
    n_trees
        The number of trees.
    min_leaf
        The fewest different training rows in a leaf. In a monitor it counts episodes: if one model
        learns from several steps, it is multiplied by their number (`pooled_over`).
    max_features
        How many features to try at each split: a whole number, or a share of all features. Features
        that are constant in a node do not count.
    smooth
        Whether to spread the probability of outcomes that are not atoms over the gap before them.
        If not, the CDF is the step function of the outcomes in the leaves.
    seed
        One or several whole numbers from 0 up, which determine all random choices. Tree t depends
        only on the data, the seed and t.
    max_depth
        The largest depth of a tree; None sets no limit.
    split
        ``"distribution"`` looks for splits whose two sides differ in the mean or the spread of the
        outcome, ``"variance"`` for splits that differ in the mean.
    bootstrap
        Whether each tree draws its episodes with replacement.
    max_samples
        The share of the episodes that each tree draws.
    max_entries
        The most training rows that the leaves of all trees may hold together, which limits memory
        and the size of the model file; None sets no limit. Each tree may hold an equal share of
        them, and stops drawing episodes before it has more rows. A tree always gets at least one
        episode, and may always hold four leaves of ``min_leaf`` rows.
    max_bins
        How many bins a feature may have, at most 65,535. A feature with at most this many distinct
        values can be split between any two of them; a feature with more values, only at quantiles.
        With 255, a fit to very many rows is faster and the model a little smaller.
    category_order
        Trees split categories in the order of their mean outcomes: over all episodes
        (``"all"``), or over the episodes that the tree drew, where categories with fewer than ten
        of these share a place (``"bag"``). A monitor that needs out-of-bag answers sets ``"bag"``.
    n_jobs
        At most this many threads; None or -1 for as many as `ONTARGET_THREADS` or the processor
        allows. The forest and its answers are the same with any number of threads.

    Attributes
    ----------
    training_episodes_, training_steps_
        The episode and the step of each training row, in the order of the columns of `row_weights`.
        Episodes are numbered in the order of their sorted ids. Steps that are not whole numbers
        from 0 up are numbered in the same way.

    Notes
    -----
    In scikit-learn's forests, ``n_trees`` is called ``n_estimators``, ``min_leaf`` is called
    ``min_samples_leaf``, and ``seed`` is called ``random_state``. The names ``max_features``,
    ``max_depth``, ``bootstrap``, ``max_samples`` and ``n_jobs`` are the same.

    The same rows in any order, and any number of threads, give the same forest. With ids, trees
    draw whole episodes. Missing features (NaN) go to the side that a split learned for them; a
    category that was not in training counts as missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 2))
    >>> forest = QuantileForest(n_trees=50).fit(X, 10 * X[:, 0] + rng.normal(size=400))
    >>> bool(forest.cdf([[0.9, 0.5]], 5.0)[0] < 0.1 < 0.9 < forest.cdf([[0.1, 0.5]], 5.0)[0])
    True
    >>> forest.quantile([[0.1, 0.5], [0.9, 0.5]], [0.1, 0.5, 0.9]).shape
    (2, 3)
    """

    kind: ClassVar[str] = "quantile_forest"
    _fitted_by: ClassVar[str] = "table_"

    table_: ForestTable
    _learned_: Bags

    def __init__(
        self,
        n_trees: int = 100,
        min_leaf: int = 15,
        max_features: float | int = 0.75,
        smooth: bool = True,
        *,
        seed: int | Sequence[int] = 0,
        max_depth: int | None = None,
        split: SplitRule = "distribution",
        bootstrap: bool = True,
        max_samples: float = 1.0,
        max_entries: int | None = None,
        max_bins: int = 65_535,
        category_order: CategoryOrder = "all",
        n_jobs: int | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.smooth = smooth
        self.seed = seed
        self.max_depth = max_depth
        self.split = split
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.max_entries = max_entries
        self.max_bins = max_bins
        self.category_order = category_order
        self.n_jobs = n_jobs

    def _fit(self, rows: TrainingRows, categorical: tuple[int, ...]) -> None:
        plan, rows = self._plan(rows.X.shape[1]), in_canonical_order(rows)
        self._grow(rows, plan, prepare_ground(rows, plan, categorical))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The fitted model in the arrays of `to_arrays`; a `ModelFileError` if they are damaged."""
        if "imagined" in arrays:
            raise ModelFileError(
                "forests that store imagined outcomes (successors=True) are gone; fit the monitor "
                "again, or use ontarget 0.2"
            )
        model = super().from_arrays(arrays)
        model.n_trees = model.table_.roots.size
        model.smooth = bool(model.table_.support[2][3] > 0.0)
        return model

    def _arrays(self) -> dict[str, AnyArray]:
        origins = RowOrigins(self.training_episodes_, self.training_steps_)
        return {**table_to_arrays(self.table_), **origins.to_arrays()}

    def _restore(self, arrays: Mapping[str, AnyArray]) -> None:
        table = table_from_arrays(arrays)
        self._hold(table, RowOrigins.from_arrays(arrays, int(table.row_start[-1])))

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write `cdf_limits` into ``left`` and ``right``, in this thread; nothing is checked."""
        limits_of_rows(self.table_, X, y, (left, right))

    def _tables(self) -> tuple[ForestTable, ...]:
        return (self.table_,)

    def _add_members(self, rows: FloatArray, found: Members) -> None:
        add_members_of_rows(self.table_, rows, every_tree(len(rows)), 1.0, found.parts)

    def _add_out_of_bag_members(
        self, rows: FloatArray, episodes: IndexArray, weight: float, found: Members
    ) -> None:
        table, held = self.table_, self._learned().held

        def answer(a: int, b: int) -> None:
            skipped = np.ascontiguousarray(held[:, episodes[a:b]].T)
            add_members_of_rows(table, rows[a:b], skipped, weight, found.between(a, b).parts)

        self._in_blocks(answer, rows.shape[0])

    def _out_of_bag(
        self, rows: FloatArray, values: FloatArray, episodes: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        left, right = np.empty(values.shape), np.empty(values.shape)
        table, held = self.table_, self._learned().held

        def answer(a: int, b: int) -> None:
            query = rows[a:b], values[a:b], episodes[a:b]
            out_of_bag_limits_of_rows(table, query, held, (left[a:b], right[a:b]))

        most = max(_MOST_ALIKE, _MOST_ANSWERS // max(1, values.shape[1]))
        self._in_blocks(answer, rows.shape[0], most=most)
        return left, right

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        quantiles_of_rows(self.table_, rows, (levels, strictly), found)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The conditional mean of each row: the mean of the training outcomes in its leaves."""
        rows = self._query_rows(X)
        means = np.empty(rows.shape[0])
        table = self.table_
        many = rows.shape[0] * table.roots.size > table.nodes.size
        of_nodes = np.empty(table.nodes.size if many else 0)
        outcomes = self.training_outcomes_
        if many:
            means_of_leaves(table, outcomes, of_nodes)

        def answer(a: int, b: int) -> None:
            means_of_rows(table, rows[a:b], (outcomes, of_nodes), means[a:b])

        self._in_blocks(answer, rows.shape[0])
        return means

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The weight of each training row in the prediction for each row of X; a sparse matrix.

        The shape is (rows of X, training rows), and each row of the matrix adds up to 1. Training
        rows are in the order of their outcomes: column j stands for the row of the episode
        ``training_episodes_[j]`` at the step ``training_steps_[j]``.

        Examples
        --------
        >>> X = np.arange(40.0).reshape(20, 2)
        >>> ids = np.repeat(np.arange(5), 4)
        >>> forest = QuantileForest(20, min_leaf=2).fit(X, X[:, 0], ids=ids)
        >>> mass = forest.row_weights(X[:1]).toarray()[0]
        >>> print(np.bincount(forest.training_episodes_, weights=mass).argmax())
        0
        """
        rows, table = self._query_rows(X), self.table_
        leaves = np.empty((rows.shape[0], table.roots.size), dtype=np.uint32)
        self._in_blocks(lambda a, b: leaves_of_rows(table, rows[a:b], leaves[a:b]), rows.shape[0])
        return by_row(leaves, table)

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, in the order of the columns of `row_weights`.

        The outcomes are ascending.
        """
        self._check_fitted()
        return np.repeat(self.table_.support[0], np.diff(self.table_.row_start))

    def _grow(self, rows: TrainingRows, plan: GrowthPlan, ground: Ground) -> Self:
        """Grow the forest on rows that are sorted as by `in_canonical_order`; returns the model."""
        with threads_at_most(self.n_jobs):
            table, self._learned_ = grow_forest(rows, plan, ground)
        return self._hold(table, RowOrigins.of(rows))

    def _hold(self, table: ForestTable, origins: RowOrigins) -> Self:
        self.table_ = table
        self.training_episodes_, self.training_steps_ = origins
        self.n_features_in_ = table.bins.categorical.size
        return self

    def _plan(self, n_features: int) -> GrowthPlan:
        """The constructor's arguments, after checks."""
        if 2 * n_features > MAX_SLOTS:
            raise InputError(f"X needs at most {MAX_SLOTS // 2} features, got {n_features}")
        if self.split not in SPLIT_SCORES:
            raise InputError(
                Argument("split"), f" needs one of {', '.join(SPLIT_SCORES)}, got {self.split!r}"
            )
        if self.category_order not in ("bag", "all"):
            raise InputError(
                Argument("category_order"), f" needs bag or all, got {self.category_order!r}"
            )
        depth = _NO_LIMIT if self.max_depth is None else self.max_depth
        n_trees = whole_number("n_trees", self.n_trees, least=1, most=_NO_LIMIT)
        min_leaf = whole_number("min_leaf", self.min_leaf, least=1, most=_NO_LIMIT)
        return GrowthPlan(
            sampling=Sampling(
                n_trees=n_trees,
                bootstrap=bool(self.bootstrap),
                share=share("max_samples", self.max_samples),
                most_rows=_most_rows(self.max_entries, n_trees, min_leaf),
                seed=seed_parts(self.seed),
            ),
            rules=GrowthRules(
                min_leaf=min_leaf,
                max_depth=whole_number("max_depth", depth, least=1, most=_NO_LIMIT),
                n_tried=_n_tried(self.max_features, n_features),
            ),
            split=self.split,
            max_bins=whole_number("max_bins", self.max_bins, least=2, most=MAX_BINS),
            smooth=bool(self.smooth),
            own_order=self.category_order == "bag",
        )


def _most_rows(max_entries: object, n_trees: int, min_leaf: int) -> int:
    """The most training rows that one tree may draw if all trees may hold ``max_entries``."""
    if max_entries is None:
        return LOW32
    most = whole_number("max_entries", max_entries, least=1, most=LOW32)
    return max(most // n_trees, _LEAST_LEAVES * min_leaf)


def _n_tried(max_features: object, n_features: int) -> int:
    if isinstance(max_features, Integral):
        return min(whole_number("max_features", max_features, least=1, most=_NO_LIMIT), n_features)
    return max(1, round(share("max_features", max_features) * n_features))
