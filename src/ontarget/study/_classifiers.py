"""The two classifiers to compare a monitor with: they predict "ends inside this target" directly.

Both classifiers learn from every past episode: from its features, the step and the behavior so far.
The settings are chosen on a fifth of the past episodes, which is held out. Then the classifiers
learn from all past episodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import SplineTransformer
from threadpoolctl import threadpool_limits

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.study._rows import Rows

_MOST_TREES, _MOST_BINNED = 400, 254  # scikit-learn has 255 bins, one of them for missing values
_STRENGTHS, _MOST_ONE_HOT = (0.01, 0.1, 1.0), 50
_MOST_CELLS = 40_000_000  # of a regression's matrix: 320 MB
_ONE_STEP_EACH = 15  # up to so many steps have a column each
_FAR = 6.0  # standard deviations beyond which a number is no further away


# A classifier: learns from rows, and gives a probability for each of other rows, with a seed.
Classify: TypeAlias = Callable[[Rows, Rows, int], FloatArray]

# Threads that wait for each other on a busy machine are ten times slower than one.
_on_one_thread: Callable[[Classify], Classify] = threadpool_limits.wrap(limits=1)


@_on_one_thread
def boosted(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """For each row of ``asked``, the probability of success by gradient-boosted trees.

    Held-out episodes decide how many trees there are. It is scikit-learn's
    `HistGradientBoostingClassifier`, with categorical columns marked as such.
    """
    held = _held(learn, seed)
    if not _both(learn.met[~held]):
        return np.full(len(asked), _rate(learn))
    coding = Categories.of(learn, _MOST_BINNED)
    X, X_asked = (np.column_stack([coding.coded(r.X), r.t, r.b]) for r in (learn, asked))
    seen = ~np.isnan(X[~held]).all(axis=0)  # scikit-learn fails on a column without a value
    X, X_asked = X[:, seen], X_asked[:, seen]
    categorical = np.append(learn.categorical, [False, False])[seen]

    def fit(rows: BoolArray, trees: int) -> Any:
        model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=trees,
            max_leaf_nodes=15,
            min_samples_leaf=50,
            early_stopping=False,
            categorical_features=categorical,
            random_state=0,
        )
        return model.fit(X[rows], learn.met[rows])

    staged = fit(~held, _MOST_TREES).staged_predict_proba(X[held])
    losses = [_loss(p[:, 1], learn.met[held]) for p in staged]
    chosen = fit(np.ones_like(held), int(np.argmin(losses)) + 1)
    p: FloatArray = chosen.predict_proba(X_asked)[:, 1]
    return p


@_on_one_thread
def logistic(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """For each row of ``asked``, the probability of success by a logistic regression.

    Its weights change smoothly with the step. Numbers are standardised and squared, categories are
    one-hot, and the strength of the L2 penalty is chosen on held-out episodes. From a very large
    log it learns from every episode, but not from every row.
    """
    design = Design(learn, _MOST_ONE_HOT)
    most = max(_MOST_CELLS // design.width, 1)
    if len(learn) > most:
        chosen = np.random.default_rng(seed).choice(len(learn), most, replace=False)
        learn = learn.take(np.sort(chosen))
    held = _held(learn, seed)
    if not _both(learn.met[~held]):
        return np.full(len(asked), _rate(learn))
    X, met = design(learn), learn.met
    losses = []
    for strength in _STRENGTHS:
        p = _regression(X[~held], met[~held], strength).predict_proba(X[held])[:, 1]
        losses.append(_loss(p, met[held]))
    model = _regression(X, met, _STRENGTHS[int(np.argmin(losses))])
    pieces = (asked.take(slice(at, at + most)) for at in range(0, len(asked), most))
    return np.concatenate([model.predict_proba(design(piece))[:, 1] for piece in pieces])


# The classifiers that a study sets beside a monitor, by the names that it gives them.
RIVALS: Final = {"boosted classifier": boosted, "logistic regression": logistic}


def _regression(X: FloatArray, met: BoolArray, strength: float) -> Any:
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)
    with warnings.catch_warnings():
        # Fifty Newton steps of a penalised fit are near enough.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, met)


def _both(met: BoolArray) -> bool:
    """Whether some rows met the target and some missed it; otherwise there is nothing to learn."""
    return bool(met.any() and not met.all())


def _rate(rows: Rows) -> float:
    """The share of episodes in these rows that met the target, kept away from 0 and 1."""
    hits = np.bincount(rows.episode, rows.met) > 0
    return float((hits.sum() + 1.0) / (hits.size + 2.0))


def _held(rows: Rows, seed: int) -> BoolArray:
    """(rows,): whether the row belongs to the fifth of the episodes that is held out."""
    n = rows.n_episodes
    chosen = np.random.default_rng(seed).permutation(n)[: max(n // 5, 1)]
    return np.isin(rows.episode, chosen)


def _loss(p: FloatArray, met: BoolArray) -> float:
    clipped = np.clip(p, 1e-4, 1.0 - 1e-4)
    return float(-np.log(np.where(met, clipped, 1.0 - clipped)).mean())


@dataclass(frozen=True)
class Categories:
    """The most frequent categories of each categorical column; None for a column of numbers."""

    known: tuple[FloatArray | None, ...]

    @classmethod
    def of(cls, rows: Rows, most: int) -> Categories:
        """The most frequent categories in these rows, at most ``most`` for each column."""
        known: list[FloatArray | None] = []
        for column, categorical in zip(rows.X.T, rows.categorical, strict=True):
            names, counts = np.unique(column[~np.isnan(column)], return_counts=True)
            frequent = np.argsort(-counts, kind="stable")[:most]
            known.append(np.sort(names[frequent]) if categorical else None)
        return cls(tuple(known))

    def coded(self, X: FloatArray) -> FloatArray:
        """The columns, with each category replaced by its position in the list of known categories.

        Categories that are not in the list become NaN.
        """
        coded = np.array(X, dtype=np.float64)
        for k, names in enumerate(self.known):
            if names is not None:
                place = np.searchsorted(names, X[:, k])
                found = np.append(names, np.nan)[place] == X[:, k]
                coded[:, k] = np.where(found, place, np.nan)
        return coded


class Design:
    """Makes the columns of a logistic regression from features, behavior so far and step.

    The columns are standardised numbers and their squares, flags for missing values, and one-hot
    categories. To let the weights of these columns change with the step, each column is multiplied
    by columns for the step. These are one column per step for up to 15 steps. For longer runs they
    are a cubic spline, whose knots (where its pieces meet) are quantiles of the rows' steps.
    """

    def __init__(self, learn: Rows, most_categories: int) -> None:
        self._categories = Categories.of(learn, most_categories)
        values = self._values(learn)
        missing: BoolArray = np.isnan(values)
        self._gaps: list[bool] = np.any(missing, axis=0).tolist()
        some = np.where(missing.all(axis=0), 0.0, values)  # never seen: a constant
        self._mean, self._spread = np.nanmean(some, axis=0), np.nanstd(some, axis=0)
        self._n_steps = int(learn.t.max()) + 1
        self._spline = None
        if self._n_steps > _ONE_STEP_EACH:
            knots = np.unique(np.quantile(learn.t, np.linspace(0.0, 1.0, 6)))[:, None]
            self._spline = SplineTransformer(knots=knots, extrapolation="constant")
            self._spline.fit(learn.t[:, None].astype(np.float64))
        self.width = self(learn.take(slice(1))).shape[1]

    def __call__(self, rows: Rows) -> FloatArray:
        """The columns that the regression reads for these rows."""
        squares, linear = [], []
        known = (*self._categories.known, None)
        for k, (column, names) in enumerate(zip(self._values(rows).T, known, strict=True)):
            if names is not None:
                linear += [(column == place).astype(np.float64) for place in range(names.size)]
                continue
            there = np.where(np.isnan(column), self._mean[k], column)
            scaled = np.clip((there - self._mean[k]) / (self._spread[k] or 1.0), -_FAR, _FAR)
            linear.append(scaled)
            squares.append(scaled**2)
            if self._gaps[k]:
                linear.append(np.isnan(column).astype(np.float64))
        time = self._time(rows.t)
        crossed = [time * column[:, None] for column in linear]
        return np.column_stack([time, *crossed, *squares])

    def _time(self, t: IndexArray) -> FloatArray:
        if self._spline is None:
            place = np.minimum(t, self._n_steps - 1)
            own: FloatArray = np.eye(self._n_steps)[place]
            return own
        smooth: FloatArray = self._spline.transform(t[:, None].astype(np.float64))
        return smooth

    def _values(self, rows: Rows) -> FloatArray:
        return np.column_stack([self._categories.coded(rows.X), rows.b])
