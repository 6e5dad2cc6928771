"""The skirmish environment: Gymnasium's checks, the simulator's bits."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

import ontarget.domains.envs
from ontarget.domains.envs import SkirmishEnv
from ontarget.domains.simulation import rollout_outcomes, simulate
from ontarget.domains.skirmish import Order, Skirmish
from ontarget.errors import InputError
from refusals import refuses


def test_gymnasium_finds_nothing_to_complain_of() -> None:
    assert "ontarget/Skirmish-v0" in ontarget.domains.envs.ENVIRONMENTS
    env = gymnasium.make("ontarget/Skirmish-v0")
    check_env(env.unwrapped)  # warnings are errors here
    env.close()


def test_replayed_episode_is_the_simulated_one() -> None:
    recorded = simulate(Skirmish(), 5, seed=21)
    env = SkirmishEnv()
    observation, _ = env.reset(seed=21, options={"episode": 3})
    for t in range(recorded.horizon):
        np.testing.assert_array_equal(observation, recorded.at(t).states[3])
        observation, reward, terminated, truncated, _ = env.step(env.policy())
        assert reward == recorded.rewards_at(t)[3]
        assert not terminated
        assert truncated == (t == recorded.horizon - 1)


def test_same_seed_gives_the_same_battle_and_another_seed_another() -> None:
    env = SkirmishEnv()
    first, again = env.reset(seed=1)[0], env.reset(seed=1)[0]
    np.testing.assert_array_equal(first, again)
    assert len({env.reset(seed=seed)[0].tobytes() for seed in range(20)}) > 10


def test_observations_stay_in_their_space_under_random_orders() -> None:
    env = SkirmishEnv()
    env.action_space.seed(0)
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        for _ in range(env.domain.horizon):
            assert env.observation_space.contains(observation)
            observation, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)


def test_the_oracle_starts_from_the_environments_state() -> None:
    env = SkirmishEnv()
    env.reset(seed=2)
    total = sum(env.step(Order.ATTACK)[1] for _ in range(20))
    state = env.state()
    before = state.x.copy()
    outcomes = rollout_outcomes(env.domain, state, total, 20, rollouts=8)
    assert outcomes.shape == (1, 8)
    env.step(Order.ATTACK)
    np.testing.assert_array_equal(state.x, before)


def test_misuse_is_refused_with_the_remedy() -> None:
    env = SkirmishEnv()
    with refuses(InputError, "options", "'episode'", "seed=None"):
        env.reset(options={"episode": 1})
    with refuses(InputError, "options", "'speed'"):
        env.reset(options={"speed": 2})
    env.reset(seed=0)
    with refuses(InputError, "action", 3):
        env.step(3)
