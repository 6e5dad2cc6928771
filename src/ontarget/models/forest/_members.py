"""The training rows that a forest's prediction is made from, each with its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._members_kernel import MOST_OF_LEAF
from ontarget.models.forest._node_kernel import LOW31, LOW32

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Members(NamedTuple):
    """The training rows that the prediction for each row is made from, each with its weight."""

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
