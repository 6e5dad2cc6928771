"""Recorded numbers in as few bytes as hold each of them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import AnyArray

__all__ = ["packed", "unpacked"]

# What is recorded of episodes, by section: often whole numbers, or few digits.
_PACKED: Final[dict[str, tuple[str, ...]]] = {
    "assure": ("states", "before", "ahead", "rewards"),
    "learn": ("before",),
    "rehearsal": ("before",),
}
_TYPES: Final = (np.int8, np.int16, np.float32)  # tried in this order
# Larger arrays stay as they are, so that a file takes little more memory than it has bytes.
_MOST_NUMBERS: Final = 500_000


def packed(section: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays of a section as they are written."""
    named = set(_PACKED.get(section, ()))
    return {name: _narrowed(one) if name in named else one for name, one in arrays.items()}


def unpacked(section: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays that were passed to `packed`; any others are returned unchanged."""
    found = dict(arrays)
    for name in {*_PACKED.get(section, ())} & set(arrays):
        one = arrays[name]
        if one.dtype in _TYPES and one.size <= _MOST_NUMBERS:
            found[name] = read_only(one.astype(np.float64))
    return found


def _narrowed(array: AnyArray) -> AnyArray:
    if array.dtype != np.float64 or not 0 < array.size <= _MOST_NUMBERS:
        return array
    bits = np.ascontiguousarray(array).view(np.int64)
    for dtype in _TYPES:
        with np.errstate(invalid="ignore", over="ignore"):
            small = array.astype(dtype)
        # Bit by bit: a zero keeps its sign, and what is missing stays so.
        if np.array_equal(small.astype(np.float64, order="C").view(np.int64), bits):
            return small
    return array
