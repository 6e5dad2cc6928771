"""The training rows behind a forest's answer, with their probability, for each row asked."""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.models.forest._asking_kernel import ForestTable, new_scratch, row_to_leaves
from ontarget.models.forest._node_kernel import LOW31, LOW32

# So many rows stand for a larger leaf, evenly spread over its outcomes.
MOST_OF_LEAF: Final = 64


@kernel
def add_members_of_rows(
    forest: ForestTable,
    X: FloatArray,
    skipped: BoolArray,
    weight: float,
    out: tuple[IntArray, IntArray, FloatArray],
) -> None:
    """Append the training rows in each row's leaves to ``out``, with their probability."""
    counts, rows, mass = out
    scratch = new_scratch(forest)
    for i in range(X.shape[0]):
        row_to_leaves(forest, X[i], scratch)
        counts[i] = _add_members(
            forest, scratch.leaves, skipped[i], weight, (counts[i], rows[i], mass[i])
        )


@inner_kernel
def _add_members(
    forest: ForestTable,
    leaves: IntArray,
    skipped: BoolArray,
    weight: float,
    out: tuple[int, IntArray, FloatArray],
) -> int:
    """Append the training rows in one row's leaves; return how many the row has then."""
    at, rows, mass = out
    n_trees = leaves.size
    for t in range(skipped.size):
        n_trees -= 1 if skipped[t] else 0
    for t in range(leaves.size):
        if skipped.size > 0 and skipped[t]:
            continue
        node = forest.nodes[leaves[t]]
        start, size = int(node & LOW32), int((node >> 32) & LOW31)
        n = min(size, MOST_OF_LEAF)
        share = weight / (n_trees * n)
        before = 0.0
        for j in range(n):
            entry = start + (2 * j + 1) * size // (2 * n)
            if forest.shares.size > 0:
                if n < size:
                    level = (j + 0.5) / n
                    entry = start + int(np.searchsorted(forest.shares[start : start + size], level))
                else:
                    share = weight * (forest.shares[entry] - before) / n_trees
                    before = forest.shares[entry]
            rows[at] = forest.entries[entry]
            mass[at] = share
            at += 1
    return int(at)
