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
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from ontarget import AlarmRule, Below, Episodes, Evaluation, Promised, RuledOut, Target
from ontarget._text import percent
from ontarget.errors import InputError
from ontarget.fitted._kernels import P
from ontarget.models import Marginal, QuantileForest
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report._figures import (
    FIGURES,
    binned,
    example_episode,
    example_episodes,
    fall_rows,
    falls,
    path_level,
    pit_bars,
    pooled_in_words,
)
from ontarget.report.checks import checks_of
from ontarget.report.facts import facts_of
from ontarget.report.html import CONTENT_POLICY, Table, render, sentence
from ontarget.report.measured import outcome_ranks
from ontarget.report.page import report_page, target_in_words
from ontarget.report.parts import panels_of
from refusals import refuses
from tests.walks import walks

from .test_checks import changed
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
    head = unescape(page()[: page().index("<title>")])
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


def test_the_same_evaluation_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "one.html", tmp_path / "two.html"]
    judged().report(paths[0])
    walker().evaluate(NEW, TARGET).report(paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes() == page().encode()
    assert sorted(tmp_path.iterdir()) == paths


def test_what_users_wrote_is_escaped() -> None:
    assert "walk &lt;b&gt;&amp;&lt;/b&gt;" in page()
    assert "<b>" not in page()


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_can_be_had_by_itself(name: str) -> None:
    assert isinstance(judged().figure(name, dark=True), Figure)


def test_an_unknown_figure_is_refused_with_the_names() -> None:
    with refuses(InputError, "figure", "reliability, ece", "'pie'"):
        judged().figure("pie")


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


def test_the_page_shows_every_check_and_what_to_do() -> None:
    few = monitor_of(60).evaluate(NEW.take(range(40)), TARGET, resamples=10)
    for found in (judged(), few):
        text = words_of(report_page(found, Promised()))
        checks = checks_of(facts_of(found, Promised()))
        for one in checks:
            assert sentence(one.said) in text
            assert all(sentence(told) in text for told in one.details)
            assert one.next in text or sentence(one.next) in text
        assert (
            text.index("p: ") < text.index("○ neither") < text.index("Does what it says come true?")
        )


def test_the_first_line_names_the_model_and_its_runs(tmp_path: Path) -> None:
    told = "ontarget report on walk &lt;b&gt;&amp;&lt;/b&gt;: 1,200 recorded runs, 400 new"
    assert told in page()
    judged().report(tmp_path / "one.html", name="<walk>.ontarget")
    assert "ontarget report on &lt;walk&gt;.ontarget: 1,200" in (tmp_path / "one.html").read_text()


@pytest.mark.parametrize("rule", [Below(0.3), RuledOut(0.2), Promised(0.2, confidence=0.9)])
def test_the_report_judges_whatever_rule_is_asked_for(rule: AlarmRule, tmp_path: Path) -> None:
    judged().report(tmp_path / "report.html", rule)
    text = words_of((tmp_path / "report.html").read_text())
    for one in judged().checks(rule):
        assert sentence(one.said) in text


def test_few_runs_have_fewer_bins_in_table_and_figure_alike() -> None:
    few = walker().evaluate(NEW.take(range(60)), TARGET, resamples=5)
    for found, bins in ((judged(), 10), (few, 5)):
        assert binned(found).count.size == bins
        assert found.figure("reliability").axes[1].patches[0].get_data().values.size == bins
    assert pit_bars(few) < pit_bars(judged())


def test_plain_text_in_a_template_is_escaped_and_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("report.html")
    nasty = walker().evaluate(NEW, TARGET, resamples=2)
    text = report_page(nasty, Below(0.5), {"a <b> & $c": np.arange(len(NEW)) % 2}, name="<i>")
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert "<b>" not in text
    assert "<i>" not in text


def test_a_table_row_of_another_width_is_refused() -> None:
    with refuses(InputError, None, 2, ("one",)):
        Table(("a", "b"), [("one",)])


def test_every_class_that_the_page_uses_has_a_rule() -> None:
    style, body = page().split("</style>", 1)
    for name in set(re.findall(r'class="(\w+)"', body)):
        assert f".{name}" in style, name


def test_guarantees_are_struck_after_a_change() -> None:
    struck = 'class="points void"'
    assert struck in report_page(changed().found, changed().rule)
    assert struck not in page()
