from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from ontarget.fitted._spread import SPREAD_LEVEL, share_bounds, spread_table


@given(st.integers(1, 64), st.data())
def test_bounds_of_few_episodes_are_those_of_clopper_and_pearson(n, data) -> None:
    inside = data.draw(st.integers(0, n))
    low, high = share_bounds(n)[:, inside]
    tail = (1 - SPREAD_LEVEL) / 2
    assert low == pytest.approx(beta.ppf(tail, inside, n - inside + 1) if inside else 0.0)
    assert high == pytest.approx(beta.isf(tail, inside + 1, n - inside) if inside < n else 1.0)


@pytest.mark.parametrize("n", [65, 300, 1_000, 20_000])
def test_bounds_of_many_episodes_are_at_most_a_little_wider(n) -> None:
    bounds, shares = share_bounds(n), np.array([0.0, 0.02, 0.3, 0.5, 0.97, 1.0])
    inside, tail = shares * n, (1 - SPREAD_LEVEL) / 2
    places = shares * (bounds.shape[1] - 1)
    low, high = (np.interp(places, np.arange(bounds.shape[1]), bound) for bound in bounds)
    exact_low = np.where(inside > 0, beta.ppf(tail, np.maximum(inside, 1e-9), n - inside + 1), 0.0)
    exact_high = np.where(inside < n, beta.isf(tail, inside + 1, np.maximum(n - inside, 1e-9)), 1.0)
    assert np.all(np.abs(low - exact_low) <= 0.002 + 0.03 * (exact_high - exact_low))
    assert np.all(np.abs(high - exact_high) <= 0.002 + 0.03 * (exact_high - exact_low))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("n", [10, 40, 400])
def test_a_share_lies_in_its_spread_as_often_as_it_says(n, share) -> None:
    bounds, inside = share_bounds(n), np.arange(n + 1)
    places = inside / n * (bounds.shape[1] - 1)
    low, high = (np.interp(places, np.arange(bounds.shape[1]), bound) for bound in bounds)
    covered = binom.pmf(inside, n, share)[(low <= share) & (share <= high)].sum()
    assert covered >= SPREAD_LEVEL - 1e-9


def test_no_episode_says_nothing() -> None:
    assert np.array_equal(share_bounds(0), [[0.0, 0.0], [1.0, 1.0]])


def test_steps_of_like_numbers_share_their_bounds() -> None:
    counts = np.array([[1000, 3], [1001, 0]])
    table, spans = spread_table(counts)
    assert np.array_equal(spans[0, 0], spans[1, 0])
    for place, n in np.ndenumerate(counts):
        start, stop = spans[place]
        assert np.array_equal(table[:, start:stop], share_bounds(int(n)))
