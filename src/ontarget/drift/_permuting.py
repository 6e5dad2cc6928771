"""One exact test of whether new runs differ from the recorded ones (M36): a permutation test.

If nothing has changed, every division of all runs into recorded and new ones was equally likely. So
the test divides them at random many times and counts how often they differ as much as they do.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ontarget._typing import FloatArray, IndexArray

_MOST_MOVED = 50_000_000  # runs moved in all divisions together: about a second
_CHUNK = 1_000_000  # numbers in memory at a time
_LATER = (1, 4 / 3, 2, 4, 8)  # all new runs, the last three quarters, half, quarter, eighth
_FEWEST = 10  # runs in such a last part
_LATER_COST = 0.7  # standard errors: keeps the power for a change in all new runs (bench/drift.py)
_ROUNDING = 1e-9  # divisions that differ by less differ as much


def draws_for(rate: Fraction, n: int) -> int:
    """How many random divisions of n runs to try for a test with this rate of false alarms.

    9,999 for 1 %, fewer if there are very many runs. One more than this number is a multiple of
    1/rate (up to rounding), so that no part of the rate is lost.
    """
    times = min(100, max(4, int(_MOST_MOVED * rate / n)))
    return math.ceil(times / rate) - 1


def suffixes(n_new: int, *, ordered: bool) -> list[int]:
    """The numbers of last new runs that are compared with all others, from all new runs down.

    Without an order of time only all new runs are compared.
    """
    sizes = [math.ceil(n_new / by) for by in _LATER[: len(_LATER) if ordered else 1]]
    return list(dict.fromkeys([n_new, *(size for size in sizes[1:] if size >= _FEWEST)]))


def p_value(
    scores: FloatArray,
    groups: IndexArray,
    sizes: list[int],
    *,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """The chance that runs differ at least as much as these if nothing has changed.

    ``scores`` (runs, scores) has the recorded runs first, then the new ones in their order;
    ``sizes`` says how many last rows are compared with all others, from all new runs down. The
    difference is the largest over the scores and sizes, each in standard errors; the sizes after
    the first count for a little less. Runs are exchanged within their group only. The result is
    (1 + b)/(1 + draws) for b random divisions that differ as much, which makes the test exact.
    """
    centred, error = _standardised(scores, groups, sizes)
    n, k = scores.shape
    new = n - sizes[0]
    starts = sizes[0] - np.array(sizes, dtype=np.intp)
    cost = np.where(starts > 0, _LATER_COST, 0.0)

    def differences(rows: FloatArray) -> FloatArray:
        parts = np.add.reduceat(rows, starts, axis=1)
        sums = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]  # of each part and all later ones
        found: FloatArray = ((np.abs(sums) / error).max(axis=2) - cost).max(axis=1)
        return found

    least = float(differences(centred[None, new:])[0]) - _ROUNDING
    own = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    as_much, chunk = 1, max(1, _CHUNK // (n * k))
    for first in range(0, draws, chunk):
        arranged = np.empty((min(chunk, draws - first), n), dtype=np.intp)
        for rows in own:
            moved = np.broadcast_to(rows, (len(arranged), rows.size))
            arranged[:, rows] = rng.permuted(moved, axis=1)
        as_much += int(np.count_nonzero(differences(centred[arranged[:, new:]]) >= least))
    return as_much / (draws + 1)


def _standardised(
    scores: FloatArray, groups: IndexArray, sizes: list[int]
) -> tuple[FloatArray, FloatArray]:
    """The scores minus the mean of their group, and the standard errors (sizes, scores) of sums.

    The sums are over that many last rows, if runs are exchanged within their group. A score that
    is the same for all runs gets an infinite error, so that it plays no part.
    """
    centred, variance = scores.astype(np.float64), np.zeros((len(sizes), scores.shape[1]))
    for g in np.unique(groups):
        own = groups == g
        centred[own] -= centred[own].mean(axis=0)
        n = int(np.count_nonzero(own))
        spread = (centred[own] ** 2).sum(axis=0) / max(n - 1, 1)
        for row, size in enumerate(sizes):
            drawn = int(np.count_nonzero(own[len(own) - size :]))
            variance[row] += spread * drawn * (n - drawn) / n
    scale = (
        (scores**2).mean(axis=0) * len(scores) * 1e-24
    )  # of a score that differs by rounding only
    return centred, np.where(variance > scale, np.sqrt(variance), math.inf)
