from __future__ import annotations

import importlib
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ontarget.domains.envs
from ontarget._grid import snap
from ontarget.domains import Tamarisk, TamariskParameters, simulate
from ontarget.domains.envs import TamariskEnv
from ontarget.errors import InputError, MissingExtraError
from refusals import refuses

PRESETS = ["paper", "competition", "rare-deaths", "tight-budget"]


def test_both_environments_are_registered() -> None:
    assert set(ontarget.domains.envs.ENVIRONMENTS) <= set(gymnasium.registry)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_gymnasiums_own_checker_finds_nothing(preset: str) -> None:
    env = gymnasium.make("ontarget/Tamarisk-v0", parameters=preset)
    check_env(env.unwrapped)  # a warning would be an error here
    assert env.action_space == gymnasium.spaces.MultiDiscrete([4] * 7)


@pytest.mark.parametrize("preset", PRESETS)
def test_under_the_fixed_policy_it_is_the_simulators_episode(preset: str) -> None:
    episodes = simulate(Tamarisk(preset), 4, seed=5)
    env = TamariskEnv(preset)
    for number in (0, 3):
        observation, _ = env.reset(seed=5, options={"episode": number})
        total, truncated, t = 0.0, False, 0
        while not truncated:
            assert np.array_equal(observation, episodes.at(t).states[number])
            observation, reward, terminated, truncated, info = env.step(env.policy())
            assert info["legal"]
            assert not terminated
            total, t = total + reward, t + 1
        assert (t, snap(total, episodes.grid)) == (50, episodes.outcomes[number])


def test_an_illegal_action_is_punished_and_told() -> None:
    env = TamariskEnv()
    env.reset(seed=0, options={"edges": [0, 1, 2, 0, 1, 2, 0]})
    observation, reward, _, _, info = env.step(np.array([1, 0, 0, 0, 0, 0, 0]))
    assert observation.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert reward == -10_000.0
    assert not info["legal"]


def test_an_action_over_budget_is_punished_and_told() -> None:
    env = TamariskEnv("tight-budget")
    env.reset(seed=0, options={"edges": [2] * 7})
    observation, reward, _, _, info = env.step(np.array([3] * 3 + [0] * 4))
    assert (reward, info["legal"], info["spent"]) == (-10_000.0, False, 5.1)
    assert observation.tolist() == [2] * 7
    _, reward, _, _, info = env.step(np.array([3] * 2 + [1] + [0] * 4))
    assert (reward, info["legal"], info["spent"]) == (-75.0, True, 4.3)


def test_mask_holds_exactly_the_legal_actions() -> None:
    env = TamariskEnv(TamariskParameters(edges=3))
    _, info = env.reset(seed=0, options={"edges": [0, 1, 2]})
    assert info["action_mask"].tolist() == [
        [True, False, False, False],
        [True, False, True, False],
        [True, True, False, True],
    ]


def test_same_seed_gives_the_same_episode_and_the_next_another() -> None:
    env = TamariskEnv()
    first = [env.reset(seed=1)[0].tolist(), env.reset()[0].tolist()]
    assert first == [env.reset(seed=1)[0].tolist(), env.reset()[0].tolist()]
    assert first[0] != first[1]


def test_state_is_a_copy_for_the_oracle() -> None:
    env = TamariskEnv()
    observation, _ = env.reset(seed=1)
    state = env.state()
    env.step(env.policy())
    assert np.array_equal(state.edges[0], observation)


@pytest.mark.parametrize(
    ("call", "argument", "shown"),
    [
        (lambda env: env.step(np.array([0, 0])), "action", "0 to 3"),
        (lambda env: env.step(np.array([4] * 7)), "action", "[4, 4"),
        (lambda env: env.step(np.array([0.5] * 7)), "action", "[0.5, 0.5"),
        (lambda env: env.reset(options={"episode": 1}), "options", "seed=None"),
        (lambda env: env.reset(options={"edges": [3] * 7}), "edges", "[3, 3"),
        (lambda env: env.reset(options={"river": 1}), "options", "'river'"),
    ],
)
def test_bad_calls_are_refused(call: object, argument: str, shown: str) -> None:
    env = TamariskEnv()
    env.reset(seed=0)
    with refuses(InputError, argument, shown):
        call(env)  # type: ignore[operator]


def test_a_step_needs_an_episode_under_way() -> None:
    env = TamariskEnv(TamariskParameters(edges=1, horizon=1))
    with refuses(InputError, None, "reset()"):
        env.step(np.zeros(1, dtype=np.int64))
    env.reset(seed=0, options={"edges": [0]})
    assert env.step(np.zeros(1, dtype=np.int64))[3]
    with refuses(InputError, None, "reset()"):
        env.step(np.zeros(1, dtype=np.int64))


def test_without_gymnasium_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium.envs.registration", None)
    monkeypatch.delitem(sys.modules, "ontarget.domains.envs")
    with refuses(MissingExtraError, None, "'ontarget[gym]'"):
        importlib.import_module("ontarget.domains.envs")
