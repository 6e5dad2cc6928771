"""Each end of a target takes the limit that its bracket asks for, on the grid and shifted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known import Atoms
from ontarget.conformal.limits import TargetEnds, checked_offset, raw_probability
from ontarget.errors import InputError
from ontarget.target import Target
from refusals import refuses

DIE = Atoms(range(1, 7), [1] * 6)
ZERO = np.zeros(1)
ROW = np.zeros((1, 1))


def union(parts: list[Target]) -> Target:
    whole = Target.empty()
    for part in parts:
        whole = whole | part
    return whole


numbers = st.integers(-4, 12)
intervals = st.tuples(numbers, numbers, st.sampled_from(["both", "left", "right", "neither"])).map(
    lambda t: Target(min(t[:2]), max(t[:2]) + 1, closed=t[2])
)
half_lines = numbers.map(Target.at_least) | numbers.map(Target.at_most)
targets = st.lists(intervals | half_lines, max_size=3).map(union)


@pytest.mark.parametrize(
    ("closed", "limits"),
    [("both", (1, 4)), ("left", (1, 3)), ("right", (2, 4)), ("neither", (2, 3))],
)
def test_bracket_decides_the_limit(closed: str, limits: tuple[int, int]) -> None:
    a_minus, a_plus = TargetEnds.of(Target(2, 4, closed=closed)).limits(DIE, ROW, ZERO)
    assert (a_minus[0, 0], a_plus[0, 0]) == pytest.approx((limits[0] / 6, limits[1] / 6))


def test_infinite_end_is_an_infinite_limit() -> None:
    a_minus, a_plus = TargetEnds.of([Target.at_most(3), Target()]).limits(DIE, ROW, ZERO)
    assert a_minus[0].tolist() == [-math.inf, -math.inf]
    assert a_plus[0].tolist() == [0.5, math.inf]


def test_model_is_asked_once_for_ends_that_targets_share() -> None:
    asked = []

    class Counting(Atoms):
        def cdf_limits(self, X, y):
            asked.append(np.array(y))
            return super().cdf_limits(X, y)

    ends = TargetEnds.of([Target(1, 3), Target(3, 5), Target(1, 5) | Target.at_least(6)])
    ends.limits(Counting(range(1, 7), [1] * 6), np.zeros((2, 1)), np.zeros(2))
    assert [a.tolist() for a in asked] == [[[1.0, 3.0, 5.0, 6.0]] * 2]


@given(targets, st.lists(st.integers(-5, 15), min_size=1, max_size=5), st.integers(-3, 3))
def test_membership_is_that_of_the_target(target: Target, values: list[int], offset: int) -> None:
    y = np.array(values, dtype=float)
    moved = np.full(y.size, float(offset))
    inside = TargetEnds.of([target, ~target]).contains(y, moved)
    assert np.array_equal(inside[:, 0], target.contains(y + moved))
    assert np.array_equal(inside[:, 1], ~inside[:, 0])


@given(targets)
def test_raw_probability_is_the_mass_of_the_members(target: Target) -> None:
    ends = TargetEnds.of(target)
    p = raw_probability(*ends.limits(DIE, ROW, ZERO), ends.first)[0, 0]
    assert p == pytest.approx(target.contains(np.arange(1.0, 7.0)).mean(), abs=1e-12)


def test_components_that_meet_on_the_grid_are_one() -> None:
    nearly = Target(0.0, 0.3) | Target(0.1 + 0.2, 2.0)
    assert len(nearly.components) == 2
    assert TargetEnds.of(nearly, 1e-9).targets == (Target(0.0, 2.0),)


def test_offset_is_one_number_or_one_per_row() -> None:
    assert checked_offset(2.0, 3).tolist() == [2.0, 2.0, 2.0]
    assert checked_offset([1.0, 2.0], 2).tolist() == [1.0, 2.0]
    with refuses(InputError, "offset", "(3)", "(2,)"):
        checked_offset([1.0, 2.0], 3)
    with refuses(InputError, "offset", "inf", "row 1"):
        checked_offset([1.0, math.inf], 2)
