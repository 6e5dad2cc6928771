"""Read-only arrays, for value objects and fitted models."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import AnyArray

T = TypeVar("T", bound=np.generic)


def read_only(array: NDArray[T]) -> NDArray[T]:
    """The array, contiguous and read-only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def freeze(owner: object, **arrays: AnyArray) -> None:
    """Set read-only copies of the arrays as attributes of a frozen value object, by name."""
    for name, array in arrays.items():
        object.__setattr__(owner, name, read_only(np.array(array)))
