"""Six libraries that say how likely a run is to meet a target, each used as well as possible.

A function here takes the past episodes as a `Task`, and returns a function (or a monitor) that
gives the probability for one row or for many. All libraries but ontarget get the features, the step
and the sum of rewards so far. MAPIE, calibrated-explanations and crepes learn from four fifths of
the past episodes and calibrate on the others; ontarget makes the same division by itself. Isotonic
regression and quantile-forest learn from all past episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from ontarget import Episodes, GoalMonitor, Target
from ontarget.study import Rows, rows_of

Ask = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Task:
    """What every library is asked: past episodes to learn from, new ones, and a target."""

    past: Episodes
    new: Episodes
    target: Target

    @cached_property
    def rows(self) -> Rows:
        """The past episodes, one row per episode and step."""
        return rows_of(self.past, self.target)

    @cached_property
    def asked(self) -> Rows:
        """The new episodes, one row per episode and step."""
        return rows_of(self.new._rounded_to(self.past.grid), self.target)

    @cached_property
    def left(self) -> np.ndarray:
        """For each row of the past episodes, what was still to come.

        It is the outcome minus the sum of rewards so far.
        """
        return self.past.outcomes[self.rows.episode] - self.rows.b

    def part(self, low: float, high: float) -> np.ndarray:
        """Which rows belong to a share of the past episodes; each episode is taken whole."""
        place = np.random.default_rng(0).permutation(len(self.past))[self.rows.episode]
        return (place >= low * len(self.past)) & (place < high * len(self.past))


def matrix(rows: Rows) -> np.ndarray:
    """What each library except ontarget gets: features, step, and the sum of rewards so far."""
    return np.column_stack([rows.X, rows.t, rows.b])


def trees(task: Task, kind: type, y: np.ndarray) -> Any:
    """Boosted trees for the responses ``y``; they stop growing where held-out episodes fit best."""
    fit, stop = task.part(0.0, 0.64), task.part(0.64, 0.8)
    X, categorical = matrix(task.rows), np.append(task.rows.categorical, [False, False])
    model = kind(
        learning_rate=0.05,
        max_iter=400,
        max_leaf_nodes=15,
        min_samples_leaf=50,
        early_stopping=True,
        n_iter_no_change=30,
        categorical_features=categorical,
        random_state=0,
    )
    return model.fit(X[fit], y[fit], X_val=X[stop], y_val=y[stop])


def isotonic(task: Task) -> Ask:
    """scikit-learn: boosted trees, calibrated by isotonic regression over folds of episodes."""
    from sklearn.base import clone
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GroupKFold

    X, met = matrix(task.rows), task.rows.met
    chosen = trees(task, HistGradientBoostingClassifier, met)
    model = clone(chosen).set_params(max_iter=chosen.n_iter_, early_stopping=False)
    folds = list(GroupKFold(5).split(X, met, task.rows.episode))
    calibrated = CalibratedClassifierCV(model, method="isotonic", cv=folds, ensemble=False)
    calibrated.fit(X, met)
    return lambda asked: calibrated.predict_proba(asked)[:, 1]


def mapie(task: Task) -> Ask:
    """MAPIE: boosted trees, calibrated by Venn–Abers predictors."""
    from mapie.calibration import VennAbersCalibrator

    X, met, held = matrix(task.rows), task.rows.met, task.part(0.8, 1.0)
    model = trees(task, HistGradientBoostingClassifier, met)
    calibrated = VennAbersCalibrator(model, cv="prefit").fit(X[held], met[held])
    return lambda asked: calibrated.predict_proba(asked)[:, 1]


def explained(task: Task) -> Ask:
    """calibrated-explanations: boosted trees and Venn–Abers; it can also explain each answer."""
    from calibrated_explanations import WrapCalibratedExplainer

    X, met, held = matrix(task.rows), task.rows.met.astype(int), task.part(0.8, 1.0)
    model = WrapCalibratedExplainer(trees(task, HistGradientBoostingClassifier, met))
    model.calibrate(X[held], met[held], seed=0)
    return lambda asked: model.predict_proba(asked)[:, 1]


def crepes(task: Task) -> Ask:
    """crepes: boosted regression with a conformal predictive system, whose widths vary by row."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator, MondrianCategorizer

    X, left, held = matrix(task.rows), task.left, task.part(0.8, 1.0)
    model = trees(task, HistGradientBoostingRegressor, left)
    spread = trees(task, HistGradientBoostingRegressor, np.abs(left - model.predict(X)))
    de, mc = DifficultyEstimator(), MondrianCategorizer()
    de.fit(f=lambda X: np.maximum(spread.predict(X), 0.0))
    mc.fit(X[held], f=lambda X: X[:, -2], no_bins=10)  # by step
    system = WrapRegressor(model)
    system.calibrate(X[held], left[held], de=de, mc=mc, cps=True, seed=0)

    def below(asked: np.ndarray, end: float) -> np.ndarray:
        return system.predict_cps(asked, y=end - asked[:, -1], seed=0).ravel()

    return lambda asked: between(below, asked, task.target)


def quantile_forest(task: Task) -> Ask:
    """quantile-forest: how much of the forest's predicted distribution is inside the target."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(
        100, min_samples_leaf=20, max_samples_leaf=None, max_features=0.5, random_state=0
    ).fit(matrix(task.rows), task.left)

    def below(asked: np.ndarray, end: float) -> np.ndarray:
        return model.quantile_ranks(asked, end - asked[:, -1], kind="mean")

    return lambda asked: between(below, asked, task.target)


def between(
    below: Callable[[np.ndarray, float], np.ndarray], asked: np.ndarray, target: Target
) -> np.ndarray:
    """The probability of a target, computed from the probabilities of being below its two ends."""
    upper = below(asked, target.upper) if np.isfinite(target.upper) else np.ones(len(asked))
    return upper - (below(asked, target.lower) if np.isfinite(target.lower) else 0.0)


def ontarget(task: Task) -> GoalMonitor:
    """ontarget: a monitor is fitted in one line."""
    return GoalMonitor().fit(task.past, progress=False)
