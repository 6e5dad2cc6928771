from __future__ import annotations

from itertools import chain

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from ontarget import (
    AlarmRule,
    Below,
    Episodes,
    GoalMonitor,
    Promised,
    RuledOut,
    Status,
    Target,
)
from ontarget.errors import HorizonWarning, InputError
from ontarget.integrations import (
    GoalWrapper,
    RecordEpisodes,
    RecordVectorEpisodes,
    VectorGoalWrapper,
    record,
)
from refusals import refuses
from tests.integrations.cartpole import HARD, TARGET, make, monitor, push
from tests.integrations.test_goal import HORIZON, walk_monitor
from tests.integrations.toys import Drifting, Scripted, do_nothing

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.HorizonWarning")

MODES = list(AutoresetMode)
SEED = 11


def vector(factory, n: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([factory] * n, autoreset_mode=mode)


def single_outlooks(env, seed: int, policy, runs: int):
    """The outlooks of several runs; only the first is seeded, as with autoreset."""
    found = []
    for run in range(runs):
        observation, info = env.reset(seed=seed if run == 0 else None)
        found.append([info["goal"]])
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(policy(observation))
            found[-1].append(info["goal"])
            over = terminated or truncated
    return found


def vector_outlooks(envs, policy, runs: int):
    """The outlooks of each environment's first runs, told apart by the rules of each mode."""
    n = envs.num_envs
    mode = envs.metadata["autoreset_mode"]
    found = [[[]] for _ in range(n)]
    observations, infos = envs.reset(seed=SEED)
    for i in range(n):
        found[i][-1].append(infos["goal"].of(i))
    while min(len(one) for one in found) <= runs:
        observations, _, terminated, truncated, infos = envs.step(policy(observations))
        over = terminated | truncated
        for i in range(n):
            now = infos["goal"].of(i)
            if over[i] and mode is AutoresetMode.SAME_STEP:
                assert infos["_final_goal"][i]
                found[i][-1].append(infos["final_goal"].of(i))
                found[i].append([now])
            elif over[i]:
                found[i][-1].append(now)
                found[i].append([])
            else:
                found[i][-1].append(now)
        if mode is AutoresetMode.DISABLED and over.any():
            observations, infos = envs.reset(options={"reset_mask": over})
            for i in np.flatnonzero(over):
                found[i][-1].append(infos["goal"].of(i))
    return [one[:runs] for one in found]


def assert_same(found, expected) -> None:
    assert [len(run) for run in found] == [len(run) for run in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert (one.t, one.status) == (other.t, other.status)
        assert np.array_equal(one.spread, other.spread, equal_nan=True)
        assert np.array_equal((one.p, *one[3:7]), (other.p, *other[3:7]), equal_nan=True)
        assert (one.n, one.reason) == (other.n, other.reason)


@pytest.mark.parametrize("rule", [Below(0.3), Promised(0.2), RuledOut(0.1)], ids=repr)
@pytest.mark.parametrize("mode", MODES)
def test_cartpoles_in_a_vector_have_the_outlooks_of_single_ones(
    mode: AutoresetMode, rule: AlarmRule
) -> None:
    envs = VectorGoalWrapper(vector(make, 4, mode), monitor(), HARD, alarm=rule)
    found = vector_outlooks(envs, push, runs=3)
    for i in range(4):
        alone = GoalWrapper(make(), monitor(), HARD, alarm=rule)
        assert_same(found[i], single_outlooks(alone, SEED + i, push, runs=3))
    assert any(one.alarm for runs in found for run in runs for one in run)


def short() -> gymnasium.Env:
    """Shorter than the monitor's horizon, and some runs terminate before that."""
    return TimeLimit(Drifting(fall=-1.0), max_episode_steps=HORIZON - 3)


def long() -> gymnasium.Env:
    """Longer than the monitor's horizon."""
    return TimeLimit(Drifting(fall=-2.0), max_episode_steps=HORIZON + 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("behavior", ["sum", "max", "discounted:0.9"])
@pytest.mark.parametrize("factory", [short, long])
def test_horizons_and_behaviors_are_handled_as_for_single_ones(factory, behavior, mode) -> None:
    fitted, target = walk_monitor(behavior), Target.at_least(0.0)
    envs = VectorGoalWrapper(vector(factory, 3, mode), fitted, target, for_steps=2)
    found = vector_outlooks(envs, do_nothing, runs=4)
    states = set()
    for i in range(3):
        alone = GoalWrapper(factory(), fitted, target, for_steps=2)
        assert_same(found[i], single_outlooks(alone, SEED + i, do_nothing, runs=4))
        states |= {one.status for run in found[i] for one in run}
    assert {Status.UNKNOWN, Status.DONE} <= states


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_a_vector_that_runs_on_after_the_horizon_is_warned_of() -> None:
    envs = vector(long, 2, MODES[0])
    with pytest.warns(HorizonWarning, match=f"{HORIZON + 3} steps") as told:
        VectorGoalWrapper(envs, walk_monitor(), TARGET)
    longer = [one.filename for one in told if one.category is HorizonWarning]
    assert longer == [__file__]


@pytest.mark.parametrize("mode", MODES)
def test_an_alarm_names_its_environment(mode: AutoresetMode) -> None:
    told = []
    envs = VectorGoalWrapper(
        vector(make, 3, mode),
        monitor(),
        TARGET,
        alarm_below=0.3,
        on_alarm=lambda outlook, envs, index: told.append((index, outlook.t, outlook.p)),
    )
    vector_outlooks(envs, push, runs=2)
    expected = []
    for i in range(3):
        alone = GoalWrapper(
            make(),
            monitor(),
            TARGET,
            alarm_below=0.3,
            on_alarm=lambda outlook, env, i=i: expected.append((i, outlook.t, outlook.p)),
        )
        single_outlooks(alone, SEED + i, push, runs=2)
    assert expected
    assert set(expected) <= set(told)


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_each_environment_may_have_a_group_of_its_own() -> None:
    rng = np.random.default_rng(0)
    drift = np.repeat([-1.0, 1.0], 150)
    moves = rng.normal(size=(300, HORIZON)) + drift[:, None]
    grouped = Episodes.from_arrays(
        rng.normal(size=(300, HORIZON, 2)), moves, groups=np.where(drift < 0.0, "down", "up")
    )
    fitted, target = GoalMonitor(group="group").fit(grouped, progress=False), Target.at_least(0.0)
    envs = vector(lambda: Drifting(-np.inf), 2, AutoresetMode.NEXT_STEP)
    watched = VectorGoalWrapper(envs, fitted, target, groups=["down", "up"])
    _, infos = watched.reset(seed=SEED)
    for i, group in enumerate(("down", "up")):
        _, info = GoalWrapper(Drifting(), fitted, target, group=group).reset(seed=SEED + i)
        assert infos["goal"].of(i)[:9] == info["goal"][:9]
    assert infos["goal"].p[0] < 0.3 < 0.7 < infos["goal"].p[1]


def single_episodes(factory, seed: int, policy, runs: int):
    env = RecordEpisodes(factory())
    for run in range(runs):
        seen, _ = env.reset(seed=seed if run == 0 else None)
        while env.recording:
            seen, *_ = env.step(policy(seen))
    return env.episodes(censored="drop")


@pytest.mark.parametrize("mode", MODES)
def test_a_recorded_vector_holds_the_runs_of_single_environments(mode: AutoresetMode) -> None:
    recorded = record(vector(make, 3, mode), push, 8, seed=SEED, progress=False)
    assert len(recorded) == 8
    alone = [single_episodes(make, SEED + i, push, runs=3) for i in range(3)]
    # The first two environments play three runs each, the last plays two.
    expected = [alone[i].outcomes[k] for i in range(3) for k in range(3 - (i == 2))]
    assert sorted(recorded.outcomes) == sorted(expected)
    first = recorded.at(0).states
    for i in range(3):
        assert np.array_equal(first[i], alone[i].at(0).states[0])
    last = int(recorded.lengths[1]) - 1
    assert np.array_equal(
        recorded.take([1]).at(last).states[0], alone[1].take([0]).at(last).states[0]
    )


@pytest.mark.parametrize("mode", MODES)
def test_runs_that_never_end_are_cut_at_the_horizon(mode: AutoresetMode) -> None:
    envs = vector(lambda: Drifting(fall=-np.inf), 2, mode)
    recorded = record(envs, do_nothing, 5, horizon=4, progress=False)
    assert recorded.lengths.tolist() == [4] * 5


@pytest.mark.parametrize("mode", MODES)
def test_the_reward_of_a_reset_step_is_not_counted(mode: AutoresetMode) -> None:
    envs = vector(lambda: Scripted(terminate_after=3), 2, mode)
    recorded = record(envs, do_nothing, 6, progress=False)
    assert recorded.outcomes.tolist() == [-0.5] * 6
    assert recorded.lengths.tolist() == [3] * 6


def test_short_runs_are_not_favoured() -> None:
    class Lengthy(Scripted):
        """Odd environments play long runs, even ones short."""

        made = 0

        def __init__(self) -> None:
            Lengthy.made += 1
            super().__init__(terminate_after=2 if Lengthy.made % 2 else 20)

    recorded = record(SyncVectorEnv([Lengthy] * 4), do_nothing, 8, progress=False)
    assert sorted(recorded.lengths.tolist()) == [2] * 4 + [20] * 4


def test_gymnasiums_own_vector_of_cartpoles_is_understood() -> None:
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    recorded = record(envs, push, 6, seed=3, progress=False)
    assert recorded.horizon == 500
    assert recorded.outcomes.tolist() == recorded.lengths.astype(float).tolist()


def test_an_environment_that_hides_how_it_resets_is_refused() -> None:
    envs = vector(make, 2, AutoresetMode.NEXT_STEP)
    del envs.metadata["autoreset_mode"]
    with refuses(InputError, "env", "['autoreset_mode']", None):
        RecordVectorEpisodes(envs)


def test_a_behavior_that_is_read_needs_single_environments() -> None:
    envs = vector(Drifting, 2, AutoresetMode.NEXT_STEP)
    with refuses(InputError, None, "'column:height'", "GoalWrapper"):
        VectorGoalWrapper(envs, walk_monitor("column:height"), Target.at_least(0.0))
    with refuses(InputError, "behavior_value", "vector"):
        record(envs, do_nothing, 2, behavior_value=lambda seen, info: 0.0)
