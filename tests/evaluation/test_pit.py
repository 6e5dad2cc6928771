from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import InputError
from ontarget.evaluation import pit_histogram, rank_histogram
from refusals import refuses


@given(st.lists(st.floats(0, 1), min_size=1, max_size=80), st.integers(1, 30))
def test_every_value_is_counted_once(values, bins) -> None:
    found = pit_histogram(values, bins=bins)
    assert found.count.sum() == len(values)
    assert found.expected.sum() == pytest.approx(len(values))
    assert (found.low <= found.expected + 1e-9).all()
    assert (found.expected - 1e-9 <= found.high).all()


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 2**32))
def test_ranks_fall_into_bins_of_whole_ranks(n, bins, seed) -> None:
    if bins > n + 1:
        return
    ranks = np.random.default_rng(seed).integers(1, n + 2, size=50)
    found = rank_histogram(ranks, n, bins=bins)
    assert found.count.sum() == 50
    middle = (ranks - 0.5) / (n + 1)
    np.testing.assert_array_equal(np.histogram(middle, bins=found.edges)[0], found.count)
    everything = rank_histogram(np.arange(1, n + 2), n, bins=bins)
    np.testing.assert_allclose(everything.count, everything.expected)


def share_flat(histogram, runs: int) -> float:
    return np.mean([histogram(np.random.default_rng(seed)).is_flat for seed in range(runs)])


def test_bars_of_calibrated_ranks_lie_in_the_band_as_often_as_promised() -> None:
    def shared_calibration(rng, given_n):
        scores, tests = np.sort(rng.random(99)), rng.random(2000)
        ranks = np.searchsorted(scores, tests) + 1
        if given_n:
            return rank_histogram(ranks, 99, bins=10, band=0.9)
        return pit_histogram((ranks - rng.random(2000)) / 100, bins=10, band=0.9)

    assert share_flat(lambda rng: shared_calibration(rng, True), 300) > 0.87
    # The plain band forgets that one calibration set serves all tests.
    assert share_flat(lambda rng: shared_calibration(rng, False), 300) < 0.3
    assert share_flat(lambda rng: pit_histogram(rng.random(500), bins=10, band=0.9), 300) > 0.87


def test_a_wrong_spread_leaves_the_band() -> None:
    rng = np.random.default_rng(0)
    assert not pit_histogram(rng.beta(2, 2, size=1000), n_calibration=500).is_flat


def test_bad_ranks_are_named() -> None:
    with refuses(InputError, "ranks", 10, "0 to 3"):
        rank_histogram([0, 3], 9, bins=2)
    with refuses(InputError, "ranks", [0.5]):
        rank_histogram([0.5], 9, bins=2)
    with refuses(InputError, "bins", 20):
        rank_histogram([1], 9)
    with refuses(InputError, "pit", 2.0):
        pit_histogram([2.0])
