"""Runs that somebody took over, in environments: every wrapper knows, and none is learned from."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ontarget import GoalMonitor, Status, Target
from ontarget.errors import CensoredError
from ontarget.integrations import (
    GoalWrapper,
    RecordEpisodes,
    RecordVectorEpisodes,
    VectorGoalWrapper,
    record,
)
from ontarget.models import Marginal
from refusals import refuses
from tests.integrations.toys import Drifting, do_nothing

HORIZON = 8
GOAL = Target.at_least(0.0)


def drifting() -> Drifting:
    """A walk that nothing ends before the horizon."""
    return Drifting(fall=-99.0)


WALKS = record(drifting(), do_nothing, 60, horizon=HORIZON, progress=False)
MONITOR = GoalMonitor(Marginal(), min_calibration=5).fit(WALKS, progress=False)

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.HorizonWarning")


def play(env, seed: int, *, taken_at: int | None = None, steps: int = HORIZON) -> list:
    """The outlooks of one run; somebody may take it over before a step."""
    _, info = env.reset(seed=seed)
    found = [info.get("goal")]
    for t in range(steps):
        if t == taken_at:
            env.intervene()
        found.append(env.step(0)[-1].get("goal"))
    return found


def test_the_outermost_wrapper_tells_the_others() -> None:
    inside = RecordEpisodes(drifting(), horizon=HORIZON)
    watched = GoalWrapper(inside, MONITOR, GOAL)
    outside = RecordEpisodes(watched, horizon=HORIZON)
    play(outside, 0)
    said = play(outside, 1, taken_at=3)
    play(outside, 2)
    assert watched.watch.intervened_at is None  # the next run began
    assert "taken over at step 3" in said[-1].reason
    for recorder in (inside, outside):
        runs = recorder.episodes()
        assert runs.ids.tolist() == [0, 2]
        assert runs.remarks[0].startswith("somebody took over 1 of 3 runs, which are left out")


def test_they_count_as_cut_off_where_somebody_took_over_if_asked() -> None:
    env = RecordEpisodes(drifting(), horizon=HORIZON)
    for seed, t in enumerate((None, 3, 0)):
        play(env, seed, taken_at=t)
    runs = env.episodes(censored="worst-case")
    assert runs.lengths.tolist() == [HORIZON, 3, 1]
    assert runs.cut_off.tolist() == [False, True, True]
    alone = RecordEpisodes(drifting(), horizon=HORIZON)
    play(alone, 0, taken_at=2)
    with refuses(CensoredError, None, "all 1"):
        alone.episodes()


def test_an_alarm_may_call_for_the_switch_and_its_outlook_says_so() -> None:
    env = GoalWrapper(
        drifting(), MONITOR, GOAL, alarm_below=1.0, on_alarm=lambda _, own: own.intervene()
    )
    first, *rest = play(env, 3, steps=4)
    assert "taken over at step 0" in first.reason
    assert {one.status for one in rest} == {Status.ALARM}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_marks_the_environments_that_were_taken_over(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv([drifting] * 3, autoreset_mode=mode)
    recorder = RecordVectorEpisodes(envs, horizon=HORIZON)
    watched = VectorGoalWrapper(recorder, MONITOR, GOAL, alarm_below=1.0)
    watched.reset(seed=1)
    nothing = np.array([0] * 3)
    watched.step(nothing)
    watched.intervene([1])
    infos = watched.step(nothing)[-1]
    taken = ["taken over at step 1" in one for one in infos["goal"].reason]
    assert taken == [False, True, False]
    for _ in range(HORIZON):
        watched.step(nothing)
    assert 1 not in recorder.episodes().ids[:3].tolist()
