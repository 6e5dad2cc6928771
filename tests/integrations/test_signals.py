from __future__ import annotations

from typing import Any

import gymnasium
import gymnasium.vector
import numpy as np
import pytest

from ontarget import Goal, GoalMonitor, QuantileForest, Status
from ontarget.errors import InputError
from ontarget.integrations import GoalWrapper, RecordEpisodes, VectorGoalWrapper, record
from refusals import refuses

JUDGED = {"return": "sum", "energy": "sum:energy", "clearance": "min:distance"}


class Glider(gymnasium.Env[Any, Any]):
    """Four steps of noise; ``info`` tells the energy used and the distance to the nearest wall."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._t, self._at = 0, 0.0
        return np.array([self._at]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = float(self.np_random.normal())
        self._t, self._at = self._t + 1, self._at + move
        info = {"energy": abs(move), "distance": 5.0 - abs(self._at)}
        if self._silent and self._t == 2:
            del info["energy"]
        return np.array([np.clip(self._at, -10, 10)]), move, self._t == 4, False, info


def play(env: Any, seed: int) -> list[Any]:
    _, info = env.reset(seed=seed)
    found, over = [info["goal"]], False
    while not over:
        _, _, terminated, truncated, info = env.step(0)
        found.append(info["goal"])
        over = terminated or truncated
    return found


@pytest.fixture(scope="module")
def monitor() -> GoalMonitor:
    runs = record(Glider(), lambda seen: 0, 200, horizon=4, behavior=JUDGED, progress=False)
    return GoalMonitor(QuantileForest(n_trees=20, min_leaf=5)).fit(runs, progress=False)


def test_signals_are_recorded_from_info() -> None:
    runs = record(Glider(), lambda seen: 0, 20, horizon=4, behavior=JUDGED, progress=False)
    assert runs.names == tuple(JUDGED)
    alike = record(Glider(), lambda seen: 0, 20, horizon=4, progress=False)
    assert np.array_equal(runs.only("return").outcomes, alike.outcomes)
    assert np.all(runs.only("energy").outcomes >= np.abs(alike.outcomes) - 1e-6)
    wrapped = RecordEpisodes(Glider(), horizon=4, signals=["energy"])
    wrapped.reset(seed=0)
    for _ in range(4):
        wrapped.step(0)
    assert wrapped.episodes(behavior="sum:energy").outcomes[0] > 0.0


def test_a_wrapper_watches_a_goal(monitor: GoalMonitor) -> None:
    goal = Goal.parse("return >= -2 & energy <= 6 & clearance >= 1")
    watched = GoalWrapper(Glider(), monitor, goal, alarm_below=0.1)
    found = play(watched, 3)
    assert all(outlook.known for outlook in found)
    assert found[-1].status is Status.DONE
    assert "energy = " in found[-1].reason


def test_a_signal_that_info_lacks_is_unknown_by_name(monitor: GoalMonitor) -> None:
    goal = Goal.parse("return >= -2 & energy <= 6")
    found = play(GoalWrapper(Glider(silent=True), monitor, goal, alarm_below=0.1), 3)
    assert [outlook.known for outlook in found] == [True, True, False, False, False]
    assert "no signal 'energy'" in found[2].reason
    with refuses(InputError, "signals", "'energy'", "distance"):
        record(Glider(silent=True), lambda seen: 0, 2, horizon=4, behavior=JUDGED, progress=False)


VECTORS = [mode for mode in gymnasium.vector.AutoresetMode if mode.name != "DISABLED"]


def vector(mode: Any, n: int = 2) -> gymnasium.vector.SyncVectorEnv:
    return gymnasium.vector.SyncVectorEnv([Glider] * n, autoreset_mode=mode)


@pytest.mark.parametrize("mode", VECTORS, ids=lambda mode: mode.name)
def test_a_vector_brings_each_run_its_own_signals(mode: Any) -> None:
    def still(seen: np.ndarray) -> np.ndarray:
        return np.zeros(len(seen), dtype=int)

    runs = record(vector(mode), still, 12, horizon=4, behavior=JUDGED, progress=False)
    alike = record(vector(mode), still, 12, horizon=4, progress=False)
    # Each move is a reward, and its size the energy: so signals belong to their own rewards.
    moved = [np.abs(alike.rewards_at(t)) for t in range(4)]
    assert runs.only("energy").outcomes == pytest.approx(np.sum(moved, axis=0), abs=1e-6)


@pytest.mark.parametrize("mode", VECTORS, ids=lambda mode: mode.name)
@pytest.mark.parametrize("text", ["return >= -2 & energy <= 6", "energy <= 4"])
def test_a_vector_watches_a_goal_as_single_environments_do(
    monitor: GoalMonitor, mode: Any, text: str
) -> None:
    goal = Goal.parse(text)
    watched = VectorGoalWrapper(vector(mode, 1), monitor, goal, alarm_below=0.1)
    _, infos = watched.reset(seed=3)
    found = [infos["goal"].of(0)]
    for _ in range(4):
        *_, infos = watched.step(np.zeros(1, dtype=int))
        found.append(infos.get("final_goal", infos["goal"]).of(0))
    alone = play(GoalWrapper(Glider(), monitor, goal, alarm_below=0.1), 3)
    assert [one[:9] for one in found] == [one[:9] for one in alone]


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_runs_of_a_vector_can_be_taken_over_under_a_goal(monitor: GoalMonitor) -> None:
    mode = gymnasium.vector.AutoresetMode.NEXT_STEP
    goal = Goal.parse("return >= 9 & energy <= 6")  # hardly any run meets it
    watched = VectorGoalWrapper(vector(mode), monitor, goal, alarm_below=0.9)
    watched.reset(seed=3)
    watched.intervene([1])
    *_, infos = watched.step(np.zeros(2, dtype=int))
    assert "taken over" in infos["goal"].of(1).reason
    assert "taken over" not in infos["goal"].of(0).reason


def test_a_signal_without_a_name_is_refused_with_the_name_it_needs() -> None:
    # A monitor would keep no signal, and a live environment would be asked about its rewards.
    with refuses(InputError, None, "{'NAME': 'sum:energy'}"):
        record(Glider(), lambda _: 0, 2, behavior="sum:energy", progress=False, horizon=4)
