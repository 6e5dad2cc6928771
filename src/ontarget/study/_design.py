"""Prepares columns for classifiers: categories as codes, and columns for logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import SplineTransformer

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.study.rows import Rows

_ONE_STEP_EACH = 15  # up to so many steps have a column each
_FAR = 6.0  # standard deviations beyond which a number is no further away


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
