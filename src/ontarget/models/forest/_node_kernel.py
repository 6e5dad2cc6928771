"""One node of a tree in eight bytes.

A split holds a *slot* (15 bits), a code (16 bits) and its first child (32 bits): a row goes to the
first child where its code at the slot is at most the split's, else to the child after it. Slots
from 0 up are the features with missing values on the right, the same number again those with
missing values on the left.

A leaf has the sign bit set and holds how many entries it has (31 bits) and where they start (32).
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel

__all__ = ["LOW16", "LOW31", "LOW32", "MAX_SLOTS", "pack_leaf", "pack_split"]

LOW16 = 0xFFFF
LOW31 = 0x7FFF_FFFF
LOW32 = 0xFFFF_FFFF
MAX_SLOTS = 1 << 15
_LEAF = np.int64(-(1 << 63))


@inner_kernel
def pack_split(slot: int, code: int, child: int) -> int:
    """The node that sends codes up to this one to the child, others to the child after it."""
    return int((np.int64(slot) << 48) | (np.int64(code) << 32) | np.int64(child))


@inner_kernel
def pack_leaf(start: int, size: int) -> int:
    """The leaf whose entries start here."""
    return int(_LEAF | (np.int64(size) << 32) | np.int64(start))
