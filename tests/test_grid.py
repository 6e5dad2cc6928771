from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget._grid import grid_of, snap
from ontarget.errors import InputError


@pytest.mark.parametrize(
    ("outcomes", "grid"),
    [([-67.1, 3], 1e-7), ([1.0], 1e-9), ([0.0], 1e-9), ([], 1e-9), ([5e11], 1e3), ([3e-5], 1e-13)],
)
def test_grid_is_nine_digits_below_the_largest_outcome(outcomes: list[float], grid: float) -> None:
    assert grid_of(outcomes) == grid


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


def test_values_beyond_the_grid_are_kept() -> None:
    assert snap(1e308, 1e-9) == 1e308


def test_bad_grids_are_refused() -> None:
    for grid in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="grid needs a finite number above 0"):
            snap(1.0, grid)
    with pytest.raises(InputError, match="finite outcomes"):
        grid_of([math.inf])
