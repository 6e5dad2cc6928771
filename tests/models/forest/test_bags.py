"""Out-of-bag answers: honest about episodes that the model learned from."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import kstest

from leaves import mass_by_outcome
from ontarget.errors import InputError
from ontarget.models import QuantileForest, StackedForest
from refusals import refuses

RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(80), 5)
X = RNG.normal(size=(400, 4))
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=400)
VALUES = np.column_stack([Y, Y + 0.3, np.full(400, 99.0)])
MODELS = {"forest": QuantileForest(12, min_leaf=3), "stacked": StackedForest(12)}


def masses_by_tree(
    forest: QuantileForest, rows: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What each tree's own leaf says of the values, and which outcomes its bag holds."""
    arrays = forest.to_arrays()
    nodes, n_values = arrays["nodes"], arrays["support"].size
    answers, held = [], []
    for first, last in pairwise([*arrays["roots"], nodes.size]):
        leaves = nodes[first:last][nodes[first:last] < 0]
        start = (leaves & 0xFFFF_FFFF).min()
        size = ((leaves >> 32) & 0x7FFF_FFFF).sum()
        own = nodes[first:last] - np.where(nodes[first:last] < 0, start, first)
        tree = {"roots": arrays["roots"][:1], "nodes": own}
        tree["entries"] = arrays["entries"][start : start + size]
        tree["shares"] = arrays["shares"][start : start + size]
        weights = mass_by_outcome(QuantileForest.from_arrays(arrays | tree), rows)
        upto = np.cumsum(np.column_stack([np.zeros(len(rows)), weights]), axis=1)
        at = [np.searchsorted(arrays["support"], values, side=side) for side in ("left", "right")]
        answers.append([np.take_along_axis(upto, one, axis=1) for one in at])
        held.append(np.bincount(tree["entries"], minlength=n_values) > 0)  # each has one row
    return np.array(answers), np.array(held)


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"bootstrap": False, "max_samples": 0.6},
        {"max_entries": 900},
        {"max_entries": 900, "bootstrap": False},
    ],
)
@pytest.mark.parametrize("weight", [None, RNG.random(400) + 0.1], ids=["even", "weighted"])
def test_answers_are_those_of_the_trees_that_omit_the_episode(
    weight: np.ndarray | None, sampling: dict
) -> None:
    forest = QuantileForest(6, min_leaf=3, smooth=False, **sampling).fit(X, Y, weight, ids=IDS)
    answers, held = masses_by_tree(forest, X, VALUES)
    of_outcome = IDS[np.argsort(Y)]  # outcomes differ, so each stands for a row
    bags = np.array([np.isin(np.arange(80), of_outcome[one]) for one in held])
    omits = ~bags[:, IDS][:, None, :, None]
    n_omitting = omits.sum(axis=0)
    assert n_omitting.min() < 3 < n_omitting.max()
    with np.errstate(invalid="ignore"):
        wanted = (answers * omits).sum(axis=0) / n_omitting
    found = forest.out_of_bag_limits(X, VALUES, IDS)
    assert np.allclose(found, wanted, atol=1e-12, equal_nan=True)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    flat = forest.out_of_bag_limits(X, Y, IDS)
    assert np.array_equal(flat, np.array(found)[:, :, 0], equal_nan=True)


@pytest.mark.parametrize("weight", [None, RNG.random(400) + 0.1], ids=["even", "weighted"])
def test_values_that_rows_share_are_answered_as_if_each_were_asked_alone(
    weight: np.ndarray | None,
) -> None:
    forest = QuantileForest(8, min_leaf=5).fit(X, Y, weight, ids=IDS)
    ladders = np.quantile(Y, [[0.1, 0.3, 0.5, 0.8, 0.9, 0.9], [0.2, 0.3, 0.5, 0.6, 0.7, 0.95]])
    asked = np.column_stack(
        [ladders[np.arange(400) // 150 % 2], Y]
    )  # by turns, and at last its own
    asked[77, 4] = Y.min()  # one row goes its own way halfway
    found = forest.out_of_bag_limits(X, asked, IDS)
    alone = [forest.out_of_bag_limits(X, column, IDS) for column in asked.T]
    for side in (0, 1):
        own = np.column_stack([one[side] for one in alone])
        assert np.array_equal(found[side], own, equal_nan=True)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_budget_of_entries_is_kept_by_whole_episodes(bootstrap: bool) -> None:
    model = QuantileForest(12, min_leaf=2, bootstrap=bootstrap)
    whole = model.fit(X, Y, ids=IDS).to_arrays()
    assert whole["entries"].size == 12 * 400
    loose = model.set_params(max_entries=12 * 400).fit(X, Y, ids=IDS).to_arrays()
    assert all(np.array_equal(loose[name], whole[name]) for name in whole)
    tight = model.set_params(max_entries=12 * 100 + 11).fit(X, Y, ids=IDS).to_arrays()
    assert tight["entries"].size == 12 * 100
    drawn = np.bincount(tight["entries"], minlength=400)
    by_episode = drawn[np.argsort(tight["row_episode"], kind="stable")].reshape(80, 5)
    assert (by_episode == by_episode[:, :1]).all()
    least = model.set_params(max_entries=1, min_leaf=10).fit(X, Y, ids=IDS).to_arrays()
    assert least["entries"].size == 12 * 40


def test_an_episode_that_no_tree_drew_has_the_very_bits_of_the_cdf() -> None:
    forest = QuantileForest(3, min_leaf=3).fit(X, Y, ids=IDS)
    untouched = ~forest._learned_.held.any(axis=0)[IDS]
    assert 5 <= untouched.sum() < 100
    found = np.array(forest.out_of_bag_limits(X, VALUES, IDS))
    wanted = np.array(forest.cdf_limits(X, VALUES))
    assert np.array_equal(found[:, untouched], wanted[:, untouched])


@pytest.mark.parametrize("name", list(MODELS))
def test_only_in_bag_answers_tell_an_episodes_own_noise(name: str) -> None:
    # Features name the episode and outcomes are its own noise: whoever saw it could tell.
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(600), 3)
    features = np.column_stack([ids + 0.1 * rng.random(1800), rng.normal(size=1800)])
    noise = rng.normal(size=600)
    model = copy.deepcopy(MODELS[name]).set_params(n_trees=100, min_leaf=15)
    model.fit(features, noise[ids], ids=ids, steps=np.tile(np.arange(3), 600))
    asked = np.arange(600) * 3 + np.arange(600) % 3  # one row of each episode
    rows = features[asked]
    honest = model.out_of_bag_limits(rows, np.column_stack([noise, np.zeros(600)]), ids[asked])[1]
    assert kstest(honest[:, 0], "uniform").statistic < 0.055
    told = [np.corrcoef(p, noise <= 0.0)[0, 1] for p in (honest[:, 1], model.cdf(rows, 0.0))]
    assert told[0] < 0.05 < 0.2 < told[1]


@pytest.mark.parametrize("name", list(MODELS))
def test_steps_that_were_no_training_rows_are_answered_by_the_same_trees(name: str) -> None:
    some = np.arange(400) % 5 < 2
    model = copy.deepcopy(MODELS[name]).fit(X[some], Y[some], ids=IDS[some])
    found = np.array(model.out_of_bag_limits(X, VALUES, IDS))
    assert np.isfinite(found[:, ~some]).mean() > 0.9
    moved = np.where(IDS[some] == 7, Y[some] + 1e-9, Y[some])
    again = copy.deepcopy(MODELS[name]).fit(X[some], moved, ids=IDS[some])
    near = np.array(again.out_of_bag_limits(X, VALUES, IDS))
    assert np.allclose(near[:, IDS == 7], found[:, IDS == 7], atol=0.01, equal_nan=True)


KINDS = {
    "negative": np.arange(80) - 50,
    "keys": np.arange(80, dtype=np.uint64) + np.uint64(2**64 - 100),
    "text": np.array([f"run {i:03d}" for i in range(80)]),
    "objects": np.array([f"run {i:03d}" for i in range(80)], dtype=object),
    "floats": np.arange(80) / 4,
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_ids_of_any_kind_are_found_again(kind: str) -> None:
    wanted = QuantileForest(9).fit(X, Y, ids=IDS).out_of_bag_limits(X, Y, IDS)
    ids = KINDS[kind][IDS]
    forest = QuantileForest(9).fit(X, Y, ids=ids)
    found = forest.out_of_bag_limits(X, Y, ids.tolist() if kind != "keys" else ids)
    assert np.array_equal(found, wanted, equal_nan=True)


def test_trees_that_drew_every_episode_cannot_tell() -> None:
    whole = QuantileForest(3, bootstrap=False).fit(X, Y, ids=IDS)
    with refuses(InputError, None, "bootstrap=False", "max_samples=1.0"):
        whole.out_of_bag_limits(X, Y, IDS)
