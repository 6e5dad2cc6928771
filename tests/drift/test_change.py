from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.drift import Drift, DriftJudgement
from ontarget.errors import (
    CalibrationError,
    CensoredError,
    EpisodesError,
    FewEpisodesError,
    InputError,
)
from ontarget.models import Marginal, QuantileForest
from ontarget.monitor._asking import of_the_sample
from ontarget.report import Mark
from refusals import refuses
from tests.walks import shifted, walks

GOAL = Target.at_least(0.3)
MONITOR = GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(walks(1000), progress=False)


def test_runs_like_the_recorded_ones_show_no_change() -> None:
    found = MONITOR.drift(walks(300, seed=3), GOAL)
    assert found.judgement is DriftJudgement.NO_SIGN
    assert "does not prove" in found.verdict
    assert not found.bias.shows


def test_worse_runs_are_a_change_for_the_worse_and_better_ones_only_a_change() -> None:
    worse, better = (MONITOR.drift(shifted(300, 4, by), GOAL) for by in (-0.1, 0.1))
    assert worse.judgement is DriftJudgement.WORSE
    assert worse.bias.low > 0.0
    assert "points too high" in worse.verdict
    assert better.judgement is DriftJudgement.CHANGED
    assert better.bias.high < 0.0
    assert "points too low" in better.verdict


def test_the_change_is_dated_where_it_happened() -> None:
    runs = Episodes.concat([walks(200, seed=5), shifted(200, 6, -0.15)])
    days = np.arange(400) + 1000
    found = MONITOR.drift(runs, GOAL, order=days)
    assert abs(found.since - 200) < 25
    assert found.since_value == str(1000 + found.since)
    assert found.since_column == ""  # the days were given as numbers, not by the name of a column
    assert found.order == ""
    assert found.now.n == 400 - found.since
    assert found.now.too_high > found.bias.too_high + 0.1  # the runs before it do not water it down
    assert f"of {found.now.n} runs since then met the target" in found.verdict
    assert f"at {found.since_value} in the order given" in str(found)
    mixed = np.random.default_rng(0).permutation(400)
    again = MONITOR.drift(runs.take(mixed), GOAL, order=days[mixed])
    assert again == found


def test_a_change_is_dated_to_the_first_run_of_a_day() -> None:
    runs = Episodes.concat([walks(200, seed=5), shifted(200, 6, -0.15)])
    found = MONITOR.drift(runs, GOAL, order={"day": np.repeat(["a", "b", "c", "d"], 100)})
    assert found.since == 200
    assert "about run 201 of 400, where day is c (a best guess)" in str(found)
    late = MONITOR.drift(shifted(200, 6, -0.15), GOAL, order={"day": ["d"] * 200})
    assert "since the first of these 200 runs, or before" in late.when


def test_runs_that_end_as_well_as_ever_again_are_no_change_for_the_worse() -> None:
    """Better runs, then ones as before: p is too low on the whole."""
    runs = Episodes.concat([shifted(300, 6, 0.3), walks(300, seed=5)])
    found = MONITOR.drift(runs, GOAL, order=np.arange(600))
    assert found.judgement is DriftJudgement.CHANGED
    assert found.latest.high < 0.0


def test_a_change_is_for_the_worse_only_if_p_is_too_high_and_more_so_than_before() -> None:
    found = MONITOR.drift(shifted(300, 4, -0.1), GOAL)
    assert found.judgement is DriftJudgement.WORSE
    unsure = replace(found, bias=found.bias._replace(low=-0.01))
    as_before = replace(found, before=found.bias)
    for told in (unsure, as_before):
        assert told.judgement is DriftJudgement.CHANGED


def test_a_file_sorted_by_result_is_no_change_whatever_it_claims() -> None:
    runs = walks(300, seed=7)
    runs = runs.take(np.argsort(runs.outcomes, kind="stable"))
    for order in (None, np.arange(300)):
        found = MONITOR.drift(runs, GOAL, order=order)
        assert found.judgement is DriftJudgement.NO_SIGN
        assert found.order
        assert found.change.highest is None  # no bets along such an order
    # The trap: fed in the order of the file, the guard alarms at once.
    assert MONITOR.drift_guard().observe(runs).alarm


def test_a_day_whose_runs_are_sorted_by_result_is_no_change() -> None:
    days = [walks(150, seed=seed) for seed in (7, 8)]
    runs = Episodes.concat([day.take(np.argsort(day.outcomes, kind="stable")) for day in days])
    found = MONITOR.drift(runs, GOAL, order=np.repeat([1, 2], 150))
    assert found.judgement is DriftJudgement.NO_SIGN
    assert found.order == ""


def test_the_season_that_changed_is_named() -> None:
    runs = Episodes.concat([walks(200, seed=8), shifted(200, 9, -0.15)])
    seasons = np.repeat(["spring", "autumn"], 200)
    found = MONITOR.drift(runs, GOAL, by={"season": seasons, "luck": np.arange(400) % 2})
    off = {(part.column, part.value): part.shows for part in found.parts}
    assert off["season", "autumn"]
    assert not off["season", "spring"]
    assert re.search(r"where season is autumn, p is \d+ points too high", str(found))
    assert "by         where season is spring (200 runs), p is right on average" in str(found)
    assert [part["value"] for part in found.to_json()["by"]] == ["autumn", "spring", "0", "1"]


def test_columns_asked_for_are_told_of_even_if_all_is_well() -> None:
    found = MONITOR.drift(walks(200, seed=8), GOAL, by={"team": np.arange(200) % 10})
    named = ", ".join(f"{k} (20 runs)" for k in range(8))
    well = f"where team is {named} and 2 more values, p is right on average as far as these runs"
    assert f"by         {well}" in str(found)


def test_one_run_alone_has_no_range_in_json() -> None:
    runs = walks(30, seed=8)
    found = MONITOR.drift(runs, GOAL, by={"crew": ["one"] + ["other"] * 29})
    told = {part["value"]: part["high"] for part in found.to_json()["by"]}
    assert told["one"] is None
    assert told["other"] > 0.0
    json.dumps(found.to_json(), allow_nan=False)


def with_evidence(
    p_value: float, highest: float | None = None, limit: float | None = None, shift: float = 0.0
) -> Drift:
    """What is said of 300 runs with so much evidence, and p off by so much on top."""
    found = MONITOR.drift(walks(300, seed=3), GOAL)
    low, too_high, high = (
        getattr(found.bias, name) + shift for name in ("low", "too_high", "high")
    )
    return replace(
        found,
        change=found.change._replace(p_value=p_value, highest=highest, limit=limit),
        bias=found.bias._replace(low=low, too_high=too_high, high=high),
    )


@pytest.mark.parametrize(
    ("evidence", "judgement"),
    [
        ((0.01,), DriftJudgement.CHANGED),
        ((0.0101,), DriftJudgement.BUILDING),
        ((0.05,), DriftJudgement.BUILDING),
        ((0.0501,), DriftJudgement.NO_SIGN),
        ((0.5, 200.0, 200.0), DriftJudgement.CHANGED),
        ((0.5, 199.0, 200.0), DriftJudgement.BUILDING),
        ((0.5, 39.0, 200.0), DriftJudgement.NO_SIGN),
    ],
)
def test_one_test_alone_decides_what_is_called_a_change(
    evidence: tuple[float, ...], judgement: DriftJudgement
) -> None:
    found = with_evidence(*evidence, shift=-0.2)
    assert found.judgement is judgement
    assert found.changed is (judgement is DriftJudgement.CHANGED)
    for text in (*found.in_short, found.verdict, str(found)):
        assert ("no sign" in text) <= (judgement is DriftJudgement.NO_SIGN)


def test_the_model_is_blamed_only_if_p_was_off_before() -> None:
    found = with_evidence(0.6, shift=-0.2)
    assert "model is wrong" not in found.verdict
    assert "model is wrong" in replace(found, before=found.bias).verdict


def test_evidence_just_short_of_its_threshold_is_not_rounded_up_to_it() -> None:
    assert "just under" not in with_evidence(0.5, 99.4, 100.0).change.in_words
    assert "just under" in with_evidence(0.5, 99.97, 100.0).change.in_words


def test_a_report_on_building_evidence_neither_denies_nor_claims_a_change() -> None:
    found = MONITOR.evaluate(shifted(300, 4, -0.1), GOAL, resamples=5)
    building = with_evidence(0.02, shift=0.2)
    found.__dict__["drifted"] = building
    assert "may have changed" in found.verdict().advice
    (drift,) = [one for one in found.checks() if one.name == "drift"]
    assert drift.mark is Mark.NEITHER
    held = MONITOR.evaluate(walks(300, seed=3), GOAL, resamples=5)
    held.__dict__["drifted"] = building
    assert held.verdict().advice


def test_groups_are_each_compared_with_their_own() -> None:
    monitor = GoalMonitor(Marginal(), group="group").fit(walks(600, groups=2), progress=False)
    same = monitor.drift(walks(200, groups=2, seed=3), GOAL)
    assert same.judgement is DriftJudgement.NO_SIGN
    assert same.n == 200


def test_an_evaluation_tells_of_drift_where_it_can() -> None:
    found = MONITOR.evaluate(shifted(300, 4, -0.1), GOAL, resamples=5)
    assert found.drifted == MONITOR.drift(shifted(300, 4, -0.1), GOAL)
    assert "drift      ! changed for the worse: at step 0, p is now" in found.summary()
    assert "on runs that start from now on" in found.verdict().advice
    assert "it is not known when this began: the order of the runs is unknown" in found.summary()
    without = GoalMonitor(Marginal()).fit(walks(200), assure=0, progress=False)
    assert without.evaluate(walks(100, seed=4), GOAL, resamples=5).drifted is None


def odd_assure(by: float) -> GoalMonitor:
    """A monitor whose assure episodes ended otherwise than those it learned from."""
    parts = walks(1000).split(assure=0.2)._replace(assure=shifted(200, 40, by))
    return GoalMonitor(QuantileForest(n_trees=12, min_leaf=5)).fit(split=parts, progress=False)


@pytest.mark.filterwarnings("ignore::ontarget.errors.EpisodesWarning")  # they are odd
def test_odd_assure_episodes_are_suspected_before_the_process() -> None:
    """New runs are as those learned from, and still differ from the assure episodes."""
    monitor, runs = odd_assure(0.15), walks(400, seed=3)
    found = monitor.drift(runs, GOAL)
    assert found.changed
    assert found.before.shows
    assert "assure episodes p was" in found.suspect
    assert found.suspect in found.verdict
    assert found.suspect in found.in_short
    assert "another seed" in monitor.evaluate(runs, GOAL, resamples=5).verdict().advice
    higher = "the 200 assure episodes ended higher than the 800 learning episodes"
    assert higher in monitor.summary()
    assert "split" not in MONITOR.summary()


def test_a_change_of_the_process_is_not_blamed_on_the_assure_episodes() -> None:
    found = MONITOR.drift(shifted(300, 4, -0.1), GOAL)
    assert found.changed
    assert found.suspect == ""
    assert "another seed" not in found.verdict


def test_an_evaluation_says_since_when_and_by_which_column(tmp_path: Path) -> None:
    runs = Episodes.concat([walks(200, seed=8), shifted(200, 9, -0.15)])
    seasons = np.repeat(["spring", "autumn"], 200)
    columns = {"order": {"day": np.arange(400) // 50}, "by": {"season": seasons}}
    found = MONITOR.evaluate(runs, GOAL, resamples=5, **columns)
    assert found.drifted == MONITOR.drift(runs, GOAL, **columns)
    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for text in (found.summary(), page):
        assert re.search(r"[Ss]ince about run 201 of 400, where day is 4", text)
        assert re.search(r"[Ww]here season is autumn, p is \d+ points too high", text)
    assert re.search(
        r"Changed for the worse: at step 0, p is now .*Since about run 201 of 400", page, re.DOTALL
    )
    assert re.search(r"average, and [\d.]+.% of 200 runs since then met the target", page)
    assert "Figures that do not say otherwise cover the runs before and after it together." in page
    assert "over all 400 runs, before and after the change, p is" in found.summary()
    verdict = str(found.verdict())
    assert re.search(r"p was off by [\d.]+ percentage points \(too high\) on average", verdict)
    assert "over runs before and after the change" in verdict
    with refuses(InputError, "order", "day, hour"):
        MONITOR.evaluate(runs, GOAL, order={"day": seasons, "hour": seasons})
    with refuses(InputError, "order", 400, "(2,)"):
        MONITOR.evaluate(runs, GOAL, order=[1, 2])


def test_columns_of_prepared_episodes_go_with_those_that_are_measured() -> None:
    every, some = np.array(["a", "b", "c", "d"]), np.array(["d", "b"])
    order, by = of_the_sample(every, some, {"day": [1, 2, 3, 4]}, {"crew": list("wxyz")})
    assert (order["day"].tolist(), by["crew"].tolist()) == ([4, 2], ["z", "x"])
    assert of_the_sample(every, some, [1, 2, 3, 4], None)[0].tolist() == [4, 2]
    assert of_the_sample(every, some, None, None) == (None, {})
    assert of_the_sample(every, some, [7], None)[0].tolist() == [7]  # refused later, by its shape


@pytest.mark.parametrize(
    ("options", "argument", "shown"),
    [
        ({"order": np.arange(5)}, "order", "(5,)"),
        ({"order": [None] + [1] * 29}, "order", "missing"),
        ({"order": ["a"] * 15 + [1.5] * 15}, "order", "one kind"),
        ({"by": {"season": ["a"]}}, "by", "'season'"),
        ({"t": 9}, "t", "got 9"),
        ({"level": 1.5}, "level", "1.5"),
    ],
)
def test_what_cannot_order_or_divide_the_runs_is_refused(
    options: dict, argument: str, shown: str
) -> None:
    if "order" in options and isinstance(options["order"], list):
        options = {"order": np.array(options["order"], dtype=object)}
    with refuses(InputError, argument, shown):
        MONITOR.drift(walks(30, seed=3), GOAL, **options)


def test_runs_of_the_fit_and_monitors_that_promise_nothing_are_refused() -> None:
    with refuses(CalibrationError, None, "10 of"):
        MONITOR.drift(walks(1000).take(range(10)), GOAL)
    without = GoalMonitor(Marginal()).fit(walks(200), assure=0, progress=False)
    with refuses(FewEpisodesError, None, "step 0"):
        without.drift(walks(30, seed=3), GOAL)
    with refuses(EpisodesError, None, "sum", "max"):
        MONITOR.drift(walks(30, seed=3, behavior="max"), GOAL)
    cut = Episodes.from_arrays(
        np.zeros((3, 2, 2)), np.zeros((3, 2)), horizon=6, truncated=[True, False, False],
        censored="worst-case",
    )  # fmt: skip
    with refuses(CensoredError, None, "cut off"):
        MONITOR.drift(cut, GOAL)
