"""A distribution through quantiles is what its description says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.models.kernels import knot_limits, knot_means, knot_quantiles

LEVELS = np.arange(1, 10) / 10
knots = st.lists(st.integers(-6, 6), min_size=9, max_size=9).map(lambda v: np.sort(v) / 2.0)


def slow_limits(y: float, values: np.ndarray, floor: float) -> tuple[float, float]:
    """Both limits from the words: straight, jumps where values are equal, exponential tails."""
    lower = max(floor, (values[3] - values[0]) / math.log(4.0))
    upper = max(floor, (values[8] - values[5]) / math.log(4.0))
    if y in values:
        return LEVELS[values == y].min(), LEVELS[values == y].max()
    if y < values[0]:
        mass = 0.1 * math.exp((y - values[0]) / lower)
    elif y > values[-1]:
        mass = 1.0 - 0.1 * math.exp((values[-1] - y) / upper)
    else:
        j = int(np.sum(values < y))
        share = (y - values[j - 1]) / (values[j] - values[j - 1])
        mass = LEVELS[j - 1] + share * (LEVELS[j] - LEVELS[j - 1])
    return mass, mass


def limits(values: np.ndarray, floor: float, at: list[float]) -> np.ndarray:
    out = np.empty((1, len(at), 2))
    knot_limits(values[None, :], LEVELS, floor, np.array([at]), out)
    return out[0]


@given(knots, st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=5), st.sampled_from([0.01, 1.0]))
def test_limits_are_straight_between_and_exponential_beyond(
    values: np.ndarray, at: list[float], floor: float
) -> None:
    at = [*at, *values]
    slow = np.array([slow_limits(y, values, floor) for y in at])
    assert limits(values, floor, at) == pytest.approx(slow, abs=1e-12)


@given(knots, st.floats(0.0, 1.0) | st.sampled_from(LEVELS.tolist()), st.booleans())
def test_quantile_is_the_smallest_float_that_reaches_the_level(
    values: np.ndarray, q: float, strictly: bool
) -> None:
    at = knot_quantiles(values[None, :], LEVELS, 0.5, np.array([q]), strictly)[0, 0]
    if not math.isfinite(at):
        assert q in (0.0, 1.0)
        return
    here, below = limits(values, 0.5, [at, math.nextafter(at, -math.inf)])[:, 1]
    assert here > q if strictly else here >= q
    assert not (below > q if strictly else below >= q)


@given(knots)
def test_mean_is_the_integral_of_the_quantiles(values: np.ndarray) -> None:
    n = 20_000
    middles = (np.arange(n) + 0.5) / n
    quantiles = knot_quantiles(values[None, :], LEVELS, 0.5, middles, False)[0]
    mean = knot_means(values[None, :], LEVELS, 0.5)[0]
    assert mean == pytest.approx(quantiles.mean(), abs=2e-3)
