"""How good alarms are on the assure (held-out) episodes: thresholds, failures found, lead times.

See method M8 in docs/methods.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ontarget._typing import FloatArray
from ontarget.conformal.levels import Level, bounds_at_once, exact_confidence
from ontarget.errors import AlarmWarning, FewEpisodesError
from ontarget.evaluation import alarm_curve, sustained
from ontarget.fitted.guarantee import promised_threshold
from ontarget.fitted.kernels import DECIDED
from ontarget.live.answers import Answers
from ontarget.live.rules import AlarmRule, Trigger

_SHOWN = 12
_HIGHEST = 2.0  # stands for a threshold of +inf: above every p


@dataclass(frozen=True, eq=False, repr=False)
class PromisedAlarms:
    """For each promised false-alarm rate: the alarm threshold, failures found, and lead times.

    They are measured on the assure episodes, which are held out from learning. Print the object to
    see a table.

    Attributes
    ----------
    promised
        Whether the rates are promised. Without assure episodes the thresholds come from the
        learning episodes, and the rates are only measured.
    false_alarm_rate
        The false-alarm rates, ascending: the share of runs meeting the target that raise an alarm.
    threshold
        The alarm threshold for each rate; NaN if too few episodes met the target for this rate.
    rate_at_most
        With the probability ``confidence``, the true false-alarm rate of each threshold is at most
        this number, in all rows at once. So it also holds for a row that you choose after looking
        at the table (method M20 in docs/methods.md). NaN if nothing is promised.
    confidence
        The confidence of ``rate_at_most``.
    detection_rate, detection_interval
        For each rate, the share of failing episodes that raise an alarm, and the exact 95 %
        interval of this share, (rates, 2).
    lead_steps
        (rates, 3): quartiles of how many steps before the end of a failing run its alarm came.
    lead_to_decision
        (rates, 3): quartiles of how many steps the alarm came before the first step at which the
        target could no longer be met.
    n_met, n_missed
        How many of the episodes met and missed the target.
    """

    promised: bool
    false_alarm_rate: FloatArray
    threshold: FloatArray
    rate_at_most: FloatArray
    confidence: float
    detection_rate: FloatArray
    detection_interval: FloatArray
    lead_steps: FloatArray
    lead_to_decision: FloatArray
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
        """The table as text; if there are many rates, a dozen of them."""
        n = self.false_alarm_rate.size
        if not n:
            return (
                f"no rate: {self.n_met:,} of {self.n_met + self.n_missed:,} episodes met the target"
            )
        shown = range(n) if n <= _SHOWN else np.linspace(0, n - 1, _SHOWN).round().astype(int)
        decided = "" if self._ends_decide else ", then before it was decided"
        head = (
            f"{'promised' if self.promised else 'measured'}   "
            f"{'surely up to   ' * self.promised}alarm below   failures caught   "
            f"steps before the end (quartiles){decided}"
        )
        lines = [head, *(self._row(int(i)) for i in shown)]
        if self.promised:
            lines.append(
                f"surely up to: with {100 * self.confidence:g} % confidence, the true rates are at "
                "most these, in all rows at once; choose a rate by this column"
            )
        if decided:
            lines.append(
                "before it was decided: steps from the alarm to the step at which the target could "
                "no longer be met; 0 or less is too late"
            )
        return "\n".join(lines)

    @property
    def _ends_decide(self) -> bool:
        """Whether no run was decided before its end, so that both kinds of lead time are equal."""
        return bool(np.array_equal(self.lead_steps, self.lead_to_decision, equal_nan=True))

    def _row(self, i: int) -> str:
        rate = f"{100 * self.false_alarm_rate[i]:6.1f} %"
        if math.isnan(self.threshold[i]):
            return f"{rate}   too few of the {self.n_met:,} episodes that met the target"
        if self.promised:
            rate += f"   {100 * self.rate_at_most[i]:10.1f} %"
        if math.isnan(self.detection_rate[i]):
            return f"{rate}   {self.threshold[i]:11.3f}   none of the episodes failed"
        caught = f"{100 * self.detection_rate[i]:13.1f} %"
        lead = _quartiles(self.lead_steps[i])
        if lead and not self._ends_decide:
            lead = f"{lead}, {_quartiles(self.lead_to_decision[i])}"
        return f"{rate}   {self.threshold[i]:11.3f}   {caught}   {lead}".rstrip()


def promised_alarms(
    assured: Answers,
    *,
    rates: Sequence[Level] | None = None,
    for_steps: int = 1,
    confidence: Level = 0.95,
) -> PromisedAlarms:
    """A table of alarm thresholds for several false-alarm rates, with how good each is."""
    scores, met = assured.scores(for_steps), assured.met
    m = int(np.count_nonzero(met))
    all_met = m + assured.stopped  # the worst case: all stopped episodes would have met it (M24)
    every = range(assured.stopped + 1, all_met + 1)
    asked = [Fraction(k, all_met + 1) for k in every] if rates is None else list(rates)
    threshold, at_most = np.full((2, len(asked)), math.nan)
    bounds = np.full(all_met, math.nan)
    if assured.promises and all_met:
        bounds = bounds_at_once(all_met, confidence)
    for i, rate in enumerate(asked):
        with suppress(FewEpisodesError):
            found = promised_threshold(scores, met, rate, stopped=assured.stopped)
            threshold[i], at_most[i] = found.value, bounds[found.k - 1]
    taus = np.unique(np.minimum(threshold[~np.isnan(threshold)], _HIGHEST))
    detection = np.full((len(asked), 3), math.nan)
    lead = np.full((len(asked), 6), math.nan)
    if taus.size and met.size > m:
        curve = alarm_curve(
            compared_panel(assured, for_steps),
            met,
            assured.lengths,
            decided=assured.decided_at,
            thresholds=taus,
        )
        known = np.flatnonzero(~np.isnan(threshold))
        place = np.searchsorted(taus, np.minimum(threshold[known], _HIGHEST))
        detection[known, 0] = curve.detection_rate[place]
        detection[known, 1:] = curve.detection_interval[place]
        lead[known] = np.hstack([curve.lead_steps[place], curve.lead_to_decision[place]])
    return PromisedAlarms(
        promised=assured.promises,
        false_alarm_rate=np.array([float(Fraction(str(rate))) for rate in asked]),
        threshold=threshold,
        rate_at_most=at_most,
        confidence=float(exact_confidence(confidence)),
        detection_rate=detection[:, 0],
        detection_interval=detection[:, 1:],
        lead_steps=lead[:, :3],
        lead_to_decision=lead[:, 3:],
        n_met=m,
        n_missed=int(met.size) - m,
    )


def compared_panel(answers: Answers, for_steps: int) -> FloatArray:
    """(steps, episodes): the number that is compared with the alarm threshold."""
    # It is the highest p of the last ``for_steps`` known steps, and 0 once the target cannot be met
    # any more.
    panel = sustained(answers.p, for_steps, resets=answers.broken)
    return np.where(answers.panel(DECIDED) == 0.0, 0.0, panel)


def warn_of_silence(rule: AlarmRule, trigger: Trigger, assured: Answers) -> None:
    """Warn if the alarm would not have been raised in any of these episodes, though some failed."""
    missed = np.flatnonzero(~assured.met)
    if missed.size and not np.any(assured.first_alarms(rule, trigger) >= 0):
        warnings.warn(
            f"an alarm {rule.relation} {rule.compared_name} = {trigger.threshold:.3g} would not "
            f"have been raised on any of the {assured.met.size:,} {assured.part} episodes, "
            f"{missed.size:,} of which missed the target; raise its threshold, or promise a higher "
            "rate",
            AlarmWarning,
            stacklevel=9,  # the caller of watch, fleet or sessions
        )


def warn_of_one_side(notes: Sequence[str]) -> None:
    """Warn if p has nothing to learn from; ``notes`` say so for each group (`one_sided`)."""
    for note in dict.fromkeys(filter(None, notes)):
        warnings.warn(
            f"{note}, so p and an alarm on it say little about failures; record runs of the other "
            "kind, or choose a target that only some runs meet",
            AlarmWarning,
            stacklevel=9,  # the caller of watch, fleet or sessions
        )


def _quartiles(lead: FloatArray) -> str:
    low, middle, high = lead
    return "" if math.isnan(middle) else f"{middle:.0f} ({low:.0f} to {high:.0f})"
