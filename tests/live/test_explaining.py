"""Why p moved: contributions that add up, and the recorded runs behind an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from math import comb
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget._text import percent
from ontarget.episodes.facts import Clocks, clocks_of
from ontarget.errors import CalibrationError, InputError
from ontarget.live.explaining import KEPT, Reading, Seen, shapley
from ontarget.models import Marginal, QuantileForest, StackedForest
from refusals import refuses
from tests.walks import walks

TARGET = Target.at_least(0.0)
WALKS = walks(200)
FOREST = QuantileForest(n_trees=10, min_leaf=4)
STACK = StackedForest(n_trees=5)


def fitted(model: Any, episodes: Episodes = WALKS, **options: Any) -> GoalMonitor:
    return GoalMonitor(model, steps_per_model=3).fit(episodes, progress=False, **options)


@pytest.fixture(scope="module")
def monitor() -> GoalMonitor:
    return fitted(FOREST)


def by_permutations(worth: Any, n: int) -> Any:
    """The mean over all orders of what each cause adds when it comes."""
    found, orders = np.zeros(n), list(permutations(range(n)))
    for order in orders:
        here = np.zeros((1, n), dtype=bool)
        for cause in order:
            before = worth(here)[0]
            here[0, cause] = True
            found[cause] += (worth(here)[0] - before) / len(orders)
    return found


def curved(n: int) -> Any:
    slopes = np.random.default_rng(n).normal(size=n)
    return lambda sets: np.tanh(sets @ slopes) + (sets[:, 0] & sets[:, -1])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_exact_shares_are_the_mean_over_all_orders(n: int) -> None:
    found = shapley(curved(n), n)
    assert np.allclose(found.values, by_permutations(curved(n), n), atol=1e-14)
    assert not found.errors.any()


def test_sampled_shares_add_up_and_lie_within_their_errors() -> None:
    n, worth = 9, curved(9)
    found = shapley(worth, n)
    everyone, nobody = np.ones((1, n), dtype=bool), np.zeros((1, n), dtype=bool)
    assert found.all == pytest.approx(worth(everyone)[0])
    assert found.none == pytest.approx(worth(nobody)[0])
    assert found.values.sum() == pytest.approx(found.all - found.none, abs=1e-12)
    # Every set, with weights that the exact rule would give nine causes.
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    values, size = worth(sets), sets.sum(axis=1)
    exact = [
        sum(
            (values[s | 1 << i] - values[s]) / (n * comb(n - 1, size[s]))
            for s in np.flatnonzero(~sets[:, i])
        )
        for i in range(n)
    ]
    assert (np.abs(found.values - exact) <= 5 * found.errors + 1e-12).all()
    assert (found.errors > 0).any()


def test_sampled_shares_are_the_same_every_time() -> None:
    assert np.array_equal(shapley(curved(12), 12).values, shapley(curved(12), 12).values)


@pytest.mark.parametrize("model", [FOREST, STACK], ids=["forest", "stack"])
def test_contributions_add_up_to_the_change_that_a_watch_saw(model: Any) -> None:
    watch = fitted(model).watch(TARGET, alarm_below=0.2)
    first = watch.step([0.5, 0.1])
    second = watch.step([0.5, -1.0], reward=-0.4)
    why = watch.explain()
    assert (why.t_before, why.t, why.p_before, why.p) == (0, 1, first.p, second.p)
    assert sum(one.change for one in why.contributions) == pytest.approx(why.change, abs=1e-12)
    assert {one.cause for one in why.contributions} == {"x1", "reward earned", "time"}
    sizes = [abs(one.change) for one in why.contributions]
    assert sizes == sorted(sizes, reverse=True)
    assert not any(one.error for one in why.contributions)


@pytest.mark.parametrize("model", [FOREST, STACK], ids=["forest", "stack"])
def test_a_change_since_an_earlier_step_is_shared_out_exactly(model: Any) -> None:
    monitor = fitted(model)
    watch = monitor.watch(TARGET, alarm_below=0.2)
    states = np.random.default_rng(3).normal(size=(6, 2))
    said = [watch.step(state, reward=-0.2 * (t > 0)).p for t, state in enumerate(states)]
    for since in range(5):
        why = watch.explain(since=since)
        assert (why.t_before, why.p_before) == (since, said[since])
        assert sum(one.change for one in why.contributions) == pytest.approx(why.change, abs=1e-12)
        time = next(one for one in why.contributions if one.cause == "time")
        assert (time.before, time.now) == (since, 5)
        before = (states[since], -0.2 * since)
        assert why == monitor.explain(5, states[5], -1.0, TARGET, before=before, since=since)
    assert watch.explain(since=4) == watch.explain()


def test_a_watch_keeps_the_first_step_and_the_latest_ones() -> None:
    seen: Seen[Reading] = Seen()
    for t in range(KEPT + 40):
        seen.add(Reading(t, np.zeros(1), (0.0,)))
    now, before = seen.pair(0)
    assert (now.t, before.t) == (KEPT + 39, 0)
    assert seen.pair(40)[1].t == 40
    with refuses(InputError, "since", "40 to 102", "got 39"):
        seen.pair(39)


@pytest.mark.parametrize("since", [1, 2, -1, 1.0, "0"])
def test_a_step_that_is_no_earlier_one_is_refused(monitor: GoalMonitor, since: Any) -> None:
    watch = monitor.watch(TARGET, alarm_below=0.1)
    watch.step([0.5, 0.1])
    watch.step([0.5, 0.1], reward=-1.0)
    with refuses(InputError, "since", f"got {since!r}"):
        watch.explain(since=since)
    with refuses(InputError, "since", f"got {since!r}"):
        monitor.explain(1, [0.5, 0.1], -1.0, TARGET, before=([0.5, 0.1], 0.0), since=since)


def test_since_alone_names_no_state_to_compare_with(monitor: GoalMonitor) -> None:
    with refuses(InputError, "since", "`before`"):
        monitor.explain(3, [0.5, 0.1], -1.0, TARGET, since=1)


def test_many_causes_are_sampled_with_their_errors() -> None:
    rng = np.random.default_rng(0)
    wide = Episodes.from_arrays(rng.normal(size=(120, 3, 9)), rng.normal(size=(120, 3)).round(1))
    watch = fitted(FOREST, wide).watch(TARGET, alarm_below=0.2)
    watch.step(rng.normal(size=9))
    watch.step(rng.normal(size=9), reward=0.5)
    why = watch.explain()
    assert len(why.contributions) == 11
    assert any(one.error > 0.0 for one in why.contributions)
    assert sum(one.change for one in why.contributions) == pytest.approx(why.change, abs=1e-12)


def test_the_one_feature_that_moves_the_truth_gets_nearly_all_of_the_change() -> None:
    rng = np.random.default_rng(1)
    states = rng.normal(size=(1500, 3, 4))
    rewards = np.zeros((1500, 3))
    rewards[:, -1] = (states[:, -1, 0] + 0.3 * rng.normal(size=1500)).round(2)
    states[:, :, 0] = states[:, -1:, 0] + np.array([2.0, 0.3, 0.0]) * states[:, :, 0]
    model = StackedForest(n_trees=20)
    monitor = fitted(model, Episodes.from_arrays(states, rewards))
    total, own = 0.0, 0.0
    for low, high in [(-1.2, 1.0), (-0.8, 1.4), (1.1, -0.9), (-2.0, 0.9)]:
        before, now = rng.normal(size=4), rng.normal(size=4)
        before[0], now[0] = low, high
        why = monitor.explain(2, now, 0.0, TARGET, before=(before, 0.0))
        part = next(one.change for one in why.contributions if one.cause == "x0")
        total, own = total + abs(why.change), own + part * np.sign(why.change)
    assert total > 2.0
    assert own >= 0.95 * total


def test_precedents_are_the_runs_that_the_forest_weighs(monitor: GoalMonitor) -> None:
    why = monitor.explain(2, [0.3, 0.2], 0.1, TARGET)
    fitted_, model = monitor.fitted, monitor.fitted.models[0]
    weights = model.row_weights(np.array([[0.3, 0.2, 2.0]])).toarray()[0]
    by_run = np.bincount(model.training_episodes_, weights=weights)
    best = why.precedents[0]
    place = WALKS.ids.tolist().index(best.run)
    assert best.weight == pytest.approx(by_run.max())
    assert best.outcome == WALKS.outcomes[place]
    so_far = WALKS.at(best.step).behavior[place]
    assert best.ends_at == pytest.approx(0.1 + best.outcome - so_far)
    assert best.met == (best.ends_at >= 0.0)
    heaviest = np.sort(by_run)[::-1][: len(why.precedents)]
    assert np.allclose([one.weight for one in why.precedents], heaviest)
    raw = fitted_.at(2).cdf_limits(np.array([[0.3, 0.2, 2.0]]), np.array([-0.1]))[0][0]
    assert why.missed == pytest.approx(raw, abs=1e-5)
    assert why.row_share == 1.0


def test_experts_without_runs_are_left_out_and_said() -> None:
    monitor = fitted(STACK)
    why = monitor.explain(1, [0.3, 0.2], 0.1, TARGET)
    shares = [w * monitor.fitted.models[b].row_share for w, b in monitor.fitted.law.at(1)]
    assert why.row_share == pytest.approx(sum(shares))
    assert why.row_share < 1.0
    assert "calibration" in str(why)
    assert sum(one.weight for one in why.precedents) < 1.0


def test_a_model_without_runs_says_so() -> None:
    why = fitted(Marginal()).explain(1, [0.3, 0.2], 0.1, TARGET)
    assert (why.missed, why.precedents, why.row_share) == (None, (), 0.0)
    assert "recorded runs" in str(why)


@pytest.mark.parametrize("several", [False, True])
def test_no_precedent_ends_where_the_run_cannot(several: bool) -> None:
    rng = np.random.default_rng(3)
    lengths = np.where(np.arange(150) < 8, 8, 3)  # most ended before step 4
    lasted = {f"run {i}": np.ones(n) for i, n in enumerate(lengths)}
    states = {name: rng.normal(size=(own.size, 1)) for name, own in lasted.items()}
    table = pl.DataFrame(
        {
            "episode": [name for name, own in lasted.items() for _ in own],
            "x": np.concatenate([own[:, 0] for own in states.values()]),
            "reward": np.concatenate(list(lasted.values())),
        }
    )
    behavior: Any = {"lasted": "sum:reward", "again": "sum:reward"} if several else "sum"
    runs = Episodes.from_frame(table, episode="episode", behavior=behavior, horizon=8)
    bounds: Any = {"lasted": (0.0, 1.0), "again": (0.0, 1.0)} if several else (0.0, 1.0)
    blunt = QuantileForest(n_trees=10, min_leaf=200)
    found = GoalMonitor(blunt, steps_per_model=8, min_calibration=2, reward_bounds=bounds).fit(
        runs, progress=False
    )
    target: Any = Goal.parse("lasted >= 7 & again >= 7") if several else Target.at_least(7.0)
    had: Any = {"lasted": 4.0, "again": 4.0} if several else 4.0
    why = found.explain(4, [0.1], had, target)
    ends = [
        min(one.ends_at.values()) if isinstance(one.ends_at, dict) else one.ends_at
        for one in why.precedents
    ]
    assert ends
    assert min(ends) >= 4.0
    assert any(one.step != 4 for one in why.precedents)


def test_without_precedents_nobody_is_named() -> None:
    named, unnamed = (
        fitted(FOREST, precedents=kept).explain(2, [0.3, 0.2], 0.1, TARGET)
        for kept in (True, False)
    )
    assert unnamed.missed == named.missed
    assert unnamed.precedents == ()
    assert "precedents=False" in str(unnamed)


def test_an_explanation_reads_as_a_table_a_line_and_json(monitor: GoalMonitor) -> None:
    before = ({"x0": 0.3, "x1": 0.2}, 0.1)
    why = monitor.explain(2, [0.3, 0.4], -0.5, TARGET, before=before)
    shown = str(why).splitlines()
    assert shown[0].startswith("step 2: p = ")
    assert "after" in shown[0]
    assert any(line.startswith("  reward earned  0.1 → -0.5") for line in shown)
    assert "step 2" in why.in_a_line
    assert "(weighted)" in why.in_a_line
    assert why.in_a_line.startswith(f"p fell from {percent(why.p_before)} at step 1 to ")
    assert " at step 2: reward earned -" in why.in_a_line
    alone = monitor.explain(2, [0.3, 0.4], -0.5, TARGET)
    # It is still read some steps later.
    assert alone.in_a_line.startswith("of the recorded runs that p was based on at step 2, ")
    found = json.loads(json.dumps(why.to_dict(), allow_nan=False))
    assert found["change"] == why.p - why.p_before
    assert found["precedents"][0]["run"] == why.precedents[0].run
    assert len(why.figure().axes) == 2
    assert percent(why.missed) in why.rests_on
    assert replace(why, missed=None).rests_on == ""


def test_a_first_maximum_has_no_number_before_it() -> None:
    monitor = fitted(FOREST, walks(150, behavior="max"))
    watch = monitor.watch(Target.at_least(0.2), alarm_below=0.1)
    watch.step([0.5, 0.1])
    watch.step([0.5, 0.1], reward=0.1)
    why = watch.explain()
    assert json.loads(json.dumps(why.to_dict(), allow_nan=False))["contributions"]
    assert sum(one.change for one in why.contributions) == pytest.approx(why.change, abs=1e-12)


def test_what_cannot_be_explained_says_why(monitor: GoalMonitor) -> None:
    with refuses(InputError, None, "call step"):
        monitor.watch(TARGET, alarm_below=0.1).explain()
    with refuses(InputError, "before", "t=0"):
        monitor.explain(0, [0.3, 0.2], 0.0, TARGET, before=([0.3, 0.2], 0.0))
    with refuses(CalibrationError, None, "step 6"):
        monitor.explain(6, [0.3, 0.2], 0.0, TARGET)
    with refuses(InputError, None, "run 0", "'x1'"):
        monitor.explain(1, [0.3, np.nan], 0.0, TARGET)


def test_a_new_run_is_not_explained_by_the_last_one(monitor: GoalMonitor) -> None:
    watch = monitor.watch(TARGET, alarm_below=0.1)
    watch.step([0.5, 0.1])
    watch.reset()
    watch.step([0.2, 0.1])
    assert watch.explain().p_before is None
    resumed = monitor.watch(TARGET, alarm_below=0.1).resume(watch.run_state)
    with refuses(InputError, None, "call step"):
        resumed.explain()
    resumed.step([0.2, 0.3], reward=0.1)
    assert resumed.explain().t == 1


def test_sessions_explain_their_agents(monitor: GoalMonitor) -> None:
    sessions = monitor.sessions(TARGET, alarm_below=0.1)
    sessions.step("left", [0.5, 0.1])
    sessions.step("left", [0.5, 0.1], reward=-1.0)
    assert sessions.explain("left").contributions[0].cause == "reward earned"
    assert sessions.explain("left", since=0) == sessions.explain("left")


def test_causes_that_only_ever_move_together_are_told_with_their_sum() -> None:
    """Minutes that add up, a clock and a falling charge; the wind goes up and down."""
    rng = np.random.default_rng(3)
    took = 5.0 + rng.exponential(size=(200, 6))
    elapsed = np.cumsum(took, axis=1) - took
    states = np.stack([elapsed, 100.0 - elapsed, rng.normal(size=elapsed.shape)], axis=2)
    runs = Episodes.from_arrays(states, took, features=["elapsed", "charge", "wind"])
    monitor = fitted(FOREST, runs)
    assert monitor.fitted.clocks.features == {"elapsed", "charge"}
    assert monitor.fitted.clocks.so_far
    watch = monitor.watch(Target.at_most(36.0))
    watch.step([0.0, 100.0, 0.0])
    watch.step([9.0, 91.0, 1.0], 9.0)
    found = watch.explain()
    assert set(found.together) == {"elapsed", "charge", "reward earned", "time"}
    total = sum(one.change for one in found.contributions if one.cause in found.together)
    assert f"together: {100 * total:+.1f}" in str(found)
    assert f" together {100 * total:+.1f}" in found.causes
    assert found.causes in found.in_a_line
    told = [float(one.split()[-1]) for one in found.causes.removesuffix(" points").split(", ")[-2:]]
    assert abs(sum(told) - 100 * found.change) < 0.2  # the wind, and all that moves together
    assert found.to_dict()["together"] == list(found.together)


def test_causes_that_go_both_ways_are_no_clocks(monitor: GoalMonitor) -> None:
    assert not monitor.fitted.clocks.features
    assert not monitor.fitted.clocks.so_far
    watch = monitor.watch(TARGET)
    watch.step([0.5, 0.1])
    watch.step([0.5, 0.3], 0.2)
    assert watch.explain().together == ()
    assert "together" not in str(watch.explain())
    assert clocks_of(None, monitor.schema) == Clocks()
