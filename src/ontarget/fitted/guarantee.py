"""What the assure episodes promise: alarm thresholds (M8) and one guarantee per episode (M9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import betaincinv

from ontarget._typing import BoolArray, FloatArray
from ontarget.conformal._levels import (
    Level,
    ceil_rank,
    exact_confidence,
    exact_level,
    exact_rate,
    needed_within,
    rank_within,
)
from ontarget.conformal.results import Interval
from ontarget.errors import Argument, CalibrationError, FewEpisodesError
from ontarget.evaluation import sustained
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import SLACK
from ontarget.fitted.law import StepLaw

__all__ = [
    "Threshold",
    "alarm_scores",
    "allowance",
    "band_depth",
    "band_interval",
    "check_known",
    "in_band",
    "promised_threshold",
]


@dataclass(frozen=True)
class Threshold:
    """An alarm threshold with a promised false-alarm rate, or a measured one (`Trigger.measured`).

    A run that meets its target raises any alarm with probability at most ``rate``, on average over
    the sets of assure episodes that might have been recorded. Each set has its own true rate. Over
    sets of independent episodes, it is distributed as Beta(k, m + 1 − k), or stochastically at most
    so if there are ties; `spread` shows the range. With a ``confidence``, the rate is at most
    ``rate`` for that share of the sets, and not only on average (M20).

    The m episodes are the assure episodes that met the target and those that were ``stopped`` (cut
    off); each of the latter counts as one that met the target and raised an alarm (M24). If
    episodes have weights, the threshold is for a run of this ``weight``, and the episodes are worth
    ``n_eff`` unweighted ones (M25). ``others`` is an estimate of the range in which the threshold
    would lie with another assure set of this size, in nine of ten cases; None if episodes have
    weights.
    """

    value: float
    rate: float
    k: int
    m: int
    confidence: float | None = None
    stopped: int = 0
    weight: float | None = None
    n_eff: float | None = None
    others: tuple[float, float] | None = None

    def spread(self, level: float = 0.9) -> tuple[float, float]:
        """The central range of true false-alarm rates, over sets of as many assure episodes.

        A share ``level`` of the sets that might have been recorded has its true rate in this range.
        It says where the rate of this set is likely to be, but is not a probability about it.
        """
        if self.n_eff is not None:
            raise CalibrationError(
                f"the spread of a rate is not known for assure episodes with weights; they are "
                f"worth {self.n_eff:.1f} episodes without weights"
            )
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        low, high = betaincinv(self.k, self.m + 1 - self.k, tails)
        return float(low), float(high)


def alarm_scores(
    p: FloatArray, for_steps: int = 1, *, resets: BoolArray | None = None
) -> FloatArray:
    """Each episode's score: the alarm is raised by every threshold above the score (M8).

    ``p`` is (steps, episodes), NaN where the episode is over or the step is UNKNOWN. The score is
    +inf if an episode never has ``for_steps`` known steps in a row. ``resets`` marks where a bad
    reading starts the count again.

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
    """Raise a `FewEpisodesError` if no episode has a known step to compute a threshold from."""
    if np.isnan(p).all():
        raise FewEpisodesError(
            "a rate of false alarms needs episodes with known steps, and there are none; record "
            "more episodes, or lower min_calibration"
        )


def promised_threshold(
    scores: FloatArray,
    met: BoolArray,
    rate: Level,
    *,
    part: str = "assure",
    confidence: Level | None = None,
    stopped: int = 0,
    weights: FloatArray | None = None,
    weight: float | None = None,
) -> Threshold:
    """The highest threshold whose false-alarm rate is at most the promised one (M8, M20).

    ``part`` is the name of the episodes' part. ``stopped`` further episodes were cut off: in the
    worst case each would have met the target and raised an alarm (M24). With scores of learning
    episodes the threshold is computed in the same way, but its rate is only measured, not promised
    (M16).
    """
    exact = exact_rate(rate)
    if weights is not None:
        return _weighted_threshold(scores[met], exact, weights[met], weight)
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
    """The 5th and 95th percentiles of the k-th lowest of m scores drawn from these (M8)."""
    places = np.ceil(m * betaincinv(k, m + 1 - k, np.array([0.05, 0.95]))).astype(np.intp)
    low, high = kept[np.clip(places - stopped - 1, 0, kept.size - 1)].tolist()
    return low, high


def allowance(rate: Level, weights: FloatArray, weight: float | None) -> Fraction:
    """ε(W + w) − w: the weight that may lie at or below a new run of weight w (M25).

    A weight that is too large to promise anything is refused. Without a weight, the mean weight is
    used.
    """
    exact = exact_level(rate)
    own = float(weights.mean()) if weight is None and weights.size else weight or 1.0
    left = exact * Fraction(float(weights.sum()) + own) - Fraction(own)
    if left < 0:
        most = float(exact / (1 - exact)) * float(weights.sum())
        raise FewEpisodesError(
            f"a rate of {float(exact):g} cannot be promised for a run of weight {own:.4g}: with "
            f"{weights.size:,} assure episodes of total weight {weights.sum():.4g} to judge by, a "
            f"run may weigh at most {most:.4g}; record more episodes, or accept a higher rate"
        )
    return left


def _weighted_threshold(
    scores: FloatArray, rate: Fraction, weights: FloatArray, weight: float | None
) -> Threshold:
    """The highest τ such that (w + Σ w_i 1[P_i ≤ p])/(W + w) ≤ ε for every p below it (M25)."""
    left = allowance(rate, weights, weight)
    order = np.argsort(scores, kind="stable")
    upto = np.cumsum(weights[order])
    k = int(np.searchsorted(upto, float(left), side="right"))
    while k > 0 and Fraction(float(upto[k - 1])) > left:  # floats are compared as they are
        k -= 1
    while k < upto.size and Fraction(float(upto[k])) <= left:
        k += 1
    return Threshold(
        value=float(scores[order[k]]) if k < upto.size else math.inf,
        rate=float(rate),
        k=k + 1,
        m=int(upto.size),
        weight=weight,
        n_eff=float(weights.sum() ** 2 / (weights**2).sum()),
    )


def band_depth(excess: FloatArray, level: Level, confidence: Level | None = None) -> float:
    """M_(k) with k = ⌈level (m + 1)⌉: how far from ½ the band at this level reaches (M9, M20).

    +inf where m assure episodes cannot attain the level: the band is then the whole line.
    """
    k = ceil_rank(level, excess.size, confidence)
    return math.inf if k > excess.size else float(np.sort(excess)[k - 1])


def band_interval(step: StepLaw, X: FloatArray, depth: float) -> Interval:
    """The outcomes y of each row with d_t(y) ≤ depth, as a closed interval (M9).

    The band reaches from the quantile of the law at c⁻¹(½ − depth) to that at c⁻¹(½ + depth), where
    c is the step's curve, or in the paper's way its interpolated ranks, ties or not (M19).
    """
    low, high = _band_levels(step, depth)
    if math.isinf(high):
        whole = np.full(X.shape[0], math.inf)
        return Interval(-whole, whole)
    return Interval(
        step.quantile(X, max(low, 0.0), side="left"), step.quantile(X, min(high, 1.0), side="right")
    )


def in_band(step: StepLaw, X: FloatArray, y: FloatArray, depth: float) -> BoolArray:
    """Whether each row's outcome is in its band, computed from the law at that outcome.

    y is at or above the lower quantile if F(y) reaches its level, and at or below the upper
    quantile if F(y−) does not exceed its level.
    """
    low, high = _band_levels(step, depth)
    below, up_to = step.cdf_limits(X, y)
    return (up_to >= max(low, 0.0)) & (below <= min(high, 1.0))


def _band_levels(step: StepLaw, depth: float) -> tuple[float, float]:
    """Between which levels of the step's law the band lies; infinite for the whole line."""
    knots, heights = KNOTS, step.curve
    if not heights.size:
        knots = np.concatenate([[0.0], step.ranks.values, [1.0]])
        heights = np.arange(knots.size) / (knots.size - 1)
    if math.isinf(depth) or knots.size == 2:
        return -math.inf, math.inf
    reach = np.array([0.5 - depth - SLACK, 0.5 + depth + SLACK])
    low, high = np.interp(reach, heights, knots)
    # Outwards by what the interpolation may have lost: a limit of the law may be met exactly.
    return float(low - 2.0 * np.spacing(low)), float(high + 2.0 * np.spacing(high))
