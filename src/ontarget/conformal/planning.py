"""How many episodes are needed for an accuracy, and what accuracy a number of episodes gives.

Two facts answer these questions.

- Another set of n episodes would give intervals with another true coverage. Over such sets, the
  true coverage has a Beta distribution.
- With probability 1 − δ, the share of the n ranks up to any number is at most sqrt(ln(2/δ) / 2n)
  away from the share that infinitely many episodes would give (Dvoretzky, Kiefer, Wolfowitz, with
  Massart's constant). Calibrated values have n + 1 in place of n, which adds up to 1/(n + 1).

Both facts assume independent episodes that no model has seen: a monitor's assure episodes (held out
to back its promises), or those that `PCQR` is calibrated on. A tie means that two scores (ranks,
distances, lowest p) are equal, or that the predicted CDF jumps at an outcome. With ties, true
coverage is at least as high as the Beta distribution says, and a false-alarm rate at most as high
(stochastically). A monitor's p is calibrated
with the learning episodes (method M17 in docs/methods.md), so for p both facts are only a rough
guide. They describe the error that comes from chance, not how good the model is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import betainc

from ontarget._arguments import whole_number
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal.levels import Level, exact_level, exact_rate, needed_size, needed_within
from ontarget.errors import Argument, InputError

Side: TypeAlias = Literal["least", "most"]  # k = ⌈coverage(n + 1)⌉ or ⌊coverage(n + 1)⌋

_MOST = 20_000_000
_COVERAGES = (0.8, 0.9, 0.95, 0.99)


def uniform_margin(n: int, level: Level = 0.95) -> float:
    """How far the calibrated CDF of n episodes may be from that of infinitely many episodes.

    Examples
    --------
    >>> round(uniform_margin(2_000), 4)
    0.0304
    """
    size = whole_number("n", n, least=1)
    rest = 1 - exact_level(level)
    return min(1.0, math.sqrt(math.log(2 / rest) / (2 * size)))


def needed_for_cdf(accuracy: float, level: Level = 0.95) -> int:
    """The smallest number of episodes whose `uniform_margin` is at most the accuracy.

    Examples
    --------
    >>> needed_for_cdf(0.02)
    4612
    """
    rest = 1 - exact_level(level)
    n = max(1, math.ceil(math.log(2 / rest) / (2 * _accuracy(accuracy) ** 2)))
    # The square root may round across the border that the square has rounded to.
    return n if uniform_margin(n, level) <= accuracy else n + 1


def needed_for_coverage(
    coverage: Level, accuracy: float, level: Level = 0.95, *, side: Side = "least"
) -> int:
    """How many episodes bring true coverage within ``accuracy`` of the coverage asked for.

    Examples
    --------
    >>> needed_for_coverage(0.9, 0.02)
    854
    """
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
    """How many assure episodes must have met the target, to promise this false-alarm rate.

    Examples
    --------
    >>> needed_successes(0.05), needed_successes(0.05, confidence=0.95)
    (19, 59)
    """
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
    """How many episodes give this accuracy with probability ``level``, for each kind of answer.

    Examples
    --------
    >>> plan = plan_sizes(0.02, 0.95, false_alarm_rate=0.05)
    >>> plan.at_one_threshold, plan.at_all_thresholds, plan.successes_to_promise
    (2399, 4612, 19)
    >>> plan.successes_surely
    59
    """
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
