"""One grown tree against a slow oracle that tries every split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget.models.forest._binning import bin_features, choose_bins
from ontarget.models.forest._growing import SPLIT_SCORES
from ontarget.models.forest._growing_kernel import grow_tree
from ontarget.models.forest._presorted_kernel import (
    SMALL,
    GrowthRules,
    TrainingTable,
    draw_below,
    draw_with_replacement,
    draw_without_replacement,
)

LOW32 = 0xFFFF_FFFF
SIZES = np.arange(1, 21)


def training_table(
    X: np.ndarray, y: np.ndarray, *, split: str, weight: np.ndarray
) -> TrainingTable:
    values, ranks = np.unique(y, return_inverse=True)
    mass = np.bincount(ranks).astype(float)
    codes, n_bins = bin_features(X, choose_bins(X, y, (), max_bins=255))
    scores = SPLIT_SCORES[split](values, mass)[ranks]
    return TrainingTable(codes, n_bins, scores, weight, ranks.astype(np.uint32))


def best_gain(table: TrainingTable, rows: np.ndarray, mass: np.ndarray, min_leaf: int) -> float:
    """The most of the scores' variance that any split of these rows explains; NaN if none may."""
    best = np.nan
    for f, codes in enumerate(table.codes[:, rows].astype(int)):
        missing = codes == table.n_bins[f]
        for cut in range(-1, table.n_bins[f]):
            for left in (codes <= cut, (codes <= cut) | missing):
                if min(left.sum(), (~left).sum()) >= min_leaf:
                    best = np.fmax(best, explained(table.scores[rows], mass, left))
    return best


def explained(scores: np.ndarray, mass: np.ndarray, left: np.ndarray) -> float:
    return sum(
        ((mass[side, None] * scores[side]).sum(axis=0) ** 2).sum() / mass[side].sum()
        for side in (left, ~left)
        if side.any()
    )


def rows_of_nodes(
    table: TrainingTable, nodes: np.ndarray, bag: np.ndarray
) -> dict[int, np.ndarray]:
    """Which rows of the bag reach each node, by walking down."""
    n_features = table.n_bins.size
    reached, queue = {}, [(0, bag)]
    while queue:
        at, rows = queue.pop()
        reached[at] = rows
        if nodes[at] >= 0:
            slot, cut, child = nodes[at] >> 48, (nodes[at] >> 32) & 0xFFFF, nodes[at] & LOW32
            codes = table.codes[slot % n_features, rows].astype(int)
            missing = codes == table.n_bins[slot % n_features]
            left = np.where(missing, slot >= n_features, codes <= cut)
            queue += [(int(child), rows[left]), (int(child) + 1, rows[~left])]
    return reached


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 40),
    n_values=st.sampled_from([2, 5, 1000]),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
    split=st.sampled_from(sorted(SPLIT_SCORES)),
    weighted=st.booleans(),
)
@settings(max_examples=60)
def test_every_split_is_the_best_there_is_and_every_leaf_holds_its_rows(
    seed: int, n_rows: int, n_values: int, missing: float, split: str, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, (n_rows, 3)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    y = np.sort(np.round(rng.normal(size=n_rows), rng.integers(0, 3)))
    weight = rng.random(n_rows) + 0.1 if weighted else np.empty(0)
    table = training_table(X, y, split=split, weight=weight)
    counts = rng.integers(0, 3, n_rows)
    counts[rng.integers(n_rows)] = 1
    min_leaf = int(rng.integers(1, 4))
    nodes, entries, shares = grow_tree(
        table, counts, GrowthRules(min_leaf, 1000, 3), np.array([seed], dtype=np.uint64)
    )
    mass = counts * (weight if weighted else 1.0)
    for at, rows in rows_of_nodes(table, nodes, np.flatnonzero(counts)).items():
        possible = best_gain(table, rows, mass[rows], min_leaf)
        whole = explained(table.scores[rows], mass[rows], np.ones(rows.size, dtype=bool))
        if nodes[at] >= 0:
            child = int(nodes[at] & LOW32)
            left = np.isin(rows, rows_of_nodes(table, nodes, np.flatnonzero(counts))[child])
            assert min(left.sum(), (~left).sum()) >= min_leaf
            assert explained(table.scores[rows], mass[rows], left) == pytest.approx(possible)
        else:
            start, size = int(nodes[at] & LOW32), int((nodes[at] >> 32) & 0x7FFF_FFFF)
            held = np.repeat(rows, counts[rows])
            assert np.array_equal(entries[start : start + size], held)
            assert not possible > whole * (1 + 1e-9) + 1e-9
            if weighted:
                cumulative = np.cumsum(np.repeat(weight[rows], counts[rows]))
                assert np.allclose(shares[start : start + size], cumulative / cumulative[-1])
                assert shares[start + size - 1] == 1.0
    assert shares.size == (entries.size if weighted else 0)


def explained_whole(scores: np.ndarray, mass: np.ndarray) -> float:
    return ((mass[:, None] * scores).sum(axis=0) ** 2).sum() / mass.sum()


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_a_node_of_many_rows_gets_the_best_split_there_is(seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    n_rows = SMALL + 900
    X = rng.integers(0, 6, (n_rows, 2)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    signal = np.where(np.isnan(X[:, 0]), rng.integers(0, 7), X[:, 0])
    y = signal + 2.0 * rng.normal(size=n_rows)
    order = np.argsort(y)
    table = training_table(X[order], y[order], split="distribution", weight=np.empty(0))
    counts = np.ones(n_rows, dtype=np.int64)
    nodes, entries, _ = grow_tree(
        table, counts, GrowthRules(50, 1, 2), np.array([seed], dtype=np.uint64)
    )
    rows = np.arange(n_rows)
    left = np.isin(rows, rows_of_nodes(table, nodes, rows)[1])
    best = best_gain(table, rows, counts.astype(float), 50)
    assert explained(table.scores, counts.astype(float), left) == pytest.approx(best)
    assert np.array_equal(np.sort(entries), rows)


def test_a_large_node_that_nothing_splits_is_one_leaf() -> None:
    n_rows = SMALL + 10
    y = np.arange(float(n_rows))
    table = training_table(np.ones((n_rows, 2)), y, split="variance", weight=np.empty(0))
    nodes, entries, _ = grow_tree(
        table,
        np.ones(n_rows, dtype=np.int64),
        GrowthRules(1, 9, 2),
        np.array([0], dtype=np.uint64),
    )
    assert nodes.size == 1
    assert np.array_equal(entries, np.arange(n_rows))


def test_depth_is_limited() -> None:
    X = np.arange(64.0)[:, None]
    table = training_table(X, np.arange(64.0), split="variance", weight=np.empty(0))
    for depth in (1, 2, 3):
        nodes, *_ = grow_tree(
            table,
            np.ones(64, dtype=np.int64),
            GrowthRules(1, depth, 1),
            np.array([0], dtype=np.uint64),
        )
        assert nodes.size == 2 ** (depth + 1) - 1


def test_many_bins_are_found_as_well_as_few() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.permutation(6000.0 * np.arange(6000))[:, None], np.arange(6000.0)
    codes, n_bins = bin_features(X, choose_bins(X, y, (), max_bins=65_535))
    assert n_bins[0] == 6000
    where = np.argsort(np.argsort(X[:, 0]))
    assert np.array_equal(codes[0], where)
    stepped = (where > 4567).astype(float)  # one cut explains everything
    table = TrainingTable(
        codes,
        n_bins,
        np.stack([stepped, 0 * stepped], axis=1),
        np.empty(0),
        np.arange(6000, dtype=np.uint32),
    )
    nodes, *_ = grow_tree(
        table, np.ones(6000, dtype=np.int64), GrowthRules(1, 1, 1), np.array([1], dtype=np.uint64)
    )
    assert (nodes[0] >> 32) & 0xFFFF == 4567


def test_draws_are_even_and_repeat_with_their_state() -> None:
    state = np.array([5], dtype=np.uint64)
    draws = np.array([draw_below(state, 7) for _ in range(7000)])
    assert np.array_equal(np.unique(draws), np.arange(7))
    assert np.bincount(draws).min() > 850
    counts, again = np.zeros(20, dtype=np.int64), np.zeros(20, dtype=np.int64)
    for found in (counts, again):
        draw_with_replacement(np.array([5], dtype=np.uint64), (200, 10**6), SIZES, found)
    assert counts.sum() == 200
    assert np.array_equal(counts, again)


def test_draws_without_replacement_reach_every_item() -> None:
    total = np.zeros(20, dtype=np.int64)
    for seed in range(400):
        counts = np.full(20, 9, dtype=np.int64)
        draw_without_replacement(np.array([seed], dtype=np.uint64), (5, 10**6), SIZES, counts)
        assert counts.sum() == 5
        assert counts.max() == 1
        total += counts
    assert total.min() > 60


@pytest.mark.parametrize("draw", [draw_with_replacement, draw_without_replacement])
@pytest.mark.parametrize("most", [1, 30, 60, 10**6])
def test_draws_stop_before_their_sizes_exceed_the_limit(draw: Callable, most: int) -> None:
    total = np.zeros(20, dtype=np.int64)
    for seed in range(600):
        free, counts = np.zeros(20, dtype=np.int64), np.zeros(20, dtype=np.int64)
        draw(np.array([seed], dtype=np.uint64), (8, 10**6), SIZES, free)
        draw(np.array([seed], dtype=np.uint64), (8, most), SIZES, counts)
        assert counts.sum() >= 1
        assert (counts <= free).all()
        assert (counts * SIZES).sum() <= most or counts.sum() == 1
        if (free * SIZES).sum() <= most:
            assert np.array_equal(counts, free)
        total += counts
    assert total.min() > 10  # neither the first nor the last items are left out
