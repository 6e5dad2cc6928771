"""The spread of p: how uncertain it is because of the finite number of assure episodes (M20)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray

__all__ = ["SPREAD_LEVEL", "share_bounds", "spread_table"]

SPREAD_LEVEL = 0.9
# Up to so many episodes every count has bounds of its own; beyond, bounds are interpolated.
_MOST_ENTRIES = 257
# Numbers of episodes beyond this one share bounds with the next smaller rung: 2 % apart.
_EXACT, _RATIO = 64, 1.02


def share_bounds(n: int) -> FloatArray:
    """(2, entries): Clopper–Pearson bounds for evenly spaced shares of n episodes, 0 to 1.

    Examples
    --------
    >>> print(np.round(share_bounds(2), 3))
    [[0.    0.025 0.224]
     [0.776 0.975 1.   ]]
    """
    return _bounds(_rung(n))


def spread_table(counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """The bounds for these numbers of episodes, (2, entries), and where those of each lie."""
    sizes, place = np.unique(counts, return_inverse=True)
    names, rung = np.unique([_rung(n) for n in sizes.tolist()], return_inverse=True)
    which = rung[place.reshape(-1)]
    tables = [_bounds(n) for n in names.tolist()]
    ends = np.cumsum([table.shape[1] for table in tables])
    spans = np.stack([ends - [table.shape[1] for table in tables], ends], axis=1)
    found = spans[which].reshape(*counts.shape, 2).astype(np.intp)
    return read_only(np.concatenate(tables, axis=1)), read_only(found)


def _rung(n: int) -> int:
    """The number of episodes whose bounds are taken for n: n itself, or a little less."""
    if n <= _EXACT:
        return n
    steps = np.floor(np.log(n / _EXACT) / np.log(_RATIO) + 1e-9)
    return min(n, int(np.floor(_EXACT * _RATIO**steps)))


@lru_cache(maxsize=1024)
def _bounds(n: int) -> FloatArray:
    if n == 0:
        return read_only(np.array([[0.0, 0.0], [1.0, 1.0]]))
    entries = min(n + 1, _MOST_ENTRIES)
    inside = np.linspace(0.0, n, entries)
    tail = (1.0 - SPREAD_LEVEL) / 2.0
    low, high = np.zeros(entries), np.ones(entries)
    low[1:] = betaincinv(inside[1:], n - inside[1:] + 1.0, tail)
    high[:-1] = betaincinv(inside[:-1] + 1.0, n - inside[:-1], 1.0 - tail)
    return read_only(np.stack([low, high]))
