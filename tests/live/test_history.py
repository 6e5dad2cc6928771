"""A monitor with a history reads live what it read of recorded runs, bit for bit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Episodes, GoalMonitor, RunState, Target
from ontarget.episodes.history import History
from ontarget.errors import InputError
from ontarget.models import Marginal, QuantileForest
from refusals import refuses

TARGET, HORIZON = Target.at_least(0.0), 6
FOREST = QuantileForest(n_trees=10, min_leaf=5)


def recorded(n: int, seed: int, behavior: str = "sum") -> Episodes:
    """Ragged runs of a number that is often missing and a category."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, HORIZON + 1, size=n)
    lengths[: n // 2] = HORIZON
    states, values = [], []
    for length in lengths.tolist():
        state = np.column_stack([rng.normal(size=length), rng.integers(0, 3, size=length)])
        state[rng.random(length) < 0.2, 0] = np.nan
        states.append(state)
        values.append(rng.normal(size=length))
    told = behavior.startswith("column:")
    return Episodes.from_arrays(
        states,
        None if told else values,
        behavior=behavior,
        behavior_values=values if told else None,
        horizon=HORIZON,
        categorical=["x1"],
    )


SO_FAR = History(changes=(0,), means=(0,), counts=((1, 0), (1, 1), (1, 2), (1, 7)))
_FITTED: dict[tuple[str, int | History], GoalMonitor] = {}


def monitor_of(behavior: str, k: int | History) -> GoalMonitor:
    if (behavior, k) not in _FITTED:
        runs = recorded(80, 0, behavior).with_history(k)
        monitor = GoalMonitor(Marginal(), min_calibration=5)
        _FITTED[behavior, k] = monitor.fit(runs, progress=False)
    return _FITTED[behavior, k]


def news(run: Episodes, t: int) -> dict[str, float]:
    """What comes with the state of step t, as a watch takes it."""
    if not t:
        return {}
    if run.behavior.told:
        return {"behavior": float(run._store.before[run._store.offsets[t]])}
    return {"reward": float(run.rewards_at(t - 1)[0])}


def live_rows(watch: Any, run: Episodes) -> list[tuple[float, ...]]:
    """The columns that a watch reads at each step of a recorded run of one episode."""
    rows = []
    for t in range(int(run.lengths[0])):
        watch.step(run.with_history(0).at(t).states[0], **news(run, t))
        row = watch.run_state.row
        rows.append([math.nan if one is None else one for one in row])
    return rows


@pytest.mark.parametrize("behavior", ["sum", "max", "mean", "column:level"])
@pytest.mark.parametrize("k", [1, 3, SO_FAR], ids=str)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_watch_reads_what_a_fit_reads(behavior: str, k: int | History, seed: int) -> None:
    monitor = monitor_of(behavior, k)
    run = recorded(3, seed, behavior).take([seed % 3]).compact()
    rows = live_rows(monitor.watch(TARGET), run)
    recalling = run.with_history(k)
    for t, row in enumerate(rows):
        np.testing.assert_array_equal(np.array([row]), recalling.at(t).states)


def test_live_and_recorded_runs_get_the_same_outlooks_and_a_fleet_too(tmp_path: Path) -> None:
    GoalMonitor(FOREST, history=2, min_calibration=5).fit(recorded(120, 0), progress=False).save(
        tmp_path / "one.ontarget"
    )
    monitor, new = GoalMonitor.load(tmp_path / "one.ontarget"), recorded(12, 1)
    assert monitor.history == monitor.fitted.history.steps == 2
    p = monitor.evaluate(new, TARGET).p
    runs = [new.take([i]) for i in range(len(new))]
    watches = [monitor.watch(TARGET) for _ in runs]
    fleet = monitor.fleet(TARGET, len(runs))
    for t in range(HORIZON):
        alive = [i for i, run in enumerate(runs) if run.lengths[0] > t]
        states = np.array([runs[i].at(t).states[0] for i in alive])
        rewards = np.array([runs[i].rewards_at(t - 1)[0] if t else 0.0 for i in alive])
        together = fleet.step(states, rewards, agents=alive).p
        alone = [
            watches[i].step(state, reward).p
            for i, state, reward in zip(alive, states, rewards.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(together, p[t, alive])
        np.testing.assert_array_equal(alone, p[t, alive])


@pytest.mark.parametrize("k", [3, SO_FAR], ids=str)
def test_a_stored_run_goes_on_as_if_it_had_never_been_stored(k: int | History) -> None:
    monitor, run = monitor_of("sum", k), recorded(4, 5).take([0])
    whole = live_rows(monitor.watch(TARGET), run)
    watch = monitor.watch(TARGET)
    for t in range(HORIZON):
        stored = json.loads(json.dumps(watch.run_state.to_json()))
        watch = monitor.watch(TARGET).resume(RunState.from_json(stored))
        watch.step(run.at(t).states[0], **news(run, t))
        row = [math.nan if one is None else one for one in watch.run_state.row or ()]
        np.testing.assert_array_equal(row, whole[t])
    fleet = monitor.fleet(TARGET, 1)
    fleet.resume("late", watch.run_state)
    assert fleet.run_state("late").history == watch.run_state.history


def test_what_cannot_be_read_is_remembered_as_missing() -> None:
    watch = monitor_of("sum", 1).watch(TARGET)
    watch.step([1.0, 0.0])
    watch.step(["no", "state"], 2.0)
    watch.step([3.0, 1.0], behavior=4.0)  # the reward of this step is not known
    watch.step([5.0, math.inf], math.nan)
    watch.step([7.0, 2.0], 1.0)
    names = monitor_of("sum", 1).fitted.state_schema.names
    row = dict(zip(names, watch.run_state.row or (), strict=True))
    assert row == {
        "x0": 7.0, "x1": 2.0, "x0[-1]": 5.0, "x1[-1]": None, "reward[-1]": 1.0,
        "mean(x0)": 4.0, "mean(reward)": 1.5,
    }  # fmt: skip


def test_a_state_of_another_history_is_refused() -> None:
    one, other = monitor_of("sum", 1).watch(TARGET), monitor_of("sum", 3).watch(TARGET)
    with refuses(InputError, None, "5 rows", "3 numbers", "[3, 3, 3]"):
        other.resume(one.run_state)


def test_states_without_their_history_are_refused_with_the_remedy() -> None:
    monitor = monitor_of("sum", 3)
    with refuses(InputError, "states", "(1, 2)", "with_history(3)"):
        monitor.outlook(2, [[0.0, 1.0]], 0.0, TARGET)


def hidden_speed(n: int, seed: int) -> Episodes:
    """Carts of which only the place is seen; the speed, which decides the rest, is not."""
    rng = np.random.default_rng(seed)
    speed, place = rng.normal(size=n), np.zeros(n)
    states, rewards = np.empty((n, 8, 1)), np.empty((n, 8))
    start = rng.normal(scale=3.0, size=n)
    for t in range(8):
        states[:, t, 0] = start + place
        moved = speed + rng.normal(scale=0.5, size=n)
        rewards[:, t], place = moved, place + moved
    return Episodes.from_arrays(states, rewards, ids=[f"{seed}-{i}" for i in range(n)])


def test_history_helps_where_the_state_is_not_markov() -> None:
    runs, new, target = hidden_speed(600, 0), hidden_speed(400, 1), Target.at_least(0.0)
    score = {}
    for k in (0, 2):
        monitor = GoalMonitor(QuantileForest(n_trees=40), history=k).fit(runs, progress=False)
        found = monitor.evaluate(new, target)
        score[k] = np.mean((found.p[4] - found.met) ** 2)
    assert score[2] < 0.9 * score[0]


def test_explanations_name_what_is_remembered() -> None:
    monitor = GoalMonitor(FOREST, history=1).fit(hidden_speed(200, 0), progress=False)
    watch = monitor.watch(Target.at_least(0.0))
    for t in range(3):
        watch.step([float(t)], 1.0 if t else 0.0)
    causes = {one.cause for one in watch.explain().contributions}
    assert {"x0", "x0[-1]", "mean(x0)", "reward earned", "time"} <= causes


def test_several_behaviors_and_a_history_are_refused() -> None:
    several = Episodes.from_arrays(
        np.zeros((40, 3, 1)), np.ones((40, 3)), behavior={"a": "sum", "b": "max"}
    )
    with refuses(InputError, "history", "got a, b"):
        GoalMonitor(FOREST, history=1).fit(several, progress=False)


def tool_calls(n: int, seed: int) -> Episodes:
    """Runs that call tools: the number of failed calls decides the outcome."""
    rng = np.random.default_rng(seed)
    calls = rng.choice(["search", "write", "fail"], size=(n, 8), p=[0.5, 0.3, 0.2])
    earned = np.zeros((n, 8))
    earned[:, -1] = (calls == "fail").sum(axis=1) + rng.normal(scale=0.5, size=n)
    frame = pl.DataFrame(
        {
            "episode": np.repeat([f"{seed}-{i}" for i in range(n)], 8),
            "step": np.tile(np.arange(8), n),
            "reward": earned.ravel(),
            "tool": calls.ravel(),
        }
    )
    return Episodes.from_frame(frame)


def test_the_runs_decide_whether_counts_are_read_and_they_help() -> None:
    runs, new, target = tool_calls(500, 0), tool_calls(400, 1), Target.at_most(1.5)
    chosen = GoalMonitor(QuantileForest(n_trees=40)).fit(runs, progress=False)
    names = chosen.fitted.state_schema.names
    assert names == ("tool", "count(tool=fail)", "count(tool=search)", "count(tool=write)")
    plain = GoalMonitor(QuantileForest(n_trees=40), history=0).fit(runs, progress=False)
    scores = [
        np.mean((found.p[5] - found.met) ** 2)
        for found in (monitor.evaluate(new, target) for monitor in (chosen, plain))
    ]
    assert scores[0] < 0.8 * scores[1]
