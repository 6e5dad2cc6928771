from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget._grid import decimals_of, grid_of, next_point, snap
from ontarget.errors import InputError
from refusals import refuses


@pytest.mark.parametrize(
    ("outcomes", "grid"),
    [
        ([-67.1, 3], 1e-7),
        ([1.0], 1e-9),
        ([0.0], 1e-9),
        ([], 1e-9),
        ([5e11], 1e3),
        ([3e-5], 1e-13),
        ([0.0, 0.0, 0.0, 2.0], 1e-8),
        ([1.5, -2.5, 3.5, -1e9, 1e15], 1e-7),
    ],
)
def test_grid_is_nine_digits_below_the_typical_outcome(outcomes: list[float], grid: float) -> None:
    assert grid_of(outcomes) == grid


def test_grid_has_the_decimals_but_is_never_below_the_noise() -> None:
    assert grid_of([1.5e12, 1e12], decimals=2) == 0.01
    assert grid_of([1.5, 1e12, 2.5], decimals=2) == 1e-7
    assert grid_of([1.5, 1e12, 2.5], decimals=2, noise=0.3) == 1.0
    assert grid_of([1.5], noise=1e-3) == 1e-3


@given(
    st.lists(st.tuples(st.integers(-(10**8), 10**8), st.integers(0, 6)), min_size=1),
    st.randoms(use_true_random=False),
)
def test_decimals_are_those_of_the_literals_in_any_order(
    numbers: list[tuple[int, int]], chance: Random
) -> None:
    values = [units / 10**digits for units, digits in numbers]
    most = max(-Decimal(str(value)).normalize().as_tuple().exponent for value in values)
    values += [1e9, -1e15, 1e300, math.nan]
    chance.shuffle(values)
    whole = np.array(values)
    assert decimals_of([whole]) == decimals_of([whole[:1], whole[1:]]) == max(most, 0)


@given(st.lists(st.integers(-(10**5), 10**5), min_size=1), st.integers(0, 4))
def test_decimals_outlive_float32(units: list[int], digits: int) -> None:
    values = np.array(units) / 10**digits
    assert decimals_of([values.astype(np.float32).astype(float)]) == decimals_of([values])


@pytest.mark.parametrize("value", [1 / 3, 0.1 + 0.2, math.pi, 2.0**-20, 1e-13])
def test_numbers_of_many_decimals_have_no_count(value: float) -> None:
    assert decimals_of([np.append(np.arange(1000) / 100, value)]) is None


@pytest.mark.parametrize(
    ("bound", "grid", "point"),
    [
        (0.1 + 0.2, 0.1, 0.3),
        (0.3, 0.1, 0.3),
        (0.1 + 0.2 - 0.3, 0.1, 0.0),
        (3.05, 0.1, 3.1),
        (3.0001, 0.1, 3.1),
        (-3.05, 0.1, -3.0),
        (3.004, 0.01, 3.01),
        (0.5, 1.0, 1.0),
        (1.5, 1.0, 2.0),
        (49.0, 100.0, 100.0),
        (1e16 + 2, 0.01, 1e16 + 2),
        (math.inf, 0.1, math.inf),
        (-math.inf, 0.1, -math.inf),
    ],
)
def test_a_bound_between_two_points_becomes_the_next(
    bound: float, grid: float, point: float
) -> None:
    assert next_point(bound, grid)[0] == point


@given(st.integers(-(10**9), 10**9), st.integers(0, 9))
def test_a_decimal_snaps_to_the_float_its_literal_denotes(units: int, digits: int) -> None:
    literal = float(Fraction(units, 10**digits))
    noisy = literal * (1 + 2**-52)
    assert snap(noisy, float(f"1e-{digits}")) == literal or units == 0


@given(st.floats(-1e12, 1e12), st.integers(-12, 5))
def test_snapping_twice_changes_nothing(value: float, exponent: int) -> None:
    grid = float(f"1e{exponent}")
    once = snap(value, grid)
    assert snap(once, grid) == once


def test_sums_in_any_order_meet_on_the_grid() -> None:
    costs = [-0.1, -0.2, -0.3]
    # From Python 3.12 on, sum() makes up for rounding.
    forward, backward = reduce(add, costs), reduce(add, reversed(costs))
    assert forward != backward
    assert snap(forward, 1e-7) == snap(backward, 1e-7)


def test_infinities_and_nan_stay_what_they_are() -> None:
    kept = snap([math.inf, -math.inf, math.nan], 1e-3)
    assert kept[0] == math.inf
    assert kept[1] == -math.inf
    assert math.isnan(kept[2])


def test_any_spacing_will_do() -> None:
    assert snap([0.3, 1.1, 7.0], 0.25).tolist() == [0.25, 1.0, 7.0]


@given(st.floats(2.0**53, 1e308))
def test_values_beyond_the_grid_are_kept(value: float) -> None:
    assert snap(value, 1e-9) == value
    assert snap(-value, 1.0) == -value


def test_bad_grids_are_refused() -> None:
    for grid in (0.0, -1.0, math.inf, math.nan):
        with refuses(InputError, "grid", grid):
            snap(1.0, grid)
    with refuses(InputError, "outcomes", "inf"):
        grid_of([math.inf])
