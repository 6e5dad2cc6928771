"""Asking a forest: one descent per row for all its targets, all trees in lock-step.

The `*_of_row` kernels answer for one row whose leaves are known; the batch kernels and the live
path call the same ones, so their answers agree to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget.kernel import inner_kernel, kernel
from ontarget.models.binning_kernel import BinTable, bin_row
from ontarget.models.node_kernel import LOW16, LOW31, LOW32
from ontarget.models.support_kernel import cdf_in_cell, quantile_in_cell, reaches
from ontarget.typing import BoolArray, FloatArray, IntArray

__all__ = [
    "ForestTable",
    "Scratch",
    "find_leaves",
    "leaves_of_rows",
    "limits_of_raw_row",
    "limits_of_row",
    "limits_of_rows",
    "means_of_rows",
    "new_scratch",
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

    codes: IntArray  # (2 * features,) uint16
    leaves: IntArray  # (trees,) int64
    at: IntArray  # (trees,) uint32
    tree: IntArray  # (trees,) uint32


@inner_kernel
def find_leaves(forest: ForestTable, scratch: Scratch) -> None:
    """Write the leaf that each tree sends the binned row to.

    All trees take one step down before any takes its next, so that their cache misses overlap.
    """
    codes, leaves, at, tree = scratch
    nodes = forest.nodes
    for t in range(leaves.size):
        at[t] = forest.roots[t]
        tree[t] = t
    n_active = np.uint64(leaves.size)
    while n_active > 0:
        kept = np.uint64(0)
        for i in range(n_active):
            node = nodes[at[i]]
            inner = ~(node >> 63)  # no bit set in a leaf, every bit in a split
            beyond = codes[(node >> 48) & inner & LOW16] > ((node >> 32) & LOW16)
            # All is written and the next round overwrites what a leaf had no use for: a branch
            # would be guessed wrong once per tree.
            leaves[tree[i]] = node
            tree[kept] = tree[i]
            at[kept] = (node & LOW32) + (1 if beyond else 0)
            kept += np.uint64(inner & 1)
        n_active = kept


@inner_kernel
def _place_of(entries: IntArray, span: tuple[np.uint64, np.uint64], rank: int) -> np.uint64:
    """The first place of the span, from start to end, whose entry is not below this rank."""
    base, end = span
    size = end - base
    one, none = np.uint64(1), np.uint64(0)
    if size == none:
        return base
    while size > one:
        half = size >> one
        base += half if entries[base + half - one] < rank else none
        size -= half
    return base + (one if entries[base] < rank else none)


@inner_kernel
def _masses(forest: ForestTable, leaves: IntArray, rank: int) -> tuple[float, float]:
    """The forest's mass below the outcome of this rank, and up to it.

    Either is the mean over trees of the leaf's share, summed in the order of the trees.
    """
    entries, shares = forest.entries, forest.shares
    weighted = shares.size > 0
    one = np.uint64(1)
    below, upto = 0.0, 0.0
    for t in range(np.uint64(leaves.size)):
        leaf = leaves[t]
        start, size = np.uint64(leaf & LOW32), np.uint64((leaf >> 32) & LOW31)
        first = last = _place_of(entries, (start, start + size), rank)
        if first < start + size and entries[first] == rank:
            last = _place_of(entries, (first, start + size), rank + 1)
        if weighted:
            below += shares[first - one] if first > start else 0.0
            upto += shares[last - one] if last > start else 0.0
        else:
            below += np.float64(first - start) / np.float64(size)
            upto += np.float64(last - start) / np.float64(size)
    return below / leaves.size, upto / leaves.size


@inner_kernel
def limits_of_row(
    forest: ForestTable, leaves: IntArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write both limits of the CDF at each y, given the row's leaves."""
    left, right = out
    for k in range(y.size):
        j = np.searchsorted(forest.support[0], y[k])
        below, upto = _masses(forest, leaves, j)
        left[k], right[k] = cdf_in_cell(y[k], j, below, upto, forest.support)


@kernel
def new_scratch(forest: ForestTable) -> Scratch:
    """Room for one row at a time of this forest."""
    n_features, n_trees = forest.bins.categorical.size, forest.roots.size
    return Scratch(
        np.empty(2 * n_features, dtype=np.uint16),
        np.empty(n_trees, dtype=np.int64),
        np.empty(n_trees, dtype=np.uint32),
        np.empty(n_trees, dtype=np.uint32),
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
    scratch = new_scratch(forest)
    for i in range(X.shape[0]):
        limits_of_raw_row(forest, scratch, (X[i], y[i]), (out[0][i], out[1][i]))


@kernel
def quantiles_of_rows(
    forest: ForestTable, X: FloatArray, q: tuple[FloatArray, bool], found: FloatArray
) -> None:
    """Write ``inf{y : F(y) >= q}`` (``> q`` if strictly) of each row and level."""
    levels, strictly = q
    scratch = new_scratch(forest)
    for i in range(X.shape[0]):
        bin_row(X[i], forest.bins, scratch.codes)
        find_leaves(forest, scratch)
        for k in range(levels.size):
            found[i, k] = _quantile_of_row(forest, scratch.leaves, levels[k], strictly)


@inner_kernel
def _quantile_of_row(forest: ForestTable, leaves: IntArray, q: float, strictly: bool) -> float:
    if q < 0.0 or (q == 0.0 and not strictly):
        return -np.inf
    if q > 1.0 or (q == 1.0 and strictly):
        return np.inf
    values = forest.support[0]
    low, high = 0, values.size
    below, upto = 0.0, 1.0
    while low < high:
        j = (low + high) >> 1
        mass = _masses(forest, leaves, j)[1]
        # At a support value the right limit needs no mass below it.
        if reaches(cdf_in_cell(values[j], j, mass, mass, forest.support)[1], q, strictly):
            high = j
            upto = mass
        else:
            low = j + 1
            below = mass
    return quantile_in_cell(q, strictly, low, below, upto, forest.support)


@kernel
def leaves_of_rows(forest: ForestTable, X: FloatArray, leaves: IntArray) -> None:
    """Write the leaf of each row and tree."""
    scratch = new_scratch(forest)
    for i in range(X.shape[0]):
        bin_row(X[i], forest.bins, scratch.codes)
        find_leaves(forest, scratch)
        leaves[i] = scratch.leaves


@kernel
def means_of_rows(forest: ForestTable, X: FloatArray, means: FloatArray) -> None:
    """Write the mean outcome of each row: over trees, of the leaf's weighted mean."""
    scratch = new_scratch(forest)
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
