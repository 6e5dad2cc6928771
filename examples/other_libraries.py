"""Estimators of other libraries as models of a monitor: quantile-forest, NGBoost and skpro.

A model needs the three methods fit, cdf_limits and quantile. RegressorQuantiles(regressor) makes a
model from a regressor with the two methods fit and predict, where predict takes quantiles=. The
promises hold whatever the model predicts.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import RegressorQuantiles


def quantile_forest() -> Any:
    """A quantile-forest; its predict takes quantiles=, so RegressorQuantiles makes it a model."""
    from quantile_forest import RandomForestQuantileRegressor

    return RegressorQuantiles(RandomForestQuantileRegressor(50, min_samples_leaf=10))


class NGBoosted:
    """NGBoost, which predicts normal distributions, with the methods that a monitor needs."""

    def fit(self, X, y):
        from ngboost import NGBRegressor

        self.model = NGBRegressor(n_estimators=60, verbose=False, random_state=0).fit(X, y)
        return self

    def cdf_limits(self, X, y):
        found = self.model.pred_dist(X).cdf(np.asarray(y, dtype=float).T).T
        return found, found  # a normal distribution has no atoms: both limits are one

    def quantile(self, X, q, *, side="left"):
        return self.model.pred_dist(X).ppf(np.clip(q, 0.0, 1.0)[..., None]).T


class Skpro(BaseEstimator):
    """A probabilistic regressor of the library skpro; here two regressions, for mean and spread."""

    def fit(self, X, y):
        from sklearn.linear_model import LinearRegression
        from skpro.regression.residual import ResidualDouble

        self.model = ResidualDouble(LinearRegression()).fit(X, np.reshape(y, (-1, 1)))
        return self

    def predict(self, X, quantiles):
        return self.model.predict_quantiles(X, alpha=quantiles).to_numpy()


def skpro() -> Any:
    """A regressor of the library skpro as a model, which calls its predict with quantiles=."""
    return RegressorQuantiles(Skpro())


MODELS = {"quantile-forest": quantile_forest, "ngboost": NGBoosted, "skpro": skpro}


def main(library: str = "quantile-forest", episodes: int = 400) -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(episodes, 5, 2))
    runs = Episodes.from_arrays(states, states[:, :, 0] + rng.normal(size=(episodes, 5)))
    monitor = GoalMonitor(MODELS[library](), steps_per_model=5).fit(runs, progress=False)
    watch = monitor.watch(Target.at_least(0.0), alarm_below=0.1)
    for t in range(5):
        print(f"t = {t}  {watch.step([-0.5, 0.0], *([-1.0] if t else [])).p:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
