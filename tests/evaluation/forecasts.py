"""Forecasts to measure: drawn by Hypothesis, or simulated with a known truth."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

PROBABILITIES = st.floats(0.0, 1.0, allow_nan=False)


@st.composite
def forecasts(draw: st.DrawFn, max_size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and whether each came true; ends, bin edges and repeats are frequent."""
    n = draw(st.integers(1, max_size))
    special = st.sampled_from([0.0, 1.0, 0.5, 1 / 30, 29 / 30, 0.1, 1e-300])
    p = draw(st.lists(st.one_of(PROBABILITIES, special), min_size=n, max_size=n))
    met = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return np.array(p), np.array(met)


@st.composite
def panels(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p (steps, episodes) with NaN after each end, whether each met the target, and the ends."""
    steps, episodes = draw(st.integers(1, 7)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # A coarse grid, so that ties between episodes and with thresholds are common.
    p = rng.integers(0, 9, size=(steps, episodes)) / 8
    ends = rng.integers(1, steps + 1, size=episodes)
    p[np.arange(steps)[:, None] >= ends] = np.nan
    return p, rng.random(episodes) < 0.5, ends


def calibrated(seed: int, *, n: int = 2000, steps: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """p (steps, episodes), the same at each step and exactly calibrated, and what came true."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, size=n)
    return np.tile(p, (steps, 1)), rng.random(n) < p
