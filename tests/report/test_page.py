"""The report: one page, well-formed, self-contained, and true to the evaluation."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from ontarget import Below, Episodes, Evaluation, Promised, RuledOut, Target
from ontarget._numerals import percent
from ontarget.errors import FewEpisodesError, InputError
from ontarget.evaluation import pool, reliability
from ontarget.fitted._kernels import ASSURANCE, PLAUSIBILITY, P
from ontarget.models import Marginal, QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report import _words as words
from ontarget.report._binned import binned
from ontarget.report._facts import Facts, Gap, facts_of
from ontarget.report._figures import (
    FIGURES,
    example_episode,
    example_episodes,
    path_level,
    pit_bars,
    pooled_in_words,
)
from ontarget.report._findings import Statement, _before_calibration, verdict
from ontarget.report._html import CONTENT_POLICY
from ontarget.report._page import report_page
from ontarget.report._why import fall_rows, falls
from ontarget.report._words import target_in_words
from ontarget.report.measured import outcome_ranks
from ontarget.report.parts import panels_of
from ontarget.report.verdict import verdict_of
from refusals import refuses
from tests.walks import walks

from .walked import monitor_of

TARGET = Target.at_least(0.2)
NEW = walks(400, seed=5)


@cache
def walker() -> GoalMonitor:
    monitor = GoalMonitor(QuantileForest(n_trees=20, min_leaf=10), policy="walk <b>&</b>")
    return monitor.fit(walks(1_200), progress=False)


@cache
def judged() -> Evaluation:
    return walker().evaluate(NEW, TARGET)


@cache
def page() -> str:
    return report_page(judged(), Promised(0.05))


def saying(p: np.ndarray, met: np.ndarray) -> Evaluation:
    """An evaluation with other probabilities and outcomes."""
    said = judged().answers.said.copy()
    said[:, P] = np.broadcast_to(p, judged().p.shape).T.reshape(-1)
    return replace(judged(), answers=replace(judged().answers, said=said, met=met))


def words_of(text: str) -> str:
    """What a reader reads: the page without its tags and styles."""
    bare = re.sub(r"<(style|svg)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", bare)).replace("\u00a0", " ").split())


def test_page_is_well_formed_and_holds_every_figure() -> None:
    root = ET.fromstring(page().removeprefix("<!DOCTYPE html>\n"))
    pictures = list(root.iter("{http://www.w3.org/2000/svg}svg"))
    assert len(pictures) == len(FIGURES) + 1  # and p by part of the run
    assert all(picture.get("aria-label") for picture in pictures)
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))


def test_page_refers_to_nothing_outside_itself() -> None:
    bare = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", page())
    assert "http:" not in bare
    assert "https:" not in bare
    assert "<script" not in bare
    assert "@import" not in bare
    for reference in re.findall(r'(?:href|src)="([^"]*)"|url\(([^)]*)\)', bare):
        assert "".join(reference).startswith("#")


def test_a_browser_may_run_and_load_nothing() -> None:
    head = page()[: page().index("<title>")]
    assert head.index('charset="utf-8"') < head.index(f'content="{CONTENT_POLICY}"')
    rules = dict(rule.strip().split(" ", 1) for rule in CONTENT_POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "style-src", "img-src", "base-uri", "form-action"}


def test_control_codes_of_a_policy_and_an_id_are_spelled_out() -> None:
    ids = np.array([f"{one}\x1b]8;;x\x07\u202e" for one in NEW.ids.tolist()])
    runs = Episodes.from_arrays(
        [NEW.take([i]).to_frame().select("x0", "x1").to_numpy() for i in range(40)],
        [NEW.take([i]).to_frame()["reward"].to_numpy() for i in range(40)],
        ids=ids[:40],
        horizon=NEW.horizon,
    )
    monitor = GoalMonitor(Marginal(), policy="a\x00\x9b2J\udc80\u2066").fit(walks(), progress=False)
    text = report_page(monitor.evaluate(runs, TARGET), Below(0.5))
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert "Policy: a\\x00\\x9b2J\\udc80\\u2066." in text
    assert "\\x1b]8;;x\\x07\\u202e" in text
    text.encode()


def test_page_follows_light_dark_and_paper() -> None:
    assert "prefers-color-scheme: dark" in page()
    assert "@media print" in page()
    assert "color-scheme: light dark" in page()


def test_the_same_evaluation_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "one.html", tmp_path / "two.html"]
    judged().report(paths[0])
    walker().evaluate(NEW, TARGET).report(paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes() == page().encode()
    assert sorted(tmp_path.iterdir()) == paths


def test_verdict_comes_first_and_is_what_came_true() -> None:
    pooled = pool(judged().p, judged().met)
    near = np.abs(pooled.p - 0.8) <= 0.05
    bin_ = reliability(pooled.p[near], pooled.met[near], 1).at(0.8)
    said = f"When it said about 80 %, {percent(bin_.rate_met)} of runs met the target."
    text = words_of(page())
    assert said.replace("\u00a0", " ") in text
    assert text.index("When it said") < text.index("Does what it says come true?")


def test_alarm_is_judged_with_the_promised_threshold() -> None:
    threshold = walker().watch(TARGET, false_alarm_rate=0.05).trigger.threshold
    quality = judged().alarms(alarm_below=threshold).quality
    promised = judged().alarms(Promised(0.05))
    assert promised.quality.detections == quality.detections
    false, caught = percent(quality.false_alarms.value), percent(quality.in_time.value)
    told = (
        f"Alarm: {false} false alarms (5\u00a0% promised on average), {caught} of failures caught"
    )
    assert f"{told} in time." in page()
    assert f"{quality.false_alarms.count} of {quality.false_alarms.n}" in words_of(page())


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Below(0.3), r"Alarm: [\d.]+ % false alarms, [\d.]+ % of failures caught in time\."),
        (RuledOut(0.2), r"false alarms among all runs \(20 % promised on average\), [\d.]+ % of"),
        (Promised(0.1), r"% false alarms \(10 % promised on average\), [\d.]+ % of failures"),
        (Promised(0.2, confidence=0.9), r"\(20 % promised with 90 % confidence\)"),
    ],
)
def test_the_report_judges_whatever_rule_is_asked_for(rule, said: str, tmp_path: Path) -> None:
    judged().report(tmp_path / "report.html", rule)
    text = words_of((tmp_path / "report.html").read_text())
    assert re.search(said, text)
    assert f"Alarm {rule.relation} {rule.compared_name} = " in text
    (limit,) = (one.threshold for one in judged().alarms(rule).triggers)
    shown = percent(limit).replace("\u00a0", " ") if rule.compared_name == "p" else f"{limit:.3g}"
    assert f" {rule.compared_name} = {shown}. False alarms" in text


def test_a_report_refuses_a_rate_that_is_none(tmp_path: Path) -> None:
    with refuses(InputError, "false_alarm_rate", 7):
        judged().report(tmp_path / "report.html", false_alarm_rate=7)
    assert not (tmp_path / "report.html").exists()


def test_numbers_of_episodes_are_said() -> None:
    text = words_of(page())
    for size in (*walker().sizes.values(), judged().met.size):
        assert f"{size:,}" in text


def test_what_users_wrote_is_escaped() -> None:
    assert "walk &lt;b&gt;&amp;&lt;/b&gt;" in page()
    assert "<b>" not in page()


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_can_be_had_by_itself(name: str) -> None:
    assert isinstance(judged().figure(name, dark=True), Figure)


def test_an_unknown_figure_is_refused_with_the_names() -> None:
    with refuses(InputError, "figure", "reliability, ece", "'pie'"):
        judged().figure("pie")


def test_without_enough_successes_the_report_says_so() -> None:
    found = walker().evaluate(NEW, Target.at_least(1e6))
    text = words_of(report_page(found, Promised(0.05)))
    assert "No alarm with 5 % false alarms can be promised." in text
    assert "none of the 240 assure episodes met the target [1e+06, inf)" in text
    assert "choose a target that runs can meet" in text
    assert "No run met the target" in text


def test_miscalibration_is_called_so() -> None:
    wrong = saying(np.sqrt(judged().p), judged().met)
    overall, said, calibration, *_ = verdict(facts_of(wrong, Promised(0.05)))
    assert overall.headline.startswith("Not held: p was off by")
    assert not calibration.good
    assert " too high. " in calibration.detail
    assert "percentage points" in calibration.headline
    assert not said.good


def test_forecasts_that_come_true_are_called_so() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice([0.2, 0.8], size=judged().met.size)
    right = saying(np.tile(truth, (6, 1)), rng.random(truth.size) < truth)
    _, said, calibration, *_ = verdict(facts_of(right, Promised(0.05)))
    assert said.good
    assert (
        calibration.headline
        == "Over all forecasts together, 400 new runs show no sign of miscalibration."
    )


def test_ragged_runs_in_groups_are_reported_too(tmp_path: Path) -> None:
    runs = walks(1_600, ragged=True, groups=2, behavior="max", atoms=False)
    monitor = GoalMonitor(QuantileForest(n_trees=10, min_leaf=20), group="group").fit(
        runs, progress=False
    )
    found = monitor.evaluate(walks(300, seed=9, ragged=True, groups=2, behavior="max"), TARGET)
    assert len(found.alarms(Promised()).triggers) == 2
    found.report(tmp_path / "report.html")
    text = words_of((tmp_path / "report.html").read_text())
    assert "largest reward at least 0.2" in text


def test_what_was_never_called_gets_no_tick() -> None:
    said = judged().answers.said.copy()
    said[:, PLAUSIBILITY], said[:, ASSURANCE] = 1.0, 0.0
    quiet = replace(judged(), answers=replace(judged().answers, said=said))
    assert verdict(facts_of(quiet, Promised(0.05)))[-1].good is None
    assert '<li class="neither">' in report_page(quiet, Promised(0.05))


def test_outcome_ranks_are_uniform_on_new_episodes() -> None:
    ranks, sizes = outcome_ranks(walker().fitted, NEW, 2)
    n = int(sizes[0])
    assert (sizes == n).all()
    assert ranks.min() >= 1
    assert ranks.max() <= n + 1
    # Two samples of 480 and 400: the distance of their CDFs exceeds 0.14 once in 3,000 tries.
    place = np.sort(ranks / (n + 1))
    assert np.abs(place - np.arange(1, place.size + 1) / place.size).max() < 0.14
    assert judged().pit(2).count.sum() == len(NEW)


def test_examples_are_of_both_kinds_and_in_alarm() -> None:
    chosen = example_episodes(judged())
    assert 0 < judged().met[chosen].sum() < chosen.size
    assert np.unique(chosen).size == chosen.size
    one = example_episode(judged())
    assert not judged().met[one]
    assert judged().alarms(Promised()).first[one] >= 0


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("-40:", "at least −40"),
        (":2.5", "at most 2.5"),
        ("1:1", "exactly 1"),
        ("-67.1:-14.5", "from −67.1 to −14.5"),
        (":3,5:8", "at most 3, or from 5 to 8"),
        ("-inf:inf", "anything"),
    ],
)
def test_targets_are_said_in_words(text: str, phrase: str) -> None:
    assert target_in_words(Target.parse(text)) == phrase


def test_open_ends_are_said_in_words() -> None:
    assert target_in_words(~Target.at_least(2)) == "less than 2"
    assert target_in_words(Target(0, 1, closed="left")) == "from 0 to 1, 1 left out"
    assert target_in_words(Target.empty()) == "nothing at all"


def test_shares_near_the_ends_are_not_rounded_away() -> None:
    assert percent(0.99996) == "over 99.9\u00a0%"
    assert percent(0.00001) == "under 0.1\u00a0%"
    assert (percent(1.0), percent(0.0), percent(float("nan"))) == ("100\u00a0%", "0\u00a0%", "–")


def test_a_report_on_episodes_of_the_fit_says_that_it_flatters() -> None:
    past = walks(900)
    monitor = GoalMonitor(QuantileForest(n_trees=5)).fit(past, progress=False)
    page = report_page(monitor.evaluate(past, Target.at_least(0.2), resamples=10), Promised())
    assert "Cannot say: the monitor was fitted on 900 of these 900 runs." in page
    assert "never seen" not in page


def test_a_rate_without_assure_episodes_is_measured_and_not_guaranteed() -> None:
    few = GoalMonitor(QuantileForest(n_trees=20, min_leaf=3), min_calibration=5)
    few.fit(split=walks(60).split(assure=0), progress=False)
    facts = facts_of(few.evaluate(NEW, TARGET, resamples=20), Promised(0.1))
    assert (facts.asked_rate, facts.promised_rate) == (0.1, None)
    assert [point[:7] for point in words.guaranteed(facts)] == ["Nothing"]
    assert facts.found.pit(2).is_flat
    assert any("measured, not promised. Here:" in point for point in words.measured_only(facts))
    said = [one.headline for one in verdict(facts)]
    assert any("false alarms (set for 10\u00a0%, not promised), " in one for one in said)


def test_the_report_says_how_wide_the_spread_of_p_is() -> None:
    rows = {
        name: (size, what) for name, size, what in words.backing(facts_of(judged(), Promised()))
    }
    width = judged().spread[..., 1] - judged().spread[..., 0]
    half = 50.0 * float(np.median(width[width > 0.0]))
    assert rows["Spread"][0] == f"± {half:.1f} percentage points"
    few = GoalMonitor(QuantileForest(n_trees=5), min_calibration=5)
    few.fit(split=walks(60).split(assure=0), progress=False)
    alone = facts_of(few.evaluate(NEW, TARGET, resamples=5), Promised(0.1))
    assert "Spread" not in [name for name, _, _ in words.backing(alone)]


def test_the_page_says_why_p_fell_in_runs_that_missed() -> None:
    rows = fall_rows(judged())
    assert rows
    assert "Why did p fall?" in page()
    for i, why in falls(judged()):
        assert not judged().met[i]
        assert (why.p_before, why.p) == (judged().p[why.t - 1, i], judged().p[why.t, i])
        assert why.change == np.nanmin(np.diff(judged().p[:, i]))
    assert all(unescape(text) in unescape(page()) for row in rows for text in row[:1])


def test_without_a_missed_run_there_is_nothing_to_explain() -> None:
    met = saying(judged().p, np.ones_like(judged().met))
    assert fall_rows(met) == []


def test_the_page_shows_the_path_to_come_only_where_a_band_is_promised() -> None:
    assert "With a probability of 90" in page()
    assert "The bands hold the outcome with a probability of 90 % and 50 %" in words_of(page())
    bare = GoalMonitor(Marginal()).fit(walks(300), progress=False).evaluate(NEW, TARGET)
    assert "With a probability of 90" not in report_page(bare, Below(0.5))
    with refuses(InputError, "model", "StackedForest"):
        bare.figure("path")


def test_a_path_without_end_is_said_and_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few episodes that the band is the whole line at some later steps."""
    band = type(judged().contracts.paths).band

    def endless(*asked: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = band(*asked, **options)
        return lower, np.where(np.arange(lower.shape[1]) % 2, upper, np.inf)

    monkeypatch.setattr(type(judged().contracts.paths), "band", endless)
    text = words_of(report_page(judged(), Promised(0.05)))
    assert (
        "The path of this run is not shown: with so few runs, even a band for half of all" in text
    )
    assert "With a probability of" not in text


def test_a_path_that_only_a_lower_level_limits_is_drawn_at_that_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    band = type(judged().contracts.paths).band

    def endless(*asked: Any, level: float) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = band(*asked, level=level)
        return lower, np.full_like(upper, np.inf) if level > 0.8 else upper

    monkeypatch.setattr(type(judged().contracts.paths), "band", endless)
    assert path_level(judged(), example_episode(judged())) == 0.8
    text = words_of(report_page(judged(), Promised(0.05)))
    assert "With a probability of 80 % a run stays" in text
    assert "It is 80 % here, not 90 %: with so few recorded runs" in text
    assert "here, not 90 %" not in words_of(page())


def test_a_histogram_that_can_hardly_fail_says_so() -> None:
    few = monitor_of(60).evaluate(NEW.take(range(40)), TARGET, resamples=10)
    assert pit_bars(few) == 4
    text = words_of(report_page(few, Below(0.5)))
    assert re.search(r"With so few runs that says little: only a bar more than \d\.\d times", text)
    assert pit_bars(judged()) > 4
    assert "that says little" not in words_of(page())


def drift_in(found: Evaluation) -> Statement:
    """What is said of a change."""
    assert found.drifted is not None
    test = found.drifted.change.test
    return next(one for one in verdict(facts_of(found, Promised(0.05))) if test in one.detail)


def test_without_a_sign_of_a_change_no_direction_is_named() -> None:
    drift = drift_in(judged())
    assert drift.headline.startswith("No sign")
    assert drift.good is None
    assert "too high" not in drift.detail
    ordered = walker().evaluate(NEW, TARGET, order=np.arange(len(NEW)), resamples=10)
    assert "bets" in drift_in(ordered).detail
    assert "bets" not in drift.detail


def marks(found: Evaluation) -> list[bool | None]:
    """Whether each finding is good: the verdict, three about p, and others."""
    return [one.good for one in verdict(facts_of(found, Promised(0.05)))]


def test_findings_agree_with_the_verdict() -> None:
    lowered = saying(np.clip(judged().p - 0.12, 0.0, 1.0), judged().met)
    assert not any(marks(lowered)[:4])
    few = walker().evaluate(NEW.take(range(25)), TARGET, resamples=20)
    assert "25 new runs cannot tell whether p is off." in words_of(report_page(few, Promised(0.05)))
    assert not any(marks(few)[:4])
    seen = walker().evaluate(walks(1_200).take(range(300)), TARGET, resamples=20)
    assert not any(marks(seen))


def test_what_was_never_put_to_the_test_gets_no_tick() -> None:
    met = saying(np.ones_like(judged().p), np.ones_like(judged().met))
    found = {one.headline: one.good for one in verdict(facts_of(met, Promised(0.05)))}
    assert found["No run failed, so no alarm was needed."] is None
    assert found["It was nearly always sure of itself."] is None
    assert found["All runs ended alike, so nothing could be told apart."] is None


def test_a_blunt_model_is_told_from_a_sharp_one() -> None:
    rate = judged().met.mean()
    blunt = saying(np.full_like(judged().p, rate), judged().met)
    text = words_of(report_page(blunt, Below(0.1)))
    assert "It hardly tells runs apart." in text
    assert "Look for features that tell earlier how a run will end" in text
    assert "It tells runs apart: its error is" in words_of(page())


def test_a_clock_alone_does_not_tell_runs_apart() -> None:
    p, met = judged().p, judged().met
    long = np.arange(met.size) % 3 > 0  # runs that meet the target last longer, and p sees only t
    alive = np.where(long | (np.arange(len(p))[:, None] < len(p) // 2), p, np.nan)
    share = np.nanmean(np.where(np.isnan(alive), np.nan, long), axis=1)
    clock = saying(np.where(np.isnan(alive), np.nan, share[:, None]), long)
    assert "It hardly tells runs apart." in words_of(report_page(clock, Below(0.1)))


def test_a_panel_shows_which_way_p_is_off_for_each_value() -> None:
    half = np.where(np.arange(len(NEW)) % 2, "odd", "even")
    off = saying(np.clip(judged().p + 0.2 * (half == "odd"), 0.0, 1.0), judged().met)
    text = words_of(report_page(off, Promised(0.05), {"half": half}))
    even, odd = off.by(half)
    assert odd.too_high.value == pytest.approx(off.p[:, half == "odd"].mean() - odd.met)
    assert odd.shows
    assert re.search(r"odd 200 .* points too high \(\d", text)
    assert even.in_words == "right, within chance"
    assert "Where is it right, and where not?" in text
    assert "0 to 1" in text  # the first third of six steps


def test_long_runs_are_measured_some_steps_at_a_time() -> None:
    times = 40
    kept = judged().answers
    longer = replace(
        kept,
        said=np.repeat(kept.said, times, axis=0),
        bad=np.repeat(kept.bad, times),
        counts=np.repeat(kept.counts, times),
        lengths=kept.lengths * times,
        steps=kept.steps * times,
    )
    found = replace(judged(), answers=longer)
    drawn = found.figure("ece")
    line = next(one for one in drawn.axes[0].lines if one.get_label() == "calibrated")
    assert np.unique(line.get_ydata()).size <= 40
    assert pooled_in_words(found) == "for 6 steps at a time"
    assert pooled_in_words(judged()) == "for each step by itself"
    thirds = [part.value for part in panels_of(found, {})["steps"]]
    assert thirds == ["0 to 79", "80 to 159", "160 to 239"]


def test_unknown_categories_have_a_finding_and_a_panel() -> None:
    def runs(names: list[str], seed: int) -> Episodes:
        base = walks(len(names) * 60, seed=seed)
        modes = pl.DataFrame({"episode": base.ids, "mode": np.repeat(names, 60)})
        return Episodes.from_frame(base.to_frame().join(modes, on="episode"))

    monitor = GoalMonitor(QuantileForest(n_trees=5))
    monitor.fit(runs(["dry", "wet"] * 4, 1), progress=False)
    found = monitor.evaluate(runs(["dry", "snow"], 2), TARGET, resamples=10)
    text = words_of(report_page(found, Below(0.5)))
    assert "mode: 'snow' (360 readings)" in text
    assert "unknown or missing 60" in text
    assert "Fit again once there are enough runs with the new categories." in text
    read = Episodes.from_frame(runs(["dry", "snow"], 2).to_frame(), like=monitor)
    assert read.strangers == found.episodes.strangers == (("mode", 360, (("snow", 360),)),)
    names = ["dry", "<b>", "a\x1b", "fog", "snow"]
    many = monitor.evaluate(runs(names, 2), TARGET, resamples=2)
    page = report_page(many, Below(0.5))
    assert r"mode: '<b>', 'a\x1b', 'fog' and others (1,440 readings)" in unescape(page)
    assert "<b>" not in page


def test_where_most_runs_miss_the_target_an_alarm_is_normal() -> None:
    rare = walker().evaluate(NEW, Target.at_least(float(np.quantile(NEW.outcomes, 0.9))))
    share = percent(1.0 - float(rare.met.mean()))
    told = f"{share} of runs miss this target, so an alarm is the normal state; look for"
    for rule in (Below(0.05), Promised(0.05)):
        assert told in report_page(rare, rule)
    assert "the normal state" not in page()


def test_the_first_line_names_the_model_and_its_runs(tmp_path: Path) -> None:
    assert (
        "ontarget report on walk &lt;b&gt;&amp;&lt;/b&gt;: 1,200 recorded runs, 400 new" in page()
    )
    judged().report(tmp_path / "one.html", name="<walk>.ontarget")
    text = (tmp_path / "one.html").read_text()
    assert "ontarget report on &lt;walk&gt;.ontarget: 1,200 recorded runs" in text
    assert text.index("! act on it") < text.index('<ul class="verdict">')


def test_a_promise_out_of_reach_is_told_in_words_with_what_to_do() -> None:
    target = Target.at_least(float(np.quantile(NEW.outcomes, 0.97)))
    facts = facts_of(walker().evaluate(NEW, target), Promised(0.01))
    overall, *_ = found = verdict(facts)
    (alarm,) = [one for one in found if one.headline.startswith("No alarm with")]
    assert (
        "A promise of 1\u00a0% false alarms needs at least 99 assure runs that met" in alarm.detail
    )
    missing = facts.shortfall
    assert missing is not None
    assert missing.needed == 99
    assert missing.more >= 1_200 * (99 / missing.has - 1)
    assert missing.in_all == sum(walker().sizes.values()) + missing.more
    told = f"fit on about {missing.in_all:,} runs in all ({missing.more:,} more)."
    assert told in alarm.detail
    assert told not in overall.detail  # it is told once on the page
    assert told[:-1] in verdict_of(facts).advice
    rate = missing.possible
    assert rate is not None
    assert f"can be promised now: pass --false-alarm-rate {rate:g}, or false" in alarm.detail
    assert walker().watch(target, false_alarm_rate=rate).trigger.promised is not None
    with pytest.raises(FewEpisodesError):
        walker().watch(target, false_alarm_rate=rate - 0.01)


def test_whatever_gets_no_mark_says_why() -> None:
    few = walker().evaluate(NEW.take(range(25)), TARGET, resamples=20)
    seen = walker().evaluate(walks(1_200).take(range(300)), TARGET, resamples=20)
    rare = walker().evaluate(NEW, Target.at_least(float(np.quantile(NEW.outcomes, 0.97))))
    alike = saying(np.ones_like(judged().p), np.ones_like(judged().met))
    off = saying(np.clip(judged().p - 0.12, 0.0, 1.0), judged().met)
    for found in (judged(), few, seen, rare, alike, off):
        for one in verdict(facts_of(found, Promised(0.05))):
            assert bool(one.why) == (one.good is None), one
    assert "No mark: there are too few runs to tell." in words_of(report_page(few, Promised(0.05)))


def test_the_page_says_what_p_is_and_counts_errors_in_points() -> None:
    text = words_of(page())
    assert "the monitor says p: the probability that the run will meet the target." in text
    off = f"p is off by {100 * judged().ece().value:.1f} percentage points on average"
    assert text.index("says p: the probability") < text.index(off)
    assert f"{judged().ece().value:.4f}" not in text
    assert "is not exactly 100 % less p" in text


def test_what_calibration_did_is_said_with_what_chance_explains() -> None:
    facts = facts_of(judged(), Promised(0.05))
    base = judged().ece("raw").value

    def told(off: float) -> str:
        other = Facts(facts.found, facts.rule, facts.alarms, None)
        other.__dict__["gap"] = Gap(off, 0.03, 0.04, 0.0, 100)  # chance explains 0.05
        return _before_calibration(other)

    assert told(base - 0.01) == f"Before calibration it was {100 * base:.1f} points."
    assert "did not help, but the difference is within chance" in told(base + 0.04)
    assert "made p worse, by more than chance explains" in told(base + 0.06)


def test_few_runs_have_fewer_bins_in_table_and_figure_alike() -> None:
    few = walker().evaluate(NEW.take(range(60)), TARGET, resamples=5)
    for found, bins in ((judged(), 10), (few, 5)):
        shown = binned(found)
        assert shown.count.size == bins
        assert len(words.said_table(found)) == np.count_nonzero(shown.count)
        assert found.figure("reliability").axes[1].patches[0].get_data().values.size == bins


def test_an_interval_that_says_nothing_earns_no_tick() -> None:
    met = judged().met.copy()
    met[:14] = np.arange(14) > 1  # so few that 80 % may as well be 60 % or 98 %
    p = np.where(met, 0.999, 0.001) + 0.0 * judged().p
    p[:, :14] = 0.8 + 0.0 * p[:, :14]
    overall, said, *_ = verdict(facts_of(saying(p, met), Promised(0.05)))
    assert overall.good
    assert said.headline.startswith("When it said about 80")
    assert said.good is None


def test_the_page_speaks_of_runs() -> None:
    """But for the name that other pages and messages have for assure runs."""
    rare = Target.at_least(float(np.quantile(NEW.outcomes, 0.97)))
    for text in (page(), report_page(walker().evaluate(NEW, rare), Promised(0.01))):
        assert "(assure episodes) are recorded runs that no model learned from" in text
        assert "episode" not in words_of(text).replace("assure episodes", "")
