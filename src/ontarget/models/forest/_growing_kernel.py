"""Grows one tree on binned features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._typing import FloatArray, IntArray, KeyArray
from ontarget.models.forest._asking_kernel import pack_split
from ontarget.models.forest._presorted_kernel import (
    NO_SPLIT,
    SMALL,
    Growth,
    GrowthRules,
    Index,
    OfRow,
    SmallPart,
    Split,
    Sums,
    TrainingTable,
    draw_feature,
    gain_of,
    grow_small,
    least_gain,
    new_small_part,
    push,
    write_leaf,
)


class _Bag(NamedTuple):
    """The rows that one tree drew, in the order of its nodes."""

    order: IntArray  # (bag,) uint32, row of the table
    sums: FloatArray  # (bag, 4): one, weight, two weighted scores
    spare_order: IntArray
    spare_sums: FloatArray


@kernel
def grow_tree(
    table: TrainingTable, counts: IntArray, rules: GrowthRules, state: KeyArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The nodes of one tree, the entries of its leaves, and the cumulative shares of the entries.

    Entries are numbers of training rows. The shares are empty if all rows have the same weight.
    ``counts[i]`` says how often row i was drawn.
    """
    n_features = table.codes.shape[0]
    bag, n_entries = _draw_bag(table, counts)
    n_bag = bag.order.size
    capacity = max(1, 2 * (n_bag // rules.min_leaf) - 1)
    growth = Growth(
        np.empty(capacity, dtype=np.int64),
        np.empty(n_entries, dtype=np.uint32),
        np.empty(n_entries if table.weight.size > 0 else 0),
        np.zeros(2, dtype=np.int64),
        np.arange(n_features),
        state,
    )
    growth.cursor[0] = 1
    part = new_small_part(n_features, n_bag)
    stack = np.empty((capacity // 2 + 2, 4), dtype=np.int64)  # node, first, last, depth
    push(stack, 0, (0, 0, n_bag, 0))
    n_stack = 1
    most_bins = 0
    for f in range(n_features):
        most_bins = max(most_bins, table.n_bins[f])
    histogram = np.zeros((most_bins + 1 if n_bag > SMALL else 0, 4))
    while n_stack > 0:
        n_stack -= 1
        node, first = stack[n_stack, 0], stack[n_stack, 1]
        last, depth = stack[n_stack, 2], stack[n_stack, 3]
        split = NO_SPLIT
        if (
            last - first > SMALL
            and last - first >= 2 * rules.min_leaf
            and depth < rules.max_depth
            and table.ranks[bag.order[first]] != table.ranks[bag.order[last - 1]]
        ):
            split = _best_split((table, bag, (first, last)), growth, histogram, rules)
        if split.feature < 0 and last - first <= SMALL:
            below = _gather((table, bag, counts), part, (first, last))
            grow_small(growth, part, (node, last - first, depth), (table.n_bins, rules, below))
            continue
        if split.feature < 0:  # many rows that nothing divides
            all_rows = np.arange(counts.size).astype(np.uint32)
            of_row = OfRow(all_rows, table.ranks, counts, table.weight)
            growth.nodes[node] = write_leaf(growth, bag.order[first:last], of_row)
            continue
        missing = table.n_bins[split.feature]
        middle = _partition((table.codes[split.feature], missing), bag, (first, last), split)
        child = growth.cursor[0]
        growth.cursor[0] += 2
        slot = split.feature + (n_features if split.missing_left else 0)
        growth.nodes[node] = pack_split(slot, split.code, child)
        push(stack, n_stack, (child + 1, middle, last, depth + 1))
        push(stack, n_stack + 1, (child, first, middle, depth + 1))
        n_stack += 2
    return growth.nodes[: growth.cursor[0]].copy(), growth.entries, growth.shares


@room_kernel
def _draw_bag(table: TrainingTable, counts: IntArray) -> tuple[_Bag, int]:
    """The rows that were drawn at least once, and the number of draws."""
    n_bag, n_entries = 0, 0
    for i in range(counts.size):
        n_bag += 1 if counts[i] > 0 else 0
        n_entries += counts[i]
    order = np.empty(n_bag, dtype=np.uint32)
    sums = np.empty((n_bag, 4))
    weighted = table.weight.size > 0
    k = 0
    for i in range(counts.size):
        if counts[i] > 0:
            weight = counts[i] * (table.weight[i] if weighted else 1.0)
            order[k] = i
            sums[k, 0] = 1.0
            sums[k, 1] = weight
            sums[k, 2] = weight * table.scores[i, 0]
            sums[k, 3] = weight * table.scores[i, 1]
            k += 1
    n_spare = n_bag if n_bag > SMALL else 0
    return _Bag(order, sums, np.empty(n_spare, dtype=np.uint32), np.empty((n_spare, 4))), n_entries


@room_kernel
def _gather(
    rows: tuple[TrainingTable, _Bag, IntArray], part: SmallPart, span: tuple[int, int]
) -> OfRow:
    """Copy the rows of a small node next to each other; return what leaves below it will store."""
    table, bag, counts = rows
    first, last = span
    order = bag.order[first:last]
    n_rows = order.size
    for f in range(table.codes.shape[0]):
        for i in range(n_rows):
            part.codes[f, i] = table.codes[f, order[i]]
    weighted = table.weight.size > 0
    of_row = OfRow(
        np.empty(n_rows, dtype=np.uint32),
        np.empty(n_rows, dtype=np.uint32),
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_rows if weighted else 0),
    )
    for i in range(n_rows):
        part.sums[i, 0] = bag.sums[first + i, 1]
        part.sums[i, 1] = bag.sums[first + i, 2]
        part.sums[i, 2] = bag.sums[first + i, 3]
        of_row.numbers[i] = order[i]
        of_row.ranks[i] = table.ranks[order[i]]
        of_row.counts[i] = counts[order[i]]
        if weighted:
            of_row.weight[i] = table.weight[order[i]]
    return of_row


@inner_kernel
def _best_split(
    node: tuple[TrainingTable, _Bag, tuple[int, int]],
    growth: Growth,
    histogram: FloatArray,
    rules: GrowthRules,
) -> Split:
    """The best split of a node."""
    table, bag, (first, last) = node
    count, weight, one, two = 0.0, 0.0, 0.0, 0.0
    for i in range(np.uint64(first), np.uint64(last)):
        count += bag.sums[i, 0]
        weight += bag.sums[i, 1]
        one += bag.sums[i, 2]
        two += bag.sums[i, 3]
    total = (count, weight, one, two)
    best = Split(least_gain(total), -1, 0, False)
    n_tried = 0
    for k in range(growth.features.size):
        feature = draw_feature(growth.features, k, growth.state)
        codes, n_bins = table.codes[feature], table.n_bins[feature]
        for i in range(np.uint64(first), np.uint64(last)):
            _add(histogram, codes[bag.order[i]], bag.sums, i)
        n_occupied = 0
        for code in range(n_bins + 1):
            n_occupied += 1 if histogram[code, 0] > 0.0 else 0
        best = _scan(histogram, total, (feature, best, rules), n_bins)
        n_tried += 1 if n_occupied > 1 else 0
        if n_tried >= rules.n_tried:
            break
    return best


@inner_kernel
def _add(histogram: FloatArray, code: Index, sums: FloatArray, i: Index) -> None:
    """Add a row's four sums to those of its bin."""
    # All numbers are loaded before any is stored, so that the processor needs one load and one
    # store each.
    one, weight, first, second = sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3]
    a, b = histogram[code, 0] + one, histogram[code, 1] + weight
    c, d = histogram[code, 2] + first, histogram[code, 3] + second
    histogram[code, 0], histogram[code, 1], histogram[code, 2], histogram[code, 3] = a, b, c, d


@inner_kernel
def _scan(
    histogram: FloatArray, total: Sums, search: tuple[int, Split, GrowthRules], n_bins: int
) -> Split:
    """The best split so far or, if better, this feature's best split; clears the histogram."""
    feature, best, rules = search
    away = histogram[n_bins, 0], histogram[n_bins, 1], histogram[n_bins, 2], histogram[n_bins, 3]
    _clear(histogram, n_bins)
    fewest, most = float(rules.min_leaf), total[0] - rules.min_leaf
    count, weight, one, two = 0.0, 0.0, 0.0, 0.0
    found, left, last_known, cut = False, False, np.int64(-1), np.int64(0)
    for code in range(np.uint64(n_bins)):
        if histogram[code, 0] == 0.0:
            continue
        if found and last_known == cut:  # the next value after the cut: cut half-way to it
            cut = (last_known + np.int64(code) - 1) >> 1
        count += histogram[code, 0]
        weight += histogram[code, 1]
        one += histogram[code, 2]
        two += histogram[code, 3]
        _clear(histogram, code)
        last_known = np.int64(code)
        if fewest <= count <= most:
            gain = gain_of(weight, one, two, total)
            if gain > best.gain:
                best = Split(gain, feature, 0, False)
                # With none missing to learn from, they go to the heavier side.
                heavier = away[0] == 0.0 and weight + weight > total[1]
                found, left, cut = True, heavier, last_known
        if away[0] > 0.0 and fewest <= count + away[0] <= most:
            gain = gain_of(weight + away[1], one + away[2], two + away[3], total)
            if gain > best.gain:
                best = Split(gain, feature, 0, True)
                found, left, cut = True, True, last_known
    if not found:
        return best
    if cut == last_known:  # known on the left, missing on the right
        cut = np.int64(n_bins) - 1
    return Split(best.gain, feature, int(cut), left)


@inner_kernel
def _clear(histogram: FloatArray, code: Index) -> None:
    histogram[code, 0], histogram[code, 1] = 0.0, 0.0
    histogram[code, 2], histogram[code, 3] = 0.0, 0.0


@inner_kernel
def _partition(column: tuple[IntArray, int], bag: _Bag, span: tuple[int, int], split: Split) -> int:
    """Move the rows that go left before those that go right; return where the right side begins."""
    codes, missing = column
    first, last = span
    order, sums, spare_order, spare_sums = bag.order, bag.sums, bag.spare_order, bag.spare_sums
    one = np.uint64(1)
    middle, n_right = np.uint64(first), np.uint64(0)
    for i in range(np.uint64(first), np.uint64(last)):
        row = order[i]
        code = codes[row]
        if split.missing_left if code == missing else code <= split.code:
            order[middle] = row
            _copy(sums, middle, sums, i)
            middle += one
        else:
            spare_order[n_right] = row
            _copy(spare_sums, n_right, sums, i)
            n_right += one
    for k in range(n_right):
        order[middle + k] = spare_order[k]
        _copy(sums, middle + k, spare_sums, k)
    return int(np.int64(middle))


@inner_kernel
def _copy(into: FloatArray, at: Index, sums: FloatArray, i: Index) -> None:
    one, weight, first, second = sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3]
    into[at, 0], into[at, 1], into[at, 2], into[at, 3] = one, weight, first, second
