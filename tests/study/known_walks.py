"""A process whose true probability is a formula, and methods that are planted in a study."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from ontarget import Episodes, Target
from ontarget._typing import FloatArray
from ontarget.study._rows import Rows

HORIZON = 4
TARGET = Target.at_least(0.0)


def known_walks(n: int, seed: int = 0) -> Episodes:
    """Every step earns the episode's drift, which the state shows, and standard normal noise."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(size=n)
    states = np.repeat(drift[:, None, None], HORIZON, axis=1)
    rewards = drift[:, None] + rng.normal(size=(n, HORIZON))
    ids = [f"{seed}-{i}" for i in range(n)]
    return Episodes.from_arrays(states, rewards, ids=ids, features=["drift"])


def truth(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """The true probability: what is still to come is normal."""
    left = HORIZON - asked.t
    return ndtr((asked.b + left * asked.X[:, 0]) / np.sqrt(left))


def coin(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """A planted rival that knows nothing."""
    return np.full(len(asked), 0.5)
