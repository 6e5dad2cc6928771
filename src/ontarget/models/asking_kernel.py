"""Asking a forest: one descent per row for all its targets, all trees in lock-step.

The `*_of_row` kernels answer for one row whose leaves are known; the batch kernels and the live
path call the same ones, so their answers agree to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget.kernel import kernel
from ontarget.models.binning_kernel import BinTable, bin_row
from ontarget.models.node_kernel import LOW16, LOW31, LOW32
from ontarget.models.support_kernel import cdf_in_cell, quantile_in_cell, reaches
from ontarget.typing import AnyArray, BoolArray, FloatArray, IntArray

__all__ = [
    "ForestTable",
    "Scratch",
    "find_leaves",
    "leaf_ranks",
    "leaves_of_rows",
    "limits_of_raw_row",
    "limits_of_row",
    "limits_of_rows",
    "means_of_rows",
    "quantiles_of_rows",
]


class ForestTable(NamedTuple):
    """A fitted forest as the kernels take it; all arrays are read-only."""

    bins: BinTable
    nodes: IntArray
    roots: IntArray
    entries: IntArray
    shares: FloatArray  # cumulative within each leaf; empty where entries weigh the same
    support: tuple[FloatArray, BoolArray, FloatArray]


class Scratch(NamedTuple):
    """Room to work in for one row at a time."""

    codes: AnyArray  # (2 * features,) uint16
    leaves: AnyArray  # (trees,) int64
    active: AnyArray  # (trees,) int64


@kernel
def find_leaves(forest: ForestTable, scratch: Scratch) -> None:
    """Write the leaf that each tree sends the binned row to.

    All trees take one step down before any takes its next, so that their cache misses overlap.
    """
    codes, leaves, active = scratch
    n_active = forest.roots.size
    for t in range(n_active):
        leaves[t] = forest.roots[t]
        active[t] = t
    while n_active > 0:
        kept = 0
        for i in range(n_active):
            t = active[i]
            node = forest.nodes[leaves[t]]
            if node < 0:
                leaves[t] = node
            else:
                beyond = codes[(node >> 48) & LOW16] > ((node >> 32) & LOW16)
                leaves[t] = (node & LOW32) + (1 if beyond else 0)
                active[kept] = t
                kept += 1
        n_active = kept


@kernel
def leaf_ranks(entries: AnyArray, leaf: int, rank: int) -> int:
    """How many of the leaf's entries are below this rank."""
    base = leaf & LOW32
    start = base
    size = (leaf >> 32) & LOW31
    while size > 1:
        half = size >> 1
        base += half if entries[base + half - 1] < rank else 0
        size -= half
    return base - start + (1 if entries[base] < rank else 0)


@kernel
def _mass_below(forest: ForestTable, leaves: AnyArray, rank: int) -> float:
    """The forest's mass on outcomes below this rank: the mean over trees of the leaf's share."""
    total = 0.0
    for t in range(leaves.size):
        total += _share(forest, leaves[t], leaf_ranks(forest.entries, leaves[t], rank))
    return total / leaves.size


@kernel
def _share(forest: ForestTable, leaf: int, n_below: int) -> float:
    """The share of the leaf's mass on its first entries."""
    if forest.shares.size == 0:
        return n_below / ((leaf >> 32) & LOW31)
    return forest.shares[(leaf & LOW32) + n_below - 1] if n_below > 0 else 0.0


@kernel
def limits_of_row(
    forest: ForestTable, leaves: AnyArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write both limits of the CDF at each y, given the row's leaves."""
    left, right = out
    values = forest.support[0]
    for k in range(y.size):
        j = np.searchsorted(values, y[k])
        below, upto = 0.0, 0.0
        for t in range(leaves.size):
            leaf = leaves[t]
            below += _share(forest, leaf, leaf_ranks(forest.entries, leaf, j))
            upto += _share(forest, leaf, leaf_ranks(forest.entries, leaf, j + 1))
        left[k], right[k] = cdf_in_cell(
            y[k], j, below / leaves.size, upto / leaves.size, forest.support
        )


@kernel
def _new_scratch(forest: ForestTable) -> Scratch:
    n_features, n_trees = forest.bins.categorical.size, forest.roots.size
    return Scratch(
        np.empty(2 * n_features, dtype=np.uint16),
        np.empty(n_trees, dtype=np.int64),
        np.empty(n_trees, dtype=np.int64),
    )


@kernel
def limits_of_raw_row(
    forest: ForestTable,
    scratch: Scratch,
    query: tuple[FloatArray, FloatArray],
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write both limits of the CDF of one row of features at each of its values."""
    row, y = query
    bin_row(row, forest.bins, scratch.codes)
    find_leaves(forest, scratch)
    limits_of_row(forest, scratch.leaves, y, out)


@kernel
def limits_of_rows(
    forest: ForestTable, X: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write both limits of the CDF at each row's values."""
    scratch = _new_scratch(forest)
    for i in range(X.shape[0]):
        limits_of_raw_row(forest, scratch, (X[i], y[i]), (out[0][i], out[1][i]))


@kernel
def quantiles_of_rows(
    forest: ForestTable, X: FloatArray, q: tuple[FloatArray, bool], found: FloatArray
) -> None:
    """Write ``inf{y : F(y) >= q}`` (``> q`` if strictly) of each row and level."""
    levels, strictly = q
    scratch = _new_scratch(forest)
    for i in range(X.shape[0]):
        bin_row(X[i], forest.bins, scratch.codes)
        find_leaves(forest, scratch)
        for k in range(levels.size):
            found[i, k] = _quantile_of_row(forest, scratch.leaves, levels[k], strictly)


@kernel
def _quantile_of_row(forest: ForestTable, leaves: AnyArray, q: float, strictly: bool) -> float:
    if q < 0.0 or (q == 0.0 and not strictly):
        return -np.inf
    if q > 1.0 or (q == 1.0 and strictly):
        return np.inf
    values = forest.support[0]
    low, high = 0, values.size
    below, upto = 0.0, 1.0
    while low < high:
        j = (low + high) >> 1
        mass = _mass_below(forest, leaves, j + 1)
        # At a support value the right limit needs no mass below it.
        if reaches(cdf_in_cell(values[j], j, mass, mass, forest.support)[1], q, strictly):
            high = j
            upto = mass
        else:
            low = j + 1
            below = mass
    return quantile_in_cell(q, strictly, low, below, upto, forest.support)


@kernel
def leaves_of_rows(forest: ForestTable, X: FloatArray, leaves: AnyArray) -> None:
    """Write the leaf of each row and tree."""
    scratch = _new_scratch(forest)
    for i in range(X.shape[0]):
        bin_row(X[i], forest.bins, scratch.codes)
        find_leaves(forest, scratch)
        leaves[i] = scratch.leaves


@kernel
def means_of_rows(forest: ForestTable, X: FloatArray, means: FloatArray) -> None:
    """Write the mean outcome of each row: over trees, of the leaf's weighted mean."""
    scratch = _new_scratch(forest)
    values = forest.support[0]
    for i in range(X.shape[0]):
        bin_row(X[i], forest.bins, scratch.codes)
        find_leaves(forest, scratch)
        total = 0.0
        for t in range(scratch.leaves.size):
            leaf = scratch.leaves[t]
            start, size = leaf & LOW32, (leaf >> 32) & LOW31
            of_leaf, before = 0.0, 0.0
            for e in range(start, start + size):
                if forest.shares.size == 0:
                    of_leaf += values[forest.entries[e]]
                else:
                    of_leaf += (forest.shares[e] - before) * values[forest.entries[e]]
                    before = forest.shares[e]
            total += of_leaf if forest.shares.size > 0 else of_leaf / size
        means[i] = total / scratch.leaves.size
