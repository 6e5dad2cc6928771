"""An outcome's rows in a leaf against NumPy's own search."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget._kernel import kernel
from ontarget._typing import IntArray
from ontarget.models.forest._asking_kernel import LONG, SPAN, counts_in_leaf


@kernel
def count_all(entries: IntArray, leaves: IntArray, rows: IntArray, found: IntArray) -> None:
    for i in range(rows.shape[0]):
        start, size = np.uint64(leaves[i, 0]), np.uint64(leaves[i, 1])
        span = np.uint64(rows[i, 0]), np.uint64(rows[i, 1])
        below, upto = counts_in_leaf(entries, start, size, span)
        found[i, 0], found[i, 1] = below, upto


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("highest", [3, 60, 65_535])
def test_counts_are_those_of_a_slow_search(dtype: type, highest: int) -> None:
    rng = np.random.default_rng(highest)
    sizes = np.array(
        [1, 2, 5, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN, LONG - 1, LONG, LONG + 1, 900, 7, 1]
    )
    starts = np.cumsum(sizes) - sizes
    leaves = [np.sort(rng.integers(0, highest, size, endpoint=True)) for size in sizes]
    entries = np.concatenate(leaves).astype(dtype)
    ranks = np.unique(np.concatenate([[0, 1, highest - 1, highest], rng.choice(entries, 200)]))
    leaf, first = (grid.ravel() for grid in np.meshgrid(np.arange(sizes.size), ranks))
    last = np.minimum(first + rng.choice([0, 0, 1, 7, 400], first.size), highest)
    found = np.empty((first.size, 2), dtype=np.int64)
    rows = np.column_stack([first, last])
    count_all(entries, np.column_stack([starts, sizes])[leaf], rows, found)
    for k in range(first.size):
        own = leaves[leaf[k]]
        assert found[k, 0] == np.searchsorted(own, first[k], side="left")
        assert found[k, 1] == np.searchsorted(own, last[k], side="right")
