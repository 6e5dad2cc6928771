"""Where all learning runs met a target, or all missed it, p never comes without that reason."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.errors import AlarmWarning
from ontarget.live import Status
from ontarget.models import Marginal
from tests.walks import walks

STATE = np.zeros(2)
NEVER_MISSED, NEVER_MET = Target.at_least(-1e3), Target.at_least(1e3)


@cache
def monitor(**options) -> GoalMonitor:
    return GoalMonitor(Marginal(), min_calibration=5, **options).fit(walks(), progress=False)


@cache
def goals() -> GoalMonitor:
    rng = np.random.default_rng(0)
    gain, spent = rng.normal(size=(2, 200, 4))
    runs = Episodes.from_arrays(
        rng.normal(size=(200, 4, 2)),
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy"},
    )
    return GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)


def quiet(make, *args, **options):
    """What this makes, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlarmWarning)
        return make(*args, **options)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("target", [NEVER_MISSED, NEVER_MET])
def test_every_way_to_ask_says_that_p_has_nothing_to_learn_from(
    preset: str, target: Target
) -> None:
    own = monitor(preset=preset)
    with pytest.warns(AlarmWarning):
        watch = own.watch(target, alarm_below=0.5)
    known = watch.step(STATE)
    (note,) = set(watch.contract.one_sided)
    assert note
    assert note in known.reason
    assert (known.status is Status.ALARM) is (target is NEVER_MET)
    fleet = quiet(own.fleet, target, 2, alarm_below=0.5)
    assert [note in one for one in fleet.step(np.zeros((2, 2))).reason] == [True, True]
    assert fleet.standings().reasoned.all()  # so that a service asks for the reasons
    answer = quiet(own.sessions, target, alarm_below=0.5).answer({"state": [0.0, 0.0]})
    assert note in answer["reason"]
    (asked,) = own.outlook(0, STATE[None], 0.0, target).reason
    assert note in asked
    (several,) = own.outlook(0, STATE[None], 0.0, [target, Target.at_least(0.0)]).reason
    assert several.count(note) == 1


def test_a_fleet_of_one_sided_runs_warns_too() -> None:
    with pytest.warns(AlarmWarning):
        monitor().fleet(Target.at_least(-2e3), 2, alarm_below=0.5)
    with pytest.warns(AlarmWarning):
        monitor().sessions(Target.at_least(-3e3), alarm_below=0.5)


def test_a_run_that_is_stored_and_continued_keeps_the_reason() -> None:
    watch = quiet(monitor().watch, NEVER_MISSED, alarm_below=0.5)
    reason = watch.step(STATE).reason
    assert pickle.loads(pickle.dumps(watch)).peek().reason == reason
    other = quiet(monitor().watch, NEVER_MISSED, alarm_below=0.5).resume(watch.run_state)
    assert other.peek().reason == reason


def test_what_has_no_answer_or_is_over_has_its_own_reason_alone() -> None:
    watch = quiet(monitor().watch, NEVER_MISSED, alarm_below=0.5)
    (note,) = set(watch.contract.one_sided)
    assert note not in watch.peek().reason  # pending
    assert note not in watch.step([np.nan, 0.0]).reason
    assert note not in watch.end(1.0).reason


@settings(max_examples=60, deadline=None)
@given(st.integers(-60, 60), st.integers(-60, 60))
def test_a_reason_is_given_exactly_if_all_learning_runs_end_alike(one: int, other: int) -> None:
    own, target = monitor(), Target(min(one, other) / 10, max(one, other) / 10)
    met = target.contains(own.fitted.runs.outcomes, own.fitted.grid)
    (reason,) = own.outlook(0, STATE[None], 0.0, target).reason
    assert bool(reason) is bool(met.all() or not met.any())


def test_one_run_of_the_other_kind_is_enough() -> None:
    outcomes = np.sort(monitor().fitted.runs.outcomes)
    missed_by_one = Target(float(outcomes[0]), np.inf, "neither")
    assert not quiet(monitor().watch, missed_by_one, alarm_below=0.1).step(STATE).reason


def test_what_arithmetic_decides_needs_no_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        everything = monitor().watch(Target(), alarm_below=0.5)
        assert everything.step(STATE).reason == ""
        rng = np.random.default_rng(0)
        runs = Episodes.from_arrays(
            rng.normal(size=(60, 4, 2)), rng.exponential(size=(60, 4)), horizon=4
        )
        bounded = GoalMonitor(Marginal(), min_calibration=5, reward_bounds=(0.0, None))
        bounded.fit(runs, progress=False)
        sure = bounded.watch(Target.at_least(0.0), alarm_below=0.5).step(STATE)
        assert (sure.p, sure.reason) == (1.0, "")
        assert bounded.evaluate(runs, Target.at_least(0.0)).one_sided == ""


def test_a_file_knows_it_whatever_it_keeps(tmp_path: Path) -> None:
    for options in ({}, {"precedents": False, "paths": False}):
        for preset in ("default", "paper"):
            own = GoalMonitor(Marginal(), min_calibration=5, preset=preset)
            own.fit(walks(), progress=False, **options).save(tmp_path / "m.ontarget")
            loaded = GoalMonitor.load(tmp_path / "m.ontarget")
            assert quiet(loaded.watch, NEVER_MISSED, alarm_below=0.5).step(STATE).reason
            assert loaded.outlook(0, STATE[None], 0.0, Target.at_least(0.0)).reason[0] == ""


def test_runs_that_renew_p_count() -> None:
    outcomes = monitor().fitted.runs.outcomes
    target = Target.at_least(float(outcomes.min()))
    note = monitor().contracts.one_sided(target)
    assert all(note)
    worse = Episodes.from_arrays(
        np.zeros((80, 6, 2)), np.full((80, 6), -3.0), ids=[f"w{i}" for i in range(80)], horizon=6
    )
    assert monitor().recalibrate(worse).contracts.one_sided(target) == note
    assert not any(monitor().recalibrate(worse, renew_p=True).contracts.one_sided(target))


def test_one_group_alone_is_named() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(["calm", "windy"], 60)
    rewards = np.where(groups[:, None] == "calm", 1.0, rng.normal(size=(120, 4)))
    runs = Episodes.from_arrays(rng.normal(size=(120, 4, 2)), rewards, groups=groups)
    own = GoalMonitor(Marginal(), min_calibration=5, group="group").fit(runs, progress=False)
    calm, windy = own.contracts.one_sided(Target.at_least(0.0))
    assert "'calm'" in calm
    assert windy == ""
    with pytest.warns(AlarmWarning):
        watch = own.watch(Target.at_least(0.0), alarm_below=0.1, group="calm")
    assert calm in watch.step(STATE).reason
    other = own.watch(Target.at_least(0.0), alarm_below=0.1, group="windy")
    assert calm not in other.step(STATE).reason
    found = own.evaluate(runs, Target.at_least(0.0))
    assert found.one_sided == calm
    assert found.knows_both


def test_goals_over_several_behaviors_say_it_too() -> None:
    goal = Goal.parse("gain >= -1000 & spent <= 1000")
    with pytest.warns(AlarmWarning):
        watch = goals().watch(goal, alarm_below=0.5)
    (note,) = set(watch.contract.one_sided)
    assert note
    assert note in watch.step(STATE).reason
    assert all(note in one.reason for one in watch.parts.values())
    asked = goals().outlook(0, STATE[None], {"gain": 0.0, "spent": 0.0}, goal)
    assert note in asked.reason[0]
    alone = Goal.parse("gain >= -1000")
    assert quiet(goals().watch, alone, alarm_below=0.5).step(STATE).reason
    both = Goal.parse("gain >= 0 & spent <= 1000")
    watch = quiet(goals().watch, both, alarm_below=0.01)
    assert watch.step(STATE).reason == ""
    assert watch.parts["spent"].reason != ""


def test_a_run_with_its_own_target_says_it() -> None:
    runs = walks()
    aimed = runs.aimed([Target.at_least(0.0)] * len(runs))
    own = GoalMonitor(Marginal(), min_calibration=5).fit(aimed, progress=False)
    watch = own.watch_own(alarm_below=0.1)
    watch.reset(NEVER_MISSED)
    assert watch.step(STATE).reason
    watch.reset(Target.at_least(0.0))
    assert watch.step(STATE).reason == ""
    new = walks(100, seed=3)
    assert own.evaluate_own(new.aimed([NEVER_MISSED] * 100)).one_sided
    mixed = [NEVER_MISSED, Target.at_least(0.0)] * 50
    assert own.evaluate_own(new.aimed(mixed)).one_sided == ""


def test_equal_outcomes_are_told_at_the_fit() -> None:
    runs = Episodes.from_arrays(np.random.default_rng(0).normal(size=(80, 4, 2)), np.ones((80, 4)))
    own = GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)
    labels = [line.split()[0] for line in own.summary().splitlines()]
    assert "caution" in labels
    others = [line.split()[0] for line in monitor().summary().splitlines()]
    assert "caution" not in others
