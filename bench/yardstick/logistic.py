"""A logistic regression that predicts "ends inside this target": a rival of the benchmarks.

Its strength is chosen on a fifth of the past episodes; then it learns from all of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import SplineTransformer
from threadpoolctl import threadpool_limits

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.study import Rows, both_kinds, clipped_loss, held_out, past_share

_STRENGTHS, _MOST_ONE_HOT = (0.01, 0.1, 1.0), 50
_MOST_CELLS = 40_000_000  # of a regression's matrix: 320 MB
_ONE_STEP_EACH = 15  # up to so many steps have a column each
_FAR = 6.0  # standard deviations beyond which a number is no further away


@threadpool_limits.wrap(limits=1)
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
    held = held_out(learn, seed)
    if not both_kinds(learn.met[~held]):
        return np.full(len(asked), past_share(learn))
    X, met = design(learn), learn.met
    losses = []
    for strength in _STRENGTHS:
        p = _regression(X[~held], met[~held], strength).predict_proba(X[held])[:, 1]
        losses.append(clipped_loss(p, met[held]))
    model = _regression(X, met, _STRENGTHS[int(np.argmin(losses))])
    pieces = (asked.take(slice(at, at + most)) for at in range(0, len(asked), most))
    return np.concatenate([model.predict_proba(design(piece))[:, 1] for piece in pieces])


def _regression(X: FloatArray, met: BoolArray, strength: float) -> Any:
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)
    with warnings.catch_warnings():
        # Fifty Newton steps of a penalised fit are near enough.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, met)


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
