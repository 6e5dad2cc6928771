"""The line of what to do: right for each kind of verdict, and never against the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ontarget import Below, Evaluation, Promised, Target
from ontarget.drift.change import DriftJudgement
from ontarget.fitted._kernels import P
from ontarget.report._action import action_of, mostly_missed
from ontarget.report._binned import together_in_words
from ontarget.report._facts import Facts, facts_of
from ontarget.report._findings import verdict
from ontarget.report._page import report_page
from ontarget.report._words import guaranteed
from ontarget.report.verdict import verdict_of
from tests.walks import walks

from .test_verdict import TARGET, judged, saying, shifted, walker
from .walked import monitor_of


@cache
def held() -> Facts:
    return facts_of(judged(), Promised())


@cache
def clean() -> Facts:
    return facts_of(walker().evaluate(walks(400, seed=12), TARGET), Promised())


@cache
def lowered() -> Facts:
    return facts_of(saying(P, np.clip(judged().p - 0.12, 0.0, 1.0)), Promised())


@cache
def changed() -> Facts:
    both = shifted(walks(1_000, seed=5), np.repeat([0.0, -0.3], 500))
    order = {"day": np.arange(1_000)}
    return facts_of(walker().evaluate(both, TARGET, order=order, resamples=50), Promised())


@cache
def few() -> Facts:
    return facts_of(monitor_of(60).evaluate(walks(40, seed=8), TARGET, resamples=50), Promised())


@cache
def rare() -> Facts:
    target = Target.at_least(float(np.quantile(walks(1_000, seed=5).outcomes, 0.99)))
    found = walker().evaluate(walks(1_000, seed=5), target, resamples=50)
    return facts_of(found, Promised(0.01))


@cache
def learned() -> Facts:
    again = walker().evaluate(walks(3_000).take(np.arange(200)), TARGET, resamples=5)
    return facts_of(again, Promised())


@cache
def unclear() -> Facts:
    rng, n = np.random.default_rng(0), judged().met.size
    stated = np.where(rng.random(n) < 0.5, 0.95, 0.05)
    met = rng.random(n) < stated
    stated[:15], met[:15] = 0.4, True
    other = saying(P, stated)
    return facts_of(replace(other, answers=replace(other.answers, met=met)), Below(0.1))


CASES: dict[Callable[[], Facts], tuple[str, str, str]] = {
    clean: ("use it", "keep", "nothing"),
    held: ("use it", "keep", "nothing"),
    lowered: ("do not use it yet, it is too low", "off, it raises far more", "look for"),
    changed: (
        "do not use it, it is too high since the change",
        "",
        "recalibrate and renew p, or fit again, on runs that start from now on",
    ),
    few: ("do not use it yet", "cannot be promised at 5\u00a0%, ", "fit on about "),
    rare: (
        "",
        "cannot be promised at 1\u00a0%, ",
        "choose a target that more runs meet, or fit on ",
    ),
    learned: ("not judged", "not judged", "evaluate it on new runs only"),
    unclear: ("read it as too low between 10 and 90 %", "keep, ", "look for"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_line_says_what_to_do(case: Callable[[], Facts]) -> None:
    for told, expected in zip(action_of(case()), CASES[case], strict=True):
        assert told.startswith(expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_line_agrees_with_the_findings(case: Callable[[], Facts]) -> None:
    facts, action = case(), action_of(case())
    first, *others = verdict(facts)
    (calibration,) = [one for one in others if "expected calibration error" in one.detail]
    if calibration.good is False:
        assert action.p != "use it"
    if any(one.good is False for one in others):
        assert first.good is False
        assert action.next != "nothing"
    if first.good:
        assert action.p == "use it"
    missing = facts.shortfall
    if missing is not None:  # the larger of what p and what the alarm needs
        fit = int(action.next.partition("fit on about ")[2].split()[0].replace(",", ""))
        assert fit >= missing.in_all
        assert f"{facts.recorded:,}" in report_page(facts.found, facts.rule)


def test_a_change_for_the_worse_comes_first() -> None:
    drift = changed().found.drifted
    assert drift is not None
    assert drift.judgement is DriftJudgement.WORSE
    first, second, *_ = verdict(changed())
    assert first.headline.startswith("Changed for the worse")
    assert second.headline.startswith("Not held")
    assert (first.good, second.good) == (False, False)


def test_the_line_stands_between_title_and_findings() -> None:
    found: Evaluation = judged()
    page = report_page(found, Promised())
    line = '<p class="action"><span><strong>p:</strong> use it.</span>'
    assert page.index("<h1>") < page.index(line) < page.index('<ul class="verdict">')
    assert f"It was made from {held().recorded:,} recorded runs." in page


@pytest.mark.parametrize("n", [40, 6])
def test_the_chart_says_what_its_points_show_together(n: int) -> None:
    """Runs in which p says 20 to 80 %, and more meet the target; the others are clear cases."""
    clear = np.where(np.arange(judged().met.size) % 2, 0.999, 0.001)
    met = clear > 0.5
    between = np.linspace(0.15, 0.85, n)
    clear[:n] = between
    met[:n] = between + np.where(np.arange(n) % 2, 0.05, 0.4) > 0.5
    other = saying(P, clear)
    facts = facts_of(replace(other, answers=replace(other.answers, met=met)), Below(0.1))
    lean = facts.unclear
    assert lean is not None
    text = together_in_words(facts)
    assert lean.beyond_chance == (n == 40)
    if lean.beyond_chance:
        assert text.endswith("each alone is within chance, together they are not.")
    else:
        assert text.endswith(f"together, too, they are within chance, with {n} such runs.")
    assert f"{100 * abs(lean.too_high):.1f} points too low there, and chance alone" in text
    assert text in report_page(facts.found, facts.rule)
    (calibration,) = [one for one in verdict(facts) if "expected calibration" in one.detail]
    assert f"and chance alone explains {100 * lean.chance:.1f}." in calibration.detail
    assert (calibration.good is False) == lean.beyond_chance
    assert together_in_words(clean()) == ""  # p often lies between


def test_guarantees_are_struck_after_a_change() -> None:
    page = report_page(changed().found, changed().rule)
    assert "false alarms (5\u00a0% promised before the change), " in page
    assert "<h3>Guaranteed before the change</h3><p>None of these holds since the change." in page
    assert page.count("<s>") == len(guaranteed(changed())) > 0
    assert "<s>" not in report_page(held().found, held().rule)


def test_why_one_recording_may_exceed_a_rate_is_said_where_it_does() -> None:
    p = np.where(judged().met, np.maximum(judged().p, 0.5), judged().p)
    more = p.copy()
    more[-1, np.flatnonzero(judged().met)[: round(0.06 * judged().met.sum())]] = 0.0
    for stated, exceeds in ((p, False), (more, True)):
        told = " ".join(guaranteed(facts_of(saying(P, stated), Promised())))
        assert ("One recording may exceed it: by luck" in told) == exceeds


def test_what_runs_since_a_change_may_be_used_for_is_said_alike_everywhere() -> None:
    drift = changed().found.drifted
    assert drift is not None
    advice = verdict_of(changed()).advice
    assert f"start from now on: the {len(drift.later)} runs since the change may teach p" in advice
    page = report_page(changed().found, changed().rule)
    for text in (advice, action_of(changed()).next, drift.verdict, page):
        assert "runs that start from now on" in text
        assert "since then." not in text


def test_more_runs_are_not_the_first_advice_where_an_alarm_is_the_normal_state() -> None:
    assert mostly_missed(rare())
    assert not mostly_missed(clean())
    assert action_of(rare()).next.startswith(
        "choose a target that more runs meet, or fit on about "
    )
