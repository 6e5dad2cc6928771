"""Stores recorded numbers in the smallest type that represents each of them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray

# Arrays of recorded numbers, by section. They are often whole numbers, or have few digits.
_PACKED: Final[dict[str, tuple[str, ...]]] = {
    "assure": ("states", "before", "ahead", "rewards"),
    "learn": ("before",),
    "rehearsal": ("before",),
}
_TYPES: Final = (np.int8, np.int16, np.float32)  # tried in this order
# Larger arrays are not packed, because unpacking them would need more memory than the file's size.
_MOST_NUMBERS: Final = 500_000


def packed(section: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays of a section as they are written to a file, each in the smallest exact type.

    Only arrays of recorded numbers get a smaller type.
    """
    named = set(_PACKED.get(section, ()))
    return {name: _narrowed(one) if name in named else one for name, one in arrays.items()}


def unpacked(section: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays as they were before `packed` made their types smaller; others are unchanged."""
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
        # Compare bit by bit, so that the sign of a zero and NaNs are kept.
        if np.array_equal(small.astype(np.float64, order="C").view(np.int64), bits):
            return small
    return array
