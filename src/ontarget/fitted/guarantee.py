"""What the assure episodes promise: alarm thresholds (M8) and one guarantee per episode (M9)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from ontarget._typing import BoolArray, FloatArray
from ontarget.conformal._levels import Level, ceil_rank, exact_rate
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.results import Interval
from ontarget.errors import Argument, FewEpisodesError
from ontarget.evaluation import sustained

__all__ = ["Threshold", "alarm_scores", "band_depth", "band_interval", "promised_threshold"]


@dataclass(frozen=True)
class Threshold:
    """An alarm threshold with a promised false-alarm rate.

    Over assure sets like this one, a run that meets its target raises any alarm with probability at
    most ``rate``. Given this very set, the rate is Beta(k, m + 1 − k) at most: `spread` shows it.
    """

    value: float
    rate: float
    k: int
    m: int

    def spread(self, level: float = 0.9) -> tuple[float, float]:
        """The central range of the false-alarm rate given this assure set."""
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        low, high = betaincinv(self.k, self.m + 1 - self.k, tails)
        return float(low), float(high)


def alarm_scores(
    p: FloatArray, for_steps: int = 1, *, resets: BoolArray | None = None
) -> FloatArray:
    """The threshold above which each episode would have raised an alarm (M8).

    ``p`` is (steps, episodes), NaN where a step is left out: dead, or UNKNOWN by structure. +inf
    where an episode never has so many known steps. ``resets`` says where a bad reading starts the
    count anew.

    Examples
    --------
    >>> p = np.array([[0.9, 0.8], [0.2, 0.7], [0.6, np.nan]])
    >>> print(alarm_scores(p), alarm_scores(p, for_steps=2))
    [0.2 0.7] [0.6 0.8]
    """
    if np.isnan(p).all():
        raise FewEpisodesError(
            "a promise needs assure episodes with known steps, there are none; record more "
            "episodes, or lower min_calibration"
        )
    lowest: FloatArray = np.fmin.reduce(sustained(p, for_steps, resets=resets), axis=0)
    return np.where(np.isnan(lowest), math.inf, lowest)


def promised_threshold(scores: FloatArray, met: BoolArray, rate: Level) -> Threshold:
    """The highest threshold whose false-alarm rate is at most the promised one (M8)."""
    exact = exact_rate(rate)
    kept = np.sort(scores[met])
    m = int(kept.size)
    k = math.floor(exact * (m + 1))
    if k == 0:
        raise FewEpisodesError(
            Argument("false_alarm_rate", float(exact)),
            f" needs at least {math.ceil(1 / exact) - 1} assure "
            f"episodes that met the target, has {m}; record more, or accept a higher rate",
        )
    return Threshold(value=float(kept[k - 1]), rate=float(exact), k=k, m=m)


def band_depth(excess: FloatArray, level: Level) -> float:
    """M_(k) with k = ⌈level (m + 1)⌉: how far from ½ the band at this level reaches (M9).

    +inf where m assure episodes cannot attain the level: the band is then the whole line.
    """
    k = ceil_rank(level, excess.size)
    return math.inf if k > excess.size else float(np.sort(excess)[k - 1])


def band_interval(pcqr: PCQR, X: FloatArray, depth: float) -> Interval:
    """The outcomes y of each row with d_t(y) ≤ depth, as a closed interval (M9).

    The calibrated CDF is a staircase over the ranks: it has a value at each distinct rank and one
    beyond it. The band starts at the first of these that is not too far below ½, and ends at the
    last that is not too far above.
    """
    ranks = pcqr.ranks
    rows = X.shape[0]
    values = np.unique(ranks.values)
    below, upto = ranks.counts(values)
    whole = ranks.n + 1
    # Numerators over 2(n + 1): before all ranks, then at and beyond each of them.
    stairs = np.concatenate([[1], np.stack([below + upto + 1, 2 * upto + 1], axis=1).ravel()])
    lower, upper = np.full(rows, -math.inf), np.full(rows, math.inf)
    if math.isinf(depth):
        return Interval(lower, upper)
    above = np.flatnonzero((whole - stairs) / (2 * whole) <= depth)
    under = np.flatnonzero((stairs - whole) / (2 * whole) <= depth)
    first, last = int(above[0]), int(under[-1])
    if first > 0:
        rank, beyond = divmod(first - 1, 2)
        lower = pcqr.model.quantile(X, values[rank], side="right" if beyond else "left")
    if last < stairs.size - 1:
        rank, beyond = divmod(last - 1, 2) if last > 0 else (-1, 1)
        upper = pcqr.model.quantile(X, values[rank + beyond], side="left" if beyond else "right")
    return Interval(lower, upper)
