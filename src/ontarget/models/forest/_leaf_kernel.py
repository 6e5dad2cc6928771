"""Counts the entries of a leaf that are below a training row, and those up to another row."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import IntArray

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
