"""The CRPS that benchmarks measure whole distributions by."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from yardstick.crps import crps


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(-3, 8))
def test_crps_with_jumps_and_slopes_agrees_with_quadrature(seed: int, y: float) -> None:
    rng = np.random.default_rng(seed)
    knots = np.cumsum(rng.random(4) + 0.1)
    # Eight rising numbers: the left and the right limit at each of four knots.
    steps = np.sort(np.where(rng.random(8) < 0.2, 0.0, rng.random(8)))
    left, right = steps[::2].copy(), steps[1::2].copy()
    left[0], right[-1] = 0.0, 1.0

    def cdf(x: float) -> float:
        if x < knots[0]:
            return 0.0
        if x >= knots[-1]:
            return 1.0
        j = np.searchsorted(knots, x, side="right") - 1
        part = (x - knots[j]) / (knots[j + 1] - knots[j])
        return right[j] + part * (left[j + 1] - right[j])

    breaks = np.unique([min(knots[0], y) - 1.0, *knots, y, max(knots[-1], y) + 1.0])
    wanted = sum(
        integrate.quad(lambda x: (cdf(x) - (x >= y)) ** 2, a, b, limit=200)[0]
        for a, b in itertools.pairwise(breaks)
    )
    found = crps(knots, left[None], right[None], np.array([y]))[0]
    assert found == pytest.approx(wanted, abs=1e-7)


def test_crps_of_a_normal_on_fine_knots_is_its_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knots = np.linspace(-9, 9, 20_001)
    y = np.array([-2.0, 0.0, 0.3, 4.0])
    cdf = np.tile(stats.norm.cdf(knots), (4, 1))
    closed = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    whole = crps(knots, cdf, cdf, y)
    np.testing.assert_allclose(whole, closed, atol=1e-6)
    monkeypatch.setattr("yardstick.crps._BLOCK", 50_000)  # two rows at a time
    np.testing.assert_array_equal(crps(knots, cdf, cdf, y), whole)
