"""Weighted training rows, as a forest's answer for each row that was asked."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._members_kernel import MOST_OF_LEAF

__all__ = ["Members", "every_tree", "most_members"]


class Members(NamedTuple):
    """The training rows behind the law of each row asked, and their mass.

    Row i has ``counts[i]`` members: the training rows ``rows[i, :counts[i]]``, which may repeat,
    with the masses ``mass[i, :counts[i]]``. Training rows are numbered as in `row_weights`. The
    masses add up to the share of the law that rests on recorded rows; see `row_share`.
    """

    counts: IntArray
    rows: IntArray  # uint32
    mass: FloatArray

    @classmethod
    def room(cls, n_rows: int, most: int) -> Self:
        """Room for so many rows with at most so many members each."""
        shape = (n_rows, most)
        return cls(np.zeros(n_rows, np.int64), np.zeros(shape, np.uint32), np.zeros(shape))

    @property
    def parts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """What the kernels take of it."""
        return self.counts, self.rows, self.mass

    def between(self, a: int, b: int) -> Members:
        """The members of some consecutive rows."""
        return Members(self.counts[a:b], self.rows[a:b], self.mass[a:b])


def every_tree(n_rows: int) -> BoolArray:
    """What `add_members_of_rows` skips where all trees count: none."""
    return np.zeros((n_rows, 0), dtype=np.bool_)


def most_members(*forests: ForestTable) -> int:
    """How many members a row has at most, from all of these forests."""
    return MOST_OF_LEAF * sum(forest.roots.size for forest in forests)
