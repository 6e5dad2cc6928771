"""Boosted guides of all folds: what they may learn, and how many trees they keep."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.models.guided._boosting import NO_TREES, Learned, bin_rows, boost_by_fold
from ontarget.models.guided._boosting_kernel import BoostedGuide, BoostingRules
from ontarget.models.guided._guides import guide_rows
from ontarget.models.guided._guides_kernel import Guides
from ontarget.models.guided._ridge_kernel import LinearGuide

N, N_FOLDS = 600, 3
RULES = BoostingRules(n_trees=60, depth=2, rate=0.3, least_weight=10.0, penalty=1.0, patience=20)
NOTHING = np.empty(0)
NO_LINEAR = LinearGuide(NOTHING, np.zeros(1, dtype=np.int64), NOTHING, NOTHING)


@pytest.fixture
def rows() -> Learned:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(N, 2)), rng.integers(0, 8, size=N)])
    return Learned(X, np.ones(N), rng.integers(0, N_FOLDS, size=N))


def outcomes(rows: Learned, noise: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.sin(rows.X[:, 0]) + (rows.X[:, 2] % 3) + noise * rng.normal(size=N)


def n_trees(guide: BoostedGuide) -> int:
    return guide.values.size // (1 << RULES.depth)


def test_the_trees_that_are_kept_leave_the_smallest_error_in_unseen_rows(rows: Learned) -> None:
    y = outcomes(rows, noise=1.0)
    every = boost_by_fold(
        rows, [y] * (N_FOLDS + 1), RULES._replace(patience=0), bin_rows(rows.X, ())
    )
    errors = np.zeros(RULES.n_trees)
    for k, guide in enumerate(every[:-1]):
        unseen = rows.folds == k
        rest = y[unseen] - y[~unseen].mean()
        for n in range(RULES.n_trees):
            some = BoostedGuide(guide.bins, guide.nodes[: 3 * (n + 1)], guide.values[: 4 * (n + 1)])
            told = guide_rows(Guides(NO_LINEAR, some), rows.X[unseen])[:, -1]
            errors[n] += np.square(rest - told).sum()
    best = int(errors.argmin()) + 1
    kept = boost_by_fold(rows, [y] * (N_FOLDS + 1), RULES, bin_rows(rows.X, ()))
    assert 1 < best < RULES.n_trees
    assert [n_trees(guide) for guide in kept] == [best] * (N_FOLDS + 1)
    assert all(
        np.array_equal(some.values, full.values[: some.values.size])
        for some, full in zip(kept, every, strict=True)
    )


def test_more_noise_keeps_fewer_trees(rows: Learned) -> None:
    binned = bin_rows(rows.X, ())
    kept = [
        n_trees(boost_by_fold(rows, [outcomes(rows, noise)] * (N_FOLDS + 1), RULES, binned)[0])
        for noise in (0.1, 10.0)
    ]
    assert kept[1] < kept[0]


def test_a_guide_does_not_know_unseen_outcomes(rows: Learned) -> None:
    y, rules = outcomes(rows, noise=0.5), RULES._replace(patience=0)
    changed = np.where(rows.folds == 1, 100.0 * rows.X[:, 2], y)
    binned = bin_rows(rows.X, ())
    one = boost_by_fold(rows, [y] * (N_FOLDS + 1), rules, binned)
    other = boost_by_fold(rows, [changed] * (N_FOLDS + 1), rules, binned)
    for a, b in zip((*one[1].bins, *one[1][1:]), (*other[1].bins, *other[1][1:]), strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(one[0].values, other[0].values)


def test_a_guide_tells_no_category_from_another(rows: Learned) -> None:
    y = outcomes(rows, noise=0.1)
    guide = boost_by_fold(rows, [y] * (N_FOLDS + 1), RULES, bin_rows(rows.X, (2,)))[-1]
    asked = rows.X.copy()
    asked[:, 2] = np.arange(N)
    told = [guide_rows(Guides(NO_LINEAR, guide), X)[:, -1] for X in (rows.X, asked)]
    assert np.array_equal(*told)
    assert np.ptp(told[0]) > 1.0


def test_without_rows_to_learn_from_there_are_no_trees(rows: Learned) -> None:
    alone = rows._replace(folds=np.zeros(N, dtype=np.intp))
    without, of_all = boost_by_fold(alone, [outcomes(rows, 0.1)] * 2, RULES, bin_rows(rows.X, (2,)))
    assert without is NO_TREES
    assert n_trees(of_all) == RULES.n_trees
