"""Where an environment cuts its runs off, and what that means to a monitor with a horizon."""

from __future__ import annotations

from typing import Any

from ontarget._extras import require

__all__ = ["cut_off", "gone_past", "time_limit", "too_short"]


def time_limit(env: Any) -> int | None:
    """After how many steps the environment, single or vector, cuts a run off; None if unknown.

    Examples
    --------
    >>> import gymnasium
    >>> time_limit(gymnasium.make("CartPole-v1"))
    500
    """
    gymnasium = require("gymnasium", extra="gym")
    if isinstance(env, gymnasium.vector.VectorEnv):
        parts = getattr(env.unwrapped, "envs", None)
        if parts:
            each = {time_limit(part) for part in parts}
            return each.pop() if len(each) == 1 else None
        return None if env.spec is None else env.spec.max_episode_steps
    # The specification alone proves nothing: an unwrapped environment keeps it and has no limit.
    limits: set[int] = set()
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.add(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def cut_off(t: int, horizon: int) -> str:
    """Why nothing is known of a run that was cut off before its end (M1)."""
    early = f", before the monitor's horizon of {horizon}" if t < horizon else ""
    return f"the run was cut off after {t} steps{early}: nobody knows how it would have ended"


def gone_past(horizon: int) -> str:
    """Why nothing is known of a run that goes on too long."""
    return (
        f"the run goes on past the monitor's horizon of {horizon} steps, at which it was judged; "
        "record longer runs to watch further"
    )


def too_short(limit: int | None, horizon: int) -> str:
    """Why nothing is known in an environment that stops before the horizon; empty if it does not.

    The monitor's probability is about runs that may last to the horizon, and these may not.
    """
    if limit is None or limit >= horizon:
        return ""
    return (
        f"this environment cuts runs off after {limit} steps, and the monitor was fitted on runs "
        f"of up to {horizon}; record this environment, or raise its max_episode_steps"
    )
