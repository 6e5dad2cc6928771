"""Answers of a forest against ten lines of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from leaves import mass_by_outcome
from ontarget.models.forest._batch_kernel import leaves_of_rows
from ontarget.models.forest._store import table_to_arrays
from ontarget.models.forest.estimator import QuantileForest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.round(np.nan_to_num(X[:, 0]) * 2 + RNG.normal(size=300), 1)
QUERIES = RNG.normal(size=(40, 4))
QUERIES[RNG.random(QUERIES.shape) < 0.1] = np.nan


def leaf_entries(forest: QuantileForest, row: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Outcomes and masses of the row's leaf in each tree, by walking down one node at a time."""
    a = table_to_arrays(forest.table_)
    leaves = []
    for root in a["roots"]:
        node = a["nodes"][root]
        while node >= 0:
            feature, missing_left = (node >> 48) % row.size, (node >> 48) >= row.size
            edges = a["edges"][a["edge_start"][feature] : a["edge_start"][feature + 1]]
            code = (edges < row[feature]).sum()
            left = missing_left if np.isnan(row[feature]) else code <= ((node >> 32) & 0xFFFF)
            node = a["nodes"][(node & 0xFFFF_FFFF) + (0 if left else 1)]
        start, size = node & 0xFFFF_FFFF, (node >> 32) & 0x7FFF_FFFF
        outcomes = np.repeat(a["support"], np.diff(a["row_start"]))
        entries = outcomes[a["entries"][start : start + size]]
        shares = (
            a["shares"][start : start + size] if a["shares"].size else np.arange(1, size + 1) / size
        )
        leaves.append((entries, np.diff(shares, prepend=0.0)))
    return leaves


@pytest.mark.parametrize("weight", [None, RNG.random(300) + 0.1], ids=["even", "weighted"])
def test_cdf_mean_and_weights_equal_the_leaves_own(weight: np.ndarray | None) -> None:
    forest = QuantileForest(n_trees=7, min_leaf=4, smooth=False).fit(X, Y, weight)
    weights = mass_by_outcome(forest, QUERIES)
    values = forest.to_arrays()["support"]
    for i, row in enumerate(QUERIES):
        leaves = leaf_entries(forest, row)
        for y in (-1.0, 0.0, 0.05, 2.3):
            left = np.mean([mass[v < y].sum() for v, mass in leaves])
            right = np.mean([mass[v <= y].sum() for v, mass in leaves])
            assert np.allclose(forest.cdf_limits(row[None], y), [[left], [right]], atol=1e-12)
            assert weights[i, values <= y].sum() == pytest.approx(right, abs=1e-12)
        mean = np.mean([mass @ v for v, mass in leaves])
        assert forest.predict(row[None])[0] == pytest.approx(mean, abs=1e-12)
        assert weights[i].sum() == pytest.approx(1.0)


def limits_by_ranks(
    forest: QuantileForest, values: np.ndarray, leaves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both limits by M2's definition: entries as ranks of outcomes, shares summed tree by tree."""
    a = table_to_arrays(forest.table_)
    ranks = np.searchsorted(a["row_start"], a["entries"], side="right") - 1
    limits = np.zeros((2, *values.shape))
    for i, own in enumerate(leaves):
        for node in a["nodes"][own]:
            start, size = node & 0xFFFF_FFFF, (node >> 32) & 0x7FFF_FFFF
            shares = np.arange(size + 1) / size
            if a["shares"].size:
                shares = np.append(0.0, a["shares"][start : start + size])
            outcomes = a["support"][ranks[start : start + size]]
            for k, side in enumerate(("left", "right")):
                limits[k, i] += shares[np.searchsorted(outcomes, values[i], side=side)]
    return limits[0] / leaves.shape[1], limits[1] / leaves.shape[1]


@pytest.mark.parametrize("weight", [None, RNG.random(300) + 0.1], ids=["even", "weighted"])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_row_numbers_give_the_very_bits_of_ranks(digits: int, weight: np.ndarray | None) -> None:
    y = np.round(Y + 1e-3 * RNG.normal(size=300), digits)
    forest = QuantileForest(n_trees=9, min_leaf=4, smooth=False).fit(X, y, weight)
    leaves = np.empty((40, 9), dtype=np.uint32)
    leaves_of_rows(forest.table_, QUERIES, leaves)
    values = np.column_stack([RNG.choice(y, (40, 5)), RNG.normal(size=(40, 2)), np.full(40, 9e9)])
    wanted = limits_by_ranks(forest, values, leaves)
    assert np.array_equal(forest.cdf_limits(QUERIES, values), wanted)
    for i in (0, 11):
        alone = forest.cdf_limits(QUERIES[i : i + 1], values[i : i + 1])
        assert np.array_equal(alone, np.array(wanted)[:, i : i + 1])


def test_rows_lead_back_to_their_episodes_and_steps() -> None:
    ids, steps = np.repeat(np.arange(75) * 7, 4), np.tile([3, 5, 70_000, 9], 75)
    forest = QuantileForest(n_trees=7, min_leaf=3).fit(X, Y, ids=ids, steps=steps)
    weights = forest.row_weights(QUERIES).toarray()
    arrays = forest.to_arrays()
    outcomes = np.repeat(arrays["support"], np.diff(arrays["row_start"]))
    assert np.allclose(weights.sum(axis=1), 1.0)
    assert np.allclose(weights @ outcomes, forest.predict(QUERIES))
    recorded = {(i, t): y for i, t, y in zip(ids // 7, steps, Y, strict=True)}
    origins = zip(forest.training_episodes_, forest.training_steps_, strict=True)
    assert [recorded[int(i), int(t)] for i, t in origins] == outcomes.tolist()
    again = QuantileForest.from_arrays(arrays)
    assert np.array_equal(again.training_episodes_, forest.training_episodes_)
    assert np.array_equal(again.training_steps_, forest.training_steps_)
    assert forest.training_steps_.dtype == np.uint32


@pytest.mark.parametrize("steps", [None, np.repeat(["a", "b"], 150), np.repeat([-1, 4], 150)])
def test_steps_that_are_no_whole_numbers_are_numbered(steps: np.ndarray | None) -> None:
    forest = QuantileForest(n_trees=2).fit(X, Y, steps=steps)
    assert np.unique(forest.training_steps_).tolist() == ([0] if steps is None else [0, 1])
    assert forest.training_steps_.dtype == np.uint16
    assert np.array_equal(forest.training_episodes_, np.arange(300))


def test_the_live_path_gives_the_very_bits_of_the_batch() -> None:
    forest = QuantileForest(n_trees=30, min_leaf=3).fit(X, Y + 1e-3 * RNG.normal(size=300))
    targets = np.tile([-0.5, 0.3, 1.7], (40, 1))
    left, right = forest.cdf_limits(QUERIES, targets)
    live = forest.live()
    for size in (1, 7):
        for a in range(0, len(QUERIES), size):
            rows, ys = QUERIES[a : a + size], targets[a : a + size]
            ours = np.empty(ys.shape), np.empty(ys.shape)
            live.limits(rows, ys, *ours)
            assert np.array_equal(ours, (left[a : a + size], right[a : a + size]))


def test_more_outcomes_than_sixteen_bits_hold_are_served() -> None:
    n_rows = 70_000
    x = np.linspace(0.0, 1.0, n_rows)[:, None]
    forest = QuantileForest(n_trees=2, min_leaf=500, bootstrap=False).fit(x, np.arange(n_rows))
    assert forest.to_arrays()["entries"].dtype == np.uint32
    assert forest.quantile([[0.97]], 0.5)[0] == pytest.approx(0.97 * n_rows, abs=600)
