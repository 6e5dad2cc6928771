from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from ontarget.errors import InputError
from ontarget.evaluation import (
    brier,
    log_loss,
    log_losses,
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
    ):
        np.testing.assert_array_equal(np.isnan(losses), np.isnan(p))


def test_bad_probabilities_are_named() -> None:
    with refuses(InputError, "p", -0.1):
        squared_errors([[-0.1, np.nan]], [1, 0])
    with refuses(InputError, "p", "none"):
        squared_errors([np.nan], [1])
    with refuses(InputError, "n_calibration", -1.0):
        log_losses([0.5], [1], n_calibration=-1)
    with refuses(InputError, "p", "p 1", "met 2"):
        brier([0.5], [1, 0])
