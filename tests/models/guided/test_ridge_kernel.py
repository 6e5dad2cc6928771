"""The linear guide's kernels beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.guided._boosting_kernel import BoostedGuide
from ontarget.models.guided._guides_kernel import (
    FURTHEST,
    Guides,
    LinearGuide,
    append_guides_of_rows,
    solve_ridge,
    sums_by_fold,
)

RNG = np.random.default_rng(0)


def test_sums_and_solution_are_those_of_weighted_ridge_regression() -> None:
    design, y = RNG.normal(size=(60, 4)), RNG.normal(size=60)
    weight, folds = RNG.uniform(0.5, 2.0, size=60), RNG.integers(0, 3, size=60)
    sums = np.zeros((3, 4, 5))
    sums_by_fold(design, y, weight, folds, sums)
    penalty = np.array([1.0, 2.0, 0.5, 0.0])
    for fold in range(3):
        seen = folds != fold
        weighted = design[seen] * weight[seen, None]
        wanted = np.linalg.solve(weighted.T @ design[seen] + np.diag(penalty), weighted.T @ y[seen])
        others = [k for k in range(3) if k != fold]
        assert solve_ridge(sums[others].sum(axis=0), penalty) == pytest.approx(wanted)


def test_a_column_of_zeros_without_a_penalty_gets_no_coefficient() -> None:
    design = np.stack([np.zeros(10), np.ones(10)], axis=1)
    sums = np.zeros((1, 2, 3))
    sums_by_fold(design, np.full(10, 3.0), np.ones(10), np.zeros(10, dtype=np.intp), sums)
    assert solve_ridge(sums[0], np.zeros(2)).tolist() == [0.0, 3.0]


def guide(terms: list[float]) -> LinearGuide:
    """One number and one category of three."""
    return LinearGuide(
        np.array(terms),
        np.array([0, 0, 3]),
        np.array([1.0, 4.0, 6.0]),
        np.array([10.0, 20.0, 30.0]),
    )


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ([7.0, 4.0], 100.0 + 2.0 * (7.0 - 3.0) / 2.0 + 20.0),
        ([3.0, 6.0], 100.0 + 30.0),
        ([np.nan, 1.0], 100.0 - 5.0 + 10.0),
        ([3.0, np.nan], 100.0 + 7.0),
        ([3.0, 5.0], 100.0),  # an unknown category between two known ones
        ([3.0, 9.0], 100.0),  # and one after the last
        ([1e308, 1.0], 100.0 + 2.0 * FURTHEST + 10.0),
    ],
)
def test_value_adds_slopes_and_effects(row: list[float], wanted: float) -> None:
    terms = [3.0, 0.5, 2.0, -5.0, 0.0, 0.0, 0.0, 7.0, 100.0]
    no_bins = BinTable(*(np.empty(0, dtype=d) for d in ("f8", "i8", "?", "u2")))
    no_trees = BoostedGuide(no_bins, np.empty(0, dtype=np.int64), np.empty(0))
    out = np.empty((1, 3))
    append_guides_of_rows(Guides(guide(terms), no_trees), np.array([row]), out)
    assert out[0].tolist() == pytest.approx([*row, wanted], nan_ok=True)
