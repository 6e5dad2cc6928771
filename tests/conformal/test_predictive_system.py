"""The conformal predictive system equals crepes', and its intervals keep their level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from crepes import ConformalPredictiveSystem as Crepes
from sklearn.linear_model import LinearRegression

from known import Uniform
from ontarget.conformal.rivals import ConformalPredictiveSystem
from ontarget.errors import CalibrationError, InputError, UnfittedError
from ontarget.target import Target
from refusals import refuses


def difficulty(X: np.ndarray) -> np.ndarray:
    return 0.2 + np.asarray(X)[:, 0]


def noisy_line(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 2.0, (n, 1))
    return X, X[:, 0] + difficulty(X) * rng.normal(size=n)


MODEL = LinearRegression().fit(*noisy_line(100, 0))
X_CAL, Y_CAL = noisy_line(199, 1)
X_NEW, Y_NEW = noisy_line(80, 2)


def both(normalized: bool) -> tuple[ConformalPredictiveSystem, Crepes, dict[str, np.ndarray]]:
    ours = ConformalPredictiveSystem(MODEL, difficulty=difficulty if normalized else None)
    sigmas = {"sigmas": difficulty(X_CAL)} if normalized else {}
    theirs = Crepes().fit(Y_CAL - MODEL.predict(X_CAL), **sigmas)
    new = {"sigmas": difficulty(X_NEW)} if normalized else {}
    return ours.calibrate(X_CAL, Y_CAL), theirs, new


@pytest.mark.parametrize("normalized", [False, True])
def test_cdf_equals_crepes(normalized: bool) -> None:
    ours, theirs, new = both(normalized)
    low, mid, high = ours.cdf(X_NEW, Y_NEW)
    y_hat = MODEL.predict(X_NEW)
    assert high == pytest.approx(theirs.predict_p(y_hat, Y_NEW, smoothing=False, **new), abs=1e-12)
    # crepes' smoothed value is a random point between our bounds.
    smoothed = theirs.predict_p(y_hat, Y_NEW, seed=0, **new)
    assert np.all((low <= smoothed) & (smoothed <= high))
    assert mid == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("level", "percentiles"), [(0.5, (25, 75)), (0.8, (10, 90))])
def test_interval_equals_crepes(
    normalized: bool, level: float, percentiles: tuple[int, int]
) -> None:
    ours, theirs, new = both(normalized)
    interval = theirs.predict_percentiles(
        MODEL.predict(X_NEW),
        lower_percentiles=percentiles[0],
        higher_percentiles=percentiles[1],
        **new,
    )
    lower, upper = ours.interval(X_NEW, level)
    assert lower == pytest.approx(interval[:, 0], abs=1e-12)
    assert upper == pytest.approx(interval[:, 1], abs=1e-12)


def test_interval_differs_from_crepes_where_its_float_level_picks_another_rank() -> None:
    # (1 − 0.8)/2 · 100 is a little below 10 in floats, so crepes takes the 19th residual for the
    # lower end where the 20th of 199 attains the level exactly (M5).
    ours, theirs, _ = both(False)
    y_hat = MODEL.predict(X_NEW)
    lower, upper = ours.interval(X_NEW, 0.8)
    interval = theirs.predict_int(y_hat, confidence=0.8)
    assert lower - y_hat == pytest.approx(np.full(80, ours.residuals.order(20)))
    assert interval[:, 0] - y_hat == pytest.approx(np.full(80, ours.residuals.order(19)))
    assert upper == pytest.approx(interval[:, 1], abs=1e-12)


def test_probability_of_a_half_line_is_the_cdf() -> None:
    ours, _, _ = both(True)
    low, mid, high = ours.cdf(X_NEW, 1.3)
    assert np.array_equal(ours.probability(X_NEW, Target.at_most(1.3)), (low, mid, high))
    table = ours.probability(X_NEW, [Target.at_most(1.3), Target(0.1, 0.7), Target()], offset=0.0)
    assert np.array_equal(table.p[:, 0], mid)
    assert np.all(table.p[:, 2] == 1.0)
    assert np.array_equal(ours.cdf(X_NEW, np.full((80, 1), 1.3)).mid[:, 0], mid)
    shifted = ours.probability(X_NEW, Target.at_most(1.3), offset=np.full(80, 0.3))
    assert np.allclose(shifted.p, ours.cdf(X_NEW, 1.0).mid, atol=1 / 200)


@pytest.mark.parametrize(("level", "least", "most"), [(0.5, 50, 50), (0.85, 86, 84), (0.9, 90, 90)])
def test_each_outcome_left_out_in_turn_exactly_as_many_are_covered(
    level: float, least: int, most: int
) -> None:
    y, X = np.random.default_rng(0).random(100), np.zeros((100, 1))
    hits = np.zeros(2, dtype=int)
    for i in range(100):
        rest = np.arange(100) != i
        system = ConformalPredictiveSystem(Uniform()).calibrate(X[rest], y[rest])
        hits[0] += system.interval(X[:1], level).contains(y[i])[0]
        hits[1] += system.interval(X[:1], level, "at_most").contains(y[i], closed=False)[0]
    assert hits.tolist() == [least, most]


def test_bad_input_is_refused_with_a_reason() -> None:
    X, y = np.zeros((3, 1)), [0.1, 0.2, 0.3]
    with refuses(UnfittedError, None, "ConformalPredictiveSystem"):
        ConformalPredictiveSystem(Uniform()).cdf(X, 0.5)
    system = ConformalPredictiveSystem(Uniform()).calibrate(X, y)
    with refuses(CalibrationError, "level", 0.9, 19):
        system.interval(X, 0.9)
    assert system.interval(X[:1], 0.9, unbounded=True) == (-math.inf, math.inf)
    with refuses(InputError, "y", "NaN"):
        system.cdf(X, math.nan)
    with refuses(InputError, "difficulty", "(3,)", 0.0):
        ConformalPredictiveSystem(Uniform(), difficulty=lambda rows: np.zeros(3)).calibrate(X, y)
