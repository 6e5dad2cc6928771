"""Growing one tree on binned features.

A tree is grown on the distinct rows that its sample drew, each weighing as often as it was drawn.
Rows are sorted by outcome and every partition is stable, so the rows of a leaf come out sorted and
a node whose first and last outcome agree is done.

A split is judged by two scores per row: the one that explains most of their variance wins. With
the outcome as the only score that is the classic rule; a second score for the spread of the
outcome aims the trees at the whole distribution. Each row carries four sums (one, weight, two
weighted scores), and each kernel adds them in one vector instruction: that is why they are
written out.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget.kernel import kernel
from ontarget.models.draw_kernel import draw_below
from ontarget.models.node_kernel import pack_leaf, pack_split
from ontarget.typing import FloatArray, IntArray, KeyArray

__all__ = ["GrowthRules", "TrainingTable", "grow_tree"]

# An unsigned index spares the question whether it counts from the end.
Index: TypeAlias = int | np.unsignedinteger

_ONE = np.uint64(1)
_LOW6 = np.uint64(63)
_SIX = np.uint64(6)
# The lowest set bit of a word w is bit _DE_BRUIJN_BIT[((w & -w) * _DE_BRUIJN) >> 58].
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_TOP6 = np.uint64(58)
_DE_BRUIJN_BIT = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _DE_BRUIJN_BIT[((1 << _bit) * int(_DE_BRUIJN) & (2**64 - 1)) >> 58] = _bit


class TrainingTable(NamedTuple):
    """All training rows, sorted by outcome. A missing feature has the code after the last bin."""

    codes: IntArray  # (features, rows) uint16
    n_bins: IntArray  # (features,)
    scores: FloatArray  # (rows, 2)
    weight: FloatArray  # (rows,), empty where all rows weigh the same
    ranks: IntArray  # (rows,) place among the distinct outcomes


class GrowthRules(NamedTuple):
    """When to split, and how many features to try."""

    min_leaf: int
    max_depth: int
    n_tried: int


class _Bag(NamedTuple):
    """The rows of one tree. `order` and `stats` are kept in the order of the nodes."""

    codes: IntArray  # (features, bag) uint16
    order: IntArray  # (bag,) uint32, row of the bag
    stats: FloatArray  # (bag, 4): one, weight, two weighted scores
    spare_order: IntArray
    spare_stats: FloatArray


class _Histogram(NamedTuple):
    """Sums per bin, and which bins are occupied: a bit per bin, and a bit per word of bits."""

    sums: FloatArray  # (bins, 4)
    words: KeyArray
    summary: KeyArray
    occupied: IntArray  # codes, ascending


@kernel
def grow_tree(
    table: TrainingTable, counts: IntArray, rules: GrowthRules, state: KeyArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Nodes, leaf entries and their cumulative shares (empty without weights) of one tree.

    ``counts[i]`` says how often row i was drawn.
    """
    rows, bag, hist = _prepare(table, counts)
    n_bag = rows.size
    capacity = max(1, 2 * (n_bag // max(1, rules.min_leaf)) - 1)
    nodes = np.empty(capacity, dtype=np.int64)
    n_entries = 0
    for i in range(n_bag):
        n_entries += counts[rows[i]]
    entries = np.empty(n_entries, dtype=np.uint32)
    shares = np.empty(n_entries if table.weight.size > 0 else 0)
    features = np.arange(table.codes.shape[0])

    stack = np.empty((capacity + 1, 4), dtype=np.int64)  # node, first row, last row, depth
    stack[0] = 0, 0, n_bag, 0
    n_stack, n_nodes, written = 1, 1, 0
    while n_stack > 0:
        n_stack -= 1
        node, first, last, depth = stack[n_stack]
        feature, code, missing_left = -1, 0, False
        done = (
            last - first < 2 * rules.min_leaf
            or depth >= rules.max_depth
            or table.ranks[rows[bag.order[first]]] == table.ranks[rows[bag.order[last - 1]]]
        )
        if not done:
            feature, code, missing_left = _best_split(
                (first, last), bag, hist, (table.n_bins, features, rules, state)
            )
        if feature < 0:
            size = _write_leaf(
                (first, last), (rows, bag.order, counts), table, (written, entries, shares)
            )
            nodes[node] = pack_leaf(written, size)
            written += size
            continue
        n_bins = table.n_bins[feature]
        middle = _partition((first, last), bag, (feature, code, missing_left, n_bins))
        slot = feature + (features.size if missing_left else 0)
        nodes[node] = pack_split(slot, code, n_nodes)
        stack[n_stack] = n_nodes + 1, middle, last, depth + 1
        stack[n_stack + 1] = n_nodes, first, middle, depth + 1
        n_stack += 2
        n_nodes += 2
    return nodes[:n_nodes].copy(), entries, shares


@kernel
def _prepare(table: TrainingTable, counts: IntArray) -> tuple[IntArray, _Bag, _Histogram]:
    """The drawn rows, copied side by side, and an empty histogram."""
    n_features, n_rows = table.codes.shape
    n_bag = 0
    for i in range(n_rows):
        n_bag += 1 if counts[i] > 0 else 0
    rows = np.empty(n_bag, dtype=np.uint32)
    k = 0
    for i in range(n_rows):
        if counts[i] > 0:
            rows[k] = i
            k += 1
    codes = np.empty((n_features, n_bag), dtype=np.uint16)
    for f in range(n_features):
        for k in range(n_bag):
            codes[f, k] = table.codes[f, rows[k]]
    stats = np.empty((n_bag, 4))
    weighted = table.weight.size > 0
    for k in range(n_bag):
        row = rows[k]
        weight = counts[row] * (table.weight[row] if weighted else 1.0)
        stats[k, 0] = 1.0
        stats[k, 1] = weight
        stats[k, 2] = weight * table.scores[row, 0]
        stats[k, 3] = weight * table.scores[row, 1]
    bag = _Bag(
        codes,
        np.arange(n_bag).astype(np.uint32),
        stats,
        np.empty(n_bag, dtype=np.uint32),
        np.empty_like(stats),
    )
    n_codes = table.n_bins.max() + 1
    n_words = (n_codes >> 6) + 1
    hist = _Histogram(
        np.zeros((n_codes, 4)),
        np.zeros(n_words, dtype=np.uint64),
        np.zeros((n_words >> 6) + 1, dtype=np.uint64),
        np.empty(n_codes, dtype=np.uint32),
    )
    return rows, bag, hist


@kernel
def _best_split(
    span: tuple[int, int],
    bag: _Bag,
    hist: _Histogram,
    search: tuple[IntArray, IntArray, GrowthRules, KeyArray],
) -> tuple[int, int, bool]:
    """Feature, code and side of missing values of the best split; feature -1 if there is none.

    Features are drawn one after another until enough of them were not constant in the node.
    """
    first, last = span
    n_bins, features, rules, state = search
    count, weight, one, two = 0.0, 0.0, 0.0, 0.0
    for i in range(np.uint64(first), np.uint64(last)):
        count += bag.stats[i, 0]
        weight += bag.stats[i, 1]
        one += bag.stats[i, 2]
        two += bag.stats[i, 3]
    total = (count, weight, one, two)
    # A gain below rounding error is none.
    best_gain = (one * one + two * two) / weight * (1.0 + 1e-12) + 1e-12
    best_feature, best_code, best_side = -1, 0, False
    n_tried = 0
    for k in range(features.size):
        pick = k + draw_below(state, features.size - k)
        feature = features[pick]
        features[pick] = features[k]
        features[k] = feature
        n_occupied = _fill(span, bag.codes[feature], bag, (hist, n_bins[feature]))
        if n_occupied > 1:
            gain, cut, side = _best_code(hist, (n_occupied, n_bins[feature]), total, rules)
            if gain > best_gain:
                best_gain, best_feature, best_code, best_side = gain, feature, cut, side
            n_tried += 1
        if n_tried >= rules.n_tried:
            break
    return best_feature, best_code, best_side


@kernel
def _fill(span: tuple[int, int], codes: IntArray, bag: _Bag, target: tuple[_Histogram, int]) -> int:
    """Sum the node's rows by code; list the occupied codes in order and return how many."""
    first, last = span
    hist, n_bins = target
    start = codes[bag.order[first]]
    same = first
    while same < last and codes[bag.order[same]] == start:
        same += 1
    if same == last:
        return 0
    n_occupied = 0
    if last - first > n_bins:
        for i in range(np.uint64(first), np.uint64(last)):
            _add(hist.sums, codes[bag.order[i]], bag.stats, i)
        for code in range(n_bins + 1):
            hist.occupied[n_occupied] = code
            n_occupied += 1 if hist.sums[code, 0] > 0.0 else 0
        return n_occupied
    for i in range(np.uint64(first), np.uint64(last)):
        code = codes[bag.order[i]]
        _add(hist.sums, code, bag.stats, i)
        word = np.uint64(code) >> _SIX
        hist.words[word] |= _ONE << (np.uint64(code) & _LOW6)
        hist.summary[word >> _SIX] |= _ONE << (word & _LOW6)
    for top in range(hist.summary.size):
        words = hist.summary[top]
        hist.summary[top] = 0
        while words != 0:
            place = (top << 6) + _lowest_bit(words)
            words &= words - _ONE
            bits = hist.words[place]
            hist.words[place] = 0
            while bits != 0:
                hist.occupied[n_occupied] = (place << 6) + _lowest_bit(bits)
                n_occupied += 1
                bits &= bits - _ONE
    return n_occupied


@kernel
def _add(sums: FloatArray, code: Index, stats: FloatArray, i: Index) -> None:
    """Add the four sums of a row to those of a bin: all loads first, so that they are one each."""
    one, weight, first, second = stats[i, 0], stats[i, 1], stats[i, 2], stats[i, 3]
    a, b, c, d = sums[code, 0], sums[code, 1], sums[code, 2], sums[code, 3]
    sums[code, 0], sums[code, 1], sums[code, 2], sums[code, 3] = (
        a + one,
        b + weight,
        c + first,
        d + second,
    )


@kernel
def _lowest_bit(word: np.uint64) -> int:
    return int(_DE_BRUIJN_BIT[((word & (~word + _ONE)) * _DE_BRUIJN) >> _TOP6])


@kernel
def _best_code(
    hist: _Histogram,
    sizes: tuple[int, int],
    total: tuple[float, float, float, float],
    rules: GrowthRules,
) -> tuple[float, int, bool]:
    """Gain, highest code of the left side, and whether missing values go left.

    Leaves the histogram empty behind it.
    """
    n_occupied, n_bins = sizes
    sums, occupied = hist.sums, hist.occupied
    missing = occupied[n_occupied - 1] == n_bins
    n_known = n_occupied - 1 if missing else n_occupied
    absent = (0.0, 0.0, 0.0, 0.0)
    if missing:
        absent = _take(sums, n_bins)
    fewest, most = float(rules.min_leaf), total[0] - rules.min_leaf
    best_gain, best_at, best_weight, best_side = -1.0, np.int64(-1), 0.0, False
    count, weight, one, two = 0.0, 0.0, 0.0, 0.0
    for o in range(np.uint64(n_known)):
        here = _take(sums, occupied[o])
        count += here[0]
        weight += here[1]
        one += here[2]
        two += here[3]
        if fewest <= count <= most:
            gain = _gain(weight, one, two, total)
            if gain > best_gain:
                best_gain, best_at, best_weight, best_side = gain, np.int64(o), weight, False
        if missing and fewest <= count + absent[0] <= most:
            gain = _gain(weight + absent[1], one + absent[2], two + absent[3], total)
            if gain > best_gain:
                best_gain, best_at, best_weight, best_side = gain, np.int64(o), weight, True
    if best_at < 0:
        return -1.0, 0, False
    # The cut lies half-way, in codes, to the next value that the node knows.
    best_code = np.int64(n_bins - 1)
    if best_at + 1 < n_known:
        best_code = (np.int64(occupied[best_at]) + np.int64(occupied[best_at + 1]) - 1) >> 1
    if not missing:  # nothing to learn from: to the heavier side
        best_side = best_weight + best_weight > total[1]
    return best_gain, int(best_code), best_side


@kernel
def _gain(weight: float, one: float, two: float, total: tuple[float, float, float, float]) -> float:
    """Sum over both sides of the squared score sums by weight; the left side has these sums."""
    rest, rest_one, rest_two = total[1] - weight, total[2] - one, total[3] - two
    on_left, on_right = one * one + two * two, rest_one * rest_one + rest_two * rest_two
    return (on_left * rest + on_right * weight) / (weight * rest)


@kernel
def _take(sums: FloatArray, code: int) -> tuple[float, float, float, float]:
    """The four sums of a bin, which is empty afterwards."""
    taken = sums[code, 0], sums[code, 1], sums[code, 2], sums[code, 3]
    sums[code, 0], sums[code, 1], sums[code, 2], sums[code, 3] = 0.0, 0.0, 0.0, 0.0
    return taken


@kernel
def _partition(span: tuple[int, int], bag: _Bag, split: tuple[int, int, bool, int]) -> int:
    """Move the left rows before the right ones, each side in its old order; where right begins."""
    first, last = span
    feature, code, missing_left, n_bins = split
    codes = bag.codes[feature]
    order, stats, spare_order, spare_stats = bag.order, bag.stats, bag.spare_order, bag.spare_stats
    middle, n_right = np.uint64(first), np.uint64(0)
    for i in range(np.uint64(first), np.uint64(last)):
        row = order[i]
        here = codes[row]
        goes_left = missing_left if here == n_bins else here <= code
        if goes_left:
            order[middle] = row
            _copy(stats, middle, stats, i)
            middle += _ONE
        else:
            spare_order[n_right] = row
            _copy(spare_stats, n_right, stats, i)
            n_right += _ONE
    for k in range(n_right):
        order[middle + k] = spare_order[k]
        _copy(stats, middle + k, spare_stats, k)
    return int(np.int64(middle))


@kernel
def _copy(into: FloatArray, at: Index, stats: FloatArray, i: Index) -> None:
    one, weight, first, second = stats[i, 0], stats[i, 1], stats[i, 2], stats[i, 3]
    into[at, 0], into[at, 1], into[at, 2], into[at, 3] = one, weight, first, second


@kernel
def _write_leaf(
    span: tuple[int, int],
    bag: tuple[IntArray, IntArray, IntArray],
    table: TrainingTable,
    out: tuple[int, IntArray, FloatArray],
) -> int:
    """Append the leaf's outcomes, each as often as it was drawn; return how many."""
    first, last = span
    rows, order, counts = bag
    written, entries, shares = out
    size = 0
    total = 0.0
    for i in range(first, last):
        row = rows[order[i]]
        for _ in range(counts[row]):
            entries[written + size] = table.ranks[row]
            if shares.size > 0:
                total += table.weight[row]
                shares[written + size] = total
            size += 1
    if shares.size > 0:
        for k in range(written, written + size):
            shares[k] /= total
    return size
