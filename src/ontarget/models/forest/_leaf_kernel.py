"""Counts the entries of a leaf that are below a training row, and those up to another row.

The entries of a leaf are numbers of training rows, ascending. Most leaves are short. For a short
leaf, it is faster to compare all entries, many in one instruction, than to halve the leaf again and
again, because each wrong branch prediction of the processor takes longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ontarget._kernel import inner_kernel
from ontarget._typing import IntArray

__all__ = ["LANES", "LONG", "counts_in_leaf"]

# Entries that are compared at once.
LANES = 32
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
    lanes, n_entries = np.uint64(LANES), np.uint64(entries.size)
    if size > np.uint64(LONG) or n_entries < lanes:
        first = last = _place_of(entries, start, start + size, rows[0])
        if first < start + size and entries[first] <= rows[1]:
            last = _place_of(entries, first, start + size, rows[1] + np.uint64(1))
        return first - start, last - start
    below, upto = np.uint64(0), np.uint64(0)
    at, left = start, size
    while True:
        read = min(at, n_entries - lanes)  # no lane lies beyond the last entry
        less, no_more = _compare_lanes(entries, (read, at - read, min(left, lanes)), rows)
        below += less
        upto += no_more
        if left <= lanes:
            return below, upto
        at += lanes
        left -= lanes


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


def _comparison(typing_context: Any, entries: Any, span: Any, rows: Any) -> Any:
    """How many of some leaf entries are below ``rows[0]``, and how many are at most ``rows[1]``.

    Entries are numbers of training rows. ``span`` is three numbers: at, skip and size. `LANES`
    entries are read from ``at`` on, and of these, ``size`` entries from ``at + skip`` on are
    counted.
    """
    lane = ir.IntType(entries.dtype.bitwidth)
    lanes = ir.VectorType(lane, LANES)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def in_all_lanes(number: Any) -> Any:
            none = ir.Constant(lanes, ir.Undefined)
            first = builder.insert_element(none, builder.trunc(number, lane), ir.IntType(32)(0))
            from_first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(first, none, from_first)

        def count(chosen: Any) -> Any:
            bits = builder.bitcast(builder.and_(chosen, wanted), ir.IntType(LANES))
            return builder.ctpop(builder.zext(bits, ir.IntType(64)))

        array = args[0]
        at, skip, size = (builder.extract_value(args[1], k) for k in range(3))
        first, last = (in_all_lanes(builder.extract_value(args[2], k)) for k in range(2))
        data = context.make_array(signature.args[0])(context, builder, array).data
        place = builder.bitcast(builder.gep(data, [at]), lanes.as_pointer())
        read = builder.load(place, align=lane.width // 8)
        # The number of a lane before those asked for wraps around and is larger than any size.
        number = builder.sub(ir.Constant(lanes, list(range(LANES))), in_all_lanes(skip))
        wanted = builder.icmp_unsigned("<", number, in_all_lanes(size))
        below = count(builder.icmp_unsigned("<", read, first))
        upto = count(builder.icmp_unsigned("<=", read, last))
        return context.make_tuple(builder, signature.return_type, (below, upto))

    counts = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]
    return counts(entries, types.UniTuple(types.uint64, 3), counts), generate  # type: ignore[no-untyped-call]


_compare_lanes: Any = intrinsic(_comparison)
