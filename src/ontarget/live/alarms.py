"""When to raise an alarm, and what that buys: thresholds, detection, lead time (M8)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal._levels import Level
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.evaluation import alarm_curve, sustained
from ontarget.fitted.fitted import Calibrated, ends_with_complements
from ontarget.fitted.guarantee import Threshold, alarm_scores, promised_threshold
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.target import Target

__all__ = ["AlarmRule", "PromisedAlarms", "promised_alarms", "rule_of"]

# A watch with a promised rate asks for its target's panel; a fleet asks for the same one again.
_MOST_PANELS = 4
_SHOWN = 12


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
                Argument("clear_above"),
                f" needs at least the threshold {self.threshold:g}, got {self.clear_above!r}",
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
    calibration: TargetCalibration | None = None,
) -> AlarmRule:
    """The rule that the user asked for: a plain threshold, or a promised false-alarm rate."""
    if alarm_below is not None and false_alarm_rate is not None:
        both = Argument("alarm_below"), " or ", Argument("false_alarm_rate")
        raise InputError("pass ", *both, ", not both")
    if false_alarm_rate is None:
        below = 0.9 if alarm_below is None else alarm_below
        if not 0.0 <= below <= 1.0:
            rule = f" needs a probability from 0 to 1, got {below!r}"
            raise InputError(Argument("alarm_below"), rule)
        return AlarmRule(float(below), for_steps, clear_above)
    p, met, _ = _assured(calibrated, target, group, calibration)
    promised = promised_threshold(alarm_scores(p, for_steps), met, false_alarm_rate)
    return AlarmRule(promised.value, for_steps, clear_above, promised)


@dataclass(frozen=True, eq=False, repr=False)
class PromisedAlarms:
    """What each promised false-alarm rate buys, measured on the assure episodes; prints as a table.

    Attributes
    ----------
    false_alarm_rate
        The promised rates, ascending.
    threshold
        The threshold that each promise gives; NaN where there are too few successes for it.
    detection_rate, detection_interval
        The share of failing episodes that raise an alarm, with its exact interval (rates, 2).
    lead_steps
        (rates, 3): quartiles of how many steps before its end a detected failure raises it.
    n_met, n_missed
        How many assure episodes met and missed the target.
    """

    false_alarm_rate: FloatArray
    threshold: FloatArray
    detection_rate: FloatArray
    detection_interval: FloatArray
    lead_steps: FloatArray
    n_met: int
    n_missed: int

    def __repr__(self) -> str:
        rates = self.false_alarm_rate
        ends = f" from {rates[0]:.3g} to {rates[-1]:.3g}" if rates.size else ""
        return (
            f"<PromisedAlarms: {rates.size:,} rate{'s' * (rates.size != 1)}{ends}; "
            f"{self.n_met:,} episodes met the target, {self.n_missed:,} missed it>"
        )

    def __str__(self) -> str:
        """A table for people; of many rates, a dozen from the first to the last."""
        n = self.false_alarm_rate.size
        shown = range(n) if n <= _SHOWN else np.linspace(0, n - 1, _SHOWN).round().astype(int)
        lines = ["promised   alarm below   failures caught   steps before the end (quartiles)"]
        lines += [self._row(int(i)) for i in shown]
        return "\n".join(lines)

    def _row(self, i: int) -> str:
        rate = f"{100 * self.false_alarm_rate[i]:6.1f} %"
        if math.isnan(self.threshold[i]):
            return f"{rate}   too few of the {self.n_met:,} assure episodes that met the target"
        if math.isnan(self.detection_rate[i]):
            return f"{rate}   {self.threshold[i]:11.3f}   none of the assure episodes failed"
        low, middle, high = self.lead_steps[i]
        lead = "" if math.isnan(middle) else f"{middle:.0f} ({low:.0f} to {high:.0f})"
        caught = f"{100 * self.detection_rate[i]:13.1f} %"
        return f"{rate}   {self.threshold[i]:11.3f}   {caught}   {lead}".rstrip()


def promised_alarms(
    calibrated: Calibrated,
    target: Target,
    *,
    rates: Sequence[Level] | None = None,
    for_steps: int = 1,
    group: int = 0,
    calibration: TargetCalibration | None = None,
) -> PromisedAlarms:
    """What each promised rate buys; by default every rate that the data can promise."""
    p, met, lengths = _assured(calibrated, target, group, calibration)
    scores = alarm_scores(p, for_steps)
    m = int(np.count_nonzero(met))
    asked = [Fraction(k, m + 1) for k in range(1, m + 1)] if rates is None else list(rates)
    threshold = np.full(len(asked), math.nan)
    for i, rate in enumerate(asked):
        with suppress(CalibrationError):
            threshold[i] = promised_threshold(scores, met, rate).value
    # A threshold of +inf (episodes too short to alarm) catches what one above every p does.
    taus = np.unique(np.minimum(threshold[~np.isnan(threshold)], 2.0))
    detection = np.full((len(asked), 3), math.nan)
    lead = np.full((len(asked), 3), math.nan)
    if taus.size and met.size > m:
        curve = alarm_curve(sustained(p, for_steps), met, lengths, thresholds=taus)
        known = np.flatnonzero(~np.isnan(threshold))
        place = np.searchsorted(taus, np.minimum(threshold[known], 2.0))
        detection[known, 0] = curve.detection_rate[place]
        detection[known, 1:] = curve.detection_interval[place]
        lead[known] = curve.lead_steps[place]
    return PromisedAlarms(
        false_alarm_rate=np.array([float(Fraction(str(rate))) for rate in asked]),
        threshold=threshold,
        detection_rate=detection[:, 0],
        detection_interval=detection[:, 1:],
        lead_steps=lead,
        n_met=m,
        n_missed=int(met.size) - m,
    )


def _assured(
    calibrated: Calibrated, target: Target, group: int, calibration: TargetCalibration | None
) -> tuple[FloatArray, BoolArray, IndexArray]:
    """The live p of each assure episode of the group at each step, what it met, its length.

    NaN where an episode is dead or a step is UNKNOWN by structure; 0 where a reading is bad.
    """
    if calibrated.assure is None:
        raise InputError("this monitor has no assure episodes; fit with a split that has some")
    if calibration is not None:
        calibration.check(target, calibrated.grid)
    kept = calibrated.panels.get((target, group, calibration))
    if kept is None:
        kept = _answered(calibrated, target, group, calibration)
        while len(calibrated.panels) >= _MOST_PANELS:
            calibrated.panels.pop(next(iter(calibrated.panels)))
        calibrated.panels[target, group, calibration] = kept
    return kept


def _answered(
    calibrated: Calibrated, target: Target, group: int, calibration: TargetCalibration | None
) -> tuple[FloatArray, BoolArray, IndexArray]:
    assure = calibrated.assure
    assert assure is not None
    chosen = np.flatnonzero(calibrated.assure_groups == group)
    p = np.full((calibrated.horizon, len(assure)), math.nan)
    ends = ends_with_complements(target, calibrated.grid)
    for t in range(calibrated.horizon):
        step = calibrated.at(t, group, calibration)
        rows = assure.at(t, grid=calibrated.grid)
        own = np.flatnonzero(calibrated.assure_groups[rows.index] == group)
        if calibrated.unknown(step) or not own.size:
            continue
        found = step.outlook(rows.states[own], rows.behavior[own], ends, np.empty(0))
        bad = calibrated.bad_readings(rows.states[own])
        p[t, rows.index[own]] = np.where(bad, 0.0, found[:, 0, 1])
    met = target.contains(assure.outcomes, calibrated.grid)
    return p[:, chosen], met[chosen], assure.lengths[chosen]
