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

__all__ = ["BoostedGuide", "BoostingRules", "boost", "boosted_value"]

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
    codes, n_bins = table
    n_rows, n_inner = y.size, (1 << rules.depth) - 1
    nodes = np.empty(rules.n_trees * n_inner, dtype=np.int64)
    values = np.empty(rules.n_trees * (n_inner + 1))
    mean, whole = 0.0, 0.0
    for i in range(n_rows):
        mean += weight[i] * y[i]
        whole += weight[i]
    mean /= whole
    pull = weight * (y - mean)  # what is left over of each outcome, weighted
    place = np.empty(n_rows, dtype=np.int64)
    sums = np.zeros((1 << max(0, rules.depth - 1), n_bins.max() + 1, 2))
    leaves = np.empty((n_inner + 1, 2))
    gains = np.empty(sums.shape[0])
    for t in range(rules.n_trees):
        place[:] = 0
        own = nodes[t * n_inner : (t + 1) * n_inner]
        for level in range(rules.depth):
            first, count = (1 << level) - 1, 1 << level
            found = (own[first:], gains, rules)
            _split_level(table, (pull, weight, place), sums[:count], found)
            for i in range(n_rows):
                node = own[first + place[i]]
                place[i] = 2 * place[i] + (1 if _goes_right(node, codes, i, n_bins) else 0)
        leaves[:] = 0.0
        for i in range(n_rows):
            leaves[place[i], 0] += pull[i]
            leaves[place[i], 1] += weight[i]
        steps = values[t * (n_inner + 1) : (t + 1) * (n_inner + 1)]
        for k in range(n_inner + 1):
            steps[k] = rules.rate * leaves[k, 0] / (leaves[k, 1] + rules.penalty)
        for i in range(n_rows):
            pull[i] -= weight[i] * steps[place[i]]
    return nodes, values


@inner_kernel
def _goes_right(node: int, codes: IntArray, i: int, n_bins: IntArray) -> bool:
    """Whether the split sends row i to its second child."""
    slot = (node >> 48) & LOW16
    missing_left = slot >= n_bins.size
    feature = slot - n_bins.size if missing_left else slot
    code = codes[feature, i]
    if missing_left and code == n_bins[feature]:
        return False
    return bool(code > ((node >> 32) & LOW16))


@inner_kernel
def _split_level(
    table: tuple[IntArray, IntArray],
    rows: tuple[FloatArray, FloatArray, IntArray],
    sums: FloatArray,
    out: tuple[IntArray, FloatArray, BoostingRules],
) -> None:
    """Write the best split of each node of one level."""
    codes, n_bins = table
    pull, weight, place = rows
    nodes, gains, rules = out
    n_features, count = n_bins.size, sums.shape[0]
    for k in range(count):
        gains[k] = 1e-12
        # No split: whatever the feature, known or missing, it goes left.
        nodes[k] = pack_split(n_features, _HIGHEST, 0)
    for f in range(n_features):
        sums[:, : n_bins[f] + 1] = 0.0
        of_feature = codes[f]
        for i in range(pull.size):
            sums[place[i], of_feature[i], 0] += pull[i]
            sums[place[i], of_feature[i], 1] += weight[i]
        for k in range(count):
            gain, code, side = _best_code(sums[k], n_bins[f], rules)
            if gain > gains[k]:
                gains[k] = gain
                nodes[k] = pack_split(f + (n_features if side else 0), code, 0)


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
