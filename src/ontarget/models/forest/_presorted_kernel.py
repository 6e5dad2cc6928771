"""Grows a small part of a tree on lists that are sorted once; and what all growing shares."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._keyed import GAMMA, mix_word
from ontarget._typing import AnyArray, FloatArray, IntArray, KeyArray
from ontarget.models.forest._asking_kernel import pack_leaf, pack_split

_S32 = np.uint64(32)


@kernel
def draw_below(state: KeyArray, bound: int) -> int:
    """A random whole number from 0 up to, not including, the bound, which is below 2**32."""
    z = mix_word(state[0])
    state[0] += GAMMA
    return int(np.int64(((z >> _S32) * np.uint64(bound)) >> _S32))


@kernel
def draw_with_replacement(
    state: KeyArray, limits: tuple[int, int], sizes: IntArray, counts: AnyArray
) -> None:
    """Draw items at random with replacement; add to ``counts`` how often each was drawn.

    ``limits`` is how many to draw, and a limit on the sum of their sizes. Drawing stops before the
    sum exceeds the limit, but at least one item is drawn.
    """
    n_draws, most = limits
    total = 0
    for k in range(n_draws):
        item = draw_below(state, counts.size)
        total += sizes[item]
        if k > 0 and total > most:
            return
        counts[item] += 1


@kernel
def draw_without_replacement(
    state: KeyArray, limits: tuple[int, int], sizes: IntArray, counts: AnyArray
) -> None:
    """Draw items at random without replacement; ``counts`` becomes 1 for them, 0 for the others.

    ``limits`` is as in `draw_with_replacement`.
    """
    n_draws, most = limits
    left, total = n_draws, 0
    for i in range(counts.size):
        # Knuth's selection sampling: every set of n_draws items is equally likely.
        chosen = draw_below(state, counts.size - i) < left
        counts[i] = 1 if chosen else 0
        left -= 1 if chosen else 0
        total += sizes[i] if chosen else 0
    if total <= most:
        return
    drawn = np.flatnonzero(counts)
    total = 0
    for k in range(drawn.size):  # in random order, so that no item is favoured by its place
        pick = k + draw_below(state, drawn.size - k)
        item = drawn[pick]
        drawn[pick] = drawn[k]
        total += sizes[item]
        if k > 0 and total > most:
            counts[item] = 0


# An unsigned index spares the question whether it counts from the end.
Index: TypeAlias = int | np.unsignedinteger
# Rows, weight, and the weighted sums of both scores.
Sums: TypeAlias = tuple[float, float, float, float]


class TrainingTable(NamedTuple):
    """All training rows, sorted by outcome, with codes of bins in place of numbers."""

    codes: IntArray  # (features, rows) uint16
    n_bins: IntArray  # (features,)
    scores: FloatArray  # (rows, 2)
    weight: FloatArray  # (rows,), empty where all rows weigh the same
    ranks: IntArray  # (rows,) place among the distinct outcomes


class GrowthRules(NamedTuple):
    """The smallest leaf, the largest depth, and how many features to try at each split."""

    min_leaf: int
    max_depth: int
    n_tried: int


class Split(NamedTuple):
    """The best split of a node found so far; ``feature`` is -1 if there is none yet."""

    gain: float
    feature: int
    code: int  # the highest on the left
    missing_left: bool


NO_SPLIT = Split(-1.0, -1, 0, False)


@inner_kernel
def gain_of(weight: float, one: float, two: float, total: Sums) -> float:
    """How good a split is: squared sums of both scores over weight, added up for both sides.

    ``weight``, ``one`` and ``two`` are the sums of the left side, ``total`` those of the node.
    """
    rest, rest_one, rest_two = total[1] - weight, total[2] - one, total[3] - two
    on_left, on_right = one * one + two * two, rest_one * rest_one + rest_two * rest_two
    return (on_left * rest + on_right * weight) / (weight * rest)


@inner_kernel
def least_gain(total: Sums) -> float:
    """The value of `gain_of` that a split must exceed; less would be rounding error."""
    return (total[2] * total[2] + total[3] * total[3]) / total[1] * (1.0 + 1e-12) + 1e-12


@inner_kernel
def draw_feature(features: IntArray, k: int, state: KeyArray) -> int:
    """The k-th feature in a random order; one step of a shuffle in place."""
    pick = k + draw_below(state, features.size - k)
    feature = features[pick]
    features[pick] = features[k]
    features[k] = feature
    return int(feature)


# Rows of which codes, sums and lists of ten features fit in a second-level cache.
SMALL = 4096


class SmallPart(NamedTuple):
    """The rows of a small part of a tree, side by side in the order of their outcomes."""

    codes: IntArray  # (features, rows) uint16
    sums: FloatArray  # (rows, 4): weight, two weighted scores, unused
    lists: IntArray  # (features + 1, rows) uint16; the last one by outcome
    side: IntArray  # (rows,) 1 on the left
    spare: IntArray  # (rows,) uint16
    stack: IntArray  # (rows, 4): node, first, last, depth
    starts: IntArray  # (257,) of each byte, while lists are sorted


class Growth(NamedTuple):
    """A tree while it grows: its nodes, the training rows in its leaves, and its random state."""

    nodes: IntArray
    entries: IntArray
    shares: FloatArray  # empty where rows weigh the same
    cursor: IntArray  # nodes and entries written so far
    features: IntArray  # a permutation, shuffled on
    state: KeyArray


class OfRow(NamedTuple):
    """The data that a leaf stores about each row.

    ``ranks`` is the position of the row's outcome among the sorted distinct outcomes.
    """

    numbers: IntArray  # uint32, in the order of all training rows
    ranks: IntArray  # place among the distinct outcomes
    counts: IntArray  # how often it was drawn
    weight: FloatArray  # empty where rows weigh the same


@room_kernel
def new_small_part(n_features: int, n_rows: int) -> SmallPart:
    """Work arrays for the small parts of one tree, used for one part after another."""
    size = max(1, min(n_rows, SMALL))
    return SmallPart(
        np.empty((n_features, size), dtype=np.uint16),
        np.empty((size, 4)),
        np.empty((n_features + 1, size), dtype=np.uint16),
        np.empty(size, dtype=np.uint8),
        np.empty(size, dtype=np.uint16),
        np.empty((size + 1, 4), dtype=np.int64),
        np.empty(257, dtype=np.int64),
    )


@inner_kernel
def grow_small(
    growth: Growth,
    part: SmallPart,
    root: tuple[int, int, int],
    limits: tuple[IntArray, GrowthRules, OfRow],
) -> None:
    """Grow the part of a tree that lies below a small node.

    ``root`` is the node's index, its number of rows and its depth.
    """
    n_bins, rules, of_row = limits
    node, n_rows, depth = root
    _sort_lists(part, n_bins, n_rows)
    by_outcome = part.lists[n_bins.size]
    stack = part.stack
    push(stack, 0, (node, 0, n_rows, depth))
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        node, first = stack[n_stack, 0], stack[n_stack, 1]
        last, depth = stack[n_stack, 2], stack[n_stack, 3]
        split = NO_SPLIT
        if (
            last - first >= 2 * rules.min_leaf
            and depth < rules.max_depth
            and of_row.ranks[by_outcome[first]] != of_row.ranks[by_outcome[last - 1]]
        ):
            split = _best_split(growth, part, (first, last), (n_bins, rules))
        if split.feature < 0:
            growth.nodes[node] = write_leaf(growth, by_outcome[first:last], of_row)
            continue
        middle = _mark_sides(part, (first, last), split, n_bins[split.feature])
        largest = max(middle - first, last - middle)
        # Leaves need no list but the one by outcome.
        leaves = largest < 2 * rules.min_leaf or depth + 1 >= rules.max_depth
        for f in range(n_bins.size if leaves else 0, n_bins.size + 1):
            _divide(part.lists[f], part, first, last)
        child = growth.cursor[0]
        growth.cursor[0] += 2
        slot = split.feature + (n_bins.size if split.missing_left else 0)
        growth.nodes[node] = pack_split(slot, split.code, child)
        push(stack, n_stack, (child + 1, middle, last, depth + 1))
        push(stack, n_stack + 1, (child, first, middle, depth + 1))
        n_stack += 2


@inner_kernel
def push(stack: IntArray, at: int, node: tuple[int, int, int, int]) -> None:
    """Put a node on the stack: its index, its first row, the row after its last, and its depth.

    The numbers are assigned one by one. Assigning a whole tuple would compile code that makes an
    array of a tuple.
    """
    stack[at, 0], stack[at, 1], stack[at, 2], stack[at, 3] = node[0], node[1], node[2], node[3]


@inner_kernel
def _sort_lists(part: SmallPart, n_bins: IntArray, n_rows: int) -> None:
    """Fill the list of each feature: rows sorted by code, and by outcome if codes are equal."""
    for i in range(n_rows):
        part.lists[n_bins.size, i] = i
    starts = part.starts
    for f in range(n_bins.size):
        codes, target = part.codes[f], part.lists[f]
        source = part.lists[n_bins.size]
        n_rounds = 1 if n_bins[f] < 256 else 2
        for r in range(n_rounds):
            into = part.spare if r == 0 and n_rounds == 2 else target
            shift = 8 * r
            for b in range(257):
                starts[b] = 0
            for i in range(n_rows):
                starts[((codes[i] >> shift) & 255) + 1] += 1
            for b in range(256):
                starts[b + 1] += starts[b]
            for i in range(n_rows):
                row = source[i]
                byte = (codes[row] >> shift) & 255
                into[starts[byte]] = row
                starts[byte] += 1
            source = into


@inner_kernel
def _best_split(
    growth: Growth,
    part: SmallPart,
    span: tuple[int, int],
    limits: tuple[IntArray, GrowthRules],
) -> Split:
    """The best split of a node."""
    first, last = span
    n_bins, rules = limits
    by_outcome = part.lists[n_bins.size]
    weight, one, two = 0.0, 0.0, 0.0
    for i in range(np.uint64(first), np.uint64(last)):
        row = by_outcome[i]
        weight += part.sums[row, 0]
        one += part.sums[row, 1]
        two += part.sums[row, 2]
    total = (float(last - first), weight, one, two)
    best = Split(least_gain(total), -1, 0, False)
    n_tried = 0
    for k in range(n_bins.size):
        feature = draw_feature(growth.features, k, growth.state)
        codes, rows = part.codes[feature], part.lists[feature][first:last]
        if codes[rows[0]] == codes[rows[rows.size - 1]]:
            continue
        if codes[rows[rows.size - 1]] == n_bins[feature]:
            best = _walk_with_missing((codes, rows, part.sums), total, (feature, best, rules))
        else:
            best = _walk((codes, rows, part.sums), total, (feature, best, rules))
        n_tried += 1
        if n_tried >= rules.n_tried:
            break
    return best


@inner_kernel
def _walk(
    node: tuple[IntArray, IntArray, FloatArray], total: Sums, search: tuple[int, Split, GrowthRules]
) -> Split:
    """The best split so far, or this feature's best split if that is better."""
    codes, rows, sums = node
    feature, best, rules = search
    weight, one, two = 0.0, 0.0, 0.0
    fewest = np.uint64(rules.min_leaf - 1)
    for i in range(fewest):
        row = rows[i]
        weight += sums[row, 0]
        one += sums[row, 1]
        two += sums[row, 2]
    best_gain, best_at, best_weight = best.gain, np.int64(-1), 0.0
    here = codes[rows[fewest]]
    for i in range(fewest, np.uint64(rows.size - rules.min_leaf)):
        row = rows[i]
        weight += sums[row, 0]
        one += sums[row, 1]
        two += sums[row, 2]
        after = codes[rows[i + np.uint64(1)]]
        if after != here:
            gain = gain_of(weight, one, two, total)
            if gain > best_gain:
                best_gain, best_at, best_weight = gain, np.int64(i), weight
        here = after
    if best_at < 0:
        return best
    # The cut lies half-way, in codes, to the next value; missing values, of which there are none
    # to learn from, go to the heavier side.
    cut = (np.int64(codes[rows[best_at]]) + np.int64(codes[rows[best_at + 1]]) - 1) >> 1
    return Split(best_gain, feature, int(cut), best_weight + best_weight > total[1])


@inner_kernel
def _walk_with_missing(
    node: tuple[IntArray, IntArray, FloatArray], total: Sums, search: tuple[int, Split, GrowthRules]
) -> Split:
    """As `_walk`, for a feature that is missing in some rows, which are last in its list."""
    codes, rows, sums = node
    feature, best, rules = search
    missing = codes[rows[rows.size - 1]]
    n_known = rows.size
    away, away_one, away_two = 0.0, 0.0, 0.0
    while codes[rows[n_known - 1]] == missing:
        n_known -= 1
        away += sums[rows[n_known], 0]
        away_one += sums[rows[n_known], 1]
        away_two += sums[rows[n_known], 2]
    n_missing = rows.size - n_known
    best_gain, best_at, best_left = best.gain, -1, False
    weight, one, two = 0.0, 0.0, 0.0
    for i in range(n_known):
        row = rows[i]
        weight += sums[row, 0]
        one += sums[row, 1]
        two += sums[row, 2]
        # After the last known row comes the cut between known and missing.
        if i + 1 < n_known and codes[rows[i + 1]] == codes[row]:
            continue
        if rules.min_leaf <= i + 1 <= rows.size - rules.min_leaf:
            gain = gain_of(weight, one, two, total)
            if gain > best_gain:
                best_gain, best_at, best_left = gain, i, False
        if i + 1 < n_known and rules.min_leaf <= i + 1 + n_missing <= rows.size - rules.min_leaf:
            gain = gain_of(weight + away, one + away_one, two + away_two, total)
            if gain > best_gain:
                best_gain, best_at, best_left = gain, i, True
    if best_at < 0:
        return best
    cut = np.int64(missing) - 1
    if best_at + 1 < n_known:
        cut = (np.int64(codes[rows[best_at]]) + np.int64(codes[rows[best_at + 1]]) - 1) >> 1
    return Split(best_gain, feature, int(cut), best_left)


@inner_kernel
def _mark_sides(part: SmallPart, span: tuple[int, int], split: Split, missing: int) -> int:
    """Note the side of the split that each row goes to; return where the right side will begin."""
    first, last = span
    codes, rows = part.codes[split.feature], part.lists[split.feature]
    middle = first
    for i in range(first, last):
        row = rows[i]
        code = codes[row]
        left = split.missing_left if code == missing else code <= split.code
        part.side[row] = 1 if left else 0
        middle += 1 if left else 0
    return middle


@inner_kernel
def _divide(rows: IntArray, part: SmallPart, first: int, last: int) -> None:
    """Move the rows of a list that go left before the others; each side keeps its order."""
    side, spare = part.side, part.spare
    n_left, n_right = np.uint64(first), np.uint64(0)
    one = np.uint64(1)
    for i in range(np.uint64(first), np.uint64(last)):
        row = rows[i]
        left = np.uint64(side[row])
        # Both are written and one counts: no branch that could be guessed wrong.
        rows[n_left] = row
        spare[n_right] = row
        n_left += left
        n_right += one - left
    for k in range(n_right):
        rows[n_left + k] = spare[k]


@inner_kernel
def write_leaf(growth: Growth, leaf: IntArray, of_row: OfRow) -> int:
    """Append the rows of a leaf to the tree's list, as often as drawn; return the leaf's node."""
    start = growth.cursor[1]
    size = 0
    total = 0.0
    for row in leaf:
        for _ in range(of_row.counts[row]):
            growth.entries[start + size] = of_row.numbers[row]
            if growth.shares.size > 0:
                total += of_row.weight[row]
                growth.shares[start + size] = total
            size += 1
    if growth.shares.size > 0:
        for k in range(start, start + size):
            growth.shares[k] /= total
    growth.cursor[1] += size
    return pack_leaf(start, size)
