"""Small boosted trees on binned features: growing them, and their value for a row.

Every tree is complete: all its leaves lie at the same depth, and a node that found no split sends
every row to its first child. So a tree needs no pointers: the children of its node k are
2k + 1 and 2k + 2, and a descent asks no question about leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._node_kernel import LOW16, pack_split
from ontarget.models.forest._split_kernel import Index

__all__ = ["BoostedGuide", "BoostingRules", "boost", "boosted_value"]

# Features whose sums are filled in one pass over the rows.
_AT_ONCE = 4
# The highest code of any bin: no known value lies beyond it.
_HIGHEST = 65_534


class BoostedGuide(NamedTuple):
    """Boosted trees as the kernels take them; flat, all arrays read-only.

    With T trees of depth D there are T (2^D - 1) nodes, as `pack_split` makes them, and T 2^D
    values of leaves.
    """

    bins: BinTable
    nodes: IntArray
    values: FloatArray


class BoostingRules(NamedTuple):
    """How many trees, how deep, and how far each may go."""

    n_trees: int
    depth: int
    rate: float  # the share of each leaf's step that is taken
    least_weight: float  # of the rows in a leaf, where the mean row weighs 1
    penalty: float  # the weight of a leaf's pull towards 0


@inner_kernel
def boosted_value(codes: AnyArray, guide: BoostedGuide) -> float:
    """The sum over all trees of the binned row's leaf; ``codes`` as `bin_row` writes them."""
    nodes, values = guide.nodes, guide.values
    n_trees = values.size - nodes.size
    n_inner = nodes.size // max(1, n_trees)
    total = 0.0
    for t in range(n_trees):
        first, k = t * n_inner, 0
        while k < n_inner:
            node = nodes[first + k]
            beyond = codes[(node >> 48) & LOW16] > ((node >> 32) & LOW16)
            k = 2 * k + (2 if beyond else 1)
        total += values[first + t + k - n_inner]
    return total


@kernel
def boost(
    table: tuple[IntArray, IntArray], y: FloatArray, weight: FloatArray, rules: BoostingRules
) -> tuple[IntArray, FloatArray]:
    """Nodes and leaf values of trees that each fit what those before them left over.

    The mean outcome is left out: trees tell how a row differs from it.

    ``table`` holds the codes by feature and row and the number of bins of each feature, where a
    missing value has the code after its feature's last bin.
    """
    n_bins = table[1]
    n_inner = (1 << rules.depth) - 1
    nodes = np.empty(rules.n_trees * n_inner, dtype=np.int64)
    values = np.empty(rules.n_trees * (n_inner + 1))
    pulls = np.empty((y.size, 2))
    place = np.empty(y.size, dtype=np.uint8)  # trees are at most eight deep
    widest = 1 << max(0, rules.depth - 1)
    sums = np.zeros((_AT_ONCE * widest, n_bins.max() + 1, 2))
    leaves = np.empty((n_inner + 1, 2))
    gains = np.empty(widest)
    _start(y, weight, pulls)
    for t in range(rules.n_trees):
        place[:] = 0
        own = nodes[t * n_inner : (t + 1) * n_inner]
        for level in range(rules.depth):
            first, count = (1 << level) - 1, 1 << level
            at_level = own[first : first + count]
            room = sums[: _AT_ONCE * count].reshape(_AT_ONCE, count, sums.shape[1], 2)
            _split_level(table, (pulls, place), room, (at_level, gains, rules))
            _descend(table, at_level, place)
        leaves[:] = 0.0
        steps = values[t * (n_inner + 1) : (t + 1) * (n_inner + 1)]
        _take_steps((pulls, place), leaves, steps, rules)
    return nodes, values


@inner_kernel
def _start(y: FloatArray, weight: FloatArray, pulls: FloatArray) -> None:
    """Write what is left over of each outcome without any tree, weighted, and the weight."""
    mean, whole = 0.0, 0.0
    for i in range(y.size):
        mean += weight[i] * y[i]
        whole += weight[i]
    mean /= whole
    for i in range(y.size):
        pulls[i, 0] = weight[i] * (y[i] - mean)
        pulls[i, 1] = weight[i]


@inner_kernel
def _descend(table: tuple[IntArray, IntArray], nodes: IntArray, place: IntArray) -> None:
    """Move each row from its node of one level to its child on the next."""
    codes, n_bins = table
    n_features = np.int64(n_bins.size)
    for i in range(np.uint64(place.size)):
        node = nodes[place[i]]
        slot, cut = (node >> 48) & LOW16, (node >> 32) & LOW16
        missing_left = slot >= n_features
        feature = np.uint64(slot - n_features if missing_left else slot)
        code = codes[feature, i]
        right = code > cut and not (missing_left and code == n_bins[feature])
        place[i] = 2 * place[i] + (1 if right else 0)


@inner_kernel
def _take_steps(
    rows: tuple[FloatArray, IntArray], leaves: FloatArray, steps: FloatArray, rules: BoostingRules
) -> None:
    """Write each leaf's step, and take it off what is left over."""
    pulls, place = rows
    for i in range(np.uint64(place.size)):
        at = place[i]
        pull, weight = leaves[at, 0] + pulls[i, 0], leaves[at, 1] + pulls[i, 1]
        leaves[at, 0], leaves[at, 1] = pull, weight
    for k in range(steps.size):
        steps[k] = rules.rate * leaves[k, 0] / (leaves[k, 1] + rules.penalty)
    for i in range(np.uint64(place.size)):
        pulls[i, 0] -= pulls[i, 1] * steps[place[i]]


@inner_kernel
def _split_level(
    table: tuple[IntArray, IntArray],
    rows: tuple[FloatArray, IntArray],
    sums: FloatArray,
    out: tuple[IntArray, FloatArray, BoostingRules],
) -> None:
    """Write the best split of each node of one level."""
    codes, n_bins = table
    nodes, gains, rules = out
    n_features, count = n_bins.size, nodes.size
    for k in range(count):
        gains[k] = 1e-12
        # No split: whatever the feature, known or missing, it goes left.
        nodes[k] = pack_split(n_features, _HIGHEST, 0)
    for first in range(0, n_features, _AT_ONCE):
        n_here = min(_AT_ONCE, n_features - first)
        for j in range(n_here):
            sums[j, :, : n_bins[first + j] + 1] = 0.0
        if n_here == _AT_ONCE:
            _add_four(codes[first : first + _AT_ONCE], rows, sums)
        else:
            for j in range(n_here):
                _add_one(codes[first + j], rows, sums[j])
        for j in range(n_here):
            f = first + j
            for k in range(count):
                gain, code, side = _best_code(sums[j, k], n_bins[f], rules)
                if gain > gains[k]:
                    gains[k] = gain
                    nodes[k] = pack_split(f + (n_features if side else 0), code, 0)


@inner_kernel
def _add_one(codes: IntArray, rows: tuple[FloatArray, IntArray], sums: FloatArray) -> None:
    """Add each row to its node's sums by the code of one feature."""
    pulls, place = rows
    for i in range(np.uint64(place.size)):
        _add(sums, (place[i], codes[i]), (pulls[i, 0], pulls[i, 1]))


@inner_kernel
def _add_four(codes: IntArray, rows: tuple[FloatArray, IntArray], sums: FloatArray) -> None:
    """The same for four features: sums that do not wait for each other."""
    pulls, place = rows
    a, b, c, d = codes[0], codes[1], codes[2], codes[3]
    in_a, in_b, in_c, in_d = sums[0], sums[1], sums[2], sums[3]
    for i in range(np.uint64(place.size)):
        at, row = place[i], (pulls[i, 0], pulls[i, 1])
        _add(in_a, (at, a[i]), row)
        _add(in_b, (at, b[i]), row)
        _add(in_c, (at, c[i]), row)
        _add(in_d, (at, d[i]), row)


@inner_kernel
def _add(sums: FloatArray, cell: tuple[Index, Index], row: tuple[float, float]) -> None:
    """Add a row to its cell; all loads first, so that both sums are one load and one store."""
    pull, weight = sums[cell[0], cell[1], 0] + row[0], sums[cell[0], cell[1], 1] + row[1]
    sums[cell[0], cell[1], 0], sums[cell[0], cell[1], 1] = pull, weight


@inner_kernel
def _best_code(sums: FloatArray, n_bins: int, rules: BoostingRules) -> tuple[float, int, bool]:
    """Gain, code and side of missing values (left if true) of a node's best cut of one feature."""
    total, whole = 0.0, 0.0
    for code in range(n_bins + 1):
        total += sums[code, 0]
        whole += sums[code, 1]
    lost, lost_weight = sums[n_bins, 0], sums[n_bins, 1]
    before = total * total / (whole + rules.penalty)
    best, best_code, best_side = 0.0, 0, False
    left, weight = 0.0, 0.0
    for code in range(n_bins):
        if sums[code, 1] == 0.0:
            continue
        left += sums[code, 0]
        weight += sums[code, 1]
        for missing_left in range(2 if lost_weight > 0.0 else 1):
            a = left + (lost if missing_left else 0.0)
            w = weight + (lost_weight if missing_left else 0.0)
            if w < rules.least_weight or whole - w < rules.least_weight:
                continue
            b = total - a
            gain = a * a / (w + rules.penalty) + b * b / (whole - w + rules.penalty) - before
            if gain > best:
                best, best_code, best_side = gain, code, bool(missing_left)
    return best, best_code, best_side
