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
