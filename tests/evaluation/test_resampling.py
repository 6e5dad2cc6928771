from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import InputError
from ontarget.evaluation import (
    Resampling,
    brier,
    ece,
    ece_by_step,
    mean_by_step,
    pool,
    pooled_ece,
    pooled_mean,
    squared_errors,
)
from refusals import refuses
from tests.evaluation.forecasts import calibrated, panels

FEW = Resampling(resamples=20)


@given(panels())
def test_by_step_and_pooled_values_are_those_of_the_flat_measures(panel) -> None:
    p, met, _ = panel
    flat = pool(p, met)
    assert flat.p.size == np.count_nonzero(~np.isnan(p))
    assert pooled_ece(p, met, resampling=FEW).value == pytest.approx(ece(flat.p, flat.met))
    losses = squared_errors(p, met)
    assert pooled_mean(losses, resampling=FEW).value == pytest.approx(brier(flat.p, flat.met))
    eces, means = ece_by_step(p, met, resampling=FEW).value, mean_by_step(losses, resampling=FEW)
    for t, row in enumerate(p):
        alive = ~np.isnan(row)
        if alive.any():
            assert eces[t] == pytest.approx(ece(row[alive], met[alive]))
            assert means.value[t] == pytest.approx(brier(row[alive], met[alive]))


def slow_resamples(p, met, weights, measure):
    """Each resample written out: every episode as often as its weight says."""
    found = []
    for row in weights.astype(int):
        chosen = np.repeat(np.arange(met.size), row)
        flat = pool(p[:, chosen], met[chosen])
        found.append(measure(flat.p, flat.met))
    return np.array(found)


def test_intervals_are_those_of_resamples_written_out() -> None:
    rng = np.random.default_rng(2)
    p, met = rng.random((4, 30)), rng.random(30) < 0.5
    p[2:, :10] = np.nan
    weights = FEW.weights(30)
    peer = np.quantile(slow_resamples(p, met, weights, brier), [0.025, 0.975])
    assert pooled_mean(squared_errors(p, met), resampling=FEW)[1:] == pytest.approx(tuple(peer))
    later = slow_resamples(p[3:], met, weights, brier)
    found = mean_by_step(squared_errors(p, met), resampling=FEW)
    assert (found.low[3], found.high[3]) == pytest.approx(np.quantile(later, [0.025, 0.975]))

    def gaps(p, met):
        return np.bincount(np.floor(5 * p).astype(int), p - met, minlength=5) / p.size

    moved = slow_resamples(p, met, weights, gaps) - gaps(*pool(p, met)[:2])
    distance = np.abs(moved).sum(axis=1)
    estimate = pooled_ece(p, met, bins=5, resampling=FEW)
    assert estimate.floor == pytest.approx(distance.mean())
    reach = np.quantile(distance, 0.95)
    assert estimate.high == pytest.approx(estimate.value + reach)
    assert estimate.low == pytest.approx(max(0.0, estimate.value - reach))


def test_weights_are_those_of_a_poisson_bootstrap() -> None:
    weights = Resampling(resamples=400).weights(1000)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)
    assert np.mean(weights == 0) == pytest.approx(np.exp(-1), abs=0.005)


@given(st.permutations(range(15)))
def test_intervals_do_not_depend_on_the_order_of_the_episodes(order) -> None:
    rng = np.random.default_rng(0)
    p, met = rng.random((3, 15)), rng.random(15) < 0.5
    ids = np.array([f"run {i}" for i in range(15)])
    one = pooled_ece(p, met, ids=ids, resampling=FEW)
    other = pooled_ece(p[:, order], met[order], ids=ids[order], resampling=FEW)
    assert one == pytest.approx(other)


def test_repeating_an_episode_at_more_steps_does_not_narrow_its_interval() -> None:
    once, met = calibrated(0, n=300)
    often, _ = calibrated(0, n=300, steps=10)
    assert pooled_ece(often, met) == pytest.approx(pooled_ece(once, met))
    assert pooled_mean(squared_errors(often, met)) == pytest.approx(
        pooled_mean(squared_errors(once, met))
    )


def test_interval_of_a_mean_covers_it_about_as_often_as_promised() -> None:
    truth = 1 / 6  # of (p − z)² with p uniform and z drawn from it
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(150)
        losses = squared_errors(np.tile(p, (3, 1)), rng.random(150) < p)
        found = pooled_mean(losses, resampling=Resampling(level=0.9, seed=seed))
        held += found.low <= truth <= found.high
    assert 0.84 < held / 200 < 0.96


def test_a_calibrated_forecast_shows_about_its_floor_and_its_interval_reaches_0() -> None:
    found = [
        pooled_ece(*calibrated(seed, n=1000, steps=2), resampling=Resampling(seed=seed))
        for seed in range(60)
    ]
    value, low, _, floor = np.array(found).T
    assert value.mean() == pytest.approx(floor.mean(), rel=0.07)
    assert np.mean(low == 0.0) >= 0.9


def test_a_miscalibrated_forecast_lies_above_its_floor() -> None:
    p, met = calibrated(3, n=3000)
    found = pooled_ece(p**2, met)
    assert found.low > 2 * found.floor


def test_steps_without_an_episode_are_nan() -> None:
    p = np.array([[0.5, 0.5], [np.nan, np.nan]])
    for found in (ece_by_step(p, [1, 0]), mean_by_step(p)):
        assert all(np.isnan(part[1]) for part in found)
        assert not any(np.isnan(part[0]) for part in found)


def test_bad_panels_are_named() -> None:
    with refuses(InputError, "p", "(1,)"):
        pooled_ece([0.5], [1])
    with refuses(InputError, "p", 1.5, (0, 1)):
        pool([[0.5, 1.5]], [1, 0])
    with refuses(InputError, "values", "NaN"):
        pooled_mean([[np.nan]])
    with refuses(InputError, "values", "inf"):
        pooled_mean([[np.inf, 1.0]])
    with refuses(InputError, "p", "p 2", "met 1"):
        ece_by_step([[0.5, 0.5]], [1])
    with refuses(InputError, "ids", "(1,)"):
        pooled_mean([[0.5, 0.5]], ids=["a"])
    with refuses(InputError, "resamples", 1):
        Resampling(resamples=1)
