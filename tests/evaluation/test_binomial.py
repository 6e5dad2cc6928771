from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ontarget.errors import InputError
from ontarget.evaluation import Rate, exact_interval
from ontarget.evaluation.rates import beta_binomial_band, binomial_band
from refusals import refuses


@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from([0.5, 0.9, 0.99]))
def test_interval_is_clopper_and_pearsons(hits, misses, level) -> None:
    n = hits + misses
    rate = Rate.of(hits, n, level=level)
    if n == 0:
        assert (rate.low, rate.high) == (0.0, 1.0)
        assert np.isnan(rate.value)
        return
    peer = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    assert (rate.low, rate.high) == pytest.approx((peer.low, peer.high), abs=1e-9)
    assert rate.low <= rate.value <= rate.high


def test_intervals_broadcast() -> None:
    low, high = exact_interval([0, 5, 10], 10, level=0.9)
    assert low[0] == 0.0
    assert high[2] == 1.0
    np.testing.assert_allclose(low, 1 - high[::-1])


@given(st.integers(1, 400), st.floats(0.01, 0.99), st.sampled_from([0.9, 0.99]))
def test_binomial_band_leaves_at_most_half_of_the_rest_on_each_side(n, share, band) -> None:
    low, high = binomial_band(n, share, band=band)
    law, tail = stats.binom(n, share), (1 - band) / 2
    assert law.cdf(low - 1) <= tail + 1e-9
    assert law.sf(high) <= tail + 1e-9
    assert law.cdf(low) >= tail - 1e-9  # and it is the narrowest such band
    assert law.sf(high - 1) >= tail - 1e-9


@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 60))
def test_beta_binomial_band_leaves_at_most_half_of_the_rest_on_each_side(n, a, b) -> None:
    low, high = beta_binomial_band(n, a, b, band=0.95)
    law = stats.betabinom(n, a, b)
    assert law.cdf(low - 1) <= 0.025 + 1e-9
    assert law.sf(high) <= 0.025 + 1e-9
    assert law.cdf(low) >= 0.025 - 1e-9
    assert law.sf(high - 1) >= 0.025 - 1e-9


def test_a_count_above_its_total_is_refused() -> None:
    with refuses(InputError, "count", "3 of 2"):
        Rate.of(3, 2)
    with refuses(InputError, "n", 2.5):
        Rate.of(1, 2.5)
