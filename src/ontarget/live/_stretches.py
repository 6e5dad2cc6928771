"""Where the value of an array changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ontarget._typing import IndexArray

__all__ = ["stretches"]


def stretches(values: IndexArray) -> list[tuple[int, int]]:
    """The beginning and the end of each stretch of equal values, in order.

    Examples
    --------
    >>> stretches(np.array([3, 3, 1]))
    [(0, 2), (2, 3)]
    """
    if not values.size:
        return []
    inner = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    return list(pairwise([0, *inner, values.size]))
