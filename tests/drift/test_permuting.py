from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget.drift.comparing import draws_for, p_value, suffixes

ONE_GROUP = np.zeros(9, dtype=np.intp)


def compared(scores: np.ndarray, groups: np.ndarray, sizes: list[int], draws: int = 1999) -> float:
    rng = np.random.default_rng(3)
    return p_value(scores, groups, sizes, draws=draws, rng=rng)


def every_division(scores: np.ndarray, n_new: int) -> float:
    """The share of all divisions that differ at least as much: a slow oracle for one size."""
    n = len(scores)
    varying = scores[:, scores.std(axis=0) > 1e-12]
    standard = (varying - varying.mean(axis=0)) / varying.std(axis=0)

    def differs(new: tuple[int, ...]) -> float:
        return max(np.abs(standard[list(new)].sum(axis=0)), default=0.0)

    least = differs(tuple(range(n - n_new, n))) - 1e-9
    found = [differs(new) >= least for new in combinations(range(n), n_new)]
    return float(np.mean(found))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8), st.booleans())
def test_the_p_value_is_that_of_all_divisions(seed: int, n_new: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(9, 3))
    if whole:
        scores = np.rint(scores)  # ties
    truth = every_division(scores, n_new)
    error = np.sqrt(truth * (1 - truth) / 1999)
    assert compared(scores, ONE_GROUP, [n_new]) == pytest.approx(truth, abs=5 * error + 1e-3)


@given(st.lists(st.integers(-3, 3), min_size=9, max_size=9))
def test_a_score_without_spread_says_nothing(values: list[int]) -> None:
    scores = np.array(values, dtype=np.float64)[:, None]
    one = compared(scores, ONE_GROUP, [4], draws=99)
    with_constant = np.column_stack([scores, np.full(9, 0.1)])
    assert compared(with_constant, ONE_GROUP, [4], draws=99) == one
    assert compared(np.full((9, 1), 0.1), ONE_GROUP, [4], draws=99) == 1.0


def test_another_mix_of_groups_is_no_difference() -> None:
    groups = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])
    scores = (10.0 * groups + np.random.default_rng(0).normal(size=100))[:, None]
    assert compared(scores, groups, [50]) > 0.01
    assert compared(scores, np.zeros(100, dtype=np.intp), [50]) < 0.01


def test_a_late_change_shows_in_the_last_runs() -> None:
    scores = np.random.default_rng(0).normal(size=(300, 1))
    scores[275:] += 1.5
    groups = np.zeros(300, dtype=np.intp)
    assert compared(scores, groups, suffixes(200, ordered=True)) < 0.001
    assert compared(scores, groups, suffixes(200, ordered=False)) > 0.001


@pytest.mark.parametrize("n_new", [1, 7, 11, 40, 1000])
def test_all_new_runs_come_first(n_new: int) -> None:
    assert suffixes(n_new, ordered=False) == [n_new]
    sizes = suffixes(n_new, ordered=True)
    assert sizes[0] == n_new
    assert sorted(set(sizes), reverse=True) == sizes


@given(st.fractions(Fraction(1, 10_000), Fraction(1, 2)), st.integers(2, 10**6))
def test_the_rate_can_always_be_reached(rate: Fraction, n: int) -> None:
    assert Fraction(1, draws_for(rate, n) + 1) <= rate / 4


def test_one_percent_takes_9999_divisions() -> None:
    assert draws_for(Fraction(1, 100), 1000) == 9999
