"""Small processes for monitor tests."""

from __future__ import annotations

import numpy as np

from ontarget import Episodes


def walks(
    n: int = 300,
    horizon: int = 6,
    *,
    seed: int = 0,
    behavior: str = "sum",
    ragged: bool = False,
    groups: int = 0,
    atoms: bool = True,
) -> Episodes:
    """A drifting walk: the state is the drift and a noise, rewards are integers or real."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(size=n)
    lengths = rng.integers(1, horizon + 1, size=n) if ragged else np.full(n, horizon)
    lengths[0] = horizon
    states, rewards = [], []
    for i in range(n):
        shape = (int(lengths[i]), 2)
        state = np.stack([np.full(shape[0], drift[i]), rng.normal(size=shape[0])], axis=1)
        gain = drift[i] * 0.5 + rng.normal(size=shape[0])
        states.append(state)
        rewards.append(np.rint(gain * 2) / 10 if atoms else gain)
    return Episodes.from_arrays(
        states,
        rewards,
        ids=[f"run-{seed}-{i}" for i in range(n)],
        groups=None if not groups else (np.arange(n) % groups).astype(str),
        behavior=behavior,
        horizon=horizon,
    )


def shifted(n: int, seed: int, by: float, horizon: int = 6) -> Episodes:
    """Walks of another process: each step is worth more or less than in `walks`."""
    same = walks(n, horizon, seed=seed)
    states = np.stack([same.at(t).states for t in range(horizon)], axis=1)
    rewards = np.stack([same.rewards_at(t) for t in range(horizon)], axis=1)
    return Episodes.from_arrays(states, rewards + by, ids=same.ids, horizon=horizon)


def replay(watch, episodes: Episodes, position: int):
    """The outlooks of a watch that lives through one recorded episode, its end included."""
    one = episodes.take([position])
    found, length = [], int(one.lengths[0])
    watch.reset()
    for t in range(length):
        reward = one.rewards_at(t - 1)[0] if t else 0.0
        found.append(watch.step(one.at(t).states[0], reward))
    last = one.rewards_at(length - 1)[0]
    found.append(watch.step(np.zeros(2), last) if length == one.horizon else watch.end(last))
    return found
