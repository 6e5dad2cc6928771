"""The study of distances to the truth: cases, scores, what it keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import GoalMonitor
from ontarget.errors import InputError
from ontarget.models import QuantileForest
from ontarget.paper import distance, distance_run
from ontarget.paper.cases import CASES, Case, CasePlan, build_case
from ontarget.paper.distance_run import DistanceRun
from ontarget.paper.distance_tables import cost_table, overview_table, steps_table
from ontarget.paper.keeping import Keeper, plain
from ontarget.paper.plan import Plan
from ontarget.paper.processes import CartPole, Walk
from ontarget.paper.progress import Clock

SMALL = distance.Method(
    lambda: GoalMonitor(QuantileForest(n_trees=5, min_leaf=5), steps_per_model=5),
    calibrations=("common", "target"),
)
PLAN = Plan(
    episodes=400, train=150, calibrate=150, partitions=2, n_trees=5, linear_levels=3, quick=True
)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path, {})


@pytest.fixture
def case(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setitem(CASES, "walk", CasePlan("Walk", Walk, (0, 3, 27), None, n_states=40))
    return build_case("walk", keeper, n_episodes=400)


def test_scores_are_distances_at_every_step_asked(case: Case) -> None:
    found = distance.score(PLAN, SMALL, case, partition=0)["common"]
    assert found.steps == (0, 3, 27)
    assert found.excess[2] < 0.05  # nearly all is decided by then
    assert all(e <= a for e, a in zip(found.excess, found.absolute, strict=True))
    assert found.bytes_per_step > 0.0
    again = distance.score(PLAN, SMALL, case, partition=0)["common"]
    assert again.absolute == found.absolute
    other = distance.score(PLAN, SMALL, case, partition=1)["common"]
    assert other.absolute != found.absolute


def test_a_target_is_asked_about_by_the_common_map_and_by_its_own(case: Case) -> None:
    found = distance.score(PLAN, SMALL, case, partition=0)
    assert found["common"].absolute != found["target"].absolute
    assert found["common"].fit_seconds == found["target"].fit_seconds


def test_every_method_has_the_same_past_episodes(case: Case) -> None:
    papers = distance.METHODS[distance.UNIT].split(PLAN, case, 1)
    own = distance.METHODS[distance.DEFAULT].split(PLAN, case, 1)
    assert (len(own.learn), len(own.assure)) == (240, 60)
    assert set(papers.train.ids) | set(papers.calibrate.ids) == set(own.learn.ids) | set(
        own.assure.ids
    )
    assert np.array_equal(papers.rest.ids, own.rest.ids)


def test_the_default_that_is_measured_is_the_monitors_own() -> None:
    monitor = distance.METHODS[distance.DEFAULT].monitor()
    assert monitor.get_params() == GoalMonitor().get_params()


def test_rivals_are_asked_about_the_same_states(case: Case) -> None:
    found = distance.score_rivals(PLAN, case, 0)
    assert {"PCQR", "raw forest", "conformal predictive system", "Venn–Abers"} <= set(found)
    assert {"PCQR, linear", "raw linear"} <= set(found)
    assert all(one.steps == (0, 3, 27) for one in found.values())
    assert found["PCQR"].excess != found["raw forest"].excess


def test_the_truth_itself_has_no_distance(case: Case) -> None:
    perfect = distance.Score.of(case, {t: test.p_true for t, test in case.tests.items()})
    assert perfect.excess == perfect.absolute == (0.0, 0.0, 0.0)


def test_a_live_step_takes_some_time(case: Case) -> None:
    found = distance.step_microseconds(PLAN, SMALL, case, runs=2)
    assert set(found) == {"common", "target"}
    assert min(found.values()) > 0.0


def test_truth_is_found_again_in_the_folder(
    case: Case, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk, "probability", None)
    again = build_case("walk", keeper, n_episodes=400)
    assert all(np.array_equal(again.tests[t].p_true, case.tests[t].p_true) for t in case.tests)


def test_only_runs_that_are_not_over_are_asked_about(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = CasePlan("CartPole", CartPole, (0, 90), 2, 200, (0.5, 1.0))
    monkeypatch.setitem(CASES, "cartpole", short)
    case = build_case("cartpole", keeper, n_episodes=200)
    assert case.tests[0].p_true.size == 200
    assert 50 < case.tests[90].p_true.size < 190
    assert np.array_equal(case.episodes.outcomes, case.episodes.lengths.astype(float))


def test_an_unknown_case_is_named(keeper: Keeper) -> None:
    with pytest.raises(InputError, match="`case` needs one of tamarisk"):
        build_case("chess", keeper)


def test_every_method_is_measured_on_the_papers_domains() -> None:
    for name in ("tamarisk", "skirmish"):
        assert distance.methods_of(name) == tuple(distance.METHODS)
    for name in CASES:
        assert {distance.UNIT, distance.DEFAULT} <= set(distance.methods_of(name))


@pytest.fixture
def small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DistanceRun:
    monkeypatch.setitem(CASES, "walk", CasePlan("Walk", Walk, (0, 27), None, n_states=40))
    for name in distance.methods_of("walk"):
        monkeypatch.setitem(distance.METHODS, name, SMALL)
    monkeypatch.setattr(DistanceRun, "cases", ("walk",))
    return DistanceRun(PLAN, tmp_path, Keeper(tmp_path / "parts", {}))


def test_a_run_keeps_every_piece_and_its_tables_show_them(
    small_run: DistanceRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    clock = Clock(small_run.missing_weight(), lambda _, share: shares.append(share))
    results, costs = small_run.measure(clock)
    assert shares[-1] == pytest.approx(1.0)
    assert small_run.missing_weight() == 0.0
    for name in ("build_case", "score", "score_rivals", "step_microseconds"):
        monkeypatch.setattr(distance_run, name, None)
    results, costs = plain(results), plain(costs)
    assert plain(small_run.measure(Clock(1.0))) == [results, costs]

    found = results["walk"]
    default = found["methods"][distance.DEFAULT]
    (row,) = overview_table(results, costs).rows
    assert row[0] == "Walk"
    assert f"{1e4 * default['excess']['mean']:.2f}" in row[5]
    own_map = found["methods"][distance.OWN_MAP]
    assert f"{1e4 * own_map['excess']['mean']:.2f}" in row[6]
    rows = {row[0]: row for row in cost_table("walk", found, costs["walk"]).rows}
    assert rows[distance.UNIT][2] == "1.00"
    assert float(rows[distance.DEFAULT][4]) >= 0.0
    assert rows["rival: Venn–Abers"][4:] == ("–", "–", "–")
    by_step = steps_table("walk", found)
    assert by_step.head == ("", "t = 0", "t = 27")
    assert len(by_step.rows) == len(rows)
