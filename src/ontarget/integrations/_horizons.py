"""An environment's time limit, and what it means for a recording or for a monitor's horizon."""

from __future__ import annotations

import warnings
from typing import Any

from ontarget._package import require
from ontarget.errors import HorizonWarning


def time_limit(env: Any) -> int | None:
    """The number of steps after which an environment cuts a run off; None if it is not known.

    ``env`` is one environment or a vector of them.

    Examples
    --------
    >>> import gymnasium
    >>> time_limit(gymnasium.make("CartPole-v1"))
    500
    """
    gymnasium = require("gymnasium", extra="gym")
    if hasattr(env, "num_envs"):
        parts = getattr(env.unwrapped, "envs", None)
        if parts:
            each = {time_limit(part) for part in parts}
            return each.pop() if len(each) == 1 else None
        spec = getattr(env, "spec", None)
        return None if spec is None else spec.max_episode_steps
    # The specification alone proves nothing: an unwrapped environment keeps it and has no limit.
    limits: set[int] = set()
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.add(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def gone_past(horizon: int) -> str:
    """A sentence: why the status of a run is UNKNOWN after the monitor's declared horizon."""
    return (
        f"the run continues after the monitor's horizon of {horizon} steps, where it was judged; "
        f"to watch longer runs, record some and fit again"
    )


def too_short(limit: int | None, horizon: int) -> str:
    """A sentence: why every run is UNKNOWN if the time limit is below the horizon; else empty.

    The monitor's probability is about runs that may last up to the horizon. Runs that are cut off
    at an earlier time limit are not such runs.
    """
    if limit is None or limit >= horizon:
        return ""
    return (
        f"this environment cuts runs off after {limit} steps, and the monitor was fitted on runs "
        f"of up to {horizon}; record this environment, or raise its max_episode_steps"
    )


def warn_of_limit(limit: int | None, horizon: int, *, declared: bool, stacklevel: int) -> None:
    """Warn if the environment's time limit differs from the monitor's horizon.

    If the horizon was not declared, it is only the length of the longest learning run, so a run may
    be longer.
    """
    trouble = too_short(limit, horizon)
    if declared and limit is not None and limit > horizon:
        trouble = (
            f"this environment's runs may last {limit} steps, but the monitor judges a run at its "
            f"horizon of {horizon}, and after that the status is UNKNOWN; to watch whole runs, "
            f"record this environment with horizon={limit} and fit again"
        )
    if trouble:
        warnings.warn(trouble, HorizonWarning, stacklevel=stacklevel + 1)


def warn_of_no_limit(*, stacklevel: int) -> None:
    """Warn that runs are recorded until they terminate, however long that takes."""
    warnings.warn(
        "this environment has no time limit: each run is recorded until it terminates, and the "
        "horizon becomes the longest run, which differs from one recording to the next; pass "
        "horizon= to end every run after the same number of steps",
        HorizonWarning,
        stacklevel=stacklevel + 1,
    )
