"""The format of one node of a tree: a 64-bit number."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel

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
