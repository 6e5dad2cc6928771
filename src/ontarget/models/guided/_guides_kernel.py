"""Fits the linear guide, and appends the guides of a row to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models.forest._binning_kernel import bin_row
from ontarget.models.guided._boosting_kernel import BoostedGuide, boosted_value
from ontarget.models.kernels import factor, solve

# Numbers per feature: its centre, one over its spread, its slope, and the effect of missing it.
TERM_WIDTH = 4
# How many spreads from its centre a feature counts at most, so that no sum overflows.
FURTHEST = 1e6


class LinearGuide(NamedTuple):
    """A linear prediction from the features of a row; flat read-only arrays.

    ``terms`` holds four numbers for each feature (centre, 1 / spread, slope, and the effect of a
    missing value), then the intercept. Feature f is categorical if ``start[f] < start[f+1]``. Its
    known categories, sorted, and their effects are then at these positions of ``categories`` and
    ``effects``.
    """

    terms: FloatArray
    start: IntArray
    categories: FloatArray
    effects: FloatArray


@inner_kernel
def linear_value(row: FloatArray, guide: LinearGuide) -> float:
    """The prediction for a row; a category that was not in training has no effect."""
    terms, n_features = guide.terms, guide.start.size - 1
    total: float = terms[TERM_WIDTH * n_features]
    for f in range(n_features):
        value, at = row[f], TERM_WIDTH * f
        first, last = guide.start[f], guide.start[f + 1]
        if np.isnan(value):
            total += terms[at + 3]
        elif first < last:
            place = first + np.searchsorted(guide.categories[first:last], value)
            if place < last and guide.categories[place] == value:
                total += guide.effects[place]
        elif terms[at + 2] != 0.0:
            spreads = (value - terms[at]) * terms[at + 1]
            total += terms[at + 2] * min(max(spreads, -FURTHEST), FURTHEST)
    return total


@kernel
def sums_by_fold(
    design: FloatArray, y: FloatArray, weight: FloatArray, folds: IntArray, sums: AnyArray
) -> None:
    """For each fold (part of the episodes), add up weighted products of columns and the outcome.

    The products are those of each pair of columns, and of each column with the outcome. ``sums``
    has the shape (folds, columns, columns + 1). Only its lower triangle and its last column are
    filled.
    """
    n_columns = design.shape[1]
    for i in range(design.shape[0]):
        own = sums[folds[i]]
        for a in range(n_columns):
            weighted = weight[i] * design[i, a]
            if weighted != 0.0:
                for b in range(a + 1):
                    own[a, b] += weighted * design[i, b]
                own[a, n_columns] += weighted * y[i]


@kernel
def solve_ridge(sums: FloatArray, penalty: FloatArray) -> FloatArray:
    """The coefficients b of (S + diag(penalty)) b = r, by Cholesky's method.

    S is ``sums`` without its last column, and r is that column.
    """
    n = penalty.size
    gram = sums[:, :n].copy()
    least = np.empty(n)
    for a in range(n):
        gram[a, a] += penalty[a]
        least[a] = 1e-12 * (1.0 + sums[a, a])
    factor(gram, least, np.inf)
    return solve(gram, sums[:, n].copy())


# Guides are in units of the outcome's spread, so this is a billionth of it.
_SCALE = 2.0**30


class Guides(NamedTuple):
    """The two guides of a forest: a ridge regression and boosted trees."""

    linear: LinearGuide
    boosted: BoostedGuide


@inner_kernel
def count_guides(guides: Guides) -> int:
    """How many predictions the guides append to a row."""
    return (guides.linear.terms.size > 0) + (guides.boosted.values.size > 0)


@inner_kernel
def _rounded(value: float) -> float:
    """The prediction of a guide, rounded to about 1e-9 of the outcome's spread."""
    return float(np.rint(value * _SCALE) / _SCALE)


@inner_kernel
def _append_guides(guides: Guides, row: FloatArray, codes: AnyArray, out: FloatArray) -> None:
    """Write a row's features, and after them its guides (predictions of the mean), into ``out``."""
    n_features = row.size
    for f in range(n_features):
        out[f] = row[f]
    at, value = n_features, 0.0
    if guides.linear.terms.size > 0:
        value = linear_value(row, guides.linear)
        out[at] = _rounded(value)
        at += 1
    if guides.boosted.values.size > 0:
        bin_row(row, guides.boosted.bins, codes)
        out[at] = _rounded(value + boosted_value(codes, guides.boosted))


@kernel
def append_guides_of_rows(guides: Guides, X: FloatArray, out: FloatArray) -> None:
    """Write each row's features, and after them its guides (predictions of the mean)."""
    codes = np.empty(2 * X.shape[1], dtype=np.uint16)
    for i in range(X.shape[0]):
        _append_guides(guides, X[i], codes, out[i])
