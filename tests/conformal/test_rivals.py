"""The rivals are what their papers say, and what their best-known packages compute."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

from known import Atoms, Shifted, Uniform
from ontarget.conformal.rivals import CQR, QuantileRegression, RawInverse, SplitConformal
from ontarget.errors import CalibrationError, InputError, UnfittedError
from ontarget.target import Target
from refusals import refuses

EXAMPLE = Path(__file__).parents[2] / "examples" / "cqr_is_not_invertible.py"


def noisy_line(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 2.0, (n, 1))
    return X, X[:, 0] + (0.2 + X[:, 0]) * rng.normal(size=n)


class TwoQuantiles:
    """Three fitted scikit-learn quantile regressors as a model that knows those levels only."""

    def __init__(self, level: float) -> None:
        X, y = noisy_line(300, 0)
        tail = round((1 - level) / 2, 9)
        self.levels = [tail, 1 - tail, 0.5]
        self.fitted = [QuantileRegressor(quantile=q, alpha=0.0).fit(X, y) for q in self.levels]

    def quantile(self, X, q, *, side="left"):
        assert q == pytest.approx(self.levels[:2], abs=1e-12)
        return np.column_stack([model.predict(X) for model in self.fitted[:2]])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_cqr_equals_mapie_on_the_same_fitted_model(level: float) -> None:
    model = TwoQuantiles(level)
    X_cal, y_cal = noisy_line(199, 1)
    X, _ = noisy_line(50, 2)
    mapie = ConformalizedQuantileRegressor(model.fitted, confidence_level=level, prefit=True)
    mapie.conformalize(X_cal, y_cal)
    _, theirs = mapie.predict_interval(X, symmetric_correction=True)
    ours = CQR(model).calibrate(X_cal, y_cal).interval(X, level)
    assert ours.lower == pytest.approx(theirs[:, 0, 0], abs=1e-12)
    assert ours.upper == pytest.approx(theirs[:, 1, 0], abs=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [39, 200])
def test_split_conformal_equals_mapie_on_the_same_fitted_model(level: float, n: int) -> None:
    model = LinearRegression().fit(*noisy_line(100, 0))
    X_cal, y_cal = noisy_line(n, 1)
    X, _ = noisy_line(50, 2)
    mapie = SplitConformalRegressor(model, confidence_level=level, prefit=True)
    _, theirs = mapie.conformalize(X_cal, y_cal).predict_interval(X)
    ours = SplitConformal(model).calibrate(X_cal, y_cal).interval(X, level)
    assert ours.lower == pytest.approx(theirs[:, 0, 0], abs=1e-12)
    assert ours.upper == pytest.approx(theirs[:, 1, 0], abs=1e-12)


def test_cqr_gives_one_interval_for_two_levels_where_pcqr_gives_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    X, y = example["calibration_set"]()
    model, row = example["TwoKinds"](), np.zeros((1, 1))
    cqr, pcqr = (example[name](model).calibrate(X, y) for name in ("CQR", "PCQR"))
    assert np.unique(y).size == y.size
    assert cqr.correction(0.8) - cqr.correction(0.9) == 1.0  # e
    assert cqr.correction(0.9) < 0.0 < cqr.correction(0.8)
    assert cqr.interval(row, 0.8) == cqr.interval(row, 0.9) == (-1.5, 1.5)
    narrow, wide = pcqr.interval(row, 0.8), pcqr.interval(row, 0.9)
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    example["main"]()
    printed = capsys.readouterr().out
    assert printed.count("[-1.5000, +1.5000]") == 2


@pytest.mark.parametrize("rival", [SplitConformal, CQR])
@pytest.mark.parametrize(("level", "covered"), [(0.5, 50), (0.8, 80), (0.9, 90), (0.95, 95)])
def test_each_outcome_left_out_in_turn_exactly_k_are_covered(
    rival: type, level: float, covered: int
) -> None:
    # 100 distinct outcomes and a model that ignores them: the conformal identity, n + 1 = 100.
    y = np.random.default_rng(0).random(100)
    X = np.zeros((100, 1))
    hits = np.zeros(2, dtype=int)
    for i in range(100):
        rest = np.arange(100) != i
        calibrated = rival(Uniform()).calibrate(X[rest], y[rest])
        hits[0] += calibrated.interval(X[:1], level).contains(y[i])[0]
        hits[1] += calibrated.interval(X[:1], level, "at_most").contains(y[i], closed=False)[0]
    assert hits.tolist() == [covered, covered]


@pytest.mark.parametrize("rival", [SplitConformal, CQR])
def test_at_most_intervals_lie_inside_at_least_ones(rival: type) -> None:
    X, y = noisy_line(50, 0)
    calibrated = rival(Shifted(Uniform())).calibrate(X, y)
    least, most = calibrated.interval(X, 0.77), calibrated.interval(X, 0.77, "at_most")
    assert np.all((least.lower <= most.lower) & (most.upper <= least.upper))
    assert calibrated.interval(X[:1], 0.001, "at_most") == (math.inf, -math.inf)
    assert calibrated.interval(X[:1], 0.999, unbounded=True) == (-math.inf, math.inf)
    with refuses(CalibrationError, "level", 0.999, 50):
        calibrated.interval(X, 0.999)


def test_raw_quantiles_are_the_models_own() -> None:
    X = np.array([[0.0], [3.0]])
    raw = QuantileRegression(Shifted(Uniform())).calibrate(X, [0.5, 3.5])
    interval = raw.interval(X, 0.8)
    assert interval.lower == pytest.approx([0.1, 3.1])
    assert interval.upper == pytest.approx([0.9, 3.9])
    assert raw.n_calibration == 2


def test_raw_inverse_is_the_models_own_probability() -> None:
    raw = RawInverse(Shifted(Atoms([1, 2, 3, 4], [1, 1, 1, 1])))
    X = np.array([[0.0], [1.0]])
    targets = [Target(2, 3), Target(2, 3, closed="neither"), Target.at_most(1) | Target.at_least(4)]
    low, p, high = raw.probability(X, targets)
    assert p == pytest.approx(np.array([[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]))
    assert low is p
    assert high is p
    assert raw.probability(X, Target(2, 3)).p.shape == (2,)
    assert raw.probability(X, Target(2, 3), offset=[0.0, 1.0]).p == pytest.approx([0.5, 0.25])


def test_bad_input_is_refused_with_a_reason() -> None:
    with refuses(InputError, None, "SplitConformal", "predict"):
        SplitConformal(object())
    with refuses(UnfittedError, None, "CQR"):
        CQR(Uniform()).interval(np.zeros((1, 1)), 0.5)
    with refuses(InputError, "kind", "'some'"):
        QuantileRegression(Uniform()).interval(np.zeros((1, 1)), 0.5, "some")  # type: ignore[arg-type]
