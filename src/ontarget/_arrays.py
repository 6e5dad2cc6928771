"""Read-only arrays, and numbers from whatever a caller passes.

NumPy would read a masked entry as the value under the mask, a date as its ticks and a complex
number as its real part. Here a masked entry is missing, and the others are errors.
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import AnyArray, FloatArray

T = TypeVar("T", bound=np.generic)


def read_only(array: NDArray[T]) -> NDArray[T]:
    """The array, contiguous and read-only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def freeze(owner: object, *own: str, **arrays: AnyArray) -> None:
    """Set read-only copies of arrays as attributes of a frozen value object, or of its own ones."""
    for name, array in {**{name: getattr(owner, name) for name in own}, **arrays}.items():
        object.__setattr__(owner, name, read_only(np.array(array)))


# NumPy's kinds of types whose values are real numbers.
NUMBER_KINDS: Final = frozenset("fiub")
_PLAIN: Final = (float, int)  # a tuple, for a union would be built at every reading


def number_of(value: Any) -> float:
    """The value as a float; NaN if the value is a masked entry of an array."""
    if isinstance(value, _PLAIN):
        return float(value)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]  # a masked array's own masked entry is np.ma.masked
    if value is np.ma.masked:
        return math.nan
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("c", "m", "M", "V"):
        raise TypeError(f"cannot use a value of type {type(value).__name__} as a number")
    return float(value)


def number_or_nan(value: object) -> float:
    """The value as a float; NaN if it is not a number. It never raises an error."""
    try:
        return number_of(value)
    except Exception:
        return math.nan


def numbers_of(values: object) -> FloatArray:
    """The values as an array of floats; NaN for those that are masked or not numbers."""
    array: AnyArray = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.dtype.kind not in NUMBER_KINDS:
        ones = array if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
        flat = [number_or_nan(one) for one in ones.reshape(-1)]
        return np.array(flat, dtype=np.float64).reshape(ones.shape)
    found: FloatArray = array.astype(np.float64, copy=False)
    return found.filled(np.nan) if isinstance(found, np.ma.MaskedArray) else found


def shown(value: object) -> str:
    """A short text for any value, even if its own ``repr`` fails."""
    try:
        return reprlib.repr(value)
    except Exception:
        name = type(value).__name__
        return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
