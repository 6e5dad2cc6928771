from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from ontarget import Status
from ontarget.errors import InputError
from ontarget.integrations import GoalWrapper, ModelPolicy, record
from tests.integrations.cartpole import LIMIT, TARGET, make, monitor
from tests.integrations.test_goal import live, walk_monitor
from tests.integrations.toys import Drifting, do_nothing

torch = pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'ontarget[sb3]'")
sb3 = pytest.importorskip(
    "stable_baselines3", reason="Stable-Baselines3 is not installed; pip install 'ontarget[sb3]'"
)

from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from ontarget.integrations.stable_baselines3 import GoalCallback  # noqa: E402
from refusals import refuses  # noqa: E402

torch.set_num_threads(1)  # the networks are tiny; threads only wait for each other

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


class Noting(GoalCallback):
    """Keeps what the callback saw and logged at every step."""

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self.outlooks = [self.outlook]
        self.logged: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        kept = super()._on_step()
        self.outlooks.append(self.outlook)
        self.logged.append(dict(self.logger.name_to_value))
        return kept


def assert_unknown_only_where_few_runs_reach(callback: Noting) -> None:
    for outlook in callback.outlooks:
        assert all("reach this step" in reason for reason in outlook.reason[~outlook.known])


def ppo(env: Any, **options: Any) -> Any:
    return sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=0, device="cpu", **options)


def test_training_logs_the_probability_and_the_alarms() -> None:
    callback = Noting(monitor(), TARGET, alarm_below=0.3)
    env = DummyVecEnv([make] * 3)
    ppo(env).learn(64 * 3 * 4, callback=callback)
    logged = callback.logged[-1]
    assert 0.0 < logged["goal/probability"] <= 1.0
    assert 0.0 <= logged["goal/alarm"] <= 1.0
    assert 0.0 <= logged["goal/met"] <= 1.0
    assert_unknown_only_where_few_runs_reach(callback)


def test_the_callback_sees_what_a_wrapper_sees() -> None:
    callback = Noting(monitor(), TARGET, alarm_below=0.3)
    told: list[list[Any]] = [[] for _ in range(2)]

    class Telling(GoalWrapper):
        def reset(self, **options):
            seen, info = super().reset(**options)
            told[self.number].append(info["goal"])
            return seen, info

        def step(self, action):
            *answer, info = super().step(action)
            if not (answer[2] or answer[3]):  # a reset follows, with an outlook of its own
                told[self.number].append(info["goal"])
            return *answer, info

    def factory(number: int):
        def made() -> GoalWrapper:
            env = Telling(make(), monitor(), TARGET, alarm_below=0.3)
            env.number = number
            return env

        return made

    ppo(DummyVecEnv([factory(0), factory(1)])).learn(300, callback=callback)
    assert len(callback.outlooks) > 300 / 2
    for i in range(2):
        seen = [outlook.of(i) for outlook in callback.outlooks]
        assert [one[:7] for one in seen] == [one[:7] for one in told[i]]
        assert [one.status for one in seen] == [one.status for one in told[i]]


def test_normalised_training_is_watched_in_the_environments_own_numbers() -> None:
    plain, normal = Noting(monitor(), TARGET), Noting(monitor(), TARGET)
    for callback, wrap in ((plain, lambda env: env), (normal, VecNormalize)):
        env = wrap(DummyVecEnv([make]))
        env.seed(4)
        # The first action differs once the network sees other numbers; the first outlook may not.
        ppo(env).learn(64, callback=callback)
    assert plain.outlooks[0].of(0) == normal.outlooks[0].of(0)
    assert_unknown_only_where_few_runs_reach(normal)
    assert [outlook.t[0] for outlook in normal.outlooks[:5]] == [0, 1, 2, 3, 4]


def test_training_that_goes_on_knows_nothing_of_runs_in_the_middle() -> None:
    model = ppo(DummyVecEnv([lambda: make(LIMIT)]))
    model.learn(64)
    callback = Noting(monitor(), TARGET)
    model.learn(64, callback=callback, reset_num_timesteps=False)
    states = [Status(int(outlook.status[0])) for outlook in callback.outlooks]
    assert states[0] is Status.PENDING
    known = [state is not Status.UNKNOWN for state in states[1:]]
    assert not known[0]
    assert known[-1]
    assert known == sorted(known)


def test_an_off_policy_model_is_watched_too() -> None:
    callback = Noting(monitor(), TARGET)
    model = sb3.DQN("MlpPolicy", make(), learning_starts=20, buffer_size=200, seed=0, device="cpu")
    model.learn(150, callback=callback)
    assert_unknown_only_where_few_runs_reach(callback)
    assert len(callback.outlooks) > 150


def test_a_trained_model_is_recorded_and_watched() -> None:
    model = ppo(DummyVecEnv([make] * 4))
    model.learn(1_000)
    episodes = record(make(), model, 20, progress=False)
    assert len(episodes) == 20
    again = record(make(), ModelPolicy(model, deterministic=True), 20, progress=False)
    assert episodes.outcomes.tolist() == again.outcomes.tolist()
    watched = GoalWrapper(make(), monitor(), TARGET)
    found = live(watched, 0, lambda seen: int(model.predict(seen, deterministic=True)[0]))
    assert found[-1].status is Status.DONE


def test_a_vector_is_recorded_by_a_model() -> None:
    from gymnasium.vector import SyncVectorEnv

    model = ppo(DummyVecEnv([make]))
    episodes = record(SyncVectorEnv([make] * 3), model, 7, progress=False)
    assert len(episodes) == 7
    assert np.array_equal(episodes.outcomes, episodes.lengths)


def test_another_environment_is_refused_when_training_starts() -> None:
    with refuses(InputError, None, "2 features", "have 4"):
        ppo(DummyVecEnv([make])).learn(10, callback=GoalCallback(walk_monitor(), TARGET))


@pytest.mark.parametrize("normalized", [False, True])
def test_a_vec_env_is_recorded_as_its_environments_were(normalized: bool) -> None:
    def limited() -> Any:
        return TimeLimit(Drifting(fall=-1.0), max_episode_steps=6)

    env = DummyVecEnv([limited] * 3)
    episodes = record(VecNormalize(env) if normalized else env, do_nothing, 20, progress=False)
    assert (len(episodes), episodes.horizon) == (20, 6)
    assert episodes.truncated.tolist() == (episodes.lengths == 6).tolist()
    for t in range(1, 6):  # the first feature is the sum of the rewards so far
        rows = episodes.at(t)
        assert np.allclose(rows.states[:, 0], rows.behavior, atol=1e-5)
