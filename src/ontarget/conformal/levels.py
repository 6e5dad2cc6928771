"""Which of n sorted values attains a level, and how many episodes an accuracy needs.

The k-th smallest of n values is used, with k = ⌈level (n + 1)⌉ or similar (M5). With floats,
``ceil(level * (n + 1))`` gives a wrong k at ordinary values. So a level is read as the decimal that
the user typed, and all arithmetic with it is exact. `bounds_at_once` gives bounds that all hold at
once, so that one may look at the data before choosing one (M20).

Planning rests on two facts about n independent episodes that no model has seen. Over such sets, the
true coverage of intervals has a Beta distribution. And with probability 1 − δ, the share of the n
ranks up to any number is at most sqrt(ln(2/δ) / 2n) away from the share that infinitely many
episodes would give (Dvoretzky, Kiefer, Wolfowitz, with Massart's constant). With ties, coverage
is at least as high, and a false-alarm rate at most as high. A monitor's p is calibrated with the
learning episodes (M17), so for p both facts are only a rough guide; they describe the error that
comes from chance, not how good the model is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import bdtr, betainc, betaincinv

from ontarget._arguments import whole_number
from ontarget._arrays import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.errors import Argument, CalibrationError, InputError, Placeholder

Level: TypeAlias = float | str | Fraction | Decimal

_HINT = "0.9 asks for nine in ten"
_DRAWS, _FEWEST_DRAWS = 10_000, 2_000
_NUMBERS = 40_000_000  # at most so many random numbers, if that leaves the fewest draws
_BLOCK = 2_000_000
_CANDIDATES = 64  # per draw: those whose tail is exactly computed


def exact_level(level: Level, *, name: str = "level", hint: str = _HINT) -> Fraction:
    """The level as an exact fraction, read from its decimal digits; 0.9 becomes 9/10."""
    exact = _fraction(str(level))
    if not 0 < exact < 1:
        rule = f" needs a number strictly between 0 and 1, got {level!r}; {hint}"
        raise InputError(Argument(name), rule)
    return exact


def exact_rate(rate: Level) -> Fraction:
    """A false-alarm rate as an exact fraction, strictly between 0 and 1."""
    return exact_level(rate, name="false_alarm_rate", hint="0.05 allows one run in twenty")


@lru_cache(maxsize=256)
def _fraction(text: str) -> Fraction:
    """The number written in the text; if it is not a number, 0, which is not a valid level."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def exact_confidence(confidence: Level) -> Fraction:
    """A confidence as an exact fraction, strictly between 0 and 1."""
    return exact_level(confidence, name="confidence", hint="0.95 holds for at least 95 in 100 sets")


def rank_within(share: Level, n: int, confidence: Level | None = None) -> int:
    """The largest k, from 0 to n, such that at most this share of new values is below the k-th.

    "The k-th" is the k-th smallest of n values, one per episode; k = 0 means that even the smallest
    is too large. Without a confidence, "at most this share" holds on average over sets of n
    episodes: k = ⌊share (n + 1)⌋. With a confidence of 0.95, it holds for at least 95 in 100 such
    sets: k is the largest number with P(Bin(n, share) ≤ k − 1) ≤ 1 − confidence (method M20 in
    docs/methods.md).
    """
    exact = exact_level(share)
    if confidence is None:
        return math.floor(exact * (n + 1))
    missed = 1 - exact_confidence(confidence)
    low, high = 0, n + 1  # low is small enough, high is not
    while high - low > 1:
        k = (low + high) // 2
        low, high = (k, high) if _at_most(k - 1, n, exact, missed) else (low, k)
    return low


def needed_within(share: Level, confidence: Level | None = None, *, rank: int = 1) -> int:
    """The smallest number of episodes n for which `rank_within` returns at least ``rank``."""
    exact = exact_level(share)
    if confidence is None:
        return math.ceil(rank / exact) - 1
    low, high = 0, 1
    while rank_within(exact, high, confidence) < rank:
        low, high = high, 2 * high
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if rank_within(exact, n, confidence) < rank else (low, n)
    return high


def _at_most(count: int, n: int, share: Fraction, limit: Fraction) -> bool:
    """Whether P(Bin(n, share) ≤ count), a binomial probability, is at most the limit."""
    found, bound = float(bdtr(count, n, float(share))), float(limit)
    if abs(found - bound) > 1e-9 * bound:
        return found < bound
    a, b = share.numerator, share.denominator
    exact = sum(math.comb(n, j) * a**j * (b - a) ** (n - j) for j in range(count + 1))
    return bool(exact * limit.denominator <= limit.numerator * b**n)


def ceil_rank(level: Level, n: int, confidence: Level | None = None) -> int:
    """The k, from 1 to n + 1, for coverage of at least the level: ⌈level (n + 1)⌉."""
    return n + 1 - tail_rank(level, n, confidence)


def floor_rank(level: Level, n: int, confidence: Level | None = None) -> int:
    """The k, from 0 to n, for coverage of at most the level: ⌊level (n + 1)⌋."""
    return rank_within(level, n, confidence)


def tail_rank(level: Level, n: int, confidence: Level | None = None) -> int:
    """The k, from 0 to n, for which the k-th rank bounds one side: ⌊(1 − level)(n + 1)⌋."""
    return rank_within(1 - exact_level(level), n, confidence)


def needed_size(level: Level, confidence: Level | None = None) -> int:
    """The smallest number of calibration episodes that gives a finite bound at this level."""
    return needed_within(1 - exact_level(level), confidence)


def require_reachable(
    level: Level,
    n: int,
    confidence: Level | None = None,
    *,
    asked: Level | None = None,
    stopped: int = 0,
) -> None:
    """Raise an error if n calibration episodes are too few for a finite bound at this level."""
    if tail_rank(level, n, confidence) <= stopped:
        needed = needed_within(1 - exact_level(level), confidence, rank=stopped + 1)
        sure = "" if confidence is None else f" with confidence={confidence}"
        cut = f", {stopped:,} of them cut off" if stopped else ""
        raise CalibrationError(
            Argument("level", Placeholder(level if asked is None else asked)),
            f"{sure} needs at least {needed} calibration episodes for a finite bound, has {n}{cut}"
            "; calibrate with more, lower the level, or pass unbounded=True to get an infinite "
            "bound",
        )


def bounds_at_once(m: int, confidence: Level) -> FloatArray:
    """Upper bounds on the probability of being below each of m sorted values, (m,), all at once."""
    k = np.arange(1, m + 1)
    tail = _tail(m, float(1 - exact_confidence(confidence)))
    return read_only(1.0 - betaincinv(m + 1 - k, k, tail))


@lru_cache(maxsize=64)
def _tail(m: int, missed: float) -> float:
    """The tail probability γ′ of each single bound, for m bounds that hold all at once."""
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
    """The smallest tail probability in each of ``draws`` simulated samples, (draws,)."""
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


Side: TypeAlias = Literal["least", "most"]  # k = ⌈coverage(n + 1)⌉ or ⌊coverage(n + 1)⌋

_MOST = 20_000_000
_COVERAGES = (0.8, 0.9, 0.95, 0.99)


def uniform_margin(n: int, level: Level = 0.95) -> float:
    """How far the calibrated CDF of n episodes may be from that of infinitely many episodes."""
    # With probability ``level``, the two differ by at most this much, at all values at once, if
    # episodes are independent. This bounds the share of the n episodes. Calibrated values are
    # counts divided by n + 1, which adds up to 1/(n + 1). So the probability of a target with one
    # bound differs by at most this sum, and that of a target with two bounds by at most twice as
    # much. Infinitely many episodes would still not give the true probability, because the error of
    # the model remains.
    size = whole_number("n", n, least=1)
    rest = 1 - exact_level(level)
    return min(1.0, math.sqrt(math.log(2 / rest) / (2 * size)))


def needed_for_cdf(accuracy: float, level: Level = 0.95) -> int:
    """The smallest number of episodes whose `uniform_margin` is at most the accuracy."""
    rest = 1 - exact_level(level)
    n = max(1, math.ceil(math.log(2 / rest) / (2 * _accuracy(accuracy) ** 2)))
    # The square root may round across the border that the square has rounded to.
    return n if uniform_margin(n, level) <= accuracy else n + 1


def needed_for_coverage(
    coverage: Level, accuracy: float, level: Level = 0.95, *, side: Side = "least"
) -> int:
    """How many episodes bring true coverage within ``accuracy`` of the coverage asked for."""
    # With this many episodes or more, this happens with probability ``level`` or more. Over sets of
    # n independent episodes without ties, true coverage is distributed as Beta(k, n + 1 − k), with
    # k = ⌈coverage (n + 1)⌉. Since k is rounded, the probability goes up and down as n grows; from
    # the returned n on it stays above the level.
    reach, share = _accuracy(accuracy), float(_exact_coverage(coverage))
    sure = float(exact_level(level))
    least = needed_size(coverage) if side == "least" else needed_successes(coverage)

    def inside(n: FloatArray, k: FloatArray) -> FloatArray:
        return _beta_cdf(k, n, share + reach) - _beta_cdf(k, n, share - reach)

    # With k = coverage(n + 1), not rounded, the probability only rises with n, so bisection finds
    # where it reaches the level. Rounding moves k by less than 1 and the mean by less than 1/n.
    # So start a few such steps beyond, and go down to the last n that fails.
    low, high = 1, 1
    while inside(*_unrounded(high, share))[0] < sure:
        low, high = high, 2 * high
        if high > _MOST:
            raise InputError(Argument("accuracy", accuracy), f" needs more than {_MOST:,} episodes")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if inside(*_unrounded(middle, share))[0] < sure else (low, middle)
        )
    top = max(least, math.ceil(high + 4 / reach + 10))
    while top >= least:
        n = np.arange(max(least, top - 9_999), top + 1)
        failing = np.flatnonzero(inside(n.astype(np.float64), _rank(coverage, n, side)) < sure)
        if failing.size:
            return int(n[failing[-1]]) + 1
        top = int(n[0]) - 1
    return least


def needed_successes(false_alarm_rate: Level, confidence: Level | None = None) -> int:
    """How many assure episodes must have met the target, to promise this false-alarm rate."""
    return needed_within(exact_rate(false_alarm_rate), confidence)


@dataclass(frozen=True, slots=True)
class SizePlan:
    """How many episodes an accuracy needs, for each kind of answer.

    Attributes
    ----------
    at_one_threshold
        How many episodes bring the calibrated probability of one target within the accuracy. The
        target has one bound and is chosen beforehand.
    at_all_thresholds
        The same for all targets with one bound at once. The probability of a target with two bounds
        is then within twice the accuracy.
    coverage
        How many episodes bring the true coverage of intervals within the accuracy; a dictionary
        from the coverage asked for to this number.
    coverage_surely
        How many episodes make intervals finite, if their coverage is to hold with the confidence
        ``level`` and not only on average; a dictionary from the coverage asked for to this number.
    successes_to_promise, successes_surely, successes
        How many assure episodes (held-out runs) must meet the target: to promise the false-alarm
        rate at all; to promise it with the confidence ``level``; to have the true rate within the
        accuracy. None if no rate was asked for.
    """

    accuracy: float
    level: float
    at_one_threshold: int
    at_all_thresholds: int
    coverage: dict[float, int]
    coverage_surely: dict[float, int]
    false_alarm_rate: float | None = None
    successes_to_promise: int | None = None
    successes_surely: int | None = None
    successes: int | None = None


def plan_sizes(
    accuracy: float, level: Level = 0.95, *, false_alarm_rate: Level | None = None
) -> SizePlan:
    """How many episodes give this accuracy with probability ``level``, for each kind of answer."""
    alarms: dict[str, Any] = {}
    if false_alarm_rate is not None:
        alarms = {
            "false_alarm_rate": float(exact_rate(false_alarm_rate)),
            "successes_to_promise": needed_successes(false_alarm_rate),
            "successes_surely": needed_successes(false_alarm_rate, level),
            "successes": needed_for_coverage(false_alarm_rate, accuracy, level, side="most"),
        }
    return SizePlan(
        accuracy=_accuracy(accuracy),
        level=float(exact_level(level)),
        # A coverage of one half varies most over sets of episodes, so it needs most episodes.
        at_one_threshold=needed_for_coverage(0.5, accuracy, level),
        at_all_thresholds=needed_for_cdf(accuracy, level),
        coverage={asked: needed_for_coverage(asked, accuracy, level) for asked in _COVERAGES},
        coverage_surely={asked: needed_size(asked, level) for asked in _COVERAGES},
        **alarms,
    )


def _accuracy(accuracy: float) -> float:
    if not 0.0 < accuracy < 0.5:
        raise InputError(
            Argument("accuracy"),
            f" needs a number strictly between 0 and 0.5, got {accuracy!r}; 0.02 asks for two "
            "percentage points",
        )
    return float(accuracy)


def _exact_coverage(coverage: Level) -> Fraction:
    return exact_level(coverage, name="coverage")


def _rank(coverage: Level, n: IndexArray, side: Side) -> FloatArray:
    """The number k of the sorted value that attains a coverage, without rounding errors."""
    exact = _exact_coverage(coverage)
    whole = (n.astype(np.int64) + 1) * exact.numerator
    floor = whole // exact.denominator
    if side == "most":
        return floor.astype(np.float64)
    return (floor + (whole % exact.denominator > 0)).astype(np.float64)


def _unrounded(n: int, share: float) -> tuple[FloatArray, FloatArray]:
    return np.array([float(n)]), np.array([share * (n + 1)])


def _beta_cdf(k: FloatArray, n: FloatArray, x: float) -> FloatArray:
    """The probability that a Beta(k, n + 1 − k) random number is at most x, for each k and n."""
    if x <= 0.0:
        return np.zeros(k.size)
    if x >= 1.0:
        return np.ones(k.size)
    found: FloatArray = betainc(k, n + 1 - k, x)
    return found
