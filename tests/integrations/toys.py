"""Small environments whose runs are known beforehand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

REWARDS = (1.0, -2.0, 0.5, 4.0, 0.25)


class Scripted(gymnasium.Env[Any, Any]):
    """Shows the step's number and earns `REWARDS` in turn; ends after so many steps, or never."""

    def __init__(
        self, *, terminate_after: int | None = None, truncate_after: int | None = None
    ) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Discrete(2)
        self._ends = terminate_after, truncate_after
        self._t = 0
        # One array for all observations, as some simulators have it.
        self._shown = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._t = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = REWARDS[self._t % len(REWARDS)]
        self._t += 1
        terminated, truncated = (self._t == end for end in self._ends)
        return self._show(), reward, terminated, truncated, {"height": 10.0 * self._t}

    def _show(self) -> Any:
        self._shown[:] = self._t, -self._t
        return self._shown


class Drifting(gymnasium.Env[Any, Any]):
    """A random walk that never ends by itself unless it falls below −3; rewards are its moves."""

    def __init__(self, fall: float = -3.0) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Discrete(2)
        self._fall = fall

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at = np.array([0.0, self.np_random.normal()])
        return self._at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = float(np.round(0.3 * self._at[1] + self.np_random.normal(), 1))
        self._at[0] += move
        fell = bool(self._at[0] < self._fall)
        return self._at.copy(), move, fell, False, {"height": float(self._at[0])}


def do_nothing(seen: Any) -> Any:
    """Action 0, for one observation or for a batch of them."""
    n = np.asarray(seen).ndim
    return 0 if n == 1 else np.zeros(len(seen), dtype=int)


class VecEnv:
    """A vector of environments with the face of Stable-Baselines3's ``VecEnv``."""

    def __init__(self, makers: list[Any]) -> None:
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        self.observation_space = self.envs[0].observation_space
        self._seeds: list[int | None] = [None] * self.num_envs

    @property
    def unwrapped(self) -> VecEnv:
        return self

    def seed(self, seed: int) -> None:
        self._seeds = [seed + i for i in range(self.num_envs)]

    def reset(self) -> Any:
        pairs = zip(self.envs, self._seeds, strict=True)
        return np.stack([env.reset(seed=seed)[0].copy() for env, seed in pairs])

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        found = []
        for env, action in zip(self.envs, self._actions, strict=True):
            seen, reward, terminated, truncated, info = env.step(action)
            done, seen = terminated or truncated, seen.copy()
            if done:
                info |= {"terminal_observation": seen}
                info |= {"TimeLimit.truncated": truncated and not terminated}
                seen = env.reset()[0].copy()
            found.append((seen, reward, done, info))
        seen, rewards, dones, infos = zip(*found, strict=True)
        return np.stack(seen), np.array(rewards), np.array(dones), infos

    def step(self, actions: Any) -> Any:
        self.step_async(actions)
        return self.step_wait()


class Halved(VecEnv):
    """Shows and pays half, as ``VecNormalize`` would, and keeps what it was before."""

    @property
    def venv(self) -> VecEnv:
        return self

    def reset(self) -> Any:
        self._seen = super().reset()
        return self._seen / 2.0

    def step_wait(self) -> Any:
        self._seen, self._rewards, dones, infos = super().step_wait()
        return self._seen / 2.0, self._rewards / 2.0, dones, infos

    def get_original_obs(self) -> Any:
        return self._seen

    def get_original_reward(self) -> Any:
        return self._rewards
