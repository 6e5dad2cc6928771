"""What an evaluation says, in plain words: the sentences of a report, without markup."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._numerals import number, percent
from ontarget.conformal._levels import exact_rate
from ontarget.conformal.planning import uniform_margin
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import Rate, pool, reliability
from ontarget.live.rules import AlarmRule, Promised, RuledOut
from ontarget.report.measured import Measured, RaisedAlarms
from ontarget.target import Component, Target

__all__ = [
    "Facts",
    "Statement",
    "backing",
    "facts_of",
    "guaranteed",
    "measured_only",
    "said_table",
    "target_in_words",
    "verdict",
    "voiding",
]

_ASKED = (0.8, 0.7, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_REACH = 0.05
_ENOUGH = 30  # forecasts behind a headline


class Statement(NamedTuple):
    """A finding in one sentence, what stands behind it, and whether it is a good one."""

    headline: str
    detail: str
    good: bool


@dataclass(frozen=True, eq=False)
class Facts:
    """An evaluation with what several sentences need of it."""

    found: Measured
    rule: AlarmRule
    alarms: RaisedAlarms | None
    no_alarms: str  # why there are none

    @property
    def asked_rate(self) -> float | None:
        """The rate of false alarms that the rule is set for; None if it is set for none."""
        rule = self.rule
        return float(exact_rate(rule.rate)) if isinstance(rule, Promised | RuledOut) else None

    @property
    def promised_rate(self) -> float | None:
        """The rate of false alarms that is promised; None if none is."""
        only_measured = self.alarms is not None and self.alarms.measured
        return None if only_measured else self.asked_rate


def facts_of(found: Measured, rule: AlarmRule) -> Facts:
    """The facts behind a report whose alarms follow this rule."""
    try:
        return Facts(found, rule, found.alarms(rule), "")
    except FewEpisodesError as error:
        return Facts(found, rule, None, str(error))


def target_in_words(target: Target) -> str:
    """The target as a phrase.

    Examples
    --------
    >>> target_in_words(Target.at_least(-60.0)), target_in_words(Target.parse(":3,5:8"))
    ('at least −60', 'at most 3, or from 5 to 8')
    """
    return ", or ".join(_component(part) for part in target.components) or "nothing at all"


def verdict(facts: Facts) -> list[Statement]:
    """The findings that matter, the most telling first."""
    found = facts.found
    usual = [_said(found), _calibration(found), _alarm(facts), _sure(found)]
    return [_flattered(found), *usual] if found.fitted_on.size else usual


def said_table(found: Measured, bins: int = 10) -> list[tuple[str, ...]]:
    """What was said, what came true, its interval, and how many stand behind it: one row a bin."""
    pooled = pool(found.p, found.met)
    table = reliability(pooled.p, pooled.met, bins, episode=pooled.episode)
    places = np.minimum((pooled.p * bins).astype(np.intp), bins - 1)
    return [
        (
            percent(float(table.mean_p[k])),
            percent(float(table.rate_met[k])),
            _between(float(table.low[k]), float(table.high[k])),
            f"{int(table.count[k]):,}",
            f"{np.unique(pooled.episode[places == k]).size:,}",
        )
        for k in range(bins)
        if table.count[k]
    ]


def backing(facts: Facts) -> list[tuple[str, str, str]]:
    """How many episodes stand behind the figures, and how precise that makes them."""
    found, fitted = facts.found, facts.found.fitted
    sizes = fitted.trained.sizes
    known = ~np.isnan(found.p)
    fewest, most = int(found.n[known].min()), int(found.n[known].max())
    margin = _points(uniform_margin(fewest))
    at = f"{fewest:,}" if fewest == most else f"{fewest:,} at the step with fewest"
    met = Rate.of(int(found.met.sum()), found.met.size)
    rows = [
        ("Training", f"{sizes['train']:,}", "taught the model; no figure here looks at them"),
        (
            "Calibration",
            f"{sizes['calibrate']:,}",
            f"turn the model's distribution into calibrated probabilities. With {at}, chance in "
            f"them moves the calibrated distribution by at most {margin} anywhere "
            "(95\u00a0% confidence)",
        ),
        ("Assurance", f"{sizes['assure']:,}", _assured(facts)),
        (
            "Evaluation",
            f"{found.met.size:,}",
            f"measured this page: {met.count:,} met the target, {met.n - met.count:,} missed it, a "
            f"rate of {percent(met.value)} ({_between(met.low, met.high)} with 95\u00a0% "
            "confidence). Intervals resample whole episodes: steps of one run share its outcome",
        ),
    ]
    unknown = int(np.count_nonzero(~known & (np.arange(len(known))[:, None] < found.lengths)))
    if unknown:
        rows.append(
            (
                "Unknown",
                f"{unknown:,} steps",
                "were left out: a bad reading, or too few calibration episodes that long",
            )
        )
    return rows


def guaranteed(facts: Facts) -> list[str]:
    """What holds by proof."""
    found = facts.found
    points = [
        "A prediction interval at one step holds the outcome at least as often as its level says, "
        "whatever the model's faults.",
        "“Ruled out at 5\u00a0%” and “assured at 95\u00a0%” are wrong for at most 5\u00a0% of "
        "runs, even if read at every step and for any target, also one chosen after looking. "
        f"Here: wrong for {found.ruled_out_wrongly().count} and "
        f"{found.assured_wrongly().count} of {found.met.size:,} runs.",
    ]
    if found.fitted.rehearsal is not None:
        points = ["Nothing but arithmetic: all promises rest on assure episodes; there are none."]
    if found.calibration is not None:
        points.append(
            "This very target was calibrated at each step: of low and high, the one that turns out "
            "right (high for a run that meets the target, low for one that misses it) comes true "
            "as often as it says."
        )
    if facts.alarms is not None and facts.promised_rate is not None:
        quality = facts.alarms.quality.false_alarms
        points.insert(
            1,
            f"At most {percent(facts.promised_rate)} of the runs that meet the target raise any "
            "alarm, on average over recordings like the one that set the threshold. "
            f"Here: {quality.count:,} of {quality.n:,}.",
        )
    return points


def measured_only(facts: Facts) -> list[str]:
    """What was measured here and is promised by nobody."""
    own = facts.found.calibration is not None
    of_what = "of low and high" if own else "for the whole distribution of outcomes at a step"
    said = f"calibration is guaranteed {of_what}, and"
    if facts.found.fitted.rehearsal is not None and not own:
        said = "calibration is not guaranteed without assure episodes, only"
    points = [
        f"That “80\u00a0%” means 80 times in 100 for this very target: {said} "
        f"measured for {'the one number p' if own else 'one target'} above.",
        "How sharp the probabilities are: a model that learned little is calibrated too, and says "
        "little.",
        "How it fares on some runs by themselves, such as one site or one season, unless they were "
        "calibrated as a group of their own.",
    ]
    if facts.alarms is not None:
        points.insert(1, "How many failures an alarm catches, and how early.")
    if facts.alarms is not None and facts.alarms.measured and facts.asked_rate is not None:
        quality = facts.alarms.quality.false_alarms
        points.insert(
            1,
            f"That {percent(facts.asked_rate)} of the runs that meet the target raise an alarm: "
            "without assure episodes the learning episodes set the threshold, so the rate is "
            f"measured, not promised. Here: {quality.count:,} of {quality.n:,}.",
        )
    return points


def voiding() -> list[str]:
    """When none of it holds."""
    return [
        "The policy or its surroundings change: new runs must be like the recorded ones. "
        "A drift guard tells when they no longer are.",
        "Someone acts on the forecasts: a run that was saved by an alarm is another kind of run.",
        "Runs that were cut off were left out, and they differ from the others.",
        "The target or the alarm was chosen by looking at the outcomes on this page.",
    ]


def _said(found: Measured) -> Statement:
    pooled = pool(found.p, found.met)
    for asked in _ASKED:
        near = np.abs(pooled.p - asked) <= _REACH
        if np.count_nonzero(near) < _ENOUGH:
            continue
        episodes = pooled.episode[near]
        one = reliability(pooled.p[near], pooled.met[near], 1, episode=episodes).at(asked)
        window = f"{percent(asked - _REACH)} to {percent(asked + _REACH)}"
        return Statement(
            f"When it said about {percent(asked)}, {percent(one.rate_met)} of runs met the target.",
            f"{one.n:,} forecasts from {window}, {percent(one.mean_p)} on average, in "
            f"{np.unique(episodes).size:,} episodes; 95\u00a0% interval of what came true "
            f"{_between(one.low, one.high)}.",
            one.low <= one.mean_p <= one.high,
        )
    return Statement(
        "It was nearly always sure of itself.",
        f"Too few forecasts between 5 and 95\u00a0% to say what came of them; "
        f"{percent(float(found.met.mean()))} of runs met the target.",
        True,
    )


def _flattered(found: Measured) -> Statement:
    n, seen = found.met.size, found.fitted_on.size
    return Statement(
        "These figures flatter.",
        f"The monitor was fitted on {seen:,} of these {n:,} episodes. Measure it on new ones.",
        False,
    )


def _calibration(found: Measured) -> Statement:
    ece, raw = found.ece(), found.ece("raw")
    chance = ece.low == 0.0
    headline = (
        f"{found.met.size:,} new episodes show no sign of miscalibration."
        if chance
        else f"Probabilities are off by {_points(ece.value)} on average."
    )
    detail = (
        f"Expected calibration error {ece.value:.4f} (95\u00a0% interval {ece.low:.4f} to "
        f"{ece.high:.4f}); chance alone would show about {ece.floor:.4f} on as many episodes. "
        f"Before calibration: {raw.value:.4f}."
    )
    fewest = int(found.n[~np.isnan(found.p)].min())
    if not chance and ece.value <= uniform_margin(fewest):
        detail += (
            f" No more than {fewest:,} calibration episodes leave to chance "
            f"({_points(uniform_margin(fewest))}): calibrate with more."
        )
    return Statement(headline, detail, chance)


def _alarm(facts: Facts) -> Statement:
    if facts.alarms is None:
        return Statement("No alarm can be promised.", facts.no_alarms, False)
    quality, triggers = facts.alarms.quality, facts.alarms.triggers
    false, caught = quality.false_alarms, quality.detections
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in triggers)
    kept = (
        f"Alarm {facts.rule.relation} {facts.rule.compared_name} = {below}. False alarms: "
        f"{false.count:,} of {false.n:,} runs that met the target, {percent(false.value)} "
        f"({_between(false.low, false.high)}). "
    )
    if not caught.n:
        return Statement("No run failed, so no alarm was needed.", kept, True)
    early = ""
    if quality.lead_steps.size:
        lead = quality.median_lead_steps
        early = f", half of them at least {lead:g} step{'s' * (lead != 1)} before the end"
        decided = float(np.median(quality.lead_to_decision))
        if decided < lead:
            early += f" ({decided:g} before the outcome was decided)"
    promise = facts.asked_rate
    kind = "The alarm" if promise is None else f"An alarm set for {percent(promise)} false alarms"
    return Statement(
        f"{kind} caught {percent(caught.value)} of failing runs{early}.",
        f"{kept}Caught: {caught.count:,} of {caught.n:,} ({_between(caught.low, caught.high)}).",
        promise is None or false.low <= promise,
    )


def _sure(found: Measured) -> Statement:
    out, sure = found.ruled_out_wrongly(), found.assured_wrongly()
    ruled_out = int(np.count_nonzero(np.fmin.reduce(found.plausibility, axis=0) <= 0.05))
    assured = int(np.count_nonzero(np.fmax.reduce(found.assurance, axis=0) >= 0.95))
    n = found.met.size
    return Statement(
        f"It ruled the target out for {ruled_out:,} runs and was wrong for {out.count:,}; it "
        f"assured it for {assured:,} and was wrong for {sure.count:,}.",
        f"At most 5\u00a0% of all {n:,} runs each may be wrong, that is guaranteed; here "
        f"{percent(out.value)} and {percent(sure.value)}.",
        max(out.low, sure.low) <= 0.05,
    )


def _assured(facts: Facts) -> str:
    if facts.alarms is None:
        return f"would set the alarm, but do not: {facts.no_alarms}"
    parts = [
        f"would promise the rate of false alarms; here {found.m:,} learning episodes that met the "
        f"target set the alarm for {percent(found.rate)}: measured, not promised"
        for found in (trigger.measured for trigger in facts.alarms.triggers)
        if found is not None
    ]
    for trigger in facts.alarms.triggers:
        promised = trigger.promised
        if promised is None:
            continue
        low, high = promised.spread()
        parts.append(
            f"{promised.m:,} of them met the target and set the alarm: promised "
            f"{percent(promised.rate)} false alarms on average over such sets; given this very "
            f"set, {_between(low, high)} (90\u00a0%)"
        )
    return "; ".join(parts) or "stand behind what is ruled out and assured"


def _points(share: float) -> str:
    return f"{100 * share:.2g} percentage points"


def _between(low: float, high: float) -> str:
    return f"{percent(low)} to {percent(high)}"


def _component(part: Component) -> str:
    low, high = number(part.lower), number(part.upper)
    if math.isinf(part.lower) and math.isinf(part.upper):
        return "anything"
    if math.isinf(part.upper):
        return f"{'at least' if part.lower_closed else 'more than'} {low}"
    if math.isinf(part.lower):
        return f"{'at most' if part.upper_closed else 'less than'} {high}"
    if part.lower == part.upper:
        return f"exactly {low}"
    without = {(True, True): "", (False, True): f", {low} left out"}
    ends = (part.lower_closed, part.upper_closed)
    tail = {**without, (True, False): f", {high} left out", (False, False): ", ends left out"}[ends]
    return f"from {low} to {high}{tail}"
