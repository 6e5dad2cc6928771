"""The sentences and tables of a report, as plain text without markup."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ontarget._numerals import number, percent
from ontarget.conformal.planning import uniform_margin
from ontarget.errors import Argument
from ontarget.evaluation import Rate, pool
from ontarget.goal import Goal
from ontarget.report._binned import binned, said_bins
from ontarget.report._facts import Facts
from ontarget.report.measured import Measured
from ontarget.report.verdict import in_points
from ontarget.target import Component, Target


def target_in_words(target: Target | Goal) -> str:
    """The target as a phrase; for a goal, its conditions on several numbers.

    Examples
    --------
    >>> target_in_words(Target.at_least(-60.0)), target_in_words(Target.parse(":3,5:8"))
    ('at least −60', 'at most 3, or from 5 to 8')
    """
    if isinstance(target, Goal):
        return str(target)
    return ", or ".join(_component(part) for part in target.components) or "nothing at all"


def behavior_rows(parts: Mapping[str, Measured]) -> list[tuple[str, ...]]:
    """A table with one row per behavior of a goal: its target, how often met, how good p is.

    A goal has a target for each of several behaviors (numbers that a run is judged by). p is the
    probability of meeting the target.
    """
    return [
        (
            name,
            target_in_words(part.target),
            percent(float(part.met.mean())),
            f"{100 * part.ece().value:.1f}",
            f"{part.brier().value:.4f}",
        )
        for name, part in parts.items()
    ]


def said_table(found: Measured) -> list[tuple[str, ...]]:
    """A table with one row per range of p (bin): what p was on average, and how often it came true.

    Further columns have the 95 % interval of that share, and the numbers of forecasts and episodes.
    p is the probability of meeting the target.
    """
    pooled, table, bins = pool(found.p, found.met), binned(found), said_bins(found)
    places = np.minimum((pooled.p * bins).astype(np.intp), bins - 1)
    return [
        (
            percent(float(table.mean_p[k])),
            percent(float(table.rate_met[k])),
            between(float(table.low[k]), float(table.high[k])),
            f"{int(table.count[k]):,}",
            f"{np.unique(pooled.episode[places == k]).size:,}",
        )
        for k in range(bins)
        if table.count[k]
    ]


def backing(facts: Facts) -> list[tuple[str, str, str]]:
    """A table of how many episodes were used for what, and how precise that makes the report."""
    found, fitted = facts.found, facts.found.fitted
    sizes = fitted.trained.sizes
    known = ~np.isnan(found.p)
    behind = found.learned[known & found.answered]
    typical, fewest = int(np.median(behind)), int(behind.min())
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
            f"rate of {percent(met.value)} ({between(met.low, met.high)} with 95\u00a0% "
            "confidence). Intervals resample whole runs: steps of one run share its outcome",
        ),
    ]
    missing = found.unanswered
    if missing.steps:
        left_out = f"have no answer and were left out of every figure: {missing.why}"
        rows.append(("Unknown", f"{missing.steps:,} of {missing.of:,} steps", left_out))
    return rows


def _mapped(found: Measured) -> list[tuple[str, str, str]]:
    """A table row on how many episodes the target's own calibration curve was learned from.

    This curve corrects p for one particular target. The list is empty if the target has none. p is
    the probability of meeting the target.
    """
    own_map = found.calibration
    if own_map is None:
        return []
    corrected = own_map.in_words.replace(" episodes", " runs")
    what = (
        f"of the learning runs also taught p of this very target: it is {corrected}. "
        "Another target has another map, so forecasts of two targets may contradict each other "
        "slightly; with calibration=common they never do"
    )
    return [("Map", f"{own_map.n:,}", what)]


def _spread(found: Measured) -> list[tuple[str, str, str]]:
    """A table row on how wide the spread around p typically is.

    The spread is the range that the number of assure episodes (held out to back the promises)
    leaves for p. The list is empty without assure episodes. p is the probability of meeting the
    target.
    """
    width = (found.spread[..., 1] - found.spread[..., 0])[~np.isnan(found.p)]
    if not found.fitted.trained.sizes["assure"] or not (width > 0.0).any():
        return []
    half = 0.5 * float(np.median(width[width > 0.0]))
    what = (
        "is half of what the spread around p typically covers: the range that the finite number of "
        "assure runs leaves to p, on average over runs. p itself is the estimate from the "
        "learning runs; low and high, the paper's bounds, are for programs"
    )
    return [("Spread", f"± {in_points(half)}", what)]


def _learned(sizes: Mapping[str, int], typical: str, moves: str) -> list[tuple[str, str, str]]:
    """Table rows on the episodes that p comes from: learned from, or trained and calibrated.

    ``typical`` and ``moves`` are words on how many of them there are behind a forecast, and how
    precise that makes p. p is the probability of meeting the target.
    """
    chance = f"Chance in the {typical} moves the calibrated distribution {moves}"
    if "learn" in sizes:
        what = (
            "trained the model. Each was answered by a model trained on the others, and these "
            f"answers calibrate the probabilities. {chance}"
        )
        return [("Learning", f"{sizes['learn']:,}", what)]
    return [
        ("Training", f"{sizes['train']:,}", "trained the model; no figure here looks at them"),
        (
            "Calibration",
            f"{sizes['calibrate']:,}",
            f"turn the model's distribution into calibrated probabilities. {chance}",
        ),
    ]


def guaranteed(facts: Facts) -> list[str]:
    """What this monitor guarantees, one sentence for each guarantee."""
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
        items = ["Nothing but arithmetic: all promises rest on assure runs; there are none."]
    if facts.alarms is not None and facts.promised_rate is not None:
        quality = facts.false_alarms
        share = (
            "of all runs meet the target and raise an alarm"
            if facts.rule.of_all_runs
            else "of the runs that meet the target raise any alarm"
        )
        items.insert(
            1,
            f"At most {percent(facts.promised_rate)} {share}, {_how_sure(facts.confidence)}. "
            f"Here: {quality.count:,} of {quality.n:,}.{_exceeded(facts)}",
        )
    return items


def _exceeded(facts: Facts) -> str:
    """Why there were more false alarms than are promised on average; empty if there were not."""
    rate = facts.promised_rate
    if rate is None or facts.confidence is not None or facts.false_alarms.value <= rate:
        return ""
    return (
        " One recording may exceed it: by luck, the recorded runs set the threshold too high or "
        "too low, and only the average over many recordings is promised. The luck of the runs on "
        "this page adds to that."
    )


def void_since_change(facts: Facts) -> str:
    """Sentences saying that no guarantee holds since a change of the process; empty without one."""
    if facts.found.drifted is None or not facts.found.drifted.changed:
        return ""
    return (
        "None of these holds since the change. They held before, and they hold again for a monitor "
        "that is recalibrated or fitted on runs that start from now on."
    )


def measured_only(facts: Facts) -> list[str]:
    """What the report measured but does not promise, a sentence each."""
    items = [
        "That “80\u00a0%” means 80 times in 100: p is the best estimate, and how often p came true "
        "is measured above.",
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
            "without assure runs the learning runs set the threshold, so the rate is "
            f"measured, not promised. Here: {quality.count:,} of {quality.n:,}.",
        )
    return items


def voiding() -> list[str]:
    """In which cases the guarantees do not hold, a sentence each."""
    return [
        "The policy or its surroundings change: new runs must be like the recorded ones. "
        "A drift guard tells you when they no longer are.",
        "Someone acts on the forecasts: a run that was saved by an alarm is another kind of run.",
        "Runs that were cut off were left out, and they differ from the others.",
        "The target or the alarm was chosen by looking at the outcomes on this page.",
    ]


def _assured(facts: Facts) -> str:
    if facts.alarms is None:
        assert facts.no_alarms is not None
        return f"would set the alarm, but cannot: {facts.no_alarms.told(argument_in_words)}"
    parts = [
        f"would promise the rate of false alarms; here {found.m:,} learning runs that met the "
        f"target set the alarm for {percent(found.rate)}: measured, not promised"
        for found in (trigger.measured for trigger in facts.alarms.triggers)
        if found is not None
    ]
    for trigger in facts.alarms.triggers:
        promised = trigger.promised
        if promised is None:
            continue
        low, high = promised.spread(0.95)
        parts.append(
            f"{promised.m:,} of them met the target{' or were cut off' * bool(promised.stopped)} "
            "and set the alarm: promised "
            f"{percent(promised.rate)} false alarms {_how_sure(promised.confidence)}; given this "
            f"very set, {between(low, high)} (95\u00a0%)"
        )
    return "; ".join(parts) or "stand behind what is ruled out and assured"


def argument_in_words(argument: Argument) -> str:
    """The name of an argument of the library, in words for the reader of an HTML page."""
    if argument.name != "false_alarm_rate" or not isinstance(argument.value, int | float | str):
        return str(argument)
    return f"a promise of {percent(float(argument.value))} false alarms"


def _how_sure(confidence: float | None) -> str:
    """Words on how a promised rate holds: with a confidence, or on average over recordings."""
    if confidence is None:
        return "on average over recordings like the one that set the threshold"
    return f"with {percent(confidence)} confidence over recordings like the one that set it"


def between(low: float, high: float) -> str:
    """A range of shares as text, such as "3 % to 7 %"."""
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
