from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from known import Atoms, Uniform
from ontarget._readonly import read_only
from ontarget.conformal._ranks import Ranks
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import SLACK, excess_of_rows
from ontarget.fitted.guarantee import band_interval
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
        self.quantile, self.ranks, self.curve = model.quantile, Ranks(ranks), curve


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
    model = Uniform()
    band = band_interval(Step(model, ranks), np.zeros((1, 1)), depth)
    held = bool(band.contains(np.array([y]))[0])
    far = distance(ranks, y, y)
    if abs(far - depth) > 2 * SLACK:
        assert held == (far <= depth)


@given(st.floats(0.2, 5.0), st.floats(0, 0.5), st.floats(0, 1))
def test_a_curve_takes_the_place_of_the_ranks(power, depth, y) -> None:
    curve, ranks = read_only(KNOTS**power), np.array([0.1, 0.2])
    far = distance(ranks, y, y, curve)
    assert math.isclose(far, abs(np.interp(y, KNOTS, curve) - 0.5), abs_tol=1e-12)
    band = band_interval(Step(Uniform(), ranks, curve), np.zeros((1, 1)), depth)
    if abs(far - depth) > 2 * SLACK:
        assert bool(band.contains(np.array([y]))[0]) == (far <= depth)


@given(rank_sets, st.integers(1, 6), numbers)
def test_the_band_holds_whole_atoms(ranks, size, fraction) -> None:
    law = Atoms(np.arange(size), np.ones(size))
    left, right = law.cdf_limits(np.zeros((size, 1)), np.arange(size))
    far = np.array([distance(ranks, a, b) for a, b in zip(left, right, strict=True)])
    depth = float(np.quantile(far, fraction, method="lower"))  # the distance of some atom itself
    band = band_interval(Step(law, ranks), np.zeros((1, 1)), depth)
    held = (band.lower <= np.arange(size)) & (np.arange(size) <= band.upper)
    assert np.all(held[far <= depth])
    assert not np.any(held[far > depth + 2 * SLACK])


def test_a_depth_out_of_reach_gives_the_whole_line() -> None:
    band = band_interval(Step(Uniform(), np.array([0.2, 0.5])), np.zeros((2, 1)), math.inf)
    assert np.all(np.isinf(band.lower) & np.isinf(band.upper))
