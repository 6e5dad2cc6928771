"""The sentences of a report, without markup."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ontarget._numerals import number, percent
from ontarget.conformal.planning import uniform_margin
from ontarget.drift.change import DriftJudgement
from ontarget.evaluation import Rate, pool, reliability
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.report._facts import Facts
from ontarget.report._summary import failures_in_words, late_in_words, lead_in_words, past_the_end
from ontarget.report.measured import Measured
from ontarget.report.verdict import Judgement, in_points, verdict_of
from ontarget.target import Component, Target

__all__ = [
    "Statement",
    "backing",
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
    """A finding in one sentence, what it rests on, and whether it is good; None is neither."""

    headline: str
    detail: str
    good: bool | None


def target_in_words(target: Target | Goal) -> str:
    """The target as a phrase; a goal as its conditions.

    Examples
    --------
    >>> target_in_words(Target.at_least(-60.0)), target_in_words(Target.parse(":3,5:8"))
    ('at least −60', 'at most 3, or from 5 to 8')
    """
    if isinstance(target, Goal):
        return str(target)
    return ", or ".join(_component(part) for part in target.components) or "nothing at all"


def behavior_rows(parts: Mapping[str, Measured]) -> list[tuple[str, ...]]:
    """What a goal asks of each behavior, how often that was met, and how good p of it is."""
    return [
        (
            name,
            target_in_words(part.target),
            percent(float(part.met.mean())),
            f"{part.ece().value:.4f}",
            f"{part.brier().value:.4f}",
        )
        for name, part in parts.items()
    ]


def verdict(facts: Facts) -> list[Statement]:
    """The findings that matter: the verdict first, then what it rests on."""
    found = facts.found
    said = [_overall(facts), _said(found), _calibration(facts), _alarm(facts), _sure(found)]
    return [*said, *_drift(found)]


def _drift(found: Measured) -> list[Statement]:
    """Whether the process has changed since it was recorded; nothing if that cannot be told."""
    drift = found.drifted
    if drift is None:
        return []
    changed = drift.judgement is not DriftJudgement.NO_SIGN
    headline = f"{drift.judgement}".capitalize() + " since the runs were recorded"
    detail = (
        f"{drift.bias.in_words}. A gambler who bets that something has changed, and starts with 1, "
        f"had {drift.change.highest:.3g} at best; {drift.change.limit:g} counts as a change. The "
        "runs were taken by lot: their order in the file plays no part."
    )
    return [Statement(headline, detail[0].upper() + detail[1:], False if changed else None)]


def said_table(found: Measured, bins: int = 10) -> list[tuple[str, ...]]:
    """What was said, what came true, its interval, and how many forecasts: one row per bin."""
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
    typical, fewest = int(np.median(found.learned[known])), int(found.learned[known].min())
    moves = f"by at most {in_points(uniform_margin(typical))} anywhere (95\u00a0% confidence)"
    if fewest < typical:
        moves += f", and with the fewest ({fewest:,}) by {in_points(uniform_margin(fewest))}"
    met = Rate.of(int(found.met.sum()), found.met.size)
    rows = [
        *_learned(sizes, f"{typical:,} behind a typical forecast", moves),
        *_mapped(found),
        ("Assurance", f"{sizes['assure']:,}", _assured(facts)),
        *_spread(found),
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
                "were left out: a bad reading, or too few recorded episodes that long",
            )
        )
    return rows


def _mapped(found: Measured) -> list[tuple[str, str, str]]:
    """What the target's own map rests on; nothing without one."""
    own_map = found.calibration
    if not isinstance(own_map, TargetMap):
        return []
    what = (
        f"of the learning episodes also taught p of this very target: it is {own_map.in_words}. "
        "Another target has another map, so forecasts of two targets may contradict each other "
        "slightly; with calibration=common they never do"
    )
    return [("Map", f"{own_map.n:,}", what)]


def _spread(found: Measured) -> list[tuple[str, str, str]]:
    """How wide the spread of p typically is; nothing without assure episodes."""
    width = (found.spread[..., 1] - found.spread[..., 0])[~np.isnan(found.p)]
    if not found.fitted.trained.sizes["assure"] or not (width > 0.0).any():
        return []
    half = 0.5 * float(np.median(width[width > 0.0]))
    what = (
        "is half of what the spread around p typically covers: the range that the finite number of "
        "assure episodes leaves to p, on average over runs. p itself is the estimate from the "
        "learning episodes; low and high, the paper's bounds, are for programs"
    )
    return [("Spread", f"± {in_points(half)}", what)]


def _learned(sizes: Mapping[str, int], typical: str, moves: str) -> list[tuple[str, str, str]]:
    """The episodes that p comes from: those learned from, or the paper's two parts."""
    chance = f"Chance in the {typical} moves the calibrated distribution {moves}"
    if "learn" in sizes:
        what = (
            "taught the model, and each was answered by what the others taught, which turned the "
            f"model's distribution into calibrated probabilities. {chance}"
        )
        return [("Learning", f"{sizes['learn']:,}", what)]
    return [
        ("Training", f"{sizes['train']:,}", "taught the model; no figure here looks at them"),
        (
            "Calibration",
            f"{sizes['calibrate']:,}",
            f"turn the model's distribution into calibrated probabilities. {chance}",
        ),
    ]


def guaranteed(facts: Facts) -> list[str]:
    """What is proved."""
    found = facts.found
    items = [
        "A prediction interval at one step holds the outcome at least as often as its level says, "
        "whatever the model's faults.",
        "“Ruled out at 5\u00a0%” and “assured at 95\u00a0%” are wrong for at most 5\u00a0% of "
        "runs, even if read at every step and for any target, also one chosen after looking. "
        f"Here: wrong for {found.ruled_out_wrongly().count} and "
        f"{found.assured_wrongly().count} of {found.met.size:,} runs.",
    ]
    if isinstance(found.target, Goal):
        items[0] = (
            "A box at one step holds the outcomes of all behaviors together at least as often as "
            "its level says, whatever the models' faults."
        )
    if found.fitted.only_measures:
        items = ["Nothing but arithmetic: all promises rest on assure episodes; there are none."]
    if isinstance(found.calibration, TargetCalibration):
        items.append(
            "This very target was calibrated at each step: of low and high, the one that turns out "
            "right (high for a run that meets the target, low for one that misses it) comes true "
            "as often as it says."
        )
    if facts.alarms is not None and facts.promised_rate is not None:
        quality = facts.alarms.quality.false_alarms
        items.insert(
            1,
            f"At most {percent(facts.promised_rate)} of the runs that meet the target raise any "
            f"alarm, {_how_sure(facts.confidence)}. "
            f"Here: {quality.count:,} of {quality.n:,}.",
        )
    return items


def measured_only(facts: Facts) -> list[str]:
    """What was measured here and is not promised."""
    own = isinstance(facts.found.calibration, TargetCalibration)
    only = "only the pair of low and high is guaranteed" if own else "p is the best estimate"
    items = [
        f"That “80\u00a0%” means 80 times in 100: {only}, and how often p came true is measured "
        "above.",
        "How sharp the probabilities are: a model that learned little is calibrated too, and says "
        "little.",
        "How good it is on some runs alone, such as those of one site or season, unless they were "
        "calibrated as a group of their own.",
    ]
    if facts.alarms is not None:
        items.insert(1, "How many failures an alarm catches, and how early.")
    if facts.only_measured and facts.alarms is not None and facts.asked_rate is not None:
        quality = facts.alarms.quality.false_alarms
        items.insert(
            1,
            f"That {percent(facts.asked_rate)} of the runs that meet the target raise an alarm: "
            "without assure episodes the learning episodes set the threshold, so the rate is "
            f"measured, not promised. Here: {quality.count:,} of {quality.n:,}.",
        )
    return items


def voiding() -> list[str]:
    """When none of it holds."""
    return [
        "The policy or its surroundings change: new runs must be like the recorded ones. "
        "A drift guard tells you when they no longer are.",
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


def _overall(facts: Facts) -> Statement:
    found = verdict_of(facts)
    good = {Judgement.HELD: True, Judgement.NOT_HELD: False}
    return Statement(
        f"{str(found.judgement).capitalize()}: {found.reason}.",
        f"{found.advice[:1].upper()}{found.advice[1:]}{'.' * bool(found.advice)}",
        good.get(found.judgement),
    )


def _calibration(facts: Facts) -> Statement:
    found, gap = facts.found, facts.gap
    ece, raw = found.ece(), found.ece("raw")
    headline = (
        f"p is off by {in_points(gap.off)} on average, more than chance explains."
        if gap.beyond_chance
        else f"{found.met.size:,} new episodes show no sign of miscalibration."
    )
    detail = (
        f"Chance alone could put it off by {in_points(gap.chance)}: {100 * gap.new_runs:.1f} for "
        f"the luck of these runs, {100 * gap.calibration:.1f} for that of the {gap.n:,} recorded "
        "episodes behind a typical forecast. Expected calibration error "
        f"{ece.value:.4f} (95\u00a0% interval {ece.low:.4f} to {ece.high:.4f}); before calibration "
        f"{raw.value:.4f}."
    )
    if gap.beyond_chance:
        detail += f" {_direction(facts)}"
    return Statement(headline, detail, not gap.beyond_chance)


def _direction(facts: Facts) -> str:
    """Which way p errs, and how these runs compare with the recorded ones."""
    gap, recorded = facts.gap, facts.recorded_rate
    way = "high" if gap.too_high > 0.0 else "low"
    said = f"On average p is {in_points(abs(gap.too_high))} too {way}."
    if recorded is None:
        return said
    return (
        f"{said} {percent(float(facts.found.met.mean()))} of these runs met the target, and "
        f"{percent(recorded)} of the recorded assure episodes."
    )


def _alarm(facts: Facts) -> Statement:
    if facts.alarms is None:
        return Statement("No alarm can be promised.", str(facts.no_alarms), False)
    quality, triggers = facts.alarms.quality, facts.alarms.triggers
    false, caught, promise = quality.false_alarms, quality.in_time, facts.asked_rate
    below = ", ".join(f"{trigger.threshold:.3g}" for trigger in triggers)
    kept = (
        f"Alarm {facts.rule.relation} {facts.rule.compared_name} = {below}. False alarms: "
        f"{false.count:,} of {false.n:,} runs that met the target, {percent(false.value)} "
        f"({_between(false.low, false.high)}). "
    )
    if not caught.n:
        return Statement("No run failed, so no alarm was needed.", kept, True)
    kind = "The alarm" if promise is None else f"An alarm set for {percent(promise)} false alarms"
    told = (
        failures_in_words(quality),
        lead_in_words(quality),
        late_in_words(quality),
        past_the_end(facts),
    )
    return Statement(
        f"{kind} caught {percent(caught.value)} of failing runs in time.",
        f"{kept}Of the failing runs, {'; '.join(filter(None, told))}.",
        _worth(facts),
    )


def _worth(facts: Facts) -> bool | None:
    """Whether the alarm keeps its promise; None if it does, but is late for most failing runs."""
    assert facts.alarms is not None
    quality, allowed = facts.alarms.quality, facts.allowed_rate
    if allowed is not None and quality.false_alarms.low > allowed:
        return False
    return True if quality.in_time.value >= 0.5 and facts.one_sided is None else None


def _sure(found: Measured) -> Statement:
    out, sure = found.ruled_out_wrongly(), found.assured_wrongly()
    ruled_out = int(np.count_nonzero(np.fmin.reduce(found.plausibility, axis=0) <= 0.05))
    assured = int(np.count_nonzero(np.fmax.reduce(found.assurance, axis=0) >= 0.95))
    if not ruled_out and not assured:
        return Statement(
            "It never ruled the target out, and never assured it.",
            "Both need much evidence. With more assure episodes they come more often.",
            None,
        )
    return Statement(
        f"It ruled the target out for {ruled_out:,} runs and was wrong for {out.count:,}; it "
        f"assured it for {assured:,} and was wrong for {sure.count:,}.",
        f"It is guaranteed to be wrong for at most 5\u00a0% of all {found.met.size:,} runs; here "
        f"it was for {percent(out.value)} and {percent(sure.value)}.",
        max(out.low, sure.low) <= 0.05,
    )


def _assured(facts: Facts) -> str:
    if facts.alarms is None:
        return f"would set the alarm, but cannot: {facts.no_alarms}"
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
            f"{promised.m:,} of them met the target{' or were cut off' * bool(promised.stopped)} "
            "and set the alarm: promised "
            f"{percent(promised.rate)} false alarms {_how_sure(promised.confidence)}; given this "
            f"very set, {_between(low, high)} (90\u00a0%)"
        )
    return "; ".join(parts) or "stand behind what is ruled out and assured"


def _how_sure(confidence: float | None) -> str:
    """What a promised rate is to be read as."""
    if confidence is None:
        return "on average over recordings like the one that set the threshold"
    return f"with {percent(confidence)} confidence for this very recording"


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
