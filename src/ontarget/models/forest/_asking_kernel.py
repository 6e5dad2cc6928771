"""Asks a forest about one row: the row goes down all trees at once, for all its values.

`_batch_kernel` asks about many rows with the same descent, the same leaves and the same order of
sums, so that the answers of both agree to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, room_kernel
from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.models.forest._binning_kernel import MISSING, BinTable, bin_row, write_code
from ontarget.models.kernels import cdf_in_cell, quantile_in_cell, reaches

LOW16 = 0xFFFF
LOW31 = 0x7FFF_FFFF
LOW32 = 0xFFFF_FFFF
MAX_SLOTS = 1 << 15
_LEAF = np.int64(-(1 << 63))


@inner_kernel
def pack_split(slot: int, code: int, child: int) -> int:
    """The node, as one number, that sends rows to the node ``child`` or to the node after it.

    A row goes to ``child`` if its bin code at ``slot`` (a feature) is at most ``code``.
    """
    return int((np.int64(slot) << 48) | (np.int64(code) << 32) | np.int64(child))


@inner_kernel
def pack_leaf(start: int, size: int) -> int:
    """The leaf, as one number, with ``size`` training rows, listed from index ``start`` on."""
    return int(_LEAF | (np.int64(size) << 32) | np.int64(start))


# Entries that are compared together.
SPAN = 32
# Leaves with more entries than these are halved.
LONG = 256


@inner_kernel
def counts_in_leaf(
    entries: IntArray, start: np.uint64, size: np.uint64, rows: tuple[np.uint64, np.uint64]
) -> tuple[np.uint64, np.uint64]:
    """How many entries of a leaf are below ``rows[0]``, and how many are at most ``rows[1]``.

    The entries of a leaf are numbers of training rows: ``entries[start : start + size]``,
    ascending. Both rows are at most the largest number that an entry can hold.
    """
    if size > np.uint64(LONG):
        first = last = _place_of(entries, start, start + size, rows[0])
        if first < start + size and entries[first] <= rows[1]:
            last = _place_of(entries, first, start + size, rows[1] + np.uint64(1))
        return first - start, last - start
    # Sums of 32 bits, of which twice as many fit into one instruction.
    low, high = np.uint32(rows[0]), np.uint32(rows[1])
    at, end, span = start, start + size, np.uint64(SPAN)
    while at + span <= end and entries[at + span - np.uint64(1)] < low:
        at += span
    below = upto = np.uint32(at - start)
    while True:
        stop = min(at + span, end)
        for e in range(at, stop):
            entry = np.uint32(entries[e])
            below = np.uint32(below + np.uint32(entry < low))
            upto = np.uint32(upto + np.uint32(entry <= high))
        if stop == end or entries[stop] > high:
            return np.uint64(below), np.uint64(upto)
        at = stop


@inner_kernel
def _place_of(entries: IntArray, start: np.uint64, end: np.uint64, row: np.uint64) -> np.uint64:
    """The first index from start whose entry is at least ``row``; ``end`` if there is none."""
    one, none = np.uint64(1), np.uint64(0)
    base, size = start, end - start
    while size > one:
        half = size >> one
        base += half if entries[base + half - one] < row else none
        size -= half
    return base + (one if size > none and entries[base] < row else none)


# A quantile among so few outcomes, or out of leaves this long on average, is sought by halving.
_FEW_VALUES = 64
_LONG_LEAF = 256


class ForestTable(NamedTuple):
    """A fitted forest, as kernels take it; all arrays are read-only.

    ``nodes`` are in the format of `_node_kernel`. ``support`` is `Support.as_tuple`.
    """

    bins: BinTable
    nodes: IntArray
    roots: IntArray
    entries: IntArray  # training rows in the order of their outcomes, ascending in each leaf
    row_start: IntArray  # (outcomes + 1,) uint32: first row of each outcome, then their number
    shares: FloatArray  # cumulative within each leaf; empty where entries weigh the same
    support: tuple[FloatArray, BoolArray, FloatArray]
    recodes: IntArray  # (trees * categories,) uint16: each tree's own codes; empty if it has none


class Scratch(NamedTuple):
    """Work arrays for several descents (ways from a tree's root to a leaf) at once."""

    codes: IntArray  # (rows * 2 * features,) uint16; where trees have own codes, one row per tree
    shared: IntArray  # (rows * features,) uint16: codes before a tree's own; empty if it has none
    leaves: IntArray  # (descents,) uint32: where each one ended
    at: IntArray  # (descents,) uint32
    which: IntArray  # (descents,) uint32


@room_kernel
def new_scratch(forest: ForestTable) -> Scratch:
    """Work arrays to ask this forest about one row at a time."""
    n_features, n_trees = forest.bins.categorical.size, forest.roots.size
    own = forest.recodes.size > 0
    return Scratch(
        np.empty(2 * n_features * (n_trees if own else 1), dtype=np.uint16),
        np.empty(n_features if own else 0, dtype=np.uint16),
        np.empty(n_trees, dtype=np.uint32),
        np.empty(n_trees, dtype=np.uint32),
        np.empty(n_trees, dtype=np.uint32),
    )


@inner_kernel
def find_leaves(nodes: IntArray, scratch: Scratch, n_descents: int, stride: int) -> None:
    """Write the leaf where each descent (way down a tree) ends; it starts at node ``at[i]``.

    All descents take one step down before any takes its next, so that they wait for memory
    together. Descent i reads the codes of its row's features from position ``i * stride`` on.
    """
    codes, leaves, at, which = scratch.codes, scratch.leaves, scratch.at, scratch.which
    apart = np.uint64(stride)
    for i in range(n_descents):
        which[i] = i
    n_active = np.uint64(n_descents)
    while n_active > 0:
        kept = np.uint64(0)
        for i in range(n_active):
            node = nodes[at[i]]
            inner = ~(node >> 63)  # no bit set in a leaf, every bit in a split
            me = which[i]
            code = codes[np.uint64(me) * apart + np.uint64((node >> 48) & inner & LOW16)]
            beyond = code > ((node >> 32) & LOW16)
            # All is written and the next round overwrites what a leaf had no use for: a branch
            # would be guessed wrong once per descent.
            leaves[me] = at[i]
            which[kept] = me
            at[kept] = (node & LOW32) + (1 if beyond else 0)
            kept += np.uint64(inner & 1)
        n_active = kept


@inner_kernel
def row_to_leaves(forest: ForestTable, row: FloatArray, scratch: Scratch) -> None:
    """Write the leaf that the row reaches in each tree."""
    codes, n_codes, stride = scratch.codes, 2 * row.size, 0
    bin_row(row, forest.bins, codes)
    for t in range(forest.roots.size):
        scratch.at[t] = forest.roots[t]
    if forest.recodes.size > 0:
        stride = n_codes
        for f in range(row.size):
            scratch.shared[f] = codes[f]
        for t in range(forest.roots.size):
            for k in range(n_codes):
                codes[t * n_codes + k] = codes[k]
        recode_categories(forest, scratch, forest.roots.size, (0, 1, 0))
    find_leaves(forest.nodes, scratch, forest.roots.size, stride)


@inner_kernel
def recode_categories(
    forest: ForestTable, scratch: Scratch, n_descents: int, asks: tuple[int, int, int]
) -> None:
    """Write the codes that the trees have given to the categories of each descent's row.

    ``asks`` is the tree of the first descent, and by how many trees and rows the next is further.
    """
    bins, n_features = forest.bins, forest.bins.categorical.size
    first, next_tree, next_row = asks
    n_own = forest.recodes.size // forest.roots.size
    n_before = first * n_own
    for f in range(n_features):
        if bins.categorical[f]:
            for i in range(n_descents):
                code = int(scratch.shared[i * next_row * n_features + f])
                at = n_before + i * next_tree * n_own + code
                own = MISSING if code == MISSING else int(forest.recodes[at])
                write_code(scratch.codes, 2 * n_features * i + f, n_features, own)
            n_before += bins.start[f + 1] - bins.start[f]


@inner_kernel
def rows_of_rank(forest: ForestTable, rank: int) -> tuple[np.uint64, np.uint64]:
    """The first and the last training row with the outcome number ``rank``."""
    start, at, one = forest.row_start, np.uint64(rank), np.uint64(1)
    return np.uint64(start[at]), np.uint64(start[at + one]) - one


@inner_kernel
def shares_of_leaf(
    forest: ForestTable, leaf: int, rows: tuple[np.uint64, np.uint64]
) -> tuple[float, float]:
    """The share of a leaf's entries before ``rows[0]``, and the share up to ``rows[1]``.

    Entries are numbers of training rows in the order of their outcomes.
    """
    node = forest.nodes[leaf]
    start, size = np.uint64(node & LOW32), np.uint64((node >> 32) & LOW31)
    below, upto = counts_in_leaf(forest.entries, start, size, rows)
    if forest.shares.size == 0:
        of = np.float64(np.int64(size))
        return np.float64(np.int64(below)) / of, np.float64(np.int64(upto)) / of
    none, one = np.uint64(0), np.uint64(1)
    return (
        forest.shares[start + below - one] if below > none else 0.0,
        forest.shares[start + upto - one] if upto > none else 0.0,
    )


@inner_kernel
def masses_of_sums(
    forest: ForestTable, rank: int, sums: tuple[float, float], n_trees: int
) -> tuple[float, float]:
    """The forest's probability of outcomes below outcome number ``rank``, and up to it.

    ``sums`` are the two sums of leaf shares over ``n_trees`` trees. If all outcomes are atoms
    (values with positive probability), a millionth of the probability follows the distribution of
    all training rows (method M2 in docs/methods.md).
    """
    below, upto = sums[0] / n_trees, sums[1] / n_trees
    tail, start = forest.support[2], forest.row_start
    mix, last = tail[3], start.size - 1
    if tail[2] > 0.0 or mix == 0.0 or rank == last:
        return below, upto
    n_rows, keep = np.float64(start[last]), 1.0 - mix
    before, with_it = np.float64(start[rank]) / n_rows, np.float64(start[rank + 1]) / n_rows
    return keep * below + mix * before, keep * upto + mix * with_it


@inner_kernel
def _masses(forest: ForestTable, leaves: IntArray, rank: int) -> tuple[float, float]:
    """The forest's probability of outcomes below outcome number ``rank``, and up to it."""
    if rank == forest.support[0].size:
        return 1.0, 1.0
    below, upto = 0.0, 0.0
    rows = rows_of_rank(forest, rank)
    for t in range(leaves.size):
        less, no_more = shares_of_leaf(forest, leaves[t], rows)
        below += less
        upto += no_more
    return masses_of_sums(forest, rank, (below, upto), leaves.size)


@inner_kernel
def limits_of_row(
    forest: ForestTable,
    scratch: Scratch,
    query: tuple[FloatArray, FloatArray],
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write P(Y < y) and P(Y <= y) of one row of features at each of its values y."""
    row, y = query
    left, right = out
    row_to_leaves(forest, row, scratch)
    for k in range(y.size):
        rank = np.searchsorted(forest.support[0], y[k])
        below, upto = _masses(forest, scratch.leaves, rank)
        left[k], right[k] = cdf_in_cell(y[k], rank, below, upto, forest.support)


@inner_kernel
def fill_buckets(forest: ForestTable, leaves: IntArray, buckets: FloatArray) -> int:
    """Write the predicted probability in buckets of neighbouring training rows; return a shift.

    ``row >> shift`` is the bucket of a training row. The sums are added in another order than in
    `_masses`, so they only serve as a first guess of a quantile. The shift is -1 if a guess would
    not save time, because outcomes are few or leaves are long.
    """
    n_entries = 0
    for t in range(leaves.size):
        n_entries += (forest.nodes[leaves[t]] >> 32) & LOW31
    if forest.support[0].size <= _FEW_VALUES or n_entries > _LONG_LEAF * leaves.size:
        return -1
    shift = 0
    n_rows = np.int64(forest.row_start[forest.row_start.size - 1])
    while (n_rows - 1) >> shift >= buckets.size:
        shift += 1
    for b in range(buckets.size):
        buckets[b] = 0.0
    for t in range(leaves.size):
        node = forest.nodes[leaves[t]]
        start, size = np.uint64(node & LOW32), np.uint64((node >> 32) & LOW31)
        share, before = 1.0 / (np.float64(np.int64(size)) * leaves.size), 0.0
        for e in range(start, start + size):
            if forest.shares.size > 0:
                share = (forest.shares[e] - before) / leaves.size
                before = forest.shares[e]
            buckets[forest.entries[e] >> shift] += share
    return shift


@inner_kernel
def quantile_of_row(
    forest: ForestTable,
    leaves: IntArray,
    level: tuple[float, bool],
    mass_of: tuple[FloatArray, int],
) -> float:
    """The quantile of a row: ``inf{y : F(y) >= q}`` (``> q`` if strictly), where F is the CDF.

    ``level`` is q and strictly, ``leaves`` the row's leaves, and ``mass_of`` what `fill_buckets`
    wrote and returned.
    """
    q, strictly = level
    if q < 0.0 or (q == 0.0 and not strictly):
        return -np.inf
    if q > 1.0 or (q == 1.0 and strictly):
        return np.inf
    buckets, shift = mass_of
    before, end = -1, -1  # the last rank before the bucket and the first that goes to its end
    if shift >= 0:
        bucket, mass = 0, buckets[0]
        while bucket < buckets.size - 1 and mass < q:
            bucket += 1
            mass += buckets[bucket]
        before = int(np.searchsorted(forest.row_start, bucket << shift, side="right")) - 2
        end = int(np.searchsorted(forest.row_start, (bucket + 1) << shift)) - 1
    values = forest.support[0]
    low, high = 0, values.size
    below, upto = 0.0, 1.0
    j = before if before >= 0 else end
    while low < high:
        if not low <= j < high:
            j = (low + high) >> 1
        mass = _masses(forest, leaves, j)[1]
        # At a support value the right limit needs no mass below it.
        if reaches(cdf_in_cell(values[j], j, mass, mass, forest.support)[1], q, strictly):
            high = j
            upto = mass
        else:
            low = j + 1
            below = mass
        j = end if j == before else -1
    return quantile_in_cell(q, strictly, low, below, upto, forest.support)


@inner_kernel
def mean_of_leaf(forest: ForestTable, outcomes: FloatArray, leaf: int) -> float:
    """The weighted mean outcome of a leaf, from the outcomes of all training rows."""
    entries, shares = forest.entries, forest.shares
    node = forest.nodes[leaf]
    start, size = np.uint64(node & LOW32), np.uint64((node >> 32) & LOW31)
    total, before = 0.0, 0.0
    if shares.size == 0:
        for e in range(start, start + size):
            total += outcomes[entries[e]]
        return total / np.float64(np.int64(size))
    for e in range(start, start + size):
        total += (shares[e] - before) * outcomes[entries[e]]
        before = shares[e]
    return total
