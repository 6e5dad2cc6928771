from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import (
    Episodes,
    Goal,
    GoalMonitor,
    QuantileForest,
    RuledOut,
    RunState,
    Status,
    Target,
)
from ontarget.errors import InputError
from ontarget.fitted.kernels import DECIDED
from ontarget.live.explaining import Reading, explained
from ontarget.models import Marginal
from refusals import refuses

STEPS = 4
GOAL = Goal.parse("gain >= 0 & spent <= 2.2 & low >= -2")


def recorded(n: int, seed: int = 0) -> Episodes:
    """Two walks that move together, and the lowest move of the first."""
    rng = np.random.default_rng(seed)
    gain = rng.normal(size=(n, STEPS))
    spent = 0.5 - 0.4 * gain + 0.3 * rng.normal(size=(n, STEPS))
    position = np.stack([np.cumsum(one, axis=1) - one for one in (gain, spent)], axis=-1)
    return Episodes.from_arrays(
        position,
        {"reward": gain, "energy": spent},
        behavior={"gain": "sum", "spent": "sum:energy", "low": "min"},
    )


@pytest.fixture(scope="module")
def monitor() -> GoalMonitor:
    model = QuantileForest(n_trees=30, min_leaf=5)
    return GoalMonitor(model).fit(recorded(400), progress=False)


def some_runs(n: int = 40) -> tuple[np.ndarray, dict[str, Any]]:
    step = recorded(n, seed=9)
    so_far = {name: step.only(name).at(2).behavior for name in step.names}
    return step.only("gain").at(2).states, so_far


def test_a_goal_over_one_behavior_is_its_target_bit_for_bit(monitor: GoalMonitor) -> None:
    X, so_far = some_runs()
    goal, target = Goal.parse("spent <= 2"), Target.at_most(2)
    alone = monitor.only("spent")
    found, expected = (
        monitor.outlook(2, X, so_far, goal),
        alone.outlook(2, X, so_far["spent"], target),
    )
    for name, values in found.arrays().items():
        assert np.array_equal(values, expected.arrays()[name])
    one = monitor.watch(goal, false_alarm_rate=0.1)
    other = alone.watch(target, false_alarm_rate=0.1)
    assert one.trigger == other.trigger
    one = copy.deepcopy(pickle.loads(pickle.dumps(one)))
    for reward in (0.0, 0.4, -0.2):
        brought = {"reward": 1.0, "energy": reward} if reward else 0.0
        assert one.step(X[0], brought) == other.step(X[0], reward)


def test_a_monitor_of_several_behaviors_holds_what_each_alone_would(monitor: GoalMonitor) -> None:
    parts = recorded(400).split(seed=0)
    own = type(parts)(*(part and part.only("gain") for part in parts))
    alone = GoalMonitor(QuantileForest(n_trees=30, min_leaf=5)).fit(split=own, progress=False)
    X, so_far = some_runs()
    target = Target.at_least(0)
    assert np.array_equal(
        alone.outlook(2, X, so_far["gain"], target).p,
        monitor.only("gain").outlook(2, X, so_far["gain"], target).p,
    )


def test_a_live_run_and_the_batch_say_the_same_to_the_last_bit(monitor: GoalMonitor) -> None:
    runs = recorded(8, seed=3)
    watch = monitor.watch(GOAL, alarm_below=0.2)
    for i in range(len(runs)):
        watch.reset()
        brought: Any = 0.0
        for t in range(STEPS):
            steps = {name: runs.only(name).at(t) for name in runs.names}
            states = steps["gain"].states[i : i + 1]
            so_far = {name: one.behavior[i : i + 1] for name, one in steps.items()}
            live = watch.step(states[0], brought)
            batch = monitor.outlook(t, states, so_far, GOAL, calibration="target").of(0)
            assert live[:8] == batch[:8]
            brought = {
                "reward": runs.only("gain").rewards_at(t)[i],
                "energy": runs.only("spent").rewards_at(t)[i],
            }
        done = watch.end(brought)
        ended = {name: runs.only(name).outcomes[i : i + 1] for name in runs.names}
        assert done.status is Status.DONE
        assert done.p == float(GOAL.contains(ended)[0])


def test_p_of_goals_adds_up_like_a_probability(monitor: GoalMonitor) -> None:
    X, so_far = some_runs()

    def p(goal: Goal) -> Any:
        return monitor.outlook(1, X, so_far, goal).p

    a, b = Goal.parse("gain >= 0"), Goal.parse("spent <= 2")
    both, either = p(a & b), p(a | b)
    assert both == pytest.approx(p(a) + p(b) - either, abs=1e-9)
    assert p(~(a & b)) == pytest.approx(1 - both, abs=1e-9)
    assert np.all(both <= np.minimum(p(a), p(b)) + 1e-12)
    assert np.all(both >= p(a) + p(b) - 1 - 1e-12)
    assert p(a & Goal.parse("spent <= 1e9")) == pytest.approx(p(a), abs=2e-6)
    assert np.mean(both) > np.mean(p(a) * p(b)) + 0.02  # high gains go with little spent


def test_plausibility_rests_on_the_farthest_behavior(monitor: GoalMonitor) -> None:
    joint = monitor.contracts.joint
    each = [one.excess for one in joint.parts.values()]
    assert np.array_equal(joint.excess, np.max(each, axis=0))
    X, so_far = some_runs()
    found = monitor.outlook(2, X, so_far, GOAL)
    assert np.all(found.low <= found.high)
    assert np.all((found.spread[:, 0] <= found.p) & (found.p <= found.spread[:, 1]))
    wide = monitor.outlook(2, X, so_far, Goal.parse("gain >= -9 & spent <= 9"))
    assert np.all(wide.plausibility >= found.plausibility)
    assert np.all(wide.assurance >= found.assurance)


def test_what_is_decided_is_exact_and_alarms(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.01)
    watch.step([0.0, 0.0])
    lost = watch.step([-3.0, 0.1], {"reward": -3.0, "energy": 0.1})
    assert (lost.p, lost.decided, lost.status) == (0.0, True, Status.ALARM)
    assert "out of reach" in lost.reason
    assert watch.parts["low"].p == 0.0
    assert 0.0 < watch.parts["spent"].p < 1.0


def test_a_missing_signal_is_unknown_by_name_until_it_is_repaired(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.01)
    watch.step([0.0, 0.0])
    found = watch.step([0.1, 0.2], {"reward": 0.1})
    assert found.status is Status.UNKNOWN
    assert "spent" in found.reason
    assert "no signal 'energy'" in found.reason
    # The other behaviors stand where they would with it, and not where they stood before.
    twin = monitor.watch(GOAL, alarm_below=0.01)
    twin.step([0.0, 0.0])
    twin.step([0.1, 0.2], {"reward": 0.1, "energy": 0.4})
    assert watch.parts["gain"] == twin.parts["gain"]
    assert not watch.parts["spent"].known
    nothing = twin.step([0.1, 0.2], 0.3, behavior=0.5)  # type: ignore[arg-type]
    assert "0.5, not {name: number}" in nothing.reason
    assert watch.step([0.1, 0.2], {"reward": 0.1, "energy": 0.1}).status is Status.UNKNOWN
    assert watch.step([0.1, 0.2], {"reward": 0.1}, behavior={"spent": 0.6}).known
    watch.reset()
    watch.step([0.0, 0.0])
    bad = watch.step([math.inf, 0.0], {"reward": 0.1, "energy": 0.1})
    assert bad.reason.startswith("feature 'x0'")  # said once, not for each behavior
    with refuses(InputError, None, "step 0", "'x0'"):
        monitor.watch(GOAL, on_bad="raise").step([math.nan, 0.0])


def test_an_alarm_counts_steps_and_clears_as_any_other(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.999, for_steps=2, clear_above=0.999)
    assert watch.step([0.0, 0.0]).status is Status.OK
    later = watch.step([0.1, 0.1], {"reward": 0.1, "energy": 0.1})
    assert later.alarm
    assert "alarm below 0.999" in later.reason
    assert [change.status for change in watch.changes] == [
        Status.PENDING,
        Status.OK,
        Status.ALARM,
    ]


BROUGHT: list[Any] = [
    0.0,
    {"reward": 0.3, "energy": 0.2},
    {"reward": -0.4},  # a signal is lost
    {"reward": 0.1, "energy": 0.3},
]


def test_a_stored_run_goes_on_bit_for_bit(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.9, clear_above=0.95)
    sessions = monitor.sessions(GOAL, alarm_below=0.9, clear_above=0.95)
    fleet = monitor.fleet(GOAL, (), alarm_below=0.9, clear_above=0.95)
    for brought in BROUGHT:
        state = RunState.from_json(json.loads(json.dumps(watch.run_state.to_json())))
        assert state == watch.run_state
        stored = monitor.watch(GOAL, alarm_below=0.9, clear_above=0.95).resume(state)
        sessions.resume("a", state)
        fleet.resume("a", state)
        sent = pickle.loads(pickle.dumps(watch))
        said = repr(watch.step([0.1, 0.2], brought))  # NaN equals NaN in words
        assert repr(stored.step([0.1, 0.2], brought)) == said
        assert repr(sent.step([0.1, 0.2], brought)) == said
        assert repr(sessions.step("a", [0.1, 0.2], brought)) == said
        assert repr(fleet.step([[0.1, 0.2]], [brought]).of(0)) == said
        assert repr(stored.parts) == repr(sent.parts) == repr(watch.parts)
        assert stored.run_state == watch.run_state == fleet.run_state("a")
    assert sent.changes == watch.changes
    other = monitor.watch(Goal.parse("gain >= 0 & low >= -2"), alarm_below=0.9)
    with refuses(InputError, None, "gain, low", "2 parts", "got 3"):
        other.resume(watch.run_state)


def test_a_run_held_to_a_goal_is_unknown_once_it_is_cut_off(monitor: GoalMonitor) -> None:
    watch, fleet = monitor.watch(GOAL, alarm_below=0.6), monitor.fleet(GOAL, 1, alarm_below=0.6)
    assert watch.step([0.0, 0.0]).alarm
    fleet.step([[0.0, 0.0]])
    cut = watch.end({"reward": 3.0, "energy": -0.5}, truncated=True)
    assert (cut.status, cut.known) == (Status.UNKNOWN, False)
    assert cut.reason.startswith("the run was cut off after 1 step, before")
    many = fleet.end([{"reward": 3.0, "energy": -0.5}], truncated=True)
    assert repr(many.of(0)) == repr(cut)


def both(gain: Any, spent: Any) -> Any:
    return (gain >= 0) & (spent <= 2.2)


def test_a_function_says_what_its_box_would(monitor: GoalMonitor) -> None:
    X, so_far = some_runs()
    goal = Goal.where(both)
    for calibration in ("common", "target"):
        found = monitor.outlook(2, X, so_far, goal, calibration=calibration)
        boxed = monitor.outlook(
            2, X, so_far, Goal.parse("gain >= 0 & spent <= 2.2"), calibration=calibration
        )
        assert np.abs(found.p - boxed.p).mean() < 0.02
        assert np.all((found.spread[:, 0] <= found.p) & (found.p <= found.spread[:, 1]))
    assert found.plausibility.tolist() == [1.0] * len(X)
    assert found.assurance.tolist() == [0.0] * len(X)
    rest = monitor.outlook(2, X, so_far, ~goal).p
    assert rest == pytest.approx(1 - monitor.outlook(2, X, so_far, goal).p, abs=1e-9)


def test_a_function_is_watched_and_evaluated_like_any_goal(
    monitor: GoalMonitor, tmp_path: Path
) -> None:
    goal = Goal.where(lambda spent, gain: gain >= spent) & Goal.parse("low >= -2")
    watch, runs = monitor.watch(goal, false_alarm_rate=0.2), recorded(3, seed=4)
    assert watch.parts == {}
    steps = {name: runs.only(name).at(0) for name in runs.names}
    so_far = {name: one.behavior for name, one in steps.items()}
    batch = monitor.outlook(0, steps["gain"].states, so_far, goal, calibration="target")
    assert watch.step(steps["gain"].states[0])[:8] == batch.of(0)[:8]
    brought = {"reward": 0.3, "energy": 0.2}
    again = monitor.watch(goal, false_alarm_rate=0.2).resume(watch.run_state)
    assert again.step([0.1, 0.2], brought) == watch.step([0.1, 0.2], brought)
    ended = watch.end({"reward": 3.0, "energy": 0.1})
    assert ended.p == 1.0
    assert "inside" in ended.reason
    assert "gain = 3.3, low = 0.3, spent = 0.3" in ended.reason
    found = monitor.evaluate(recorded(200, seed=5), goal, resamples=20)
    assert found.ece().value < 0.12
    assert not found.parts
    found.report(tmp_path / "goal.html", false_alarm_rate=0.2)
    with refuses(InputError, None, "Below", "Promised"):
        monitor.watch(goal, alarm=RuledOut(0.05))


def test_a_goal_is_recalibrated_on_new_episodes(monitor: GoalMonitor) -> None:
    again = monitor.recalibrate(recorded(100, seed=7))
    assert again.sizes["assure"] == 100
    X, so_far = some_runs()
    found, before = (one.outlook(2, X, so_far, GOAL) for one in (again, monitor))
    assert np.array_equal(found.p, before.p)
    assert np.any(found.plausibility != before.plausibility)
    with refuses(InputError, None, "gain, spent, low", "got gain"):
        monitor.recalibrate(Episodes.from_arrays(X[:, None], X[:, :1], behavior={"gain": "sum"}))


@pytest.mark.parametrize("goal", [GOAL, Goal.parse("spent <= 2.2")], ids=["three", "one"])
def test_a_fleet_says_what_its_watches_say(monitor: GoalMonitor, goal: Goal) -> None:
    fleet = monitor.fleet(goal, ["left", "right"], alarm_below=0.2)
    watch = monitor.watch(goal, alarm_below=0.2)
    states = np.array([[0.0, 0.0], [0.2, 0.1]])
    assert fleet.step(states).of(1) == watch.step([0.2, 0.1])
    by_signal = {"reward": [0.1, 0.3], "energy": np.array([0.5, 0.2])}
    found = fleet.step(states, by_signal).of(1)
    assert found == watch.step([0.2, 0.1], {"reward": 0.3, "energy": 0.2})
    parts = fleet.parts(["right"])
    assert {name: one.of(0) for name, one in parts.items()} == watch.parts
    assert fleet.steps.tolist() == [2, 2]
    lost = fleet.step(states[1:], [{"reward": 0.3}], agents=["right"]).of(0)
    assert repr(lost) == repr(watch.step([0.2, 0.1], {"reward": 0.3}))
    told = fleet.step(states[1:], [{"reward": 0.3}], agents=["right"], behavior={"spent": [0.7]})
    assert told.of(0) == watch.step([0.2, 0.1], {"reward": 0.3}, behavior={"spent": 0.7})
    ended = fleet.end([{"reward": 0.1, "energy": 0.1}], agents=["right"]).of(0)
    assert ended == watch.end({"reward": 0.1, "energy": 0.1})
    with refuses(InputError, None, "'right'", "over"):
        fleet.intervene(["left", "right"])
    assert not fleet.intervened.any()
    with refuses(InputError, None, "'energy'", "of 2", "[0.5]"):
        fleet.step(states, {"reward": [0.1, 0.3], "energy": [0.5]})
    with refuses(InputError, "states", "(2, 2)", "got (1, 2)"):
        fleet.step(states[:1])
    fleet.leave(["left"])
    assert fleet.agents == ("right",)
    with refuses(InputError, "agents", "'right'", "got 'left'"):
        fleet.step(states[:1], agents=["left"])


@pytest.mark.parametrize(
    ("goal", "rule"),
    [
        (GOAL, {"alarm_below": 0.6, "for_steps": 2}),
        (Goal.parse("gain >= 2 | spent <= 1"), {"alarm": RuledOut(0.2)}),
        (Goal.parse("spent <= 2.2"), {"alarm_below": 0.9}),
        (Goal.where(both), {"alarm_below": 0.5}),
    ],
    ids=["box", "either", "one", "function"],
)
def test_agents_at_any_step_and_with_any_gap_are_answered_as_each_alone(
    monitor: GoalMonitor, goal: Goal, rule: dict[str, Any]
) -> None:
    rng, n = np.random.default_rng(0), 6
    fleet, alone = monitor.fleet(goal, n, **rule), [monitor.watch(goal, **rule) for _ in range(n)]
    seen = set()
    for _ in range(25):
        agents = rng.permutation(n)[: rng.integers(1, n + 1)].tolist()
        states = rng.normal(size=(len(agents), 2))
        states[rng.random(states.shape) < 0.02] = np.nan
        some = rng.normal(size=(len(agents), 2)).tolist()
        brought: list[Any] = [
            {"reward": a, "energy": b} if rng.random() < 0.9 else {"reward": a} for a, b in some
        ]
        kind = rng.random()
        if kind < 0.1:
            cut = bool(kind < 0.03)
            together = fleet.end(brought, agents=agents, truncated=cut)
            apart = [alone[i].end(b, truncated=cut) for i, b in zip(agents, brought, strict=True)]
        elif kind < 0.2:
            fleet.reset(agents)
            for i in agents:
                alone[i].reset()
            continue
        else:
            begun = [alone[i].run_state.step > 0 for i in agents]
            brought = [b if on else 0.0 for on, b in zip(begun, brought, strict=True)]
            together = fleet.step(states, brought, agents=agents)
            each = zip(agents, states, brought, strict=True)
            apart = [alone[i].step(state, b) for i, state, b in each]
        seen |= {one.status for one in apart}
        assert [repr(together.of(i)) for i in range(len(agents))] == [repr(one) for one in apart]
        parts = fleet.parts(agents)
        for place, i in enumerate(agents):
            told = {name: one.of(place) for name, one in parts.items()}
            assert repr(told) == repr(alone[i].parts)
            assert fleet.run_state(i).to_json() == alone[i].run_state.to_json()
    assert {Status.OK, Status.UNKNOWN, Status.DONE} <= seen


def test_the_model_file_brings_all_of_it_back(monitor: GoalMonitor, tmp_path: Path) -> None:
    path, X, so_far = tmp_path / "goals.ontarget", *some_runs()
    monitor.save(path)
    again = GoalMonitor.load(path)
    assert repr(again) == repr(monitor)
    assert again.readings == monitor.readings
    for calibration in ("common", "target"):
        found = again.outlook(1, X, so_far, GOAL, calibration=calibration).arrays()
        expected = monitor.outlook(1, X, so_far, GOAL, calibration=calibration).arrays()
        assert all(np.array_equal(found[name], expected[name]) for name in found)
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first
    assert repr(pickle.loads(pickle.dumps(monitor))) == repr(monitor)


def test_boxes_hold_all_outcomes_together(monitor: GoalMonitor) -> None:
    X, so_far = some_runs(300)
    ended = recorded(300, seed=9)
    box = monitor.box(2, X, so_far, 0.8)
    inside = [box[name].contains(ended.only(name).outcomes) for name in ended.names]
    assert 0.7 < np.mean(np.all(inside, axis=0)) < 0.92
    wide = monitor.box(2, X, so_far, 0.8, all_steps=True)
    for name in ended.names:
        assert np.all(wide[name].lower <= box[name].lower)
        assert np.all(wide[name].upper >= box[name].upper)


def test_without_assure_episodes_rates_are_measured() -> None:
    model = QuantileForest(n_trees=20, min_leaf=5)
    monitor = GoalMonitor(model).fit(recorded(150), assure=0, progress=False)
    trigger = monitor.watch(GOAL, false_alarm_rate=0.2).trigger
    assert trigger.promised is None
    assert trigger.measured is not None


def test_bounds_of_a_signal_decide_its_goal() -> None:
    rng = np.random.default_rng(1)
    spent = {"a": rng.random((200, 3)), "b": rng.random((200, 3))}
    runs = Episodes.from_arrays(
        rng.normal(size=(200, 3, 1)), spent, behavior={"a": "sum", "b": "sum"}, horizon=3
    )
    bounds = {"a": (0.0, 1.0)}
    monitor = GoalMonitor(QuantileForest(n_trees=20), reward_bounds=bounds).fit(
        runs, progress=False
    )
    so_far = {"a": 1.5, "b": 0.1}
    found = monitor.outlook(2, [[0.0]], so_far, Goal.parse("a <= 1.4 & b <= 9"))
    assert found.p[0] == 0.0
    assert monitor.only("a").reward_bounds == (0.0, 1.0)
    assert monitor.only("b").reward_bounds is None
    with refuses(InputError, "reward_bounds", "(a, b)", "(0.0, 1.0)"):
        GoalMonitor(reward_bounds=(0.0, 1.0)).fit(runs, progress=False)


def test_what_does_not_fit_is_refused_in_words(monitor: GoalMonitor) -> None:
    X, _ = some_runs()
    with refuses(InputError, "goal", "gain, spent, low", "'speed'"):
        monitor.watch(Goal.parse("speed > 1"))
    with refuses(InputError, None, "gain, spent, low", "[0, inf)"):
        monitor.watch(Target.at_least(0))
    with refuses(InputError, None, "gain, spent, low", "only('gain')"):
        monitor.interval(0, X, 0.0, 0.9)
    with refuses(InputError, "behavior", "gain, spent, low", 0.0):
        monitor.outlook(0, X, 0.0, GOAL)
    with refuses(InputError, "name", "gain, spent, low", "'speed'"):
        monitor.only("speed")
    with refuses(InputError, None, "single behavior", "got Goal"):
        monitor.only("gain").watch(GOAL)
    with refuses(InputError, None, "only('gain')"):
        monitor.drift_guard()
    with refuses(InputError, None, "monitor.only('spent').harm_guard"):
        monitor.harm_guard(Goal.parse("spent <= 2"))
    for ask in (
        lambda alone: alone.explain(0, X[0], 0.0, GOAL),
        lambda alone: alone.drift(recorded(50, seed=8).only("gain"), GOAL),
        lambda alone: alone.harm_guard(GOAL),
    ):
        with refuses(InputError, None, "single behavior", "got Goal"):
            ask(monitor.only("gain"))
    with refuses(InputError, "t", "0 to 3", "got 99"):
        monitor.box(99, X, dict.fromkeys(GOAL.names, 0.0), 0.9)
    with refuses(InputError, None, "box", "several behaviors"):
        monitor.only("gain").box(0, X, {}, 0.9)


def test_an_explanation_of_a_goal_shares_out_its_change(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.2)
    with refuses(InputError, None, "call step"):
        watch.explain()
    before = watch.step([0.0, 0.0])
    assert watch.explain().contributions == ()
    now = watch.step([0.4, 1.9], {"reward": 0.4, "energy": 1.9})
    why = watch.explain()
    assert (why.p, why.p_before) == (now.p, before.p)
    moved = {one.cause: one.change for one in why.contributions}
    assert set(moved) == {"x0", "x1", "gain so far", "spent so far", "low so far", "time"}
    assert sum(moved.values()) == pytest.approx(now.p - before.p, abs=1e-12)
    assert moved["spent so far"] < -0.1
    assert why.culprit == "spent"
    assert why.in_a_line.startswith("spent is the likely culprit; p fell from ")
    assert why.missed is not None
    for one in why.precedents:
        assert one.met == bool(GOAL.contains({n: [y] for n, y in one.ends_at.items()})[0])  # type: ignore[union-attr]
    so_far = {"gain": 0.4, "spent": 1.9, "low": 0.4}
    start = ([0.0, 0.0], {"gain": 0.0, "spent": 0.0, "low": math.nan})
    asked = monitor.explain(1, [0.4, 1.9], so_far, GOAL, before=start)
    assert repr(asked) == repr(why)  # NaN equals NaN in words
    assert why.figure().axes[1].get_xlabel().startswith("spent ")
    alone = monitor.explain(1, [0.4, 1.9], so_far, Goal.parse("spent <= 2.2"), before=start)
    one = monitor.only("spent").explain(
        1, [0.4, 1.9], 1.9, Target.at_most(2.2), before=([0.0, 0.0], 0.0)
    )
    assert alone == one


def test_precedents_of_a_goal_weigh_as_in_each_behavior(monitor: GoalMonitor) -> None:
    watch = monitor.watch(GOAL, alarm_below=0.2)
    watch.step([0.0, 0.0])
    why, weights = watch.explain(), {}
    so_far = {"gain": 0.0, "spent": 0.0, "low": math.nan}
    for name, target in (("gain", 0.0), ("spent", 0.0), ("low", 0.0)):
        alone = monitor.only(name)
        found = explained(
            alone.contracts.asked(Target.at_least(target)),
            Reading(0, np.zeros(2), (so_far[name],)),
            most=10_000,
        )
        for one in found.precedents:
            weights[one.run] = weights.get(one.run, 0.0) + one.weight / 3
    heaviest = sorted(weights.values(), reverse=True)[: len(why.precedents)]
    assert [one.weight for one in why.precedents] == pytest.approx(heaviest, abs=1e-9)


def shifted(n: int, seed: int, by: float) -> Episodes:
    """Later runs that spend more by so much in each step."""
    runs = recorded(n, seed=seed)
    gain, spent = (
        np.stack([runs.only(name).rewards_at(t) for t in range(STEPS)], axis=1)
        for name in ("gain", "spent")
    )
    states = np.stack([runs.only("gain").at(t).states for t in range(STEPS)], axis=1)
    return Episodes.from_arrays(
        states,
        {"reward": gain, "energy": spent + by},
        ids=np.arange(n) + 1_000 * seed,
        behavior={"gain": "sum", "spent": "sum:energy", "low": "min"},
    )


def test_drift_of_a_goal_is_told_by_the_behavior_that_drifts(
    monitor: GoalMonitor, tmp_path: Path
) -> None:
    order = np.arange(150)
    same, worse = shifted(150, 11, 0.0), shifted(150, 12, 0.4)
    calm, found = (monitor.drift(one, GOAL, order=order) for one in (same, worse))
    assert not calm.changed
    assert found.change.alarm_after is not None
    assert found.since is not None
    assert found.since < 20
    assert found.bias.too_high > 0.2
    assert found.target == GOAL
    ended = {name: worse.only(name).outcomes for name in worse.names}
    assert found.bias.met == pytest.approx(GOAL.contains(ended).mean())
    asked = monitor.evaluate(worse, GOAL, resamples=2)
    assert asked.drift(order=order) == found
    guard = monitor.harm_guard(GOAL)
    reading = guard.observe(worse.take(range(60)))
    guard.save(tmp_path / "guard.json")
    again = monitor.harm_guard(GOAL, resume=tmp_path / "guard.json")
    rest = worse.take(range(60, 150))
    assert again.observe(rest) == guard.observe(rest)
    assert guard.reading.alarm
    assert reading.n == 60
    with refuses(InputError, None, "guard.json", "monitor"):
        monitor.harm_guard(Goal.parse("gain >= 0 & low >= -2"), resume=tmp_path / "guard.json")


def test_an_evaluation_of_a_goal_measures_it_whole_and_by_behavior(
    monitor: GoalMonitor, tmp_path: Path
) -> None:
    fresh = recorded(200, seed=5)
    found = monitor.evaluate(fresh, GOAL, resamples=20)
    ended = {name: fresh.only(name).outcomes for name in fresh.names}
    assert np.array_equal(found.met, GOAL.contains(ended))
    assert found.ece().value < 0.12
    assert not found.fitted_on.size
    assert set(found.parts) == set(GOAL.names)
    assert np.all(found.met <= found.parts["spent"].met)
    assert "gain >= 0 & low >= -2 & spent <= 2.2: met by" in found.summary(false_alarm_rate=0.2)
    page = tmp_path / "goal.html"
    found.report(page, false_alarm_rate=0.2)
    text = page.read_text()
    assert "likely culprit" in text
    assert "probability of 90" in text  # the path to come of that behavior
    assert {"p", "met", "energy"} <= set(found.to_frame().columns)
    with refuses(InputError, None, "'fan'", "evaluation.parts['gain']"):
        found.figure("fan")
    alone = monitor.evaluate(fresh, Goal.parse("spent <= 2.2"), resamples=20)
    assert np.array_equal(
        alone.p,
        monitor.only("spent").evaluate(fresh.only("spent"), Target.at_most(2.2)).p,
        equal_nan=True,
    )
    with refuses(InputError, None, "gain, spent, low", "like=monitor"):
        monitor.evaluate(fresh.only("gain"), GOAL)


def test_a_decided_goal_is_exact_where_too_few_runs_were_recorded() -> None:
    rng = np.random.default_rng(4)
    lengths = rng.geometric(0.3, size=300).clip(1, 14)
    lengths[0] = 14
    hours = [rng.integers(0, 5, size=n).astype(float) for n in lengths.tolist()]
    joy = [rng.normal(size=n) for n in lengths.tolist()]
    states = [rng.normal(size=(n, 1)) for n in lengths.tolist()]
    named = {"hours": "sum:hours", "joy": "sum:joy"}
    runs = Episodes.from_arrays(states, {"hours": hours, "joy": joy}, behavior=named, horizon=16)
    both = GoalMonitor(Marginal(), steps_per_model=1, reward_bounds={"hours": (0, None)}).fit(
        runs, progress=False
    )
    goal, either = Goal.parse("hours <= 12.5 & joy >= 0"), Goal.parse("hours > 30 | joy >= 0")
    for asked, p, status in ((goal, 0.0, Status.ALARM), (either, 1.0, Status.OK)):
        watch = both.watch(asked, alarm_below=0.2)
        for t in range(15):
            outlook = watch.step([0.0], {"hours": 40.0 if t == 1 else 0.0, "joy": 0.0})
        assert both.only("hours").fitted.unknown(outlook.t)
        assert outlook[1:7] == (p, (p, p), p, p, p, p)
        assert outlook.status is status
        if asked is goal:
            assert watch.parts["hours"].status is Status.ALARM
            assert watch.parts["joy"].status is Status.UNKNOWN
        found = both.outlook(14, [[0.0]], {"hours": 40.0, "joy": 0.0}, asked)
        assert found.p[0] == p
        undecided = both.outlook(14, [[0.0]], {"hours": 4.0, "joy": 0.0}, asked)
        assert undecided.status[0] == Status.UNKNOWN
        late = both.evaluate(runs, asked, resamples=2).answers
        assert (late.p[13:][late.panel(DECIDED)[13:] == p] == p).all()
        watch.reset()
        for _ in range(15):
            outlook = watch.step([0.0], {"hours": 0.0, "joy": 0.0})
        assert (outlook.known, outlook.status) == (False, Status.UNKNOWN)
        assert "fewer than 20" in outlook.reason or "no model" in outlook.reason
