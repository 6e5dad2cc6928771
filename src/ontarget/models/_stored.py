"""Checks arrays from a model file: their types, and the order of their values.

A forged file may have valid checksums, so no number is trusted. Whole numbers from a file are
compared and never subtracted, because a difference may wrap around.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, IntArray
from ontarget.errors import ModelFileError

T = TypeVar("T", bound=np.generic)


def flat_array(arrays: Mapping[str, AnyArray], name: str, dtype: type[T]) -> NDArray[T]:
    """The array of this name as a flat read-only array; a `ModelFileError` if its type is wrong."""
    if name not in arrays:
        raise ModelFileError(
            f"the model's arrays lack {name!r}; the model file is damaged or of another format"
        )
    found = arrays[name]
    if found.ndim != 1 or found.dtype != dtype:
        raise ModelFileError(
            f"the model's array `{name}` needs a flat array of {np.dtype(dtype)}, got "
            f"{found.dtype} of shape {found.shape}"
        )
    array: NDArray[T] = np.asarray(found, dtype=dtype)
    return read_only(array)


def stored_width(arrays: Mapping[str, AnyArray]) -> int:
    """The number of features that a model was fitted to, read from its array ``n_features``."""
    width = flat_array(arrays, "n_features", np.int64)
    require(width.size == 1 and width[0] >= 1, "n_features needs one number from 1 up")
    return int(width[0])


def partitions(starts: IntArray, size: int) -> bool:
    """Whether ``starts`` rises from 0 to ``size``, and so divides ``size`` items into spans."""
    if starts.size == 0 or starts[0] != 0 or starts[-1] != size:
        return False
    return bool((starts[1:] >= starts[:-1]).all())


def rises_within(values: AnyArray, starts: IntArray) -> bool:
    """Whether the values of each span rise strictly; ``starts`` says where each span begins."""
    first_of_span = np.zeros(values.size + 1, dtype=np.bool_)
    first_of_span[starts] = True
    rising = values[1:] > values[:-1]
    return bool(rising[~first_of_span[1:-1]].all())


def require(rule: bool, message: str) -> None:
    """Raise a `ModelFileError` with this message, unless ``rule`` is true."""
    if not rule:
        raise ModelFileError(
            f"the model's arrays are damaged: {message}; restore the model file from a copy, or "
            f"fit the model again"
        )
