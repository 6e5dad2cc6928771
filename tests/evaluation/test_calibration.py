from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from ontarget.errors import InputError
from ontarget.evaluation import bin_of, ece, exact_interval, pool, reliability
from refusals import refuses
from tests.evaluation.forecasts import calibrated, forecasts


def slow_ece(p, met, bins):
    """M12, bin by bin."""
    total = 0.0
    for b in range(bins):
        inside = [i for i, value in enumerate(p) if min(int(np.floor(bins * value)), bins - 1) == b]
        if inside:
            gap = abs(np.mean([p[i] for i in inside]) - np.mean([met[i] for i in inside]))
            total += len(inside) / len(p) * gap
    return total


@given(forecasts(), st.sampled_from([1, 2, 10, 30]))
def test_ece_is_its_definition(sample, bins) -> None:
    p, met = sample
    assert ece(p, met, bins=bins) == pytest.approx(slow_ece(p, met, bins), abs=1e-12)
    assert reliability(p, met, bins=bins).ece == pytest.approx(ece(p, met, bins=bins), abs=1e-12)


@given(forecasts())
def test_bins_agree_with_scikit_learn(sample) -> None:
    p, met = sample
    p = np.clip(p, 1e-6, 1.0)
    # scikit-learn puts a forecast on an edge into the bin below it; M12 into the one above.
    p = np.where(np.isclose(p * 10, np.round(p * 10)), p * 0.999, p)
    rate, mean_p = calibration_curve(met, p, n_bins=10, strategy="uniform")
    found = reliability(p, met, bins=10)
    np.testing.assert_allclose(found.rate_met[found.count > 0], rate)
    np.testing.assert_allclose(found.mean_p[found.count > 0], mean_p)


def test_a_forecast_on_an_edge_falls_into_the_bin_above_and_one_into_the_last() -> None:
    found = reliability([0.0, 0.5, 1.0], [0, 1, 1], bins=4)
    assert found.count.tolist() == [1, 0, 1, 1]


def test_empty_bins_are_nan_and_cost_nothing() -> None:
    found = reliability([0.05, 0.95], [0, 1], bins=10)
    assert np.isnan(found.rate_met[1:9]).all()
    assert np.isnan(found.low[1:9]).all()
    assert found.ece == pytest.approx(0.05)


@given(forecasts())
def test_each_bins_interval_is_exact_and_holds_its_rate(sample) -> None:
    p, met = sample
    found = reliability(p, met, bins=5, level=0.9)
    for count, rate, low, high in zip(
        found.count, found.rate_met, found.low, found.high, strict=True
    ):
        if count:
            assert 0.0 <= low <= rate <= high <= 1.0
            np.testing.assert_allclose(
                (low, high), exact_interval(round(rate * count), count, level=0.9), atol=1e-12
            )


@given(forecasts())
def test_one_forecast_per_episode_changes_no_interval(sample) -> None:
    p, met = sample
    plain, owned = reliability(p, met), reliability(p, met, episode=np.arange(p.size))
    np.testing.assert_allclose(owned.low, plain.low, atol=1e-9)
    np.testing.assert_allclose(owned.high, plain.high, atol=1e-9)


def test_repeating_every_forecast_at_more_steps_changes_no_interval_of_pooled_bins() -> None:
    once, met = calibrated(0, n=500)
    often, _ = calibrated(0, n=500, steps=20)
    one, many = pool(once, met), pool(often, met)
    plain = reliability(one.p, one.met, bins=10)
    pooled = reliability(many.p, many.met, bins=10, episode=many.episode)
    np.testing.assert_allclose(pooled.low, plain.low, atol=1e-9)
    np.testing.assert_allclose(pooled.high, plain.high, atol=1e-9)
    naive = reliability(many.p, many.met, bins=10)
    assert (naive.high - naive.low < 0.5 * (pooled.high - pooled.low)).all()


def test_the_bin_of_a_forecast_says_what_came_true() -> None:
    found = reliability([0.81, 0.83, 0.85, 0.1], [1, 1, 0, 0], bins=10)
    interval = [float(end) for end in exact_interval(2, 3)]
    told = (found.count, found.mean_p, found.rate_met, found.low, found.high)
    assert [one[8] for one in told] == pytest.approx([3, 0.83, 2 / 3, *interval])
    assert found.count[9] == 0
    assert np.isnan(found.rate_met[9])


@pytest.mark.parametrize(
    ("p", "met", "argument", "shown"),
    [
        ([], [], "p", "none"),
        ([0.5, float("nan")], [0, 1], "p", "nan at"),
        ([0.5, 1.2, -1.0], [0, 1, 1], "p", "1 and 1 more"),
        ([0.5, 0.5], [0], "p", "p 2, met 1"),
        ([0.5], [0.7], "met", 0.7),
        ([[0.5]], [0], "p", (1, 1)),
        (["high"], [0], "p", ["high"]),
    ],
)
def test_bad_forecasts_are_named(p, met, argument, shown) -> None:
    with refuses(InputError, argument, shown):
        reliability(p, met)
    with refuses(InputError, argument, shown):
        ece(p, met)


def test_bins_and_level_must_make_sense() -> None:
    with refuses(InputError, "bins", 0):
        ece([0.5], [1], bins=0)
    with refuses(InputError, "level", 95):
        reliability([0.5], [1], level=95)
    with refuses(InputError, "p", "p 1", "episode 2"):
        reliability([0.5], [1], episode=[1, 2])


@given(st.lists(st.floats(0.0, 1.0), min_size=1), st.integers(1, 40))
def test_a_forecast_is_in_the_bin_that_holds_it(p: list[float], bins: int) -> None:
    for one, place in zip(p, bin_of(np.array(p), bins).tolist(), strict=True):
        assert 0 <= place < bins
        assert place == min(int(np.floor(bins * one)), bins - 1)
