"""An evaluation as one HTML page that needs no other file: checks, figures, guarantees.

The page is well-formed XML too. The same evaluation gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ontarget._package import __version__
from ontarget._text import number, percent, plain
from ontarget._typing import ArrayLike
from ontarget.conformal.levels import uniform_margin
from ontarget.errors import FewEpisodesError, OntargetError
from ontarget.evaluation import Rate, pool
from ontarget.evaluation.figures import bias_chart, svg_of
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule
from ontarget.report._figures import (
    binned,
    culprit_of,
    draw,
    draw_run,
    example_episode,
    fall_rows,
    path_level,
    path_step,
    pit_bars,
    pit_step,
    pooled_in_words,
)
from ontarget.report.check import Mark, between, in_points
from ontarget.report.checks import checks_of
from ontarget.report.facts import Facts, facts_of
from ontarget.report.html import Table, render, sentence
from ontarget.report.measured import Measured
from ontarget.report.parts import CHANGE, Part, panels_of
from ontarget.report.verdict import Judgement, verdict_of
from ontarget.target import Component, Target

_GIST: Final = {
    Judgement.HELD: "p came true, and no promise was broken",
    Judgement.HELD_IN_PART: "p came true, and no promise was broken",
    Judgement.NOT_HELD: "p was off, or a promise was broken",
    Judgement.TOO_FEW: "the checks below say what is missing",
    Judgement.NOT_NEW: "the monitor learned from some of these runs",
}


def report_page(
    found: Measured,
    rule: AlarmRule,
    by: Mapping[str, ArrayLike] = MappingProxyType({}),
    name: str = "",
) -> str:
    """The HTML page of a report about an evaluation and an alarm rule."""
    facts, fitted = facts_of(found, rule), found.fitted
    goal = isinstance(found.target, Goal)
    policy, target = plain(fitted.trained.parameters["policy"]), target_in_words(found.target)
    panels = panels_of(found, by).items()
    return render(
        "report.html",
        target=target if goal else f"{plain(fitted.label)} {target}",
        name=plain(name) or policy,
        policy=policy,
        found=found,
        facts=facts,
        fitted=fitted,
        goal=goal,
        chosen=fitted.trained.chosen,
        version=__version__,
        reliability=svg_of(draw(found, "reliability")),
        said=_said_table(found),
        ece=svg_of(draw(found, "ece")),
        pooled=pooled_in_words(found),
        panels=[(_panel(name, parts), _biases(name, parts)) for name, parts in panels],
        episodes=svg_of(draw(found, "episodes")),
        run=_run(found),
        falls=Table(
            ("run", "step", "p before", "p", "why"),
            fall_rows(found),
            numbers=(1, 2, 3),
            sentences=True,
        ),
        alarms=svg_of(draw(found, "alarms")) if 0 < found.met.sum() < found.met.size else None,
        behaviors=_behaviors(found.parts) if found.parts else None,
        pit=None if goal else _pit(found),
        backing=Table(
            ("runs", "how many", "what they do, and how precise that makes it"),
            _backing(facts),
            numbers=(1,),
            sentences=True,
        ),
        **_findings(facts),
    )


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


def _findings(facts: Facts) -> dict[str, Any]:
    """The verdict and the checks as (mark, sentence, further sentences); and what to do."""
    checks, verdict = checks_of(facts), verdict_of(facts)
    marks = {Judgement.HELD: Mark.GOOD, Judgement.NOT_HELD: Mark.ACT}
    mark = marks.get(verdict.judgement, Mark.NEITHER)
    if any(one.mark is Mark.ACT for one in checks):
        mark = Mark.ACT
    named = {one.name: one.next for one in checks}
    todo = {"p": named["p"], "alarm": named["alarm"], "next": verdict.advice or "nothing"}
    told = f"{verdict.judgement}: {_GIST[verdict.judgement]}"
    findings = [(mark, sentence(told), _sentences(*verdict.aside.split("; ")))]
    findings += [
        (
            one.mark,
            sentence(one.said),
            _sentences(*one.details, "" if one.name in todo else one.next),
        )
        for one in checks
    ]
    return {"todo": todo, "findings": findings}


def _sentences(*texts: str) -> str:
    return " ".join(sentence(one) for one in texts if one)


def _said_table(found: Measured) -> Table:
    """One row per range of p: what p was on average, and how often it came true."""
    shown, pooled = binned(found), pool(found.p, found.met)
    places = np.minimum((pooled.p * shown.count.size).astype(np.intp), shown.count.size - 1)
    rows = [
        (
            percent(float(shown.mean_p[k])),
            percent(float(shown.rate_met[k])),
            between(float(shown.low[k]), float(shown.high[k])),
            f"{int(shown.count[k]):,}",
            f"{np.unique(pooled.episode[places == k]).size:,}",
        )
        for k in np.flatnonzero(shown.count).tolist()
    ]
    heads = ("it said", "came true", "95 % interval", "forecasts", "runs")
    return Table(heads, rows, numbers=range(5))


def _panel(name: str, parts: tuple[Part, ...]) -> Table:
    """How far p is off for each value of a column, or for each part of a run."""
    captions = {
        CHANGE: "Before and since the change, over all steps unless said otherwise",
        "steps": "By the step of the run, over all runs",
    }
    rows = [
        (
            plain(part.value),
            f"{part.episodes:,}",
            percent(part.mean_p),
            percent(part.met),
            part.in_words,
        )
        for part in parts
    ]
    heads = (plain(name), "runs", "it said", "came true", "p is")
    caption = captions.get(name, f"By {plain(name)}, over all steps")
    return Table(heads, rows, caption=caption, numbers=range(1, 4), sentences=True)


def _biases(name: str, parts: tuple[Part, ...]) -> Any:
    return svg_of(bias_chart(plain(name), [(plain(one.value), *one.too_high[:3]) for one in parts]))


def _run(found: Measured) -> dict[str, Any] | None:
    """One run in detail: its predicted outcome at each step, and its path to come."""
    i = example_episode(found)
    shown, what, whose, unit = found, "target", "its outcome", ""
    if isinstance(found.target, Goal):
        if not found.parts:
            return None
        unit = culprit_of(found, i)
        shown, what = found.parts[unit], "goal"
        whose = f"its {plain(unit)}, the likely culprit,"
    told: dict[str, Any] = {"path": None, "no_path": ""}
    try:
        told["path"] = svg_of(draw_run(shown, "path", i, unit=unit))
        told |= {"step": path_step(shown, i), "level": percent(path_level(shown, i))}
    except FewEpisodesError as error:
        told["no_path"] = str(error)
    except OntargetError:  # a model that knows no paths
        pass
    return told | {
        "id": plain(found.ids[i]),
        "ended": f"{'met' if found.met[i] else 'missed'} the {what}",
        "whose": whose,
        "fan": svg_of(draw_run(shown, "fan", i, unit=unit)),
    }


def _behaviors(parts: Mapping[str, Measured]) -> Table:
    """One row per behavior of a goal: its target, how often it was met, how good p is."""
    rows = [
        (
            name,
            target_in_words(part.target),
            percent(float(part.met.mean())),
            f"{100 * part.ece().value:.1f}",
            f"{part.brier().value:.4f}",
        )
        for name, part in parts.items()
    ]
    heads = ("behavior", "asked", "met", "off by (points)", "Brier score")
    return Table(heads, rows, numbers=range(2, 5))


def _pit(found: Measured) -> dict[str, Any]:
    t = pit_step(found)
    shown = found.pit(t, pit_bars(found))
    return {"svg": svg_of(draw(found, "pit")), "step": t, "flat": shown.is_flat}


def _backing(facts: Facts) -> list[tuple[str, str, str]]:
    """How many runs were used for what, and how precise that makes the report."""
    found, sizes = facts.found, facts.found.fitted.trained.sizes
    behind = found.learned[~np.isnan(found.p) & found.answered]
    typical, fewest = int(np.median(behind)), int(behind.min())
    chance = (
        f"chance in the {typical:,} behind a typical forecast moves the calibrated distribution by "
        f"at most {in_points(uniform_margin(typical))} anywhere (95 % confidence)"
    )
    if fewest < typical:
        chance += f", and with the fewest ({fewest:,}) by {in_points(uniform_margin(fewest))}"
    own, met = found.calibration, Rate.of(int(found.met.sum()), found.met.size)
    width = (found.spread[..., 1] - found.spread[..., 0])[~np.isnan(found.p)]
    width = width[width > 0.0] if sizes["assure"] else width[:0]
    rows = {
        ("Learning", sizes.get("learn")): f"taught the model and its calibration; {chance}",
        ("Training", sizes.get("train")): "trained the model",
        ("Calibration", sizes.get("calibrate")): f"calibrate its distribution; {chance}",
        ("Map", own and own.n): f"taught p of this very target: {own and own.in_words}; another "
        "target has another map, so forecasts of two may contradict each other",
        ("Assurance", sizes["assure"]): _assured(facts),
        ("Evaluation", met.n): f"measured this page: {met.count:,} met the target, "
        f"{percent(met.value)} ({between(met.low, met.high)}); intervals have 95 % confidence and "
        "resample whole runs",
        ("Unknown", found.unanswered.steps or None): f"of {found.unanswered.of:,} steps have no "
        f"answer and were left out of every figure: {found.unanswered.why}",
    }
    told = [(name, f"{n:,}", what) for (name, n), what in rows.items() if n is not None]
    if width.size:
        what = "is what the finite number of assure runs typically leaves open about p, on average"
        told.append(("Spread", f"± {in_points(0.5 * float(np.median(width)))}", what))
    return told


def _assured(facts: Facts) -> str:
    """What the assure runs stand behind."""
    if facts.alarms is None:
        return "would set the alarm, but cannot"
    if facts.only_measured:
        return "would promise the rate of false alarms; here learning runs set the alarm"
    promises = [one.promised for one in facts.alarms.triggers if one.promised is not None]
    each = (
        f"{one.m:,} of them met the target{' or were cut off' * bool(one.stopped)} and set the "
        f"alarm: given this very set, the true rate of false alarms is {between(*one.spread(0.95))}"
        for one in promises
    )
    return "; ".join(each) or "stand behind what is ruled out and assured"
