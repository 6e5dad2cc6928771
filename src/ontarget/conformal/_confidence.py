"""For each value of a sample, an upper bound on the probability that a new value is below it.

All these bounds hold at once. So one may look at the data first, and then choose a value and its
bound (method M20 in docs/methods.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincinv

from ontarget._readonly import read_only
from ontarget._typing import FloatArray
from ontarget.conformal._levels import Level, exact_confidence

_DRAWS, _FEWEST_DRAWS = 10_000, 2_000
_NUMBERS = 40_000_000  # at most so many random numbers, if that leaves the fewest draws
_BLOCK = 2_000_000
_CANDIDATES = 64  # per draw: those whose tail is exactly computed


def bounds_at_once(m: int, confidence: Level) -> FloatArray:
    """Upper bounds on the probability of being below each of m sorted values, (m,), all at once.

    The m values come from independent episodes. Entry k − 1 bounds the probability that a new value
    is below the k-th smallest one. With the given confidence none of the m bounds is exceeded, so
    a bound still holds if its k was chosen after looking at the values.

    Each bound is the quantile of Beta(k, m + 1 − k) at 1 − γ′. The tail probability γ′ is found by
    simulation with a fixed seed and made smaller by two standard errors, to be on the safe side.

    Examples
    --------
    >>> pointwise, at_once = betaincinv(10, 191, 0.95), bounds_at_once(200, 0.95)[9]
    >>> print(round(float(pointwise), 3), round(float(at_once), 3))
    0.077 0.106
    """
    k = np.arange(1, m + 1)
    tail = _tail(m, float(1 - exact_confidence(confidence)))
    return read_only(1.0 - betaincinv(m + 1 - k, k, tail))


@lru_cache(maxsize=64)
def _tail(m: int, missed: float) -> float:
    """The tail probability γ′ of each single bound, for m bounds that hold all at once.

    With this γ′, which is found by simulation, the probability that any of the m bounds fails is at
    most ``missed``.
    """
    rng = np.random.default_rng([20, m])
    draws = max(_FEWEST_DRAWS, min(_DRAWS, _NUMBERS // max(m, 1)))
    rows = max(1, _BLOCK // (m + 1))
    lowest = [_lowest_tails(m, min(rows, draws - a), rng) for a in range(0, draws, rows)]
    allowed = missed * draws - 2.0 * math.sqrt(missed * (1.0 - missed) * draws)
    # A smaller tail only widens the bounds. If no failure is allowed, go below the lowest one seen.
    ordered = np.sort(np.concatenate(lowest))
    rank = math.floor(allowed)
    return float(ordered[rank - 1]) if rank >= 1 else float(ordered[0]) * missed / 2.0


def _lowest_tails(m: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """The smallest tail probability in each of ``draws`` simulated samples, (draws,).

    A sample is m uniform random numbers. The k-th smallest of these, U_(k), has a Beta(k, m + 1 −
    k) distribution. The tail probability of U_(k) is the chance that a number from this
    distribution exceeds U_(k).
    """
    gaps = rng.exponential(size=(draws, m + 1)).cumsum(axis=1)
    ordered = gaps[:, :-1] / gaps[:, -1:]
    # The tail is P(Bin(m, U) < k), about exp(−m·divergence) of the share from U: the least is
    # among the greatest divergences.
    share = (np.arange(1, m + 1) - 0.5) / m
    divergence = share * np.log(share / ordered)
    divergence += (1.0 - share) * np.log((1.0 - share) / (1.0 - ordered))
    divergence[ordered <= share] = -1.0
    some = min(_CANDIDATES, m)
    at = np.argpartition(divergence, m - some, axis=1)[:, m - some :]
    near = np.take_along_axis(ordered, at, axis=1)
    tails: FloatArray = betainc(m - at, at + 1, 1.0 - near)  # 1 − I_u(a, b) = I_{1−u}(b, a)
    lowest: FloatArray = tails.min(axis=1)
    return lowest
