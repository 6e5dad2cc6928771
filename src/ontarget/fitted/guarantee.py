"""Promises from the assure episodes (held-out runs): alarm thresholds, bands for the outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from ontarget._typing import BoolArray, FloatArray
from ontarget.conformal.levels import (
    Level,
    ceil_rank,
    exact_confidence,
    exact_rate,
    needed_within,
    rank_within,
)
from ontarget.conformal.ranks import Interval
from ontarget.errors import Argument, FewEpisodesError
from ontarget.evaluation import sustained
from ontarget.fitted.kernels import KNOTS, SLACK
from ontarget.fitted.law import StepLaw


@dataclass(frozen=True)
class Threshold:
    """An alarm threshold, and the false-alarm rate that is promised for it (or only measured).

    The promise: a run that meets its target raises any alarm with probability at most ``rate``, on
    average over the sets of assure episodes (held-out runs) that might have been recorded. Each
    such set has its own true rate. Over sets of independent episodes, the true rate is distributed
    as Beta(k, m + 1 − k), and is at most as high if scores are tied; `spread` gives the range. With
    a ``confidence``, the rate is at most ``rate`` for at least that share of the sets, and not only
    on average (method M20 in docs/methods.md). Whether the rate is promised or measured is in
    `Trigger.measured`.

    The threshold ``value`` is the k-th lowest score of m episodes, where the score of an episode is
    the lowest p that it ever had (see `alarm_scores`). The m episodes are the assure episodes that
    met the target and the ``stopped`` ones, which were cut off. A stopped episode counts as one
    that met the target and raised an alarm (method M24). ``others`` estimates the range in which
    the threshold would be with another set of as many assure episodes, in nine of ten cases.
    """

    value: float
    rate: float
    k: int
    m: int
    confidence: float | None = None
    stopped: int = 0
    others: tuple[float, float] | None = None

    def spread(self, level: float = 0.9) -> tuple[float, float]:
        """The range in which the true false-alarm rate lies for most sets of assure episodes.

        Assure episodes are the held-out runs that the threshold comes from. The range is from the 5
        % to the 95 % quantile of Beta(k, m + 1 − k), for ``level=0.9``. If no two scores are equal,
        nine in ten of the sets of this size that might have been recorded have their true rate in
        it. If scores are tied, the rate can be below the range; it is at most the upper end for at
        least 95 in 100 sets. (The verdict of an evaluation allows for rates up to the 97.5 %
        quantile, which is a little higher.) It is not a probability statement about the actual set.
        """
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        low, high = betaincinv(self.k, self.m + 1 - self.k, tails)
        return float(low), float(high)


def alarm_scores(
    p: FloatArray, for_steps: int = 1, *, resets: BoolArray | None = None
) -> FloatArray:
    """(episodes,): each episode's score: any alarm threshold above it would have raised an alarm.

    ``p`` is (steps, episodes), NaN after the end of an episode and at steps that are UNKNOWN. The
    alarm is raised if p is below the threshold at ``for_steps`` known steps in a row, so for one
    step the score is the episode's lowest p. The score is +inf if an episode never has so many
    known steps. ``resets`` marks unusable states, where the count starts again. See method M8 in
    docs/methods.md.

    Examples
    --------
    >>> p = np.array([[0.9, 0.8], [0.2, 0.7], [0.6, np.nan]])
    >>> print(alarm_scores(p), alarm_scores(p, for_steps=2))
    [0.2 0.7] [0.6 0.8]
    """
    check_known(p)
    lowest: FloatArray = np.fmin.reduce(sustained(p, for_steps, resets=resets), axis=0)
    return np.where(np.isnan(lowest), math.inf, lowest)


def check_known(p: FloatArray) -> None:
    """Raise a `FewEpisodesError` if p is known at no step of any episode."""
    if np.isnan(p).all():
        raise FewEpisodesError(
            "a false-alarm rate needs episodes with a known p at some step, and there are none; "
            "record more episodes, or lower min_calibration="
        )


def promised_threshold(
    scores: FloatArray,
    met: BoolArray,
    rate: Level,
    *,
    part: str = "assure",
    confidence: Level | None = None,
    stopped: int = 0,
) -> Threshold:
    """The highest alarm threshold whose false-alarm rate is at most ``rate``."""
    # ``scores`` has the lowest p of each episode (more exactly, the result of `alarm_scores`), and
    # ``met`` says which episodes met the target. ``part`` is the name of the part of the split that
    # these episodes come from, for messages. ``stopped`` further episodes were cut off: in the
    # worst case each would have met the target and raised an alarm (method M24). With scores of
    # learning episodes the threshold is computed in the same way, but its rate is only measured,
    # not promised (method M16).
    exact = exact_rate(rate)
    kept = np.sort(scores[met])
    m = int(kept.size) + stopped
    k = rank_within(exact, m, confidence)
    if k <= stopped:
        sure = "" if confidence is None else f" with confidence {confidence}"
        less = "" if confidence is None else " or a lower confidence"
        beside = f" beside {stopped:,} that were cut off" if stopped else ""
        needed = needed_within(exact, confidence, rank=stopped + 1) - stopped
        raise FewEpisodesError(
            Argument("false_alarm_rate", float(exact)),
            f"{sure} needs at least {needed} {part} episodes that met the target{beside}, has "
            f"{kept.size}; record more, or accept a higher rate{less}",
        )
    return Threshold(
        value=float(kept[k - stopped - 1]),
        rate=float(exact),
        k=k,
        m=m,
        confidence=None if confidence is None else float(exact_confidence(confidence)),
        stopped=stopped,
        others=_others(kept, k, m, stopped),
    )


def _others(kept: FloatArray, k: int, m: int, stopped: int) -> tuple[float, float]:
    """The 5th and 95th percentile of the k-th lowest of m scores that are drawn from ``kept``."""
    # It is the range in which the threshold would be with another set of episodes. ``stopped`` of
    # the m episodes were cut off.
    places = np.ceil(m * betaincinv(k, m + 1 - k, np.array([0.05, 0.95]))).astype(np.intp)
    low, high = kept[np.clip(places - stopped - 1, 0, kept.size - 1)].tolist()
    return low, high


def band_depth(excess: FloatArray, level: Level, confidence: Level | None = None) -> float:
    """How far the band for the outcome reaches from the predicted median, in probability."""
    k = ceil_rank(level, excess.size, confidence)
    return math.inf if k > excess.size else float(np.sort(excess)[k - 1])


def band_interval(step: StepLaw, X: FloatArray, depth: float) -> Interval:
    """For each row, the band for the remainder (what is still to earn): a closed interval."""
    low, high = _band_levels(step, depth)
    if math.isinf(high):
        whole = np.full(X.shape[0], math.inf)
        return Interval(-whole, whole)
    return Interval(
        step.quantile(X, max(low, 0.0), side="left"), step.quantile(X, min(high, 1.0), side="right")
    )


def in_band(step: StepLaw, X: FloatArray, y: FloatArray, depth: float) -> BoolArray:
    """(rows,): whether each row's remainder y is in its band; no quantile is computed."""
    low, high = _band_levels(step, depth)
    below, up_to = step.cdf_limits(X, y)
    return (up_to >= max(low, 0.0)) & (below <= min(high, 1.0))


def _band_levels(step: StepLaw, depth: float) -> tuple[float, float]:
    """The quantile levels of a band's lower and upper end; infinite for the whole line."""
    knots, heights = KNOTS, step.curve
    if not heights.size:
        knots = np.concatenate([[0.0], step.ranks.values, [1.0]])
        heights = np.arange(knots.size) / (knots.size - 1)
    if math.isinf(depth) or knots.size == 2:
        return -math.inf, math.inf
    reach = np.array([0.5 - depth - SLACK, 0.5 + depth + SLACK])
    low, high = np.interp(reach, heights, knots)
    # Outwards by the rounding error of the interpolation: an outcome may lie exactly on an end.
    return float(low - 2.0 * np.spacing(low)), float(high + 2.0 * np.spacing(high))
