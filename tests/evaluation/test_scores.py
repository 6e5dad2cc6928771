from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from ontarget.errors import InputError
from ontarget.evaluation import (
    absolute_error,
    brier,
    excess_brier,
    excess_errors,
    log_loss,
    log_losses,
    murphy,
    squared_errors,
)
from refusals import refuses
from tests.evaluation.forecasts import forecasts


@given(forecasts())
def test_brier_agrees_with_scikit_learn(sample) -> None:
    p, met = sample
    assert brier(p, met) == pytest.approx(metrics.brier_score_loss(met, p), abs=1e-12)


@given(forecasts(), st.integers(0, 5000))
def test_log_loss_of_clipped_forecasts_agrees_with_scikit_learn(sample, n) -> None:
    p, met = sample
    least = 0.5 / (n + 1)
    peer = metrics.log_loss(met, np.clip(p, least, 1 - least), labels=[False, True])
    assert log_loss(p, met, n_calibration=n) == pytest.approx(peer, rel=1e-9)


def test_a_sure_forecast_that_fails_costs_as_much_as_calibration_can_tell() -> None:
    assert log_loss([1.0], [0], n_calibration=99) == pytest.approx(np.log(200))


@given(forecasts(), st.sampled_from([None, 1, 7, 30]))
def test_parts_of_the_brier_score_add_up_to_it(sample, bins) -> None:
    p, met = sample
    parts = murphy(p, met, bins=bins)
    assert parts.brier == pytest.approx(brier(p, met), abs=1e-12)
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0.0


def test_parts_say_what_they_mean() -> None:
    met = np.array([1, 1, 1, 0, 1, 0, 0, 0])
    always_the_rate = murphy(np.full(8, 0.5), met)
    assert always_the_rate == (0.0, 0.0, 0.25, 0.0)
    perfect = murphy(met.astype(float), met)
    assert perfect == (0.0, 0.25, 0.25, 0.0)
    backwards = murphy(1.0 - met, met)
    assert backwards.reliability == 1.0


@given(forecasts())
def test_losses_keep_one_value_per_forecast(sample) -> None:
    p, met = sample
    assert squared_errors(p, met).mean() == pytest.approx(brier(p, met), abs=1e-12)
    each = log_losses(np.tile(p, (2, 1)), met, n_calibration=[[9], [99]])
    assert each[0].mean() == pytest.approx(log_loss(p, met, n_calibration=9))
    assert each[1].mean() == pytest.approx(log_loss(p, met, n_calibration=99))


def test_losses_are_nan_where_there_is_no_forecast() -> None:
    p = np.array([[0.5, np.nan], [np.nan, 1.0]])
    for losses in (
        squared_errors(p, [1, 0]),
        log_losses(p, [1, 0], n_calibration=10),
        excess_errors(p, np.full((2, 2), 0.5), rollouts=5),
    ):
        np.testing.assert_array_equal(np.isnan(losses), np.isnan(p))


def test_excess_brier_is_unbiased_and_the_plain_distance_is_not() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random(40_000)
    p = np.clip(truth + 0.05, 0.0, 1.0)
    exact = np.mean((p - truth) ** 2)
    rollouts = 20
    estimate = rng.binomial(rollouts, truth) / rollouts
    assert excess_brier(p, estimate, rollouts=rollouts) == pytest.approx(exact, abs=2e-4)
    assert np.mean((p - estimate) ** 2) > exact + 5e-3
    assert abs(excess_brier(truth, estimate, rollouts=rollouts)) < 2e-4


def test_excess_brier_needs_two_rollouts() -> None:
    with refuses(InputError, "rollouts", 1):
        excess_brier([0.5], [0.5], rollouts=1)


@given(forecasts())
def test_absolute_error_is_a_distance(sample) -> None:
    p, _ = sample
    assert absolute_error(p, p) == 0.0
    assert absolute_error(p, p[::-1]) == pytest.approx(absolute_error(p[::-1], p))


def test_bad_probabilities_are_named() -> None:
    with refuses(InputError, "p_true", 1.5):
        absolute_error([0.5], [1.5])
    with refuses(InputError, "p", -0.1):
        squared_errors([[-0.1, np.nan]], [1, 0])
    with refuses(InputError, "p", "none"):
        squared_errors([np.nan], [1])
    with refuses(InputError, "n_calibration", -1.0):
        log_losses([0.5], [1], n_calibration=-1)
    with refuses(InputError, "p", "p 1", "met 2"):
        brier([0.5], [1, 0])
