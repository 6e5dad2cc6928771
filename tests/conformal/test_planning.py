"""How many episodes an accuracy needs, against simulation and a search that leaves nothing out."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from ontarget.conformal.levels import (
    needed_for_cdf,
    needed_for_coverage,
    needed_size,
    needed_successes,
    plan_sizes,
    uniform_margin,
)
from ontarget.errors import InputError
from refusals import refuses


def inside(level: float, n: int, accuracy: float, side: str) -> float:
    """P(|coverage − level| ≤ accuracy) given n episodes, by the Beta law itself."""
    exact = Fraction(str(level)) * (n + 1)
    k = math.ceil(exact) if side == "least" else math.floor(exact)
    law = beta(k, n + 1 - k)
    return float(law.cdf(level + accuracy) - law.cdf(level - accuracy))


@pytest.mark.parametrize("side", ["least", "most"])
@pytest.mark.parametrize(("level", "accuracy"), [(0.5, 0.1), (0.8, 0.05), (0.9, 0.07), (0.1, 0.06)])
def test_coverage_is_accurate_from_the_needed_number_on(level, accuracy, side) -> None:
    needed = needed_for_coverage(level, accuracy, side=side)
    far = math.ceil(math.log(40) / (2 * accuracy**2)) + 200
    assert min(inside(level, n, accuracy, side) for n in range(needed, far)) >= 0.95
    least = needed_size(level) if side == "least" else needed_successes(level)
    assert needed == least or inside(level, needed - 1, accuracy, side) < 0.95


def test_a_level_that_no_finite_bound_attains_is_never_enough() -> None:
    assert needed_for_coverage(0.99, 0.02) == 99
    assert needed_for_coverage(0.01, 0.02, side="most") == 99


def test_the_whole_cdf_stays_within_the_margin() -> None:
    n, confidence, repeats = 200, 0.9, 4_000
    draws = np.sort(np.random.default_rng(0).random((repeats, n)), axis=1)
    upto = np.arange(1, n + 1) / n
    distance = np.maximum(np.abs(upto - draws), np.abs(upto - 1 / n - draws)).max(axis=1)
    share = float((distance <= uniform_margin(n, confidence)).mean())
    # Valid, and not by a wide margin: the bound is nearly attained.
    assert confidence - 0.01 <= share <= confidence + 0.03


@given(st.floats(0.002, 0.4), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_needed_number_is_the_fewest_within_the_margin(accuracy, confidence) -> None:
    n = needed_for_cdf(accuracy, confidence)
    assert uniform_margin(n, confidence) <= accuracy
    assert n == 1 or uniform_margin(n - 1, confidence) > accuracy


@pytest.mark.parametrize(("rate", "needed"), [(0.05, 19), (0.1, 9), ("1/3", 2), (0.03, 33)])
def test_a_rate_can_be_promised_from_so_many_successes_on(rate, needed) -> None:
    assert needed_successes(rate) == needed
    assert math.floor(Fraction(str(rate)) * (needed + 1)) == 1
    assert math.floor(Fraction(str(rate)) * needed) == 0


def test_a_plan_holds_all_of_it() -> None:
    plan = plan_sizes(0.05, 0.9, false_alarm_rate=0.1)
    assert plan.at_one_threshold == needed_for_coverage(0.5, 0.05, 0.9)
    assert plan.at_all_thresholds == needed_for_cdf(0.05, 0.9)
    assert plan.coverage[0.8] == needed_for_coverage(0.8, 0.05, 0.9)
    assert (plan.successes_to_promise, plan.successes) == (
        9,
        needed_for_coverage(0.1, 0.05, 0.9, side="most"),
    )
    assert plan_sizes(0.05).successes is None


@pytest.mark.parametrize("accuracy", [0.0, 0.5, -1.0, float("nan")])
def test_an_accuracy_outside_its_range_is_refused(accuracy) -> None:
    with refuses(InputError, "accuracy", accuracy):
        plan_sizes(accuracy)


def test_an_accuracy_beyond_counting_is_refused() -> None:
    with refuses(InputError, "accuracy", "1e-05", "20,000,000"):
        needed_for_coverage(0.5, 1e-5)
