"""Finds where equal neighbouring values begin and end in an array."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ontarget._typing import IndexArray


def stretches(values: IndexArray) -> list[tuple[int, int]]:
    """The start and the end of each stretch of equal neighbouring values, in order.

    The end is the position after the last value of the stretch.

    Examples
    --------
    >>> stretches(np.array([3, 3, 1]))
    [(0, 2), (2, 3)]
    """
    if not values.size:
        return []
    inner = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    return list(pairwise([0, *inner, values.size]))
