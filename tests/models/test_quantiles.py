"""Any scikit-learn regressor that predicts quantiles becomes a model of the protocol."""

from __future__ import annotations

import numpy as np
import pytest
from quantile_forest import RandomForestQuantileRegressor
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from tests.walks import walks

from ontarget import GoalMonitor
from ontarget.conformal.pcqr import PCQR
from ontarget.errors import InputError, ModelFileError, UnfittedError
from ontarget.models.entry import model_arrays
from ontarget.models.quantiles import RegressorQuantiles
from ontarget.target import Target
from refusals import refuses

REGRESSORS = {
    "linear": QuantileRegressor(alpha=0.0),
    "boosted": GradientBoostingRegressor(loss="quantile", n_estimators=20, random_state=0),
    "histogram": HistGradientBoostingRegressor(loss="quantile", max_iter=20, random_state=0),
    "forest": RandomForestQuantileRegressor(n_estimators=20, min_samples_leaf=5, random_state=0),
}


def line(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, X[:, 0] + (0.5 + np.abs(X[:, 1])) * rng.normal(size=n)


@pytest.mark.parametrize(
    "name",
    ["linear", "boosted", "forest", pytest.param("histogram", marks=pytest.mark.slow)],
)
def test_regressor_is_calibrated_through_the_adapter(name: str) -> None:
    X, y = line(900, 0)
    model = RegressorQuantiles(REGRESSORS[name], n_levels=9).fit(X[:300], y[:300])
    pcqr = PCQR(model).calibrate(X[300:600], y[300:600])
    covered = pcqr.interval(X[600:], 0.8).contains(y[600:]).mean()
    # Beta(241, 60) around 0.8 and 300 fresh rows: six deviations of 0.033.
    assert abs(covered - 0.8) < 0.2
    assert covered < 1.0
    low, p, high = pcqr.probability(X[600:], Target.at_least(0.0))
    assert np.all((low <= p) & (p <= high))
    assert np.mean(p[X[600:, 0] > 0.5]) > np.mean(p[X[600:, 0] < -0.5])


def test_linear_quantiles_are_found_where_the_truth_is_linear() -> None:
    X = np.repeat(np.arange(10.0), 11).reshape(-1, 1)
    y = 2.0 * X[:, 0] + np.tile(np.arange(-5.0, 6.0), 10)
    model = RegressorQuantiles(QuantileRegressor(alpha=0.0), n_levels=9).fit(X, y)
    assert model.quantile([[4.5], [10.0]], [0.2, 0.5, 0.8]) == pytest.approx(
        np.array([[6.0, 9.0, 12.0], [17.0, 20.0, 23.0]])
    )


def test_a_monitor_with_a_linear_model_answers_near_the_truth() -> None:
    # What a walk with drift d still earns in n steps is normal, with mean n d / 2 and variance n.
    model = RegressorQuantiles(QuantileRegressor(alpha=0.0), n_levels=9)
    monitor = GoalMonitor(model, steps_per_model=1)
    monitor.fit(walks(600, 3, atoms=False), progress=False)
    drift, so_far = np.array([-1.5, -0.5, 0.0, 0.5, 1.5]), np.array([0.3, -0.2, 0.0, 0.4, -1.0])
    for t, left in enumerate((3, 2, 1)):
        states = np.column_stack([drift, np.zeros(5)])
        earned = so_far if t else np.zeros(5)
        p = monitor.outlook(t, states, earned, Target.at_least(0.5)).p
        truth = norm.sf(0.5, earned + left * drift / 2.0, np.sqrt(left))
        assert p == pytest.approx(truth, abs=0.08)


def test_crossing_quantiles_are_rearranged() -> None:
    class Crossing(BaseEstimator):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Crossing:
            return self

        def predict(self, X: np.ndarray, quantiles: list[float]) -> np.ndarray:
            return np.tile([3.0, 1.0, 2.0], (len(X), 1))

    model = RegressorQuantiles(Crossing(), 3).fit(*line(20, 1))
    assert model.quantile([[0.0, 0.0]], [0.25, 0.5, 0.75]).tolist() == [[1.0, 2.0, 3.0]]


def test_weights_reach_the_regressor() -> None:
    X, y = line(200, 2)
    heavy = RegressorQuantiles(REGRESSORS["linear"], 3).fit(X, y, np.where(y > 0.0, 9.0, 1.0))
    even = RegressorQuantiles(REGRESSORS["linear"], 3).fit(X, y)
    assert heavy.predict(X).mean() > even.predict(X).mean()


def test_what_cannot_work_is_refused_with_a_reason() -> None:
    X, y = line(50, 3)
    with refuses(InputError, "regressor", "LinearRegression()"):
        RegressorQuantiles(LinearRegression()).fit(X, y)
    with refuses(InputError, "regressor", "HistGradientBoosting"):
        RegressorQuantiles(HistGradientBoostingRegressor()).fit(X, y)
    with pytest.raises(UnfittedError, match="fit"):
        RegressorQuantiles(REGRESSORS["linear"]).predict(X)
    model = RegressorQuantiles(REGRESSORS["linear"], 3).fit(X, y)
    with refuses(ModelFileError, None, "RegressorQuantiles"):
        model_arrays(model)
    assert model.predict(np.empty((0, 2))).shape == (0,)
