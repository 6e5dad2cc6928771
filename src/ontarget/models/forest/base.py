"""What forests share: the training rows that a prediction is made from, and pooling over steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from ontarget._arguments import whole_number
from ontarget._threads import run_blocks, threads_at_most
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray, IntArray
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import HonestEstimator
from ontarget.models.forest._asking_kernel import LOW31, LOW32, ForestTable
from ontarget.models.forest._batch_kernel import MOST_OF_LEAF
from ontarget.models.forest._store import in_few_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Members(NamedTuple):
    """The training rows that the prediction for each row is made from, each with its weight.

    For row i, these are the training rows ``rows[i, :counts[i]]`` (one may occur several times),
    with the weights ``mass[i, :counts[i]]``. Training rows are numbered like the columns of
    `row_weights`. The weights of a prediction add up to `row_share`.
    """

    counts: IntArray
    rows: IntArray  # uint32
    mass: FloatArray

    @classmethod
    def room(cls, n_rows: int, most: int) -> Self:
        """Empty arrays for the training rows that ``n_rows`` predictions are made from."""
        shape = (n_rows, most)
        return cls(np.zeros(n_rows, np.int64), np.zeros(shape, np.uint32), np.zeros(shape))

    @property
    def parts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The arrays ``counts``, ``rows`` and ``mass``, in the order in which kernels take them."""
        return self.counts, self.rows, self.mass

    def between(self, a: int, b: int) -> Members:
        """The training rows of predictions a up to, but not including, b; views, not copies."""
        return Members(self.counts[a:b], self.rows[a:b], self.mass[a:b])


def every_tree(n_rows: int) -> BoolArray:
    """A value for ``skipped`` in `add_members_of_rows`, with which no row skips any tree."""
    return np.zeros((n_rows, 0), dtype=np.bool_)


def most_members(*forests: ForestTable) -> int:
    """The most training rows that can get a nonzero weight in the prediction for one row."""
    return MOST_OF_LEAF * sum(forest.roots.size for forest in forests)


def by_row(leaves: IntArray, table: ForestTable) -> csr_array:
    """The weight of each training row in the prediction for each row, as a sparse matrix."""
    from scipy.sparse import csr_array

    n_rows, n_trees = leaves.shape
    nodes = table.nodes[leaves.ravel()]
    start, size = nodes & LOW32, (nodes >> 32) & LOW31
    ends = np.cumsum(size)
    first = np.repeat(ends - size, size)  # where each leaf's part of the output begins
    entry = np.repeat(start, size) + np.arange(ends[-1] if ends.size else 0) - first
    if table.shares.size == 0:
        mass = np.repeat(1.0 / size, size)
    else:
        before = np.where(entry > np.repeat(start, size), table.shares[entry - 1], 0.0)
        mass = table.shares[entry] - before
    columns = table.entries[entry].astype(np.int64)
    shape = (n_rows, int(table.row_start[-1]))
    if n_rows == 1:  # as an explanation asks; to sort the entries would take most of its time
        summed = np.bincount(columns, weights=mass / n_trees, minlength=shape[1])
        return csr_array(summed[None])
    ends_of_rows = np.concatenate([[0], ends[n_trees - 1 :: n_trees]])
    weights = csr_array((mass / n_trees, columns, ends_of_rows), shape=shape)
    weights.sum_duplicates()
    return weights


# Leaves on pooled steps have at least this many rows, however short most episodes are.
_LEAST_POOLED = 5
_MEMBERS_BLOCK = 32


class ForestEstimator(HonestEstimator):
    """The base class of models that store training rows in the leaves of trees.

    A leaf holds at least ``min_leaf`` rows; at most ``n_jobs`` threads are used.
    """

    min_leaf: int
    n_jobs: int | None
    training_episodes_: IntArray
    training_steps_: IntArray

    @property
    def row_share(self) -> float:
        """The total weight of the training rows in a prediction, from 0 to 1.

        It is 1 for a plain forest. In a mixture with other models, it is the weight of the forests.
        """
        return 1.0

    @property
    def training_outcomes_(self) -> FloatArray:
        """The outcome of each training row, in the order of the columns of `row_weights`.

        The outcomes are ascending.
        """
        raise NotImplementedError

    def _tables(self) -> tuple[ForestTable, ...]:
        """The forests whose rows count."""
        raise NotImplementedError

    def _add_members(self, rows: FloatArray, found: Members) -> None:
        """Append to ``found`` the training rows that each row's prediction is made from."""
        raise NotImplementedError

    def _add_out_of_bag_members(
        self, rows: FloatArray, episodes: IndexArray, weight: float, found: Members
    ) -> None:
        """As `_add_members`, with this total weight, by trees that never saw the row's episode."""
        raise NotImplementedError

    def row_weights(self, X: ArrayLike) -> csr_array:
        """The weight of each training row in the prediction for each row of X; a sparse matrix.

        The shape is (rows of X, training rows).
        """
        raise NotImplementedError

    def members(self, X: ArrayLike) -> Members:
        """The training rows that the prediction for each row of X is made from, and their weights.

        These are the training rows in the leaves that the row reaches. At most 64 rows of each leaf
        are returned. If a leaf holds more, 64 rows that are spread evenly over its outcomes
        represent it. So this is faster than `row_weights`, and exact if leaves are small. The
        result takes about ten kilobytes per row of X.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> X = np.arange(40.0).reshape(20, 2)
        >>> found = QuantileForest(20, min_leaf=2).fit(X, X[:, 0]).members(X[:1])
        >>> print(found.mass.sum().round(6), found.rows[0, : found.counts[0]].max() < 20)
        1.0 True
        """
        rows = self._query_rows(X)
        found = Members.room(len(rows), most_members(*self._tables()))
        with threads_at_most(self.n_jobs):
            run_blocks(
                lambda a, b: self._add_members(rows[a:b], found.between(a, b)),
                len(rows),
                block=_MEMBERS_BLOCK,
            )
        return found

    def out_of_bag_members(self, X: ArrayLike, ids: ArrayLike) -> Members:
        """As `members`, for rows of training episodes, by trees that never saw the episode.

        ``X`` and ``ids`` are as for `out_of_bag_limits`, with the same limitations. A row whose
        episode every tree drew has no members.
        """
        rows, episodes = self._training_query(X, ids)
        found = Members.room(rows.shape[0], most_members(*self._tables()))
        with threads_at_most(self.n_jobs):
            self._add_out_of_bag_members(rows, episodes, 1.0, found)
        return found

    def number_episodes(self, numbers: ArrayLike) -> Self:
        """Give the episodes of the training rows other numbers; returns the model.

        ``numbers[e]`` is the new number of the episode that had the number e.
        """
        renamed = np.asarray(numbers)[self.training_episodes_]
        self.training_episodes_ = in_few_bytes(renamed)
        return self

    def pooled_over(self, n_steps: int | float) -> Self:
        """An unfitted copy for training rows that come from ``n_steps`` steps of each episode.

        An episode then has ``n_steps`` rows. So ``min_leaf`` is multiplied by this number, and
        still counts episodes (method M14 in docs/methods.md). If episodes end early, pass the mean
        number of rows per episode as a float. The product is then rounded, and is at least five if
        ``n_steps`` is above 1. A monitor calls this method for every model that it fits.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> QuantileForest(min_leaf=7).pooled_over(5)
        QuantileForest(min_leaf=35)
        >>> QuantileForest(min_leaf=7).pooled_over(2.5)
        QuantileForest(min_leaf=18)
        """
        copy: Self = clone(self)
        least = whole_number("min_leaf", self.min_leaf, least=1)
        if not isinstance(n_steps, float):
            copy.min_leaf = least * whole_number("n_steps", n_steps, least=1)
        elif 1.0 <= n_steps < np.inf:
            copy.min_leaf = max(_LEAST_POOLED if n_steps > 1.0 else least, round(least * n_steps))
        else:
            raise InputError(Argument("n_steps"), f" needs a number from 1 up, got {n_steps!r}")
        return copy
