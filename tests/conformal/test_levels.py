"""Levels become order statistics in exact arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.conformal.levels import (
    ceil_rank,
    exact_level,
    floor_rank,
    needed_size,
    needed_within,
    rank_within,
    require_reachable,
    tail_rank,
)
from ontarget.errors import CalibrationError, InputError
from refusals import refuses


def test_level_is_the_decimal_that_was_typed() -> None:
    assert exact_level(0.1) == Fraction(1, 10)
    assert exact_level(np.float64(0.95)) == Fraction(19, 20)
    assert exact_level(np.float32(0.9)) == Fraction(9, 10)
    assert exact_level("2/3") == Fraction(2, 3)
    assert exact_level(Decimal("0.125")) == Fraction(1, 8)
    assert exact_level(1e-7) == Fraction(1, 10**7)


def test_rank_is_right_where_the_float_expression_is_wrong() -> None:
    # delta = 0.95 at n = 19: (1 - 0.95) * 20 is a little above 1 in floats, so its ceiling is 2.
    assert math.ceil((1 - 0.95) * 20) == 2
    assert ceil_rank(0.05, 19) == 1
    assert math.floor(0.29 * 100) == 28
    assert floor_rank(0.29, 99) == 29


@given(st.integers(1, 999), st.integers(1, 2000))
def test_ranks_bracket_the_level(thousandths: int, n: int) -> None:
    level = thousandths / 1000
    k_plus, k_minus, tail = ceil_rank(level, n), floor_rank(level, n), tail_rank(level, n)
    assert Fraction(k_plus - 1, n + 1) < Fraction(thousandths, 1000) <= Fraction(k_plus, n + 1)
    assert Fraction(k_minus, n + 1) <= Fraction(thousandths, 1000) < Fraction(k_minus + 1, n + 1)
    assert tail == n + 1 - k_plus


@given(st.integers(1, 999))
def test_needed_size_is_the_first_that_reaches_the_level(thousandths: int) -> None:
    level = thousandths / 1000
    needed = needed_size(level)
    assert ceil_rank(level, needed) <= needed
    assert ceil_rank(level, needed - 1) == needed
    require_reachable(level, needed)
    with refuses(CalibrationError, "level", level, f" {needed} "):
        require_reachable(level, needed - 1)


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.1, 1.1, math.nan, math.inf, "most", True])
def test_level_outside_0_and_1_is_refused(level: object) -> None:
    with refuses(InputError, "level", repr(level)):
        exact_level(level)  # type: ignore[arg-type]


@given(st.integers(1, 99), st.integers(1, 300), st.sampled_from(["0.5", "0.9", "0.95", "0.999"]))
def test_a_rank_with_confidence_is_the_largest_that_keeps_it(
    hundredths: int, n: int, confidence: str
) -> None:
    share, missed = Fraction(hundredths, 100), 1 - Fraction(confidence)
    terms = [math.comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(n + 1)]
    fits = [k for k in range(n + 1) if sum(terms[:k]) <= missed]
    assert rank_within(share, n, confidence) == max(fits)
    assert ceil_rank(1 - share, n, confidence) == n + 1 - max(fits)


def test_a_tie_with_the_confidence_is_decided_in_fractions() -> None:
    # P(Bin(1, ½) ≤ 0) is ½ exactly, and 0.1³ is 0.001 exactly, though not in floats.
    assert rank_within(0.5, 1, 0.5) == 1
    assert rank_within(0.9, 3, 0.999) == 1
    assert needed_within(0.9, 0.999) == 3


@given(st.integers(1, 60), st.sampled_from(["0.5", "0.9", "0.95", "0.999"]))
def test_the_needed_number_is_the_first_with_a_rank(hundredths: int, confidence: str) -> None:
    share = Fraction(hundredths, 100)
    needed = needed_within(share, confidence)
    assert rank_within(share, needed, confidence) == 1
    assert needed == 1 or rank_within(share, needed - 1, confidence) == 0


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, math.nan, "sure"])
def test_a_confidence_outside_0_and_1_is_refused(confidence: object) -> None:
    with refuses(InputError, "confidence", repr(confidence)):
        rank_within(0.1, 50, confidence)  # type: ignore[arg-type]
