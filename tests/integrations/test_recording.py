from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from ontarget import Episodes
from ontarget.errors import CensoredError, EpisodesError, HorizonWarning, InputError
from ontarget.integrations import RecordEpisodes, record
from refusals import refuses
from tests.integrations.toys import REWARDS, Drifting, Halved, Scripted, VecEnv, do_nothing

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.HorizonWarning")


def rows_of(episodes: Episodes, i: int = 0) -> tuple[list[list[float]], list[float]]:
    one = episodes.take([i])
    steps = range(int(one.lengths[0]))
    return (
        [one.at(t).states[0].tolist() for t in steps],
        [float(one.rewards_at(t)[0]) for t in steps],
    )


def test_a_state_is_what_was_seen_before_acting() -> None:
    episodes = record(Scripted(terminate_after=4), do_nothing, 1, progress=False)
    states, rewards = rows_of(episodes)
    assert states == [[0.0, 0.0], [1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]
    assert rewards == list(REWARDS[:4])
    assert episodes.outcomes.tolist() == [sum(REWARDS[:4])]


def test_the_wrapper_changes_nothing() -> None:
    plain, recorded = (gymnasium.make("CartPole-v1") for _ in range(2))
    recorded = RecordEpisodes(recorded)
    answers = [env.reset(seed=3) for env in (plain, recorded)]
    assert np.array_equal(answers[0][0], answers[1][0])
    for step in range(30):
        one, other = (env.step(step % 2) for env in (plain, recorded))
        assert np.array_equal(one[0], other[0])
        assert one[1:] == other[1:]
        if one[2]:
            break
    assert recorded.episodes().lengths.tolist() == [step + 1]


def test_a_run_cut_at_the_time_limit_is_complete() -> None:
    env = TimeLimit(Scripted(), max_episode_steps=5)
    episodes = record(env, do_nothing, 3, progress=False)
    assert episodes.horizon == 5
    assert episodes.truncated.tolist() == [True] * 3
    assert episodes.outcomes.tolist() == [sum(REWARDS)] * 3


def test_a_run_cut_elsewhere_is_censored() -> None:
    env = TimeLimit(Scripted(truncate_after=3), max_episode_steps=5)
    with refuses(CensoredError, "horizon", "3 of 3"):
        record(env, do_nothing, 3, progress=False)


def test_a_run_reset_before_its_end_is_censored_and_one_in_progress_left_out() -> None:
    env = RecordEpisodes(TimeLimit(Scripted(), max_episode_steps=4))
    for steps in (4, 2, 4, 1):
        env.reset()
        for _ in range(steps):
            env.step(0)
    with refuses(CensoredError, "censored", "1 of 3"):
        env.episodes()
    kept = env.episodes(censored="drop")
    assert kept.ids.tolist() == [0, 2]
    assert kept.dropped == 1


def test_a_run_stops_at_the_horizon_that_was_asked_for() -> None:
    episodes = record(Drifting(fall=-np.inf), do_nothing, 4, horizon=6, progress=False)
    assert episodes.lengths.tolist() == [6] * 4
    assert episodes.horizon == 6


def test_a_horizon_beyond_the_time_limit_censors() -> None:
    env = TimeLimit(Scripted(), max_episode_steps=5)
    with refuses(CensoredError, "horizon", "horizon 8"):
        record(env, do_nothing, 1, horizon=8, progress=False)


def test_an_environment_without_a_time_limit_is_recorded_with_a_warning() -> None:
    with pytest.warns(HorizonWarning, match="horizon=") as told:
        record(Scripted(terminate_after=4), do_nothing, 2, progress=False)
    assert [one.filename for one in told] == [__file__]


@pytest.mark.filterwarnings("error::ontarget.errors.HorizonWarning")
def test_a_time_limit_or_a_horizon_needs_no_warning() -> None:
    record(TimeLimit(Drifting(), max_episode_steps=5), do_nothing, 2, progress=False)
    record(Drifting(), do_nothing, 2, horizon=5, progress=False)


def test_a_longer_recording_begins_with_the_shorter() -> None:
    long, short = (
        record(Drifting(), do_nothing, n, seed=4, horizon=8, progress=False) for n in (6, 3)
    )
    for i in range(3):
        assert rows_of(long, i) == rows_of(short, i)
    assert long.ids.tolist()[:3] == short.ids.tolist() == ["4-0", "4-1", "4-2"]


def test_another_seed_gives_other_runs_and_other_ids() -> None:
    one, other = (
        record(Drifting(), do_nothing, 3, seed=s, horizon=8, progress=False) for s in (0, 1)
    )
    assert rows_of(one)[0] != rows_of(other)[0]
    assert not set(one.ids.tolist()) & set(other.ids.tolist())


def test_categories_stay_categories_through_a_file(tmp_path) -> None:
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=20)
    episodes = record(env, lambda seen: int(seen) % 4, 5, progress=False)
    assert episodes.schema.features[0].categorical
    episodes.write(tmp_path / "lake.parquet")
    assert Episodes.read(tmp_path / "lake.parquet").schema == episodes.schema


def test_features_may_have_names_of_their_own() -> None:
    episodes = record(
        Scripted(terminate_after=2), do_nothing, 1, features=["left", "right"], progress=False
    )
    assert episodes.schema.names == ("left", "right")
    with refuses(InputError, "features", "x0, x1", "got 1"):
        record(Scripted(terminate_after=2), do_nothing, 1, features=["a"], progress=False)


def test_a_behavior_can_be_read_from_info() -> None:
    episodes = record(
        Scripted(terminate_after=3),
        do_nothing,
        2,
        behavior="column:height",
        behavior_value=lambda seen, info: info["height"],
        progress=False,
    )
    assert episodes.outcomes.tolist() == [30.0, 30.0]
    assert episodes.at(2).behavior.tolist() == [20.0, 20.0]
    with refuses(InputError, None, "'column:h'", "behavior_value"):
        record(Scripted(terminate_after=3), do_nothing, 1, behavior="column:h", progress=False)


@pytest.mark.parametrize(("behavior", "outcome"), [("max", 4.0), ("last", 0.5), ("mean", -0.5 / 3)])
def test_behaviors_are_computed_from_rewards(behavior: str, outcome: float) -> None:
    steps = 4 if behavior == "max" else 3
    env = Scripted(terminate_after=steps)
    episodes = record(env, do_nothing, 1, behavior=behavior, progress=False)
    assert episodes.outcomes[0] == pytest.approx(outcome)


def test_a_policys_reset_is_called_where_a_run_begins() -> None:
    class Counting:
        begun = 0

        def reset(self) -> None:
            self.begun += 1

        def __call__(self, seen) -> int:
            return 0

    policy = Counting()
    record(Scripted(terminate_after=2), policy, 5, progress=False)
    assert policy.begun == 5


def test_what_cannot_be_recorded_is_refused() -> None:
    with refuses(InputError, "episodes", 0):
        record(Scripted(terminate_after=2), do_nothing, 0)
    with refuses(InputError, "policy", "str"):
        record(Scripted(terminate_after=2), "left", 1)
    with refuses(InputError, "env", "str"):
        record("CartPole-v1", do_nothing, 1)
    actions = Scripted().action_space
    for space in (actions, actions.sample):
        with refuses(InputError, "policy", "env.action_space.sample()"):
            record(Scripted(terminate_after=2), space, 1)
    with refuses(EpisodesError, None, "no run"):
        RecordEpisodes(Scripted()).episodes()


def limited(after: int = 6) -> gymnasium.Env:
    return TimeLimit(Drifting(fall=-1.0), max_episode_steps=after)


@pytest.mark.parametrize("kind", [VecEnv, Halved])
def test_a_vec_env_of_stable_baselines3_is_recorded(kind: type[VecEnv]) -> None:
    env = kind([limited] * 3)
    episodes = record(env, do_nothing, 20, progress=False)
    assert (len(episodes), episodes.horizon) == (20, 6)
    assert episodes.truncated.tolist() == (episodes.lengths == 6).tolist()
    assert 0 < episodes.truncated.sum() < 20
    for i in range(20):
        states, rewards = rows_of(episodes, i)
        # The first feature is the sum of the moves so far, which are the rewards.
        assert np.allclose([state[0] for state in states], np.cumsum([0.0, *rewards])[:-1])


def test_runs_of_a_vec_env_stop_at_the_horizon_and_begin_anew() -> None:
    env = VecEnv([lambda: Scripted(terminate_after=5)] * 2)
    episodes = record(env, do_nothing, 5, horizon=3, progress=False)
    assert episodes.lengths.tolist() == [3] * 5
    assert rows_of(episodes, 4)[0] == [[0.0, 0.0], [1.0, -1.0], [2.0, -2.0]]
    with refuses(InputError, "behavior_value", "vector"):
        record(env, do_nothing, 5, behavior_value=lambda seen, info: 0.0, progress=False)


def test_an_environment_that_never_ends_is_cut_off_after_max_steps() -> None:
    never = Drifting(fall=-np.inf)
    with refuses(CensoredError, "horizon", "3 of 3"):
        record(never, do_nothing, 3, max_steps=8, progress=False)
    some = record(Drifting(fall=-1.0), do_nothing, 9, max_steps=8, censored="drop", progress=False)
    assert 0 < some.dropped < 9
    assert not some.truncated.any()


def test_numbers_that_are_only_names_are_recorded_as_categories() -> None:
    episodes = record(
        limited(), do_nothing, 2, features=["at", "kind"], categorical=["kind"], progress=False
    )
    assert [one.categorical for one in episodes.schema.features] == [False, True]
    with refuses(InputError, "categorical", "'mood'"):
        record(limited(), do_nothing, 2, categorical=["mood"], progress=False)


def test_a_recording_takes_over_what_an_earlier_one_says() -> None:
    first = record(
        limited(),
        do_nothing,
        4,
        features=["at", "kind"],
        categorical=["kind"],
        behavior="max",
        progress=False,
    )
    again = record(Drifting(fall=-1.0), do_nothing, 4, seed=1, like=first, progress=False)
    assert (again.schema, again.horizon) == (first.schema, 6)
    assert again.behavior == first.behavior
    other = record(limited(), do_nothing, 4, like=first, behavior="sum", progress=False)
    assert other.behavior.spec == "sum"
