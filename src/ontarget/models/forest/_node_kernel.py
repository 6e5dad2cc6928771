"""The format of one node of a tree: a 64-bit number.

A split holds a *slot* (15 bits), a code (16 bits) and the index of its first child (32 bits). A row
goes to the first child if its code at the slot is at most the split's code, otherwise to the child
after it. With n features, slots 0 to n - 1 are the features with missing values going right, and
slots n to 2n - 1 are the same features with missing values going left.

A leaf has the sign bit set. It holds how many entries (training rows) it has (31 bits) and the
index of the first one (32 bits).
"""

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
