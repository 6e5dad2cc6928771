"""The training rows behind a law: those of the leaves, with the forest's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ontarget._typing import FloatArray
from ontarget.models import QuantileForest, StackedForest
from ontarget.models.forest.base import Members

rng = np.random.default_rng(3)
N, STEPS = 60, 5
IDS, TIMES = np.repeat(np.arange(N), STEPS), np.tile(np.arange(STEPS), N)
X = rng.normal(size=(N * STEPS, 3))
Y = np.round(X[:, 0] + rng.normal(size=N * STEPS), 1)
FORESTS = [
    QuantileForest(n_trees=8, min_leaf=3),
    StackedForest(n_trees=8),
]


@pytest.fixture(params=FORESTS, ids=lambda model: model.kind)
def model(request: pytest.FixtureRequest) -> Any:
    return request.param.fit(X, Y, ids=IDS, steps=TIMES)


def by_row(found: Members, n_rows: int) -> FloatArray:
    """The mass of each row's members on every training row."""
    dense = np.zeros((found.counts.size, n_rows))
    for i, n in enumerate(found.counts.tolist()):
        np.add.at(dense[i], found.rows[i, :n], found.mass[i, :n])
    return dense


def test_members_are_the_rows_that_the_forest_weighs(model: Any) -> None:
    weights = model.row_weights(X[:40]).toarray()
    assert np.allclose(weights.sum(axis=1), model.row_share)
    assert np.allclose(by_row(model.members(X[:40]), Y.size), weights, atol=1e-15)


def test_training_rows_lead_to_their_episode_and_step(model: Any) -> None:
    place = model.training_episodes_ * STEPS + model.training_steps_
    assert np.array_equal(np.sort(place), np.arange(Y.size))
    assert np.array_equal(Y[place], np.sort(Y))
    assert np.array_equal(model.training_outcomes_, np.sort(Y))


def test_members_answer_like_the_law_of_the_forests(model: Any) -> None:
    outcome = Y[model.training_episodes_ * STEPS + model.training_steps_]
    mass = by_row(model.members(X[:20]), Y.size) @ (outcome <= 0.0)
    forests = [(1.0, model)]
    rows = X[:20]
    if isinstance(model, StackedForest):
        (_, rows), forests = (None, model._parts(rows)[1][0]), model._forests()
    expected = sum(weight * forest.cdf(rows, 0.0) for weight, forest in forests)
    assert np.allclose(mass, expected, atol=2e-6)  # all-atom laws mix in a millionth


def test_out_of_bag_members_never_hold_the_asking_episode(model: Any) -> None:
    found = model.out_of_bag_members(X[:50], IDS[:50])
    for i, n in enumerate(found.counts.tolist()):
        assert n > 0
        assert IDS[i] not in model.training_episodes_[found.rows[i, :n]]
    assert np.allclose(found.mass.sum(axis=1), model.row_share)
    plain = model.members(X[:50])
    assert any(
        IDS[i] in model.training_episodes_[plain.rows[i, : plain.counts[i]]] for i in range(50)
    )


def test_an_episode_that_every_tree_drew_has_no_members() -> None:
    forest = QuantileForest(n_trees=1, min_leaf=2).fit(X[:10], Y[:10], ids=IDS[:10] * 0 + 1)
    assert forest.out_of_bag_members(X[:1], [1]).counts.tolist() == [0]


def test_large_leaves_are_stood_for_by_rows_spread_over_their_outcomes() -> None:
    many = rng.normal(size=(1000, 1))
    forest = QuantileForest(n_trees=1, min_leaf=900, bootstrap=False).fit(many, many[:, 0])
    found = forest.members(many[:1])
    assert found.counts.tolist() == [64]
    assert np.allclose(found.mass, 1 / 64)
    assert np.array_equal(found.rows[0], (2 * np.arange(64) + 1) * 1000 // 128)


def test_members_follow_the_weights_of_rows() -> None:
    heavy = np.where(np.arange(Y.size) % 2, 3.0, 1.0)
    forest = QuantileForest(n_trees=5, min_leaf=4).fit(X, Y, heavy)
    assert np.allclose(
        by_row(forest.members(X[:9]), Y.size), forest.row_weights(X[:9]).toarray(), atol=1e-15
    )


def test_episodes_can_be_given_other_numbers(model: Any) -> None:
    before = model.training_episodes_
    arrays = model.number_episodes(np.arange(N) + 1000).to_arrays()
    assert np.array_equal(arrays["row_episode"], before + 1000)
    assert np.array_equal(type(model).from_arrays(arrays).training_episodes_, before + 1000)
