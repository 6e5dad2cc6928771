"""Records runs in Stable-Baselines3's vector of environments (``VecEnv``), without importing it."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from ontarget._progress import progress_bar
from ontarget._typing import BoolArray
from ontarget.integrations._observations import layout_of
from ontarget.integrations._recorder import Recorder, RecorderOptions, shares
from ontarget.integrations.policies import Actor


def is_vec_env(env: Any) -> bool:
    """Whether this is a ``VecEnv`` of Stable-Baselines3, judged by its methods."""
    return all(callable(getattr(env, name, None)) for name in ("step_async", "step_wait", "seed"))


def play_vec_env(
    env: Any,
    actor: Actor,
    count: int,
    *,
    seed: int | None,
    progress: bool,
    **options: Unpack[RecorderOptions],
) -> Recorder:
    """Play runs in a ``VecEnv`` until each environment has played its share; returns the recorder.

    A ``VecEnv`` begins an environment's next run by itself, in the step that ended the last run.
    """
    n = env.num_envs
    left, began = shares(count, n), np.ones(n, dtype=np.bool_)
    normalizer = env if hasattr(env, "get_original_obs") else None
    space = env.observation_space if normalizer is None else env.venv.observation_space
    recorder = Recorder(layout_of(space), slots=n, **options)

    def begin(mask: BoolArray, seen: Any) -> None:
        """Begin runs where the mask is true, if the environment has not played its share yet."""
        states = recorder.layout.rows(seen if normalizer is None else env.get_original_obs(), n)
        for i in np.flatnonzero(mask & (left > 0)).tolist():
            left[i] -= 1
            recorder.begin(i, states[i])
        actor.begin(mask)

    if seed is not None:
        env.seed(seed)
    seen = env.reset()
    begin(began, seen)
    with progress_bar("recording", count, unit="episodes", shown=progress) as reached:
        while left.any() or any(recorder.in_progress(i) for i in range(n)):
            seen, rewards, dones, infos = env.step(actor(seen))
            earned = rewards if normalizer is None else env.get_original_reward()
            states = recorder.layout.rows(seen if normalizer is None else env.get_original_obs(), n)
            for i in range(n):
                recorder.step(
                    i,
                    states[i],  # where a run ended that of the next run, which nobody reads
                    float(earned[i]),
                    terminated=bool(dones[i]) and not infos[i].get("TimeLimit.truncated", False),
                    truncated=bool(dones[i]),
                )
            if left.any() and not any(recorder.in_progress(i) for i in range(n)) and not any(dones):
                # Every run reached the horizon in environments that would go on.
                seen, dones = env.reset(), np.ones(n, dtype=np.bool_)
            if np.any(dones):
                begin(np.asarray(dones, dtype=np.bool_), seen)
            reached(len(recorder))
    return recorder
