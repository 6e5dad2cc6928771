"""The boosting kernels beside a slow search that looks at every cut by itself."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.models.forest._binning import bin_features, choose_bins
from ontarget.models.forest._store import drop_unused_edges
from ontarget.models.guided._boosting_kernel import (
    BoostedGuide,
    BoostingRules,
    boost,
    squared_errors,
    start_boosting,
)
from ontarget.models.guided._guides_kernel import Guides, LinearGuide, append_guides_of_rows

RNG = np.random.default_rng(0)
RULES = BoostingRules(n_trees=4, depth=3, rate=0.3, least_weight=5.0, penalty=1.0)


def with_missing(n: int) -> np.ndarray:
    X = RNG.normal(size=(n, 3))
    X[RNG.random(n) < 0.2, 1] = np.nan
    X[:, 2] = RNG.integers(0, 5, size=n)
    return X


def values_of(guide: BoostedGuide, X: np.ndarray) -> np.ndarray:
    nothing = np.empty(0)
    linear = LinearGuide(nothing, np.zeros(1, dtype=np.int64), nothing, nothing)
    out = np.empty((len(X), X.shape[1] + 1))
    append_guides_of_rows(Guides(linear, guide), X, out)
    return out[:, -1]


def best_split(X: np.ndarray, rest: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Which rows go left in the best split of these, or None."""
    best, chosen = 1e-12, None

    def part(rows: np.ndarray) -> float:
        return (weight * rest)[rows].sum() ** 2 / (weight[rows].sum() + RULES.penalty)

    every = np.ones(rest.size, dtype=bool)
    for f in range(X.shape[1]):
        for value in np.unique(X[~np.isnan(X[:, f]), f]):
            for missing_left in (False, True):
                left = (X[:, f] <= value) | (np.isnan(X[:, f]) & missing_left)
                heavy = min(weight[left].sum(), weight[~left].sum()) >= RULES.least_weight
                gain = part(left) + part(~left) - part(every)
                if heavy and gain > best * (1 + 1e-9):
                    best, chosen = gain, left
    return chosen


def slow_boost(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The trees' sum at the training rows."""
    y = y - np.average(y, weights=weight)
    fitted = np.zeros(y.size)
    for _ in range(RULES.n_trees):
        groups = [np.arange(y.size)]
        for _ in range(RULES.depth):
            parts = []
            for rows in groups:
                left = best_split(X[rows], (y - fitted)[rows], weight[rows]) if rows.size else None
                parts += [rows] if left is None else [rows[left], rows[~left]]
            groups = parts
        step = np.zeros(y.size)
        for rows in groups:
            pull = (weight * (y - fitted))[rows].sum()
            step[rows] = RULES.rate * pull / (weight[rows].sum() + RULES.penalty)
        fitted = fitted + step
    return fitted


@pytest.mark.parametrize("n_more", [0, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_are_those_of_a_slow_search(weighted: bool, n_more: int) -> None:
    X = np.column_stack([RNG.normal(size=(150, n_more)), with_missing(150)])[:, ::-1]
    y = X[:, 0] ** 2 + np.where(np.isnan(X[:, 1]), 2.0, X[:, 1]) + RNG.normal(size=150)
    weight = RNG.uniform(0.5, 1.5, size=150) if weighted else np.ones(150)
    bins = choose_bins(X, y, (), max_bins=200)
    nodes, values = boost(start_boosting(bin_features(X, bins), y, weight), RULES)
    guide = BoostedGuide(drop_unused_edges(nodes, bins), nodes, values)
    assert values_of(guide, X) == pytest.approx(slow_boost(X, y, weight), abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_boosting_goes_on_from_what_the_last_trees_left_over(weighted: bool) -> None:
    X = with_missing(150)
    y = X[:, 0] ** 2 + RNG.normal(size=150)
    weight = RNG.uniform(0.5, 1.5, size=150) if weighted else np.ones(150)
    bins = choose_bins(X, y, (), max_bins=200)
    whole = boost(start_boosting(bin_features(X, bins), y, weight), RULES)
    rows = start_boosting(bin_features(X, bins), y, weight)
    parts = [boost(rows, RULES._replace(n_trees=n)) for n in (1, 3)]
    assert np.array_equal(np.concatenate([nodes for nodes, _ in parts]), whole[0])
    assert np.array_equal(np.concatenate([values for _, values in parts]), whole[1])


def test_errors_after_each_tree_are_those_of_its_values() -> None:
    X, y = with_missing(200), RNG.normal(size=200)
    weight = RNG.uniform(0.5, 1.5, size=200)
    bins = choose_bins(X, y, (), max_bins=200)
    table = bin_features(X, bins)
    nodes, values = boost(start_boosting(table, y, np.ones(200)), RULES)
    errors = squared_errors(table, (y.copy(), weight), (nodes, values))
    for n in range(1, RULES.n_trees + 1):
        guide = BoostedGuide(bins, nodes[: n * 7], values[: n * 8])
        expected = (weight * (y - values_of(guide, X)) ** 2).sum()
        assert errors[n - 1] == pytest.approx(expected, rel=1e-6)


def test_the_deepest_tree_has_room_for_all_its_leaves() -> None:
    x = np.arange(256.0)
    bins = choose_bins(x[:, None], x, (), max_bins=256)
    rules = BoostingRules(n_trees=1, depth=8, rate=1.0, least_weight=0.5, penalty=0.0)
    nodes, values = boost(start_boosting(bin_features(x[:, None], bins), x, np.ones(256)), rules)
    guide = BoostedGuide(drop_unused_edges(nodes, bins), nodes, values)
    assert values_of(guide, x[:, None]) == pytest.approx(x - x.mean())


def test_rows_too_few_to_split_do_not_differ_missing_or_not() -> None:
    X, y = with_missing(8), RNG.normal(size=8)
    bins = choose_bins(X, y, (), max_bins=200)
    nodes, values = boost(start_boosting(bin_features(X, bins), y, np.ones(8)), RULES)
    guide = BoostedGuide(drop_unused_edges(nodes, bins), nodes, values)
    queries = np.array([X[0], np.full(3, np.nan), np.full(3, 1e9)])
    assert values_of(guide, queries).tolist() == [0.0, 0.0, 0.0]
