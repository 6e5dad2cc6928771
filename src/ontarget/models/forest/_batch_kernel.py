"""Asks a forest about many rows, tree by tree."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.models.forest._asking_kernel import (
    LOW31,
    LOW32,
    ForestTable,
    Scratch,
    fill_buckets,
    find_leaves,
    limits_of_row,
    masses_of_sums,
    mean_of_leaf,
    new_scratch,
    quantile_of_row,
    recode_categories,
    row_to_leaves,
    rows_of_rank,
    shares_of_leaf,
)
from ontarget.models.forest._binning_kernel import bin_values, write_code
from ontarget.models.kernels import cdf_in_cell

# So few rows are asked about one by one: down a single tree their cache misses would not overlap.
_FEW = 16
# Ranks fall into so many buckets when a quantile is sought.
_BUCKETS = 512
# So many leaves' shares are kept, for rows that ask about the same values.
_KEPT_LEAVES = 256


@kernel
def limits_of_rows(
    forest: ForestTable, X: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row at each of its values y.

    ``y`` is (rows, values), and ``out`` holds two arrays of the same shape.
    """
    n_rows, n_values = y.shape
    if n_rows < _FEW:
        scratch = new_scratch(forest)
        for i in range(n_rows):
            limits_of_row(forest, scratch, (X[i], y[i]), (out[0][i], out[1][i]))
        return
    scratch = _new_block(forest, n_rows)
    ranks = np.empty((n_values, n_rows), dtype=np.uint32)
    below, upto = np.zeros((n_values, n_rows)), np.zeros((n_values, n_rows))
    _limits_of_block((forest, scratch, ranks), (X, y), (below, upto), out)


@room_kernel
def _new_block(forest: ForestTable, n_rows: int) -> Scratch:
    n_features = forest.bins.categorical.size
    return Scratch(
        np.empty(n_rows * 2 * n_features, dtype=np.uint16),
        np.empty(n_rows * n_features if forest.recodes.size > 0 else 0, dtype=np.uint16),
        np.empty(n_rows, dtype=np.uint32),
        np.empty(n_rows, dtype=np.uint32),
        np.empty(n_rows, dtype=np.uint32),
    )


@inner_kernel
def _limits_of_block(
    asked: tuple[ForestTable, Scratch, IntArray],
    query: tuple[FloatArray, FloatArray],
    sums: tuple[FloatArray, FloatArray],
    out: tuple[FloatArray, FloatArray],
) -> None:
    forest, scratch, ranks = asked
    X, y = query
    below, upto = sums
    n_rows, n_values = y.shape
    _bin_block(forest, scratch, X)
    _rank_block(forest, y, ranks)
    n_trees = forest.roots.size
    for t in range(n_trees):
        _block_to_leaves(forest, scratch, t, n_rows)
        for k in range(n_values):
            _add_shares(forest, scratch.leaves, ranks[k], (below[k], upto[k]))
    for i in range(n_rows):
        for k in range(n_values):
            rank = int(ranks[k, i])
            a, b = masses_of_sums(forest, rank, (below[k, i], upto[k, i]), n_trees)
            out[0][i, k], out[1][i, k] = cdf_in_cell(y[i, k], rank, a, b, forest.support)


@inner_kernel
def _add_shares(
    forest: ForestTable, leaves: IntArray, ranks: IntArray, sums: tuple[FloatArray, FloatArray]
) -> None:
    """Add, for each row, the share of its leaf's outcomes below a value, and at most the value."""
    below, upto = sums
    for i in range(leaves.size):
        less, no_more = _shares(forest, leaves[i], ranks[i])
        below[i] += less
        upto[i] += no_more


@inner_kernel
def _shares(forest: ForestTable, leaf: int, rank: int) -> tuple[float, float]:
    """The share of a leaf's outcomes below the outcome number ``rank``, and the share up to it."""
    n_values = forest.support[0].size
    # Entries of two bytes cannot be compared with the row after the last one.
    less, no_more = shares_of_leaf(forest, leaf, rows_of_rank(forest, min(rank, n_values - 1)))
    return less if rank < n_values else 1.0, no_more if rank < n_values else 1.0


@inner_kernel
def _bin_block(forest: ForestTable, scratch: Scratch, X: FloatArray) -> None:
    """Write the bin codes of all rows, as `bin_row` does, one feature after another."""
    n_rows, n_features = X.shape
    for f in range(n_features):
        bin_values(X[:, f], f, forest.bins, scratch.at)
        for i in range(n_rows):
            write_code(scratch.codes, 2 * n_features * i + f, n_features, scratch.at[i])
            if forest.recodes.size > 0:
                scratch.shared[n_features * i + f] = scratch.at[i]


@inner_kernel
def _block_to_leaves(forest: ForestTable, scratch: Scratch, tree: int, n_rows: int) -> None:
    """Write the leaf that each of several rows reaches in one tree."""
    for i in range(n_rows):
        scratch.at[i] = forest.roots[tree]
    _descend(forest, scratch, tree, n_rows)


@inner_kernel
def _descend(forest: ForestTable, scratch: Scratch, tree: int, n_rows: int) -> None:
    """Write the leaf where each row ends that goes down one tree from the node ``at[i]``."""
    if forest.recodes.size > 0:
        recode_categories(forest, scratch, n_rows, (tree, 0, 1))
    find_leaves(forest.nodes, scratch, n_rows, 2 * forest.bins.categorical.size)


@kernel
def out_of_bag_limits_of_rows(
    forest: ForestTable,
    query: tuple[FloatArray, FloatArray, IntArray],
    held: BoolArray,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row, from trees that never saw the row's episode.

    ``query`` is X, y and the episode of each row. ``held[t, e]`` is True if tree t drew episode e.
    A row whose episode every tree drew gets NaN. If rows ask about the same values, this is fastest
    if they are neighbours.
    """
    n_rows, n_values = query[1].shape
    scratch = _new_block(forest, n_rows)
    ranks = np.empty((n_rows, n_values), dtype=np.uint32)
    sums = np.zeros((n_rows, n_values)), np.zeros((n_rows, n_values))
    n_trees = np.zeros(n_rows, dtype=np.int64)
    memory = _new_memory(n_rows, n_values)
    _out_of_bag_limits((forest, scratch, ranks, n_trees), query, (held, sums, memory), out)


class _Memory(NamedTuple):
    """Shares of leaves at values that several rows ask about; each is computed only once."""

    leader: IntArray  # (rows,): the first of the neighbours that ask about the same first values
    common: IntArray  # (rows,): for a leader, how many first values all its rows have in common
    leaves: IntArray  # (kept,): the leaves whose shares are kept; -1 for none
    leaders: IntArray  # (kept,): the leader whose values they are kept for
    below: FloatArray  # (kept, values)
    upto: FloatArray


@room_kernel
def _new_memory(n_rows: int, n_values: int) -> _Memory:
    kept = _KEPT_LEAVES if n_values > 1 else 1
    return _Memory(
        np.zeros(n_rows, dtype=np.int64),
        np.zeros(n_rows, dtype=np.int64),
        np.full(kept, -1, dtype=np.int64),
        np.zeros(kept, dtype=np.int64),
        np.empty((kept, n_values)),
        np.empty((kept, n_values)),
    )


@inner_kernel
def _find_leaders(ranks: IntArray, memory: _Memory) -> None:
    """Note which neighbouring rows ask about the same first values, and about how many."""
    n_rows, n_values = ranks.shape
    first = 0
    for i in range(n_rows):
        same = 0
        while same < n_values and ranks[i, same] == ranks[first, same]:
            same += 1
        if 2 * same <= n_values:
            first, same = i, n_values
        memory.leader[i] = first
        memory.common[i] = same
        memory.common[first] = min(memory.common[first], same)
    for i in range(n_rows):
        lonely = i == memory.leader[i] and (i + 1 == n_rows or memory.leader[i + 1] != i)
        if lonely or n_values == 1:
            memory.common[i] = 0


@inner_kernel
def _add_shares_of_row(
    asked: tuple[ForestTable, int, IntArray],
    place: tuple[int, int],
    memory: _Memory,
    sums: tuple[FloatArray, FloatArray],
) -> None:
    """Add the shares of a leaf's outcomes below and up to each of a row's values to sums."""
    forest, leaf, ranks = asked
    leader, common = place
    below, upto = sums
    if common > 0:
        at = leaf % memory.leaves.size
        if memory.leaves[at] != leaf or memory.leaders[at] != leader:
            memory.leaves[at], memory.leaders[at] = leaf, leader
            for k in range(common):
                less, no_more = _shares(forest, leaf, ranks[k])
                memory.below[at, k], memory.upto[at, k] = less, no_more
        own = memory.below[at], memory.upto[at]
        for k in range(common):
            below[k] += own[0][k]
            upto[k] += own[1][k]
    for k in range(common, ranks.size):
        less, no_more = _shares(forest, leaf, ranks[k])
        below[k] += less
        upto[k] += no_more


@inner_kernel
def _out_of_bag_limits(
    asked: tuple[ForestTable, Scratch, IntArray, IntArray],
    query: tuple[FloatArray, FloatArray, IntArray],
    found: tuple[BoolArray, tuple[FloatArray, FloatArray], _Memory],
    out: tuple[FloatArray, FloatArray],
) -> None:
    forest, scratch, ranks, n_trees = asked
    X, y, episodes = query
    held, (below, upto), memory = found
    n_rows, n_values = y.shape
    _bin_block(forest, scratch, X)
    for i in range(n_rows):
        for k in range(n_values):
            if i > 0 and y[i, k] == y[i - 1, k]:
                ranks[i, k] = ranks[i - 1, k]
            else:
                ranks[i, k] = np.searchsorted(forest.support[0], y[i, k])
    _find_leaders(ranks, memory)
    for t in range(forest.roots.size):
        for i in range(n_rows):
            # The last node is always a leaf: a descent that nobody asks about ends there at once.
            scratch.at[i] = forest.nodes.size - 1 if held[t, episodes[i]] else forest.roots[t]
        _descend(forest, scratch, t, n_rows)
        for i in range(n_rows):
            if held[t, episodes[i]]:
                continue
            n_trees[i] += 1
            place = memory.leader[i], memory.common[memory.leader[i]]
            row = forest, int(scratch.leaves[i]), ranks[i]
            _add_shares_of_row(row, place, memory, (below[i], upto[i]))
    for i in range(n_rows):
        for k in range(n_values):
            left = right = np.nan
            if n_trees[i] > 0:
                rank = int(ranks[i, k])
                a, b = masses_of_sums(forest, rank, (below[i, k], upto[i, k]), n_trees[i])
                left, right = cdf_in_cell(y[i, k], rank, a, b, forest.support)
            out[0][i, k], out[1][i, k] = left, right


@inner_kernel
def _rank_block(forest: ForestTable, y: FloatArray, ranks: IntArray) -> None:
    """Write how many training outcomes are smaller than each value: (values, rows)."""
    for k in range(y.shape[1]):
        for i in range(y.shape[0]):
            ranks[k, i] = np.searchsorted(forest.support[0], y[i, k])


@kernel
def leaves_of_rows(forest: ForestTable, X: FloatArray, leaves: IntArray) -> None:
    """Write the index, among the nodes, of the leaf that each row reaches in each tree."""
    scratch = _new_block(forest, X.shape[0])
    _bin_block(forest, scratch, X)
    for t in range(forest.roots.size):
        _block_to_leaves(forest, scratch, t, X.shape[0])
        leaves[:, t] = scratch.leaves


@kernel
def quantiles_of_rows(
    forest: ForestTable, X: FloatArray, q: tuple[FloatArray, bool], found: FloatArray
) -> None:
    """Write the quantiles of each row: (rows, levels).

    ``q`` is the levels, and whether the CDF must exceed a level instead of reaching it.
    """
    scratch, buckets = new_scratch(forest), np.empty(_BUCKETS)
    for i in range(X.shape[0]):
        _quantiles_of_one(forest, (X[i], scratch, buckets), q, found[i])


@inner_kernel
def _quantiles_of_one(
    forest: ForestTable,
    row: tuple[FloatArray, Scratch, FloatArray],
    q: tuple[FloatArray, bool],
    found: FloatArray,
) -> None:
    x, scratch, buckets = row
    levels, strictly = q
    row_to_leaves(forest, x, scratch)
    shift = fill_buckets(forest, scratch.leaves, buckets)
    for k in range(levels.size):
        level = (levels[k], strictly)
        found[k] = quantile_of_row(forest, scratch.leaves, level, (buckets, shift))


@kernel
def means_of_leaves(forest: ForestTable, outcomes: FloatArray, means: FloatArray) -> None:
    """Write the mean outcome of each leaf, from the outcomes of all training rows."""
    for n in range(forest.nodes.size):
        if forest.nodes[n] < 0:
            means[n] = mean_of_leaf(forest, outcomes, n)


@kernel
def means_of_rows(
    forest: ForestTable, X: FloatArray, known: tuple[FloatArray, FloatArray], means: FloatArray
) -> None:
    """Write the predicted mean of each row: the mean over trees of its leaf's mean outcome.

    ``known`` is the outcomes of all training rows, and the mean outcome of each leaf; the latter is
    empty if there are few rows to answer for.
    """
    outcomes, of_nodes = known
    scratch = _new_block(forest, X.shape[0])
    _bin_block(forest, scratch, X)
    means[:] = 0.0
    for t in range(forest.roots.size):
        _block_to_leaves(forest, scratch, t, X.shape[0])
        for i in range(X.shape[0]):
            leaf = scratch.leaves[i]
            if of_nodes.size > 0:
                means[i] += of_nodes[leaf]
            else:
                means[i] += mean_of_leaf(forest, outcomes, leaf)
    means /= forest.roots.size


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
