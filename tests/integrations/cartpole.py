"""CartPole with a clumsy policy, and a monitor fitted on it."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.integrations import record

LIMIT = 60
TARGET = Target.at_least(42)
HARD = Target.at_least(50)  # missed by four in five, and often ruled out


def push(seen: Any) -> Any:
    """Push to the side to which the pole leans, for one observation or for a batch.

    It knows nothing of speed, so the pole soon falls: early on nobody can tell when.
    """
    pushed = (np.asarray(seen)[..., 2] > 0.0).astype(int)
    return int(pushed) if pushed.ndim == 0 else pushed


def make(limit: int = LIMIT) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", max_episode_steps=limit)


@cache
def episodes(n: int = 400, seed: int = 0, behavior: str = "sum") -> Episodes:
    return record(make(), push, n, seed=seed, behavior=behavior, progress=False)


@cache
def monitor(behavior: str = "sum") -> GoalMonitor:
    return GoalMonitor().fit(episodes(behavior=behavior), progress=False)
