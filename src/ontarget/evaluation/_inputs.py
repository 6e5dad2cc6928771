"""Checks of the arrays that are passed to the measures."""

from __future__ import annotations

import numpy as np

from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from ontarget.errors import Argument, InputError


def check_numbers(name: str, values: ArrayLike, *, ndim: int = 1) -> FloatArray:
    """The values as a float64 array with this many dimensions; refused if empty or with a NaN."""
    array = _floats(name, values)
    if array.ndim != ndim:
        raise InputError(
            Argument(name),
            f" needs {ndim} dimension{'s' if ndim > 1 else ''}, got shape {array.shape}",
        )
    if array.size == 0:
        raise InputError(Argument(name), " needs at least one value, got none")
    _refuse(name, "numbers", array, np.isnan(array))
    return array


def check_probabilities(name: str, values: ArrayLike) -> FloatArray:
    """The values as a one-dimensional array of numbers in [0, 1]; anything else is refused."""
    array = check_numbers(name, values)
    _refuse(name, "numbers in [0, 1]", array, (array < 0.0) | (array > 1.0))
    return array


def check_flags(name: str, values: ArrayLike) -> BoolArray:
    """The values as a one-dimensional array of booleans; 1 means true and 0 means false."""
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise InputError(Argument(name), f" needs 1 dimension, got shape {raw.shape}")
    if raw.dtype == np.bool_:
        return raw
    array = _floats(name, raw)
    _refuse(name, "true and false only, or 1 and 0", array, ~np.isin(array, (0.0, 1.0)))
    flags: BoolArray = array == 1.0
    return flags


def check_panel(name: str, values: ArrayLike, *, unit: bool = False) -> FloatArray:
    """The values as an array (steps, episodes); refused if all of them are NaN.

    NaN marks steps after the end of an episode. With ``unit=True``, values outside [0, 1] are
    refused.
    """
    array = _floats(name, values)
    if array.ndim != 2:
        raise InputError(
            Argument(name),
            f" needs shape (steps, episodes), got shape {array.shape}",
        )
    if np.isnan(array).all():
        raise InputError(Argument(name), " needs at least one value that is not NaN, got none")
    _refuse(name, "finite numbers (NaN where there is none)", array, np.isinf(array))
    if unit:
        _refuse(name, "numbers in [0, 1]", array, (array < 0.0) | (array > 1.0))
    return array


def check_same_size(**arrays: AnyArray) -> None:
    """Refuse arrays whose last axes differ in length."""
    sizes = {name: array.shape[-1] for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        first, *others = map(Argument, sizes)
        named = [part for name in others for part in (" and ", name)]
        raise InputError(first, *named, f" need the same length, got {listed}")


def _floats(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(Argument(name), f" needs numbers, got {values!r}") from error


def _refuse(name: str, rule: str, array: FloatArray, wrong: BoolArray) -> None:
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = place[0] if len(place) == 1 else place
        more = int(np.count_nonzero(wrong)) - 1
        also = f" and {more} more" if more else ""
        raise InputError(
            Argument(name), f" needs {rule}, got {array[place]} at position {where}{also}"
        )
