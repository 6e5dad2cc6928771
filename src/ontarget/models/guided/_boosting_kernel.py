"""Small boosted trees on binned features: how they grow, and their prediction for a row.

Every tree is complete: all its leaves have the same depth, and a node without a split sends every
row to its first child. So a tree needs no pointers: the children of node k are the nodes 2k + 1 and
2k + 2, and a descent need not check whether it has reached a leaf.

The residuals of rows are stored as whole numbers of a tiny unit. Sums of whole numbers are exact in
any order. So of two child nodes only the smaller one is summed; the sums of the other are those of
the parent minus those of the smaller one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models.forest._asking_kernel import LOW16, pack_split
from ontarget.models.forest._binning_kernel import BinTable

# The highest code of any bin: no known value lies beyond it.
_HIGHEST = 65_534
# Sums of what is left over stay below so many bits, with room for rounding, and sums of weights
# below so many, the digits of a float.
_PULL_BITS, _WEIGHT_BITS = 60, 52
# The gain, in squared outcomes, up to which a split is rounding error.
_LEAST_GAIN = 1e-12


class BoostedGuide(NamedTuple):
    """Boosted trees, as kernels take them; flat read-only arrays."""

    bins: BinTable
    nodes: IntArray
    values: FloatArray


class BoostingRules(NamedTuple):
    """The number and the depth of boosted trees, and when to stop growing them."""

    n_trees: int
    depth: int
    rate: float  # the share of each leaf's step that is taken
    least_weight: float  # of the rows in a leaf, where the mean row weighs 1
    penalty: float  # the weight of a leaf's pull towards 0
    patience: int = 0  # stop after this many trees without a smaller held-out error; 0: never


@inner_kernel
def boosted_value(codes: AnyArray, guide: BoostedGuide) -> float:
    """The prediction for a row: the sum of its leaf's value over all trees.

    ``codes`` are the row's bin codes, as `bin_row` writes them.
    """
    nodes, values = guide.nodes, guide.values
    n_trees = values.size - nodes.size
    # Unsigned and without a branch, so that a tree's descent need not wait for the last one's.
    one, n_inner = np.uint64(1), np.uint64(nodes.size // max(1, n_trees))
    first, total = np.uint64(0), 0.0
    for t in range(np.uint64(n_trees)):
        k = np.uint64(0)
        while k < n_inner:
            node = np.uint64(nodes[first + k])
            beyond = codes[node >> np.uint64(48)] > ((node >> np.uint64(32)) & np.uint64(LOW16))
            k += k + one + np.uint64(beyond)
        total += values[first + t + k - n_inner]
        first += n_inner
    return total


class BoostedRows(NamedTuple):
    """Rows of training data, and their residuals after the trees so far.

    A row's *pull* is its weight times its residual, in whole numbers of a unit. The rows of each
    node are neighbours in ``order``.

    If all rows weigh 1, pull and weight are stored in one number, pull · 2^shift + 1, and sums of
    such numbers contain both sums. That halves the memory to go through. Otherwise ``shift`` is 0.
    """

    codes: IntArray  # (features, rows)
    n_bins: IntArray  # (features,)
    cells: IntArray  # (rows, features) uint32: the code's cell in a histogram of all features
    start: IntArray  # (features + 1,) of each feature's cells
    pulls: IntArray  # weight times what is left over, in its unit
    weight: IntArray  # in its unit; empty where all rows weigh 1
    units: tuple[float, float]
    shift: int
    order: IntArray
    spare: IntArray


class _Split(NamedTuple):
    """The best split of a node found so far; ``slot`` is -1 if there is none yet.

    ``pull`` is the sum of weighted residuals on the left side.
    """

    gain: float
    slot: int
    code: int  # the highest on the left
    pull: int  # of the left side
    weight: int


@kernel
def boost(rows: BoostedRows, rules: BoostingRules) -> tuple[IntArray, FloatArray]:
    """The nodes and leaf values of new trees, each fitted to the residuals of those before it.

    The residuals in ``rows`` are updated, so that boosting can continue from there.
    """
    n_inner = (1 << rules.depth) - 1
    nodes = np.empty(rules.n_trees * n_inner, dtype=np.int64)
    values = np.zeros(rules.n_trees * (n_inner + 1))
    # At most one node of each depth waits: the larger child, in the place of its parent.
    sums = np.empty((rules.depth + 1, rows.start[rows.start.size - 1], 2), dtype=np.int64)
    stack = np.empty((rules.depth, 5), dtype=np.int64)
    for t in range(rules.n_trees):
        steps = values[t * (n_inner + 1) : (t + 1) * (n_inner + 1)]
        _grow_tree(rows, (stack, sums), (nodes[t * n_inner : (t + 1) * n_inner], steps), rules)
    return nodes, values


@kernel
def squared_errors(
    table: tuple[IntArray, IntArray],
    rest: tuple[FloatArray, FloatArray],
    trees: tuple[IntArray, FloatArray],
) -> FloatArray:
    """The weighted sum of squared residuals of some rows after each of the trees.

    ``rest`` is the residuals of the rows before these trees, which are updated, and the rows'
    weights. ``table`` is as in `start_boosting`.
    """
    left_over, weight = rest
    nodes, values = trees
    n_trees = values.size - nodes.size
    errors = np.zeros(n_trees)
    n_inner = nodes.size // max(1, n_trees)
    for t in range(n_trees):
        steps = values[t * (n_inner + 1) : (t + 1) * (n_inner + 1)]
        _take_tree_off(table, nodes[t * n_inner : (t + 1) * n_inner], steps, left_over)
        for i in range(left_over.size):
            errors[t] += weight[i] * left_over[i] * left_over[i]
    return errors


@inner_kernel
def _take_tree_off(
    table: tuple[IntArray, IntArray], nodes: IntArray, steps: FloatArray, left_over: FloatArray
) -> None:
    """Subtract one tree's prediction from the residual of each row."""
    codes, n_bins = table
    n_inner, n_features = np.uint64(nodes.size), np.uint64(n_bins.size)
    one = np.uint64(1)
    for i in range(np.uint64(left_over.size)):
        k = np.uint64(0)
        while k < n_inner:
            node = np.uint64(nodes[k])
            slot, cut = node >> np.uint64(48), (node >> np.uint64(32)) & np.uint64(LOW16)
            missing_left = slot >= n_features
            feature = slot - (n_features if missing_left else np.uint64(0))
            code = np.uint64(codes[feature, i])
            left = (code <= cut) | (missing_left & (code == np.uint64(n_bins[feature])))
            k += k + one + (np.uint64(0) if left else one)
        left_over[i] -= steps[k - n_inner]


@kernel
def start_boosting(
    table: tuple[IntArray, IntArray], y: FloatArray, weight: FloatArray
) -> BoostedRows:
    """The rows with their residuals before any tree: the outcomes minus their weighted mean.

    ``table`` is the bin code of each feature and row, (features, rows), and the number of bins of
    each feature. A missing value has the code after its feature's last bin.
    """
    codes, n_bins = table
    mean, whole, squares, alike = 0.0, 0.0, 0.0, True
    for i in range(y.size):
        mean += weight[i] * y[i]
        whole += weight[i]
        alike = alike and weight[i] == 1.0
    mean /= whole if whole > 0.0 else 1.0
    for i in range(y.size):
        squares += weight[i] * (y[i] - mean) ** 2
    shift = int(np.ceil(np.log2(y.size + 1.0))) if alike else 0
    # Steps never raise the sum of squares, which bounds all sums (Cauchy and Schwarz).
    pull_unit = _unit(np.sqrt(whole * squares), _PULL_BITS - shift)
    units = pull_unit, 1.0 if alike else _unit(whole, _WEIGHT_BITS)
    pulls = np.empty(y.size, dtype=np.int64)
    weights = np.empty(0 if alike else y.size, dtype=np.int64)
    for i in range(y.size):
        pull = np.int64(np.rint(weight[i] * (y[i] - mean) / units[0]))
        pulls[i] = (pull << shift) + 1 if alike else pull
        if not alike:
            weights[i] = np.int64(np.rint(weight[i] / units[1]))
    cells, start = _cells_of(codes, n_bins)
    order = np.empty(y.size, dtype=np.uint32)
    spare = np.empty(y.size, dtype=np.uint32)
    return BoostedRows(codes, n_bins, cells, start, pulls, weights, units, shift, order, spare)


@room_kernel
def _cells_of(codes: IntArray, n_bins: IntArray) -> tuple[IntArray, IntArray]:
    """The histogram cell of each row and feature, and the first cell of each feature."""
    start = np.zeros(n_bins.size + 1, dtype=np.int64)
    cells = np.empty((codes.shape[1], n_bins.size), dtype=np.uint32)
    for f in range(n_bins.size):
        start[f + 1] = start[f] + n_bins[f] + 1
        for i in range(codes.shape[1]):
            cells[i, f] = start[f] + codes[f, i]
    return cells, start


@inner_kernel
def _unit(largest: float, bits: int) -> float:
    """The power of two in units of which ``largest`` has at most this many bits."""
    return float(2.0 ** (np.ceil(np.log2(largest)) - bits)) if largest > 0.0 else 1.0


@inner_kernel
def _grow_tree(
    rows: BoostedRows,
    room: tuple[IntArray, IntArray],
    tree: tuple[IntArray, FloatArray],
    rules: BoostingRules,
) -> None:
    """Write one tree's nodes and leaf values, and subtract its predictions from the residuals."""
    stack, sums = room
    spare = sums[sums.shape[0] - 1].reshape(-1)
    nodes, steps = tree
    for k in range(nodes.size):
        # No split: whatever the feature, known or missing, it goes left.
        nodes[k] = pack_split(rows.n_bins.size, _HIGHEST, 0)
    for i in range(np.uint64(rows.order.size)):
        rows.order[i] = i
    _fill(rows, (0, rows.order.size), sums[0], spare)
    pull, weight = 0, 0
    for cell in range(rows.n_bins[0] + 1):
        pull += sums[0, cell, 0]
        weight += sums[0, cell, 1]
    _push(stack[0], (0, 0, rows.order.size), (pull, weight))
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        own = stack[n_stack]
        node, first, last, pull, weight = own[0], own[1], own[2], own[3], own[4]
        split = _best_split(rows, sums[n_stack], (pull, weight), rules)
        if split.slot < 0:
            while node < nodes.size:
                node = 2 * node + 1
            step = _step(rows, (pull, weight), rules)
            steps[node - nodes.size] = step
            _take_steps(rows, (first, last), split, (step, step))
            continue
        nodes[node] = pack_split(split.slot, split.code, 0)
        left, right = (split.pull, split.weight), (pull - split.pull, weight - split.weight)
        child = 2 * node + 1
        if child >= nodes.size:
            both = _step(rows, left, rules), _step(rows, right, rules)
            steps[child - nodes.size], steps[child + 1 - nodes.size] = both
            _take_steps(rows, (first, last), split, both)
            continue
        middle = _partition(rows, (first, last), split)
        small = middle - first <= last - middle
        span = (first, middle) if small else (middle, last)
        _fill(rows, span, sums[n_stack + 1], spare)
        for cell in range(np.uint64(sums.shape[1])):
            sums[n_stack, cell, 0] -= sums[n_stack + 1, cell, 0]
            sums[n_stack, cell, 1] -= sums[n_stack + 1, cell, 1]
        _push(stack[n_stack + (1 if small else 0)], (child, first, middle), left)
        _push(stack[n_stack + (0 if small else 1)], (child + 1, middle, last), right)
        n_stack += 2


@inner_kernel
def _push(at: IntArray, node: tuple[int, int, int], sums: tuple[int, int]) -> None:
    """Put a node on the stack."""
    at[0], at[1], at[2], at[3], at[4] = node[0], node[1], node[2], sums[0], sums[1]


@inner_kernel
def _fill(rows: BoostedRows, span: tuple[int, int], sums: IntArray, spare: IntArray) -> None:
    """Write the histogram of a node: sums of weighted residuals and of weights for each bin."""
    alike = rows.weight.size == 0
    ones = (np.int64(1) << rows.shift) - 1
    _sum_by_cell(rows, span, rows.pulls, spare[: sums.shape[0]])
    for cell in range(np.uint64(sums.shape[0])):
        sums[cell, 0] = spare[cell] >> rows.shift
        sums[cell, 1] = spare[cell] & ones
    if not alike:
        _sum_by_cell(rows, span, rows.weight, spare[: sums.shape[0]])
        for cell in range(np.uint64(sums.shape[0])):
            sums[cell, 1] = spare[cell]


@inner_kernel
def _sum_by_cell(
    rows: BoostedRows, span: tuple[int, int], of_row: IntArray, sums: IntArray
) -> None:
    order, cells = rows.order, rows.cells
    n_features = np.uint64(rows.n_bins.size)
    sums[:] = 0
    for k in range(np.uint64(span[0]), np.uint64(span[1])):
        i = order[k]
        number = of_row[i]
        for f in range(n_features):
            sums[cells[i, f]] += number


@inner_kernel
def _best_split(
    rows: BoostedRows, sums: IntArray, total: tuple[int, int], rules: BoostingRules
) -> _Split:
    """The best split of a node over all features and codes."""
    n_features = rows.n_bins.size
    whole, pull = total[1] * rows.units[1], total[0] * rows.units[0]
    before = pull * pull / (whole + rules.penalty)
    best = _Split(before + _LEAST_GAIN, -1, 0, 0, 0)
    for f in range(n_features):
        own = sums[rows.start[f] : rows.start[f + 1]]
        missing = rows.n_bins[f]
        left, weight = 0, 0
        for code in range(np.uint64(missing)):
            if own[code, 1] == 0:
                continue
            left += own[code, 0]
            weight += own[code, 1]
            gain = _gain((left, weight), total, rows.units, rules)
            if gain > best.gain:
                best = _Split(gain, f, int(np.int64(code)), left, weight)
            if own[missing, 1] > 0:
                with_missing = left + own[missing, 0], weight + own[missing, 1]
                gain = _gain(with_missing, total, rows.units, rules)
                if gain > best.gain:
                    best = _Split(gain, f + n_features, int(np.int64(code)), *with_missing)
    return best


@inner_kernel
def _gain(
    left: tuple[int, int],
    total: tuple[int, int],
    units: tuple[float, float],
    rules: BoostingRules,
) -> float:
    """How good a split is: squared sum of weighted residuals over weight, added for both sides."""
    weight, rest = left[1] * units[1], (total[1] - left[1]) * units[1]
    if weight < rules.least_weight or rest < rules.least_weight:
        return 0.0
    weight, rest = weight + rules.penalty, rest + rules.penalty
    a, b = left[0] * units[0], (total[0] - left[0]) * units[0]
    return (a * a * rest + b * b * weight) / (weight * rest)


@inner_kernel
def _column_of(rows: BoostedRows, split: _Split) -> tuple[int, int]:
    """The split's feature, and the code of missing values if they go left; -1 if they go right."""
    n_features = rows.n_bins.size
    missing_left = split.slot >= n_features
    feature = split.slot - n_features if missing_left else max(split.slot, 0)
    return feature, rows.n_bins[feature] if missing_left else -1


@inner_kernel
def _partition(rows: BoostedRows, span: tuple[int, int], split: _Split) -> int:
    """Move the rows that go left before those that go right; return where the right side begins."""
    order, spare = rows.order, rows.spare
    feature, missing = _column_of(rows, split)
    codes, one = rows.codes[feature], np.uint64(1)
    middle, n_right = np.uint64(span[0]), np.uint64(0)
    for k in range(np.uint64(span[0]), np.uint64(span[1])):
        row = order[k]
        code = np.int64(codes[row])
        left = np.uint64((code <= split.code) | (code == missing))
        # Both are written and one counts: no branch that could be guessed wrong.
        order[middle] = row
        spare[n_right] = row
        middle += left
        n_right += one - left
    for k in range(n_right):
        order[middle + k] = spare[k]
    return int(np.int64(middle))


@inner_kernel
def _step(rows: BoostedRows, sums: tuple[int, int], rules: BoostingRules) -> float:
    """The value of a leaf with these sums of weighted residuals and of weights."""
    pull, weight = sums[0] * rows.units[0], sums[1] * rows.units[1]
    return rules.rate * pull / (weight + rules.penalty)


@inner_kernel
def _take_steps(
    rows: BoostedRows, span: tuple[int, int], split: _Split, steps: tuple[float, float]
) -> None:
    """Subtract the value of each row's leaf, left or right of the split, from its residual."""
    feature, missing = _column_of(rows, split)
    codes, scale = rows.codes[feature], rows.units[1] / rows.units[0]
    on_left, on_right = steps[0] * scale, steps[1] * scale
    if rows.weight.size == 0:
        left_all = np.int64(np.rint(on_left)) << rows.shift
        right_all = np.int64(np.rint(on_right)) << rows.shift
        for k in range(np.uint64(span[0]), np.uint64(span[1])):
            row = rows.order[k]
            code = np.int64(codes[row])
            left = (code <= split.code) | (code == missing)
            rows.pulls[row] -= left_all if left else right_all
        return
    for k in range(np.uint64(span[0]), np.uint64(span[1])):
        row = rows.order[k]
        code = np.int64(codes[row])
        left = (code <= split.code) | (code == missing)
        per_weight = on_left if left else on_right
        rows.pulls[row] -= np.int64(np.rint(rows.weight[row] * per_weight))
