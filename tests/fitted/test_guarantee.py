from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from known import Atoms, Uniform
from ontarget._arrays import read_only
from ontarget.conformal.ranks import Ranks
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import SLACK, excess_of_rows
from ontarget.fitted.guarantee import band_interval, in_band
from ontarget.fitted.law import NO_CURVE

# Few different values, so that ranks tie with one another, with limits, and with 0 and 1.
numbers = st.integers(0, 20).map(lambda k: k / 20)
rank_sets = st.lists(numbers, min_size=1, max_size=12).map(sorted).map(np.array)


def limits_of_c(ranks: np.ndarray, a: float) -> tuple[float, float]:
    """c̃ from the left and from the right, as METHODS writes it: through (α_(j), j/(n + 1))."""
    own = [(j + 1) / (ranks.size + 1) for j, x in enumerate(ranks) if x == a]
    if own:
        return own[0], own[-1]
    knots = np.concatenate([[0.0], ranks, [1.0]])
    j = np.searchsorted(knots, a, side="right") - 1
    j = min(int(j), ranks.size)  # a = 1 belongs to the last piece
    height = (j + (a - knots[j]) / (knots[j + 1] - knots[j])) / (ranks.size + 1)
    return height, height


def distance(ranks: np.ndarray, left: float, right: float, curve: np.ndarray = NO_CURVE) -> float:
    out = np.empty(1)
    excess_of_rows(ranks, curve, np.array([left]), np.array([right]), out)
    return float(out[0])


class Step:
    """A step's law with its ranks, and with a curve if there is one."""

    def __init__(self, model: object, ranks: np.ndarray, curve: np.ndarray = NO_CURVE) -> None:
        self.quantile, self.cdf_limits = model.quantile, model.cdf_limits
        self.ranks, self.curve = Ranks(ranks), curve


def held_by(step: Step, y: np.ndarray, depth: float) -> np.ndarray:
    """Whether the band holds each outcome: as an interval and, alike, by the law at the outcome."""
    X = np.zeros((y.size, 1))
    held = band_interval(step, X, depth).contains(y)
    assert np.array_equal(held, in_band(step, X, y, depth))
    return held


@given(rank_sets, st.floats(0, 1) | numbers, st.floats(0, 1) | numbers)
def test_distance_is_that_of_linear_interpolation_through_the_ranks(ranks, one, other) -> None:
    left, right = sorted((one, other))
    expected = max(0.0, limits_of_c(ranks, left)[0] - 0.5, 0.5 - limits_of_c(ranks, right)[1])
    assert math.isclose(distance(ranks, left, right), expected, abs_tol=1e-12)


@given(rank_sets, st.lists(st.floats(0, 1) | numbers, min_size=4, max_size=4))
def test_a_wider_component_is_never_farther(ranks, ends) -> None:
    a, b, c, d = sorted(ends)
    assert distance(ranks, a, d) <= distance(ranks, b, c)


@given(rank_sets, st.floats(0, 0.5), st.floats(0, 1) | numbers)
def test_the_band_holds_the_outcomes_that_are_near_enough(ranks, depth, y) -> None:
    held = bool(held_by(Step(Uniform(), ranks), np.array([y]), depth)[0])
    far = distance(ranks, y, y)
    if abs(far - depth) > 2 * SLACK:
        assert held == (far <= depth)


@given(st.floats(0.2, 5.0), st.floats(0, 0.5), st.floats(0, 1))
def test_a_curve_takes_the_place_of_the_ranks(power, depth, y) -> None:
    curve, ranks = read_only(KNOTS**power), np.array([0.1, 0.2])
    far = distance(ranks, y, y, curve)
    assert math.isclose(far, abs(np.interp(y, KNOTS, curve) - 0.5), abs_tol=1e-12)
    held = bool(held_by(Step(Uniform(), ranks, curve), np.array([y]), depth)[0])
    if abs(far - depth) > 2 * SLACK:
        assert held == (far <= depth)


@given(rank_sets, st.integers(1, 6), numbers)
def test_the_band_holds_whole_atoms(ranks, size, fraction) -> None:
    law = Atoms(np.arange(size), np.ones(size))
    left, right = law.cdf_limits(np.zeros((size, 1)), np.arange(size))
    far = np.array([distance(ranks, a, b) for a, b in zip(left, right, strict=True)])
    depth = float(np.quantile(far, fraction, method="lower"))  # the distance of some atom itself
    held = held_by(Step(law, ranks), np.arange(size, dtype=np.float64), depth)
    assert np.all(held[far <= depth])
    assert not np.any(held[far > depth + 2 * SLACK])


def test_a_depth_out_of_reach_gives_the_whole_line() -> None:
    step = Step(Uniform(), np.array([0.2, 0.5]))
    band = band_interval(step, np.zeros((2, 1)), math.inf)
    assert np.all(np.isinf(band.lower) & np.isinf(band.upper))
    assert np.all(held_by(step, np.array([-1e300, 1e300]), math.inf))
