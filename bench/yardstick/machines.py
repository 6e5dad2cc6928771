"""Two MuJoCo robots under fixed linear controllers, recorded as tables of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.linalg import solve_discrete_are

HORIZON = 1_000
# With so much noise, about half of the runs fall, at any step.
_NOISE, _START, _HOPPER_NOISE = 0.19, 0.06, 0.1
_PENDULUM = ("x", "sin1", "sin2", "cos1", "cos2", "vx", "v1", "v2", "force")


def record_pendulum(n: int, *, seed: int, fault: int | None = None) -> pl.DataFrame:
    """Runs of a balanced double pendulum; every step earns 1. At step ``fault`` control fails."""
    import gymnasium

    env = gymnasium.make("InvertedDoublePendulum-v5", max_episode_steps=100 * HORIZON)
    plain, gains = env.unwrapped, _balancing(env.unwrapped)
    rng, runs = np.random.default_rng(seed), []
    for _ in range(n):
        env.reset(seed=int(rng.integers(2**31)))
        place = plain.data.qpos.copy()
        place[1:] += rng.normal(0.0, _START, 2)
        plain.set_state(place, plain.data.qvel.copy())
        state, rows = plain._get_obs(), []
        for t in range(HORIZON):
            push = -gains @ np.concatenate([plain.data.qpos, plain.data.qvel])
            push = (push if fault is None or t < fault else 0.0) + _NOISE * rng.normal()
            rows.append([*state, 1.0])
            state, _, fell, _, _ = env.step(np.clip([push], -1.0, 1.0).astype(np.float32))
            if fell:
                break
        runs.append(np.array(rows))
    return _table(runs, _PENDULUM)


def record_hopper(n: int, *, seed: int) -> pl.DataFrame:
    """Runs of a hopper under the kept linear policy; the reward is the environment's own."""
    import gymnasium

    env = gymnasium.make("Hopper-v5", max_episode_steps=HORIZON)
    kept = json.loads((Path(__file__).parent / "hopper.json").read_text())
    weights, mean, scale = (np.array(kept[name]) for name in ("weights", "mean", "scale"))
    rng, runs = np.random.default_rng(seed), []
    for _ in range(n):
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        rows, over = [], False
        while not over:
            action = weights @ ((state - mean) / scale) + _HOPPER_NOISE * rng.normal(size=3)
            before = state
            state, reward, fell, late, _ = env.step(np.clip(action, -1.0, 1.0))
            rows.append([*before, float(reward)])
            over = fell or late
        runs.append(np.array(rows))
    return _table(runs, tuple(f"o{k}" for k in range(state.size)))


def _balancing(env: Any) -> np.ndarray:
    """The gains of a linear–quadratic regulator around the upright position."""
    import mujoco

    model, data = env.model, env.data
    n, small = model.nv, 1e-5

    def after(x: np.ndarray, push: float) -> np.ndarray:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = x[:n], x[n:], push
        for _ in range(env.frame_skip):
            mujoco.mj_step(model, data)
        return np.concatenate([data.qpos, data.qvel])

    still = np.zeros(2 * n)
    moves = [after(small * axis, 0.0) - after(-small * axis, 0.0) for axis in np.eye(2 * n)]
    a = np.column_stack(moves) / (2.0 * small)
    b = ((after(still, small) - after(still, -small)) / (2.0 * small))[:, None]
    cost = solve_discrete_are(a, b, np.diag([1.0, 10.0, 10.0, 0.1, 0.1, 0.1]), np.eye(1))
    gains: np.ndarray = np.linalg.solve(np.eye(1) + b.T @ cost @ b, b.T @ cost @ a)[0]
    return gains


def _table(runs: list[np.ndarray], names: tuple[str, ...]) -> pl.DataFrame:
    lengths = [len(run) for run in runs]
    numbers = pl.DataFrame(np.concatenate(runs), schema=[*names, "reward"], orient="row")
    return numbers.with_columns(
        pl.Series("episode", np.repeat(np.arange(len(runs)), lengths)),
        pl.Series("step", np.concatenate([np.arange(length) for length in lengths])),
    )
