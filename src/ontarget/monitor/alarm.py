"""When to raise an alarm, and what that buys: thresholds, detection, lead time (M8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ontarget.arguments import whole_number
from ontarget.conformal.levels import Level
from ontarget.errors import InputError
from ontarget.monitor.calibrated import Calibrated, ends_with_complements
from ontarget.monitor.guarantee import Threshold, alarm_scores, promised_threshold
from ontarget.target import Target
from ontarget.typing import BoolArray, FloatArray, IndexArray

__all__ = ["AlarmCurve", "AlarmRule", "alarm_curve", "rule_of"]


@dataclass(frozen=True)
class AlarmRule:
    """Alarm where p stays below the threshold for some steps; clear where it rises again.

    Parameters
    ----------
    threshold
        Alarm below this probability, strictly.
    for_steps
        For this many consecutive known steps.
    clear_above
        An alarm ends where p is at least this; the threshold itself by default.
    promised
        The promise behind the threshold, where one was asked for.
    """

    threshold: float
    for_steps: int = 1
    clear_above: float | None = None
    promised: Threshold | None = None

    def __post_init__(self) -> None:
        whole_number("for_steps", self.for_steps, least=1)
        if self.clear_above is not None and not self.clear_above >= self.threshold:
            raise InputError(
                f"clear_above needs at least the threshold {self.threshold:g}, "
                f"got {self.clear_above!r}"
            )

    @property
    def clear_at(self) -> float:
        """The probability at which an alarm ends."""
        return self.threshold if self.clear_above is None else self.clear_above


def rule_of(
    calibrated: Calibrated,
    target: Target,
    *,
    alarm_below: float | None,
    false_alarm_rate: Level | None,
    for_steps: int,
    clear_above: float | None,
    group: int,
) -> AlarmRule:
    """The rule that the user asked for: a plain threshold, or a promised false-alarm rate."""
    if alarm_below is not None and false_alarm_rate is not None:
        raise InputError("pass alarm_below or false_alarm_rate, not both")
    if false_alarm_rate is None:
        below = 0.9 if alarm_below is None else alarm_below
        if not 0.0 <= below <= 1.0:
            raise InputError(f"alarm_below needs a probability from 0 to 1, got {below!r}")
        return AlarmRule(float(below), for_steps, clear_above)
    p, met, _ = _assured(calibrated, target, group)
    promised = promised_threshold(alarm_scores(p, for_steps), met, false_alarm_rate)
    return AlarmRule(promised.value, for_steps, clear_above, promised)


@dataclass(frozen=True, eq=False)
class AlarmCurve:
    """What each promised false-alarm rate buys, measured on the assure episodes.

    Attributes
    ----------
    false_alarm_rate
        The promised rates.
    threshold
        The threshold that each promise gives; NaN where there are too few successes for it.
    detection
        The share of failing episodes that raise an alarm.
    lead
        (rates, 3): quartiles of how many steps before its end a detected failure raises it.
    n_met, n_failed
        How many assure episodes met and missed the target.
    """

    false_alarm_rate: FloatArray
    threshold: FloatArray
    detection: FloatArray
    lead: FloatArray
    n_met: int
    n_failed: int


def alarm_curve(
    calibrated: Calibrated,
    target: Target,
    *,
    rates: FloatArray | None = None,
    for_steps: int = 1,
    group: int = 0,
) -> AlarmCurve:
    """The curve over promised false-alarm rates; by default every rate the data can promise."""
    p, met, lengths = _assured(calibrated, target, group)
    scores = alarm_scores(p, for_steps)
    kept, n_failed = np.sort(scores[met]), int(np.count_nonzero(~met))
    if rates is None:
        rates = np.arange(1, kept.size + 1) / (kept.size + 1)
    counts = np.floor(np.asarray(rates) * (kept.size + 1) * (1 + 1e-12)).astype(np.intp)
    known = (counts >= 1) & (counts <= kept.size)
    threshold = np.full(len(rates), math.nan)
    threshold[known] = kept[counts[known] - 1]
    detection = np.array(
        [np.mean(scores[~met] < tau) if n_failed else math.nan for tau in threshold]
    )
    detection[~known] = math.nan
    lead = np.full((len(rates), 3), math.nan)
    for i in np.flatnonzero(known):
        first = first_alarms(p[:, ~met], threshold[i], for_steps)
        found = first >= 0
        if found.any():
            ahead = lengths[~met][found] - first[found]
            lead[i] = np.quantile(ahead, [0.25, 0.5, 0.75])
    return AlarmCurve(
        np.asarray(rates, dtype=np.float64), threshold, detection, lead, int(kept.size), n_failed
    )


def first_alarms(p: FloatArray, threshold: float, for_steps: int = 1) -> IndexArray:
    """The step at which each episode first raises an alarm; -1 where it never does."""
    run = np.zeros(p.shape[1], dtype=np.intp)
    first = np.full(p.shape[1], -1, dtype=np.intp)
    for t, now in enumerate(p):
        known = ~np.isnan(now)
        run = np.where(known, np.where(now < threshold, run + 1, 0), run)
        first[(first < 0) & known & (run >= for_steps)] = t
    return first


def _assured(
    calibrated: Calibrated, target: Target, group: int
) -> tuple[FloatArray, BoolArray, IndexArray]:
    """The live p of each assure episode of the group at each step, what it met, its length.

    NaN where an episode is dead or a step is UNKNOWN by structure; 0 where a reading is bad.
    """
    if calibrated.assure is None:
        raise InputError("this monitor has no assure episodes; fit with a split that has some")
    chosen = np.flatnonzero(calibrated.assure_groups == group)
    p = np.full((calibrated.horizon, len(calibrated.assure)), math.nan)
    ends = ends_with_complements(target, calibrated.grid)
    for t in range(calibrated.horizon):
        step = calibrated.at(t, group)
        rows = calibrated.assure.at(t, grid=calibrated.grid)
        own = np.flatnonzero(calibrated.assure_groups[rows.index] == group)
        if calibrated.unknown(step) or not own.size:
            continue
        found = step.outlook(rows.states[own], rows.behavior[own], ends, np.empty(0))
        bad = calibrated.bad_readings(rows.states[own])
        p[t, rows.index[own]] = np.where(bad, 0.0, found[:, 0, 1])
    met = target.contains(calibrated.assure.outcomes, calibrated.grid)
    return p[:, chosen], met[chosen], calibrated.assure.lengths[chosen]
