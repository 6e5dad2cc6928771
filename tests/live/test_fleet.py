from __future__ import annotations

import math

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget.episodes import Column
from ontarget.errors import InputError
from ontarget.models import Marginal, QuantileForest, StackedForest
from refusals import refuses
from tests.walks import walks

MODELS = {
    "forest": QuantileForest(n_trees=12, min_leaf=5),
    "stacked": StackedForest(n_trees=8),
    "marginal": Marginal(),  # without a live entry
}
TARGET = Target(-0.3, 0.1) | Target.at_least(0.6)


def same(one, other) -> bool:
    """Two outlooks, field by field; NaN is itself."""
    return all(
        a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))
        for a, b in zip(flat(one), flat(other), strict=True)
    )


def flat(outlook) -> list:
    """The fields of an outlook, the spread's two ends by themselves."""
    return [*outlook.spread, *(field for field in outlook if field is not outlook.spread)]


def live_at_random(
    monitor: GoalMonitor, fleet, alone, *, seed: int, calls: int = 100
) -> set[Status]:
    """Agents that step, end, begin anew and misread at random, each beside a watch of its own."""
    rng = np.random.default_rng(seed)
    n, seen = len(fleet), set()
    for _ in range(calls):
        agents = rng.permutation(n)[: rng.integers(1, n + 1)]
        states = rng.normal(size=(agents.size, 2))
        states[rng.random(states.shape) < 0.02] = np.nan
        states[rng.random(states.shape) < 0.02] = math.inf * rng.choice([-1, 1])
        rewards = np.where(fleet.steps[agents] > 0, np.rint(rng.normal(size=agents.size)) / 5, 0.0)
        rewards[rng.random(agents.size) < 0.02] = rng.choice([math.nan, math.inf, 1.0])
        behavior = np.rint(rng.normal(size=agents.size)) / 5 if rng.random() < 0.2 else None
        if behavior is not None:
            behavior[rng.random(agents.size) < 0.1] = math.nan
        told = [None] * agents.size if behavior is None else behavior.tolist()
        what = rng.random()
        if what < 0.1:
            fleet.reset(agents)
            for i in agents:
                alone[i].reset()
            continue
        if what < 0.2:
            together = fleet.end(rewards, agents=agents, behavior=behavior)
            apart = [
                alone[i].end(reward, behavior=b)
                for i, reward, b in zip(agents, rewards.tolist(), told, strict=True)
            ]
        else:
            together = fleet.step(states, rewards, agents=agents, behavior=behavior)
            apart = [
                alone[i].step(state, reward, behavior=b)
                for i, state, reward, b in zip(agents, states, rewards.tolist(), told, strict=True)
            ]
        for k, one in enumerate(apart):
            assert same(one, together.of(k)), (one, together.of(k))
            seen.add(one.status)
        assert together.alarm.tolist() == [one.alarm for one in apart]
        assert together.known.tolist() == [one.known for one in apart]
    return seen


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("behavior", ["sum", "discounted:0.9", "last", "max", "mean"])
def test_a_fleet_says_of_each_agent_what_a_watch_of_its_own_says(model: str, behavior: str) -> None:
    monitor = GoalMonitor(MODELS[model], min_calibration=25, steps_per_model=2)
    monitor.fit(walks(behavior=behavior, ragged=True, horizon=7), progress=False)
    options = {"alarm_below": 0.8, "for_steps": 2, "clear_above": 0.9}
    fleet = monitor.fleet(TARGET, 30, **options)
    alone = [monitor.watch(TARGET, **options) for _ in range(30)]
    seen = live_at_random(monitor, fleet, alone, seed=len(behavior))
    assert seen == {Status.OK, Status.ALARM, Status.UNKNOWN, Status.DONE}


@pytest.mark.parametrize("for_steps", [1, 3])
def test_a_fleet_keeps_to_the_rule_of_each_group(for_steps: int) -> None:
    episodes = walks(500, groups=2, ragged=True)
    monitor = GoalMonitor(MODELS["forest"], min_calibration=20, group="group")
    monitor.fit(episodes, progress=False)
    options = {"false_alarm_rate": 0.2, "for_steps": for_steps}
    groups = [str(i % 2) for i in range(20)]
    fleet = monitor.fleet(TARGET, 20, groups=groups, **options)
    alone = [monitor.watch(TARGET, group=g, **options) for g in groups]
    assert fleet.triggers[0].threshold != fleet.triggers[1].threshold
    assert Status.ALARM in live_at_random(monitor, fleet, alone, seed=for_steps)


def test_a_behavior_that_is_read_is_told_to_a_fleet_as_to_a_watch() -> None:
    rng = np.random.default_rng(0)
    for accumulates in (False, True):
        heights = rng.normal(size=(200, 4)).cumsum(axis=1)
        runs = Episodes.from_arrays(
            rng.normal(size=(200, 4, 2)),
            None,
            behavior=Column("height", accumulates=accumulates),
            behavior_values=heights,
        )
        monitor = GoalMonitor(MODELS["forest"]).fit(runs, progress=False)
        fleet = monitor.fleet(TARGET, 12)
        alone = [monitor.watch(TARGET) for _ in range(12)]
        seen = live_at_random(monitor, fleet, alone, seed=3)
        assert Status.UNKNOWN in seen
        assert Status.DONE in seen


@pytest.mark.parametrize("steps_per_model", [1, 3])
def test_the_mix_of_steps_in_a_call_makes_no_difference(steps_per_model: int) -> None:
    monitor = GoalMonitor(MODELS["stacked"], min_calibration=5, steps_per_model=steps_per_model)
    monitor.fit(walks(horizon=7), progress=False)
    new = walks(350, seed=5, horizon=7)
    together, apart = monitor.fleet(TARGET, 350), monitor.fleet(TARGET, 350)
    start = np.arange(350) % 7
    for t in range(7):
        rewards = new.rewards_at(t - 1) if t else np.zeros(350)
        found = apart.step(new.at(t).states, rewards)
        late = np.flatnonzero(start >= t)
        mixed = together.step(new.at(t).states[late], rewards[late], agents=late)
        one, other = found.arrays(), mixed.arrays()
        assert all(np.array_equal(one[name][late], other[name]) for name in one)
        assert found.reason[late].tolist() == mixed.reason.tolist()
    for call in range(1, 7):
        here = np.flatnonzero(together.steps < 7)
        steps = together.steps[here]
        assert np.unique(steps).size == 7 - call
        states = np.array([new.at(t).states[i] for i, t in zip(here, steps, strict=True)])
        rewards = [new.rewards_at(t - 1)[i] for i, t in zip(here, steps, strict=True)]
        mixed = together.step(states, rewards, agents=here)
        for t in np.unique(steps):
            own = steps == t
            batch = monitor.outlook(
                int(t), states[own], new.at(t).behavior[here[own]], TARGET, calibration="target"
            )
            assert np.array_equal(mixed.p[own], batch.p)
            assert np.array_equal(mixed.plausibility[own], batch.plausibility)


def test_sums_beyond_floats_are_unknown_and_not_healthy() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)
    watch, fleet = monitor.watch(TARGET), monitor.fleet(TARGET, 1)
    watch.step([0.0, 0.0])
    fleet.step(np.zeros((1, 2)))
    for _ in range(2):
        one, many = watch.step([0.0, 0.0], 1.7e308), fleet.step(np.zeros((1, 2)), 1.7e308)
        assert same(one, many.of(0))
    assert "behavior so far" in one.reason


def test_agents_that_do_not_exist_or_come_twice_are_refused() -> None:
    monitor = GoalMonitor(Marginal(), min_calibration=5).fit(walks(), progress=False)
    fleet = monitor.fleet(TARGET, 3)
    with refuses(InputError, "agents", "(0, 1, 2)", "got 3"):
        fleet.step(np.zeros((1, 2)), agents=[3])
    with refuses(InputError, "agents", "twice"):
        fleet.step(np.zeros((2, 2)), agents=[1, 1])
    for names in (["0", "1"], [[0], [1]]):
        with refuses(InputError, "agents", "(0, 1, 2)", f"got {names[0]!r}"):
            fleet.step(np.zeros((2, 2)), agents=names)
    with refuses(InputError, "states", "(3, 2)", "(3, 1)"):
        fleet.step(np.zeros((3, 1)))
    with refuses(InputError, None, "rewards", "of 3", "(2,)"):
        fleet.step(np.zeros((3, 2)), [0.0, 1.0])
    assert fleet.steps.tolist() == [0, 0, 0]  # nothing has moved


def test_the_states_of_a_fleet_are_those_of_each_run_and_go_on_elsewhere() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(200), progress=False)
    fleet = monitor.fleet(TARGET, agents=["a", "b", "c"], alarm_below=0.9)
    fleet.step(np.full((3, 2), 0.2))
    fleet.step(np.full((2, 2), 0.1), [0.5, -0.5], agents=["a", "c"])
    states = fleet.run_states()
    assert [one.to_json() for one in states] == [
        fleet.run_state(agent).to_json() for agent in ("a", "b", "c")
    ]
    assert [one.step for one in states] == [2, 1, 2]
    assert [one.streak for one in fleet.run_states(["c"])] == [states[2].streak]
    other = monitor.fleet(TARGET, agents=["x"], alarm_below=0.9)
    other.resume("x", states[2])
    assert same(other.peek().of(0), fleet.peek(["c"]).of(0))


def test_outlooks_asked_one_by_one_are_those_asked_together() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(200), progress=False)
    fleet = monitor.fleet(TARGET, agents=["a", "b"], alarm_below=0.9)
    together = fleet.step([[0.1, 0.2], [0.1, math.nan]])
    spoken, silent = (list(together.each(np.full(2, one))) for one in (True, False))
    assert all(same(spoken[i], together.of(i)) for i in range(2))
    assert [one.reason for one in silent] == ["", ""]


def test_a_forgotten_agent_begins_anew() -> None:
    monitor = GoalMonitor(Marginal()).fit(walks(200), progress=False)
    sessions = monitor.sessions(TARGET, alarm_below=0.9)
    sessions.step("a", [0.1, 0.2])
    assert sessions.step("a", [0.1, 0.2], 0.5).t == 1
    sessions.forget("a")
    sessions.forget("nobody")
    assert len(sessions) == 0
    assert sessions.step("a", [0.1, 0.2]).t == 0
