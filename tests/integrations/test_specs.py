"""A wrapper's constructor arguments are recorded, so that ``env.spec`` builds it again."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from ontarget import GoalMonitor, RuledOut
from ontarget.integrations import (
    GoalWrapper,
    RecordEpisodes,
    RecordVectorEpisodes,
    VectorGoalWrapper,
)
from tests.integrations.cartpole import HARD, LIMIT, TARGET, make, monitor, push
from tests.integrations.test_goal import live


def play(env: RecordEpisodes) -> None:
    seen, _ = env.reset(seed=1)
    while env.recording:
        seen, *_ = env.step(push(seen))


def test_a_watched_environment_is_built_again_from_its_spec() -> None:
    alarms: list[int] = []
    watched = GoalWrapper(
        make(),
        monitor(),
        TARGET,
        on_alarm=lambda outlook, env: alarms.append(outlook.t),
        alarm_below=0.9,
        for_steps=2,
    )
    again = gymnasium.make(watched.spec)
    assert isinstance(again, GoalWrapper)
    assert again.spec.max_episode_steps == LIMIT
    assert live(again, 5, push) == live(watched, 5, push)
    half = len(alarms) // 2
    assert half > 0
    assert alarms[:half] == alarms[half:], "both tell the same function"


def test_a_loaded_monitor_watches_and_is_kept_in_the_spec(tmp_path: Path) -> None:
    monitor().save(tmp_path / "pole.ontarget")
    loaded = GoalMonitor.load(tmp_path / "pole.ontarget")
    watched = GoalWrapper(make(), loaded, HARD, alarm=RuledOut(0.1))
    fitted = GoalWrapper(make(), monitor(), HARD, alarm=RuledOut(0.1))
    assert live(watched, 5, push) == live(fitted, 5, push)
    # A copy of the spec copies what it holds; a loaded monitor can be copied, and pickled.
    spec = pickle.loads(pickle.dumps(deepcopy(watched.spec)))
    again = gymnasium.make(spec)
    assert again._saved_kwargs["monitor"] is not loaded
    assert live(again, 5, push) == live(fitted, 5, push)


def test_the_monitor_itself_is_in_the_spec_not_a_copy() -> None:
    watched = GoalWrapper(make(), monitor(), TARGET, key="outlook")
    saved = watched.spec.additional_wrappers[-1].kwargs
    assert saved["monitor"] is monitor()
    assert saved["key"] == "outlook"


def test_a_wrapper_over_a_watched_environment_keeps_it_in_the_spec() -> None:
    inner = GoalWrapper(make(), monitor(), TARGET, alarm_below=0.3)
    again = gymnasium.make(RecordEpisodeStatistics(inner).spec)
    assert isinstance(again, RecordEpisodeStatistics)
    assert isinstance(again.env, GoalWrapper)
    assert live(again, 3, push) == live(inner, 3, push)


def test_a_recorded_environment_is_built_again_without_its_runs() -> None:
    names = ["cart", "speed", "angle", "turn"]
    recorded = RecordEpisodes(make(), horizon=20, features=names)
    names[0] = "changed later"
    play(recorded)
    again = gymnasium.make(recorded.spec)
    play(again)
    one, other = recorded.episodes(), again.episodes()
    assert other.schema.names == one.schema.names == ("cart", "speed", "angle", "turn")
    assert (len(other), other.horizon) == (1, 20)
    assert np.array_equal(other.at(3).states, one.at(3).states)


def test_vector_wrappers_record_their_arguments_too() -> None:
    # Gymnasium leaves vector wrappers out of specs, its own included.
    recorded = RecordVectorEpisodes(SyncVectorEnv([make] * 2), horizon=9, share=[1, 2])
    assert recorded._saved_kwargs == {"horizon": 9, "share": [1, 2], "signals": ()}
    watched = VectorGoalWrapper(SyncVectorEnv([make]), monitor(), TARGET, alarm_below=0.2)
    again = VectorGoalWrapper(SyncVectorEnv([make]), **watched._saved_kwargs)
    assert again._saved_kwargs["monitor"] is monitor()
    seen = (again.reset(seed=4)[1]["goal"], watched.reset(seed=4)[1]["goal"])
    assert np.array_equal(seen[0].p, seen[1].p)
