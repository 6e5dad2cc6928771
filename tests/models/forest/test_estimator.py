"""The quantile forest as a user meets it."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

from leaves import mass_by_outcome
from ontarget.errors import InputError, ModelFileError
from ontarget.models import QuantileForest
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X[:, 0] + (1.0 + (X[:, 1] > 0)) * RNG.normal(size=400)
QUERIES = RNG.normal(size=(50, 5))


def arrays_equal(a: QuantileForest, b: QuantileForest) -> bool:
    first, second = a.to_arrays(), b.to_arrays()
    return all(np.array_equal(first[key], second[key]) for key in first)


def test_each_seed_has_a_forest_of_its_own_and_every_tree_differs() -> None:
    zero, one = QuantileForest(4, seed=0).fit(X, Y), QuantileForest(4, seed=1).fit(X, Y)
    keyed = QuantileForest(4, seed=(0, 7)).fit(X, Y)
    assert not arrays_equal(zero, one)
    assert not arrays_equal(zero, keyed)
    assert arrays_equal(keyed, QuantileForest(4, seed=[0, 7]).fit(X, Y))
    leaves = zero.to_arrays()["nodes"]
    roots = np.append(zero.to_arrays()["roots"], leaves.size)
    trees = [leaves[a:b] & 0xFFFF for a, b in pairwise(roots)]
    assert not any(np.array_equal(trees[0], other) for other in trees[1:])


def test_a_longer_forest_starts_with_the_shorter_one() -> None:
    short, long = QuantileForest(3).fit(X, Y), QuantileForest(6).fit(X, Y)
    n_nodes = long.to_arrays()["roots"][3]
    n_entries = short.to_arrays()["entries"].size
    assert n_nodes == short.to_arrays()["nodes"].size
    assert np.array_equal(short.to_arrays()["entries"], long.to_arrays()["entries"][:n_entries])


def test_whole_episodes_are_drawn() -> None:
    ids = np.repeat(np.arange(40), 10)
    y = np.repeat(np.arange(40.0), 10) + np.tile(np.arange(10) / 100, 40)
    forest = QuantileForest(5, min_leaf=1).fit(X, y, ids=ids)
    arrays = forest.to_arrays()
    ends = np.append(arrays["roots"], arrays["nodes"].size)
    for first, last in pairwise(ends):
        nodes = arrays["nodes"][first:last]
        leaves = nodes[nodes < 0]
        held = np.concatenate(
            [
                arrays["entries"][(n & 0xFFFFFFFF) : (n & 0xFFFFFFFF) + ((n >> 32) & 0x7FFFFFFF)]
                for n in leaves
            ]
        )
        drawn = np.bincount(held, minlength=400).reshape(40, 10)
        assert np.all(drawn == drawn[:, :1])
        assert drawn[:, 0].sum() == 40
        assert drawn.max() > 1


def test_a_subsample_draws_no_episode_twice() -> None:
    forest = QuantileForest(3, min_leaf=1, bootstrap=False, max_samples=0.5).fit(X, Y)
    entries = forest.to_arrays()["entries"].reshape(3, 200)
    assert all(np.unique(part).size == 200 for part in entries)


def test_leaves_hold_at_least_min_leaf_different_rows() -> None:
    nodes = QuantileForest(10, min_leaf=9, bootstrap=False).fit(X, Y).to_arrays()["nodes"]
    sizes = (nodes[nodes < 0] >> 32) & 0x7FFF_FFFF
    assert sizes.min() >= 9
    assert sizes.max() < 60


def test_missing_values_learn_their_side() -> None:
    x = np.where(np.arange(400) % 4 == 0, np.nan, np.arange(400.0))[:, None]
    y = np.where(np.isnan(x[:, 0]), 50.0, (x[:, 0] > 200) * 1.0)
    forest = QuantileForest(20, max_features=1.0).fit(x, y)
    assert forest.predict([[np.nan], [10.0], [390.0]]) == pytest.approx([50.0, 0.0, 1.0], abs=0.5)
    low = np.where(np.isnan(x[:, 0]), 0.0, (x[:, 0] > 200) * 1.0)
    beside = QuantileForest(20, max_depth=1).fit(x, low)
    assert beside.predict([[np.nan]])[0] == pytest.approx(0.0, abs=0.05)


def test_an_all_missing_column_is_never_split_on() -> None:
    with_hole = np.column_stack([X[:, :2], np.full(400, np.nan)])
    forest = QuantileForest(10, max_features=1.0).fit(with_hole, Y)
    nodes = forest.to_arrays()["nodes"]
    assert 2 not in np.unique((nodes[nodes >= 0] >> 48) % 3)
    assert np.array_equal(forest.predict([[0.1, 0.2, 5.0]]), forest.predict([[0.1, 0.2, np.nan]]))


def test_categories_are_ordered_by_their_outcomes() -> None:
    category = RNG.integers(0, 6, 400).astype(float)
    y = np.isin(category, [0.0, 3.0, 5.0]) * 10.0 + RNG.normal(size=400) / 10
    depth_one = QuantileForest(5, max_depth=1, max_features=1.0)
    as_category = depth_one.fit(category[:, None], y, categorical=[0])
    guess = as_category.predict(np.arange(6.0)[:, None])
    assert np.all((guess > 9) == np.isin(np.arange(6), [0, 3, 5]))
    again = QuantileForest.from_arrays(as_category.to_arrays())
    assert np.array_equal(again.predict([[3.0]]), guess[3:4])


def test_an_unknown_category_counts_as_missing() -> None:
    category = np.repeat([1.0, 2.0, np.nan], [150, 150, 100])[:, None]
    forest = QuantileForest(10).fit(
        category, np.repeat([1.0, 2.0, 9.0], [150, 150, 100]), categorical=[0]
    )
    assert np.array_equal(forest.predict([[77.0]]), forest.predict([[np.nan]]))


@pytest.mark.parametrize("split", ["distribution", "variance"])
def test_the_cdf_follows_mean_and_spread(split: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.random((3400, 3))
    mean, spread = 5 * x[:, 0], 0.2 + 2 * (x[:, 1] > 0.5)
    forest = QuantileForest(split=split, min_leaf=20)
    forest.fit(x[:3000], (mean + spread * rng.normal(size=3400))[:3000])
    asked, wide = x[3000:], x[3000:, 1] > 0.5
    for z, level in ((-1.2816, 0.1), (0.0, 0.5), (1.2816, 0.9)):
        found = forest.cdf(asked, (mean + z * spread)[3000:])
        assert found[wide].mean() == pytest.approx(level, abs=0.03)
        assert found[~wide].mean() == pytest.approx(level, abs=0.15)


def test_held_out_ranks_of_continuous_outcomes_are_distinct() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4000, 4))
    y = x[:, 0] + rng.normal(size=4000)
    ranks = QuantileForest().fit(x[:2000], y[:2000]).cdf(x[2000:], y[2000:])
    assert np.unique(ranks).size >= 0.999 * 2000


def test_probabilities_of_integers_are_those_of_the_leaves_and_never_0() -> None:
    counts = np.random.default_rng(3).poisson(np.exp(X[:, 0] / 2)).astype(float)
    smooth = QuantileForest(20).fit(X, counts)
    grid = np.tile(np.arange(-1.0, counts.max() + 2), (50, 1))
    left, right = smooth.cdf_limits(QUERIES, grid)
    weights = mass_by_outcome(smooth, QUERIES)
    expected = np.zeros_like(grid)
    expected[:, np.searchsorted(grid[0], smooth.to_arrays()["support"])] = weights
    share = smooth.to_arrays()["tail"][3]
    seen = np.searchsorted(np.sort(counts), grid[0], side="right")
    marginal = np.diff(seen, prepend=0) / counts.size
    assert np.allclose(right - left, (1 - share) * expected + share * marginal, atol=1e-15)
    assert np.array_equal(right - left > 0.0, np.tile(marginal > 0.0, (50, 1)))
    assert (expected == 0.0)[:, marginal > 0.0].any()
    assert share == pytest.approx(1e-6)
    plain = QuantileForest(20, smooth=False).fit(X, counts)
    assert np.allclose(plain.cdf(QUERIES, grid), expected.cumsum(axis=1), atol=1e-12)


def test_a_pickled_forest_answers_the_same_from_read_only_arrays() -> None:
    forest = QuantileForest(5).fit(X, Y)
    again = pickle.loads(pickle.dumps(forest))
    assert np.array_equal(again.cdf(QUERIES, 0.1), forest.cdf(QUERIES, 0.1))
    assert not again.to_arrays()["nodes"].flags.writeable


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("n_trees", 0),
        ("min_leaf", 2.5),
        ("max_features", 0.0),
        ("max_features", 0),
        ("max_depth", 0),
        ("max_samples", 1.5),
        ("max_entries", 0),
        ("max_entries", 1e6),
        ("max_bins", 65_536),
        ("split", "gini"),
        ("seed", -1),
        ("seed", ()),
        ("seed", "a"),
    ],
)
def test_bad_options_are_refused(argument: str, wrong: object) -> None:
    with refuses(InputError, argument, "empty" if wrong == () else f"got {wrong!r}"):
        QuantileForest(**{argument: wrong}).fit(X, Y)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("min_leaf", "n_steps", "rows"),
    [(7, 5, 35), (1, 2, 2), (7, 1.0, 7), (3, 1.0, 3), (7, 2.5, 18), (3, 1.2, 5), (7, 5.0, 35)],
)
def test_pooled_leaves_count_episodes(min_leaf: int, n_steps: float, rows: int) -> None:
    forest = QuantileForest(min_leaf=min_leaf)
    assert forest.pooled_over(n_steps).min_leaf == rows
    assert forest.min_leaf == min_leaf


@pytest.mark.parametrize("n_steps", [0, 0.5, np.nan, np.inf, True, "2"])
def test_pooling_needs_at_least_one_step(n_steps: object) -> None:
    with refuses(InputError, "n_steps", repr(n_steps)):
        QuantileForest().pooled_over(n_steps)  # type: ignore[arg-type]


def test_categorical_needs_columns_of_the_table() -> None:
    with refuses(InputError, "categorical", "0 to 4", 5):
        QuantileForest(2).fit(X, Y, categorical=[5])


DAMAGES = {
    "child out of the tree": lambda a: a["nodes"].__setitem__(0, a["nodes"][0] | 0xFFFF_FFFF),
    "child before its parent": lambda a: a["nodes"].__setitem__(0, a["nodes"][0] & ~0xFFFF_FFFF),
    "no such feature": lambda a: a["nodes"].__setitem__(0, a["nodes"][0] | (1 << 62)),
    "no such bin": lambda a: a["nodes"].__setitem__(0, a["nodes"][0] | (0xFFFF << 32)),
    "leaf beyond the entries": lambda a: a["nodes"].__setitem__(-1, a["nodes"][-1] + 5),
    "no such row": lambda a: a["entries"].__setitem__(3, 400),
    "rows out of order": lambda a: a["entries"].__setitem__(slice(0, 2), [5, 4]),
    "outcome without a row": lambda a: a["row_start"].__setitem__(5, a["row_start"][4]),
    "rows from 1 up": lambda a: a["row_start"].__setitem__(0, 1),
    "row_start lost": lambda a: a.update(row_start=a["row_start"][:-1]),
    "more rows than entries can name": lambda a: a["row_start"].__setitem__(-1, 70_000),
    "fewer origins than rows": lambda a: a["row_start"].__setitem__(-1, 401),
    "episodes lost": lambda a: a.update(row_episode=a["row_episode"][1:]),
    "steps lost": lambda a: a.update(row_step=a["row_step"][:0]),
    "steps too wide": lambda a: a.update(row_step=a["row_step"].astype(np.uint32)),
    "episodes too wide": lambda a: a.update(row_episode=a["row_episode"].astype(np.uint32)),
    "root out of bounds": lambda a: a["roots"].__setitem__(-1, 10**9),
    "edges out of order": lambda a: a["edges"].__setitem__(1, -1e9),
    "edge is NaN": lambda a: a["edges"].__setitem__(-1, np.nan),
    "edge_start out of bounds": lambda a: a["edge_start"].__setitem__(-1, 10**9),
    "entries lost": lambda a: a.update(entries=a["entries"][:-1]),
    "wrong type": lambda a: a.update(nodes=a["nodes"].astype(np.float64)),
    "two dimensions": lambda a: a.update(nodes=a["nodes"][None]),
    "array missing": lambda a: a.pop("roots"),
    "no trees": lambda a: a.update(roots=a["roots"][:0]),
    "shares of another length": lambda a: a.update(shares=np.ones(3)),
    "shares not ending at 1": lambda a: a.update(shares=np.zeros(a["entries"].size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_refused(damage: str) -> None:
    arrays = {k: a.copy() for k, a in QuantileForest(3).fit(X, Y).to_arrays().items()}
    QuantileForest.from_arrays(arrays)
    DAMAGES[damage](arrays)
    with pytest.raises(ModelFileError):
        QuantileForest.from_arrays(arrays)


def test_arrays_of_imagined_outcomes_are_refused() -> None:
    arrays = QuantileForest(2).fit(X, Y).to_arrays()
    with refuses(ModelFileError, None, "successors=True", "ontarget 0.2"):
        QuantileForest.from_arrays({**arrays, "imagined": np.ones(1, dtype=np.bool_)})
