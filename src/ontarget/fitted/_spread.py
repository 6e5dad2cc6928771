"""The spread of p: how exactly a limited number of assure episodes can confirm p.

Assure episodes are the held-out runs that back the promises.

See method M20 in docs/methods.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray

__all__ = ["SPREAD_LEVEL", "share_bounds", "spread_table"]

SPREAD_LEVEL = 0.9
# With up to 256 episodes every count has bounds of its own; with more they are interpolated.
_MOST_ENTRIES = 257
# Up to _EXACT episodes, each number has its own table of bounds. Above, there is a table for
# every 2 % more episodes (a rung), and numbers in between use the next smaller rung.
_EXACT, _RATIO = 64, 1.02


def share_bounds(n: int) -> FloatArray:
    """(2, entries): the 90 % Clopper–Pearson intervals of a share that was measured on n episodes.

    For more than 64 episodes they may be the slightly wider intervals of up to 2 % fewer episodes.
    The first row has the lower ends, the second row the upper ends. The entries are for evenly
    spaced measured shares from 0 to 1.

    Examples
    --------
    >>> print(np.round(share_bounds(2), 3))
    [[0.    0.025 0.224]
     [0.776 0.975 1.   ]]
    """
    return _bounds(_rung(n))


def spread_table(counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """The tables of `share_bounds` for several numbers of episodes, joined into one table.

    Returns the joined table, (2, entries), and an array of the shape of ``counts`` plus (2,): where
    the bounds for each count begin and end in the table.
    """
    sizes, place = np.unique(counts, return_inverse=True)
    names, rung = np.unique([_rung(n) for n in sizes.tolist()], return_inverse=True)
    which = rung[place.reshape(-1)]
    tables = [_bounds(n) for n in names.tolist()]
    ends = np.cumsum([table.shape[1] for table in tables])
    spans = np.stack([ends - [table.shape[1] for table in tables], ends], axis=1)
    found = spans[which].reshape(*counts.shape, 2).astype(np.intp)
    return read_only(np.concatenate(tables, axis=1)), read_only(found)


def _rung(n: int) -> int:
    """The number of episodes whose bounds are used for n episodes: n itself, or up to 2 % less.

    Above 64, numbers of episodes that are close together share one table.
    """
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
