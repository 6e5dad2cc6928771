"""Imagined outcomes (M23): what is drawn, what stays as it was, and the trap of honest answers."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import InputError
from ontarget.models import QuantileForest
from ontarget.models.base import TrainingRows
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.forest._imagined import successors_of

SMALL = {"n_trees": 16, "min_leaf": 8, "seed": 3}


def chain(n: int, horizon: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, ...]:
    """A walk in which the place tells everything: rows, outcomes, episodes and steps."""
    rng = np.random.default_rng(seed)
    moves = np.rint(noise * rng.normal(size=(n, horizon)))
    place = np.concatenate([np.zeros((n, 1)), np.cumsum(moves, axis=1)], axis=1)
    ids, steps = np.divmod(np.arange(n * horizon), horizon)
    X = np.stack([place[:, :-1].ravel(), steps.astype(float)], axis=1)
    pays = np.repeat(np.maximum(place[:, -1], 0.0), horizon)  # what an option pays in the end
    return X, pays, ids, steps


def test_a_successor_is_a_few_rows_later_in_the_same_episode() -> None:
    X, y, ids, steps = chain(3, 6, 0)
    rows = in_canonical_order(TrainingRows.of(X, y, None, ids=ids, steps=steps))
    found = successors_of(rows)
    for row, later in enumerate(found.tolist()):
        if rows.steps[row] == 5:
            assert later == -1
        else:
            assert rows.episodes[later] == rows.episodes[row]
            assert rows.steps[later] == min(rows.steps[row] + 3, 5)


def test_imagined_outcomes_are_outcomes_that_occurred() -> None:
    X, y, ids, steps = chain(60, 5, 1)
    forest = QuantileForest(**SMALL, successors=True).fit(X, y, ids=ids, steps=steps)
    plain = QuantileForest(**SMALL).fit(X, y, ids=ids, steps=steps)
    np.testing.assert_array_equal(forest.to_arrays()["support"], plain.to_arrays()["support"])
    assert set(forest.quantile(X, [0.1, 0.5, 0.9]).ravel().tolist()) <= set(y.tolist())
    np.testing.assert_allclose(forest.leaf_weights(X).sum(axis=1), 1.0)
    assert not np.array_equal(forest.cdf(X, 0.0), plain.cdf(X, 0.0))


def test_without_noise_there_is_nothing_else_to_imagine() -> None:
    rng = np.random.default_rng(2)
    start = np.repeat(rng.normal(size=80), 4)
    ids, steps = np.divmod(np.arange(320), 4)
    X = np.stack([start, steps.astype(float)], axis=1)
    options = {**SMALL, "min_leaf": 1, "max_features": 1.0}
    y = np.round(start, 1) * (4 - steps)
    plain = QuantileForest(**options).fit(X, y, ids=ids, steps=steps)
    imagined = QuantileForest(**options, successors=True).fit(X, y, ids=ids, steps=steps)
    assert np.abs(plain.predict(X) - imagined.predict(X)).mean() < 0.05 * y.std()


def test_the_same_rows_in_any_order_imagine_the_same() -> None:
    X, y, ids, steps = chain(40, 5, 3)
    order = np.random.default_rng(0).permutation(y.size)
    one = QuantileForest(**SMALL, successors=True).fit(X, y, ids=ids, steps=steps)
    other = QuantileForest(**SMALL, successors=True).fit(
        X[order], y[order], ids=ids[order], steps=steps[order]
    )
    for name, array in one.to_arrays().items():
        np.testing.assert_array_equal(array, other.to_arrays()[name])


def test_a_copy_from_arrays_still_knows_that_it_imagines() -> None:
    X, y, ids, steps = chain(40, 5, 4)
    forest = QuantileForest(**SMALL, successors=True).fit(X, y, ids=ids, steps=steps)
    copy = QuantileForest.from_arrays(forest.to_arrays())
    np.testing.assert_array_equal(copy.cdf(X, 1.0), forest.cdf(X, 1.0))
    for one in (forest, copy):
        # The trap: a tree that never saw an episode may store what was drawn from it.
        for name in ("out_of_bag_limits", "out_of_bag_members", "row_weights", "members"):
            assert not hasattr(one, name)


def test_imagining_is_nearer_to_the_truth_on_a_walk() -> None:
    X, y, ids, steps = chain(250, 12, 5)
    new, ends, _, at = chain(4_000, 12, 6)
    some = np.flatnonzero(at == 3)
    score = {}
    for successors in (False, True):
        forest = QuantileForest(40, 60, seed=1, successors=successors)
        forest.fit(X, y, ids=ids, steps=steps)
        p = 1.0 - forest.cdf(new[some], 2.0)
        score[successors] = np.mean((p - (ends[some] > 2.0)) ** 2)
    assert score[True] < score[False]


def test_a_monitor_calibrates_by_folds_and_saves_what_it_imagined(tmp_path) -> None:
    rng = np.random.default_rng(7)
    states = rng.normal(size=(120, 4, 1))
    # The outcome is pure noise: only what has seen an episode could tell its outcome.
    runs = Episodes.from_arrays(states, rng.normal(size=(120, 4)))
    model = QuantileForest(n_trees=12, min_leaf=1, successors=True)
    monitor = GoalMonitor(model, steps_per_model=4).fit(runs, progress=False)
    curve = monitor.fitted.curves.at(1, 0)
    # An answer that had seen the outcome would put it in the middle of its law: a steep curve.
    assert np.abs(curve - np.linspace(0.0, 1.0, curve.size)).max() < 0.35
    monitor.save(tmp_path / "one.ontarget")
    loaded = GoalMonitor.load(tmp_path / "one.ontarget")
    target = Target.at_least(0.0)
    state = [[0.3]]
    assert loaded.outlook(1, state, 0.0, target).p == monitor.outlook(1, state, 0.0, target).p
    assert loaded.explain(1, [0.3], 0.0, target).precedents == ()


@pytest.mark.parametrize("behavior", ["max", "discounted:0.9"])
def test_what_does_not_add_up_is_refused(behavior: str) -> None:
    runs = Episodes.from_arrays(np.zeros((40, 3, 1)), np.ones((40, 3)), behavior=behavior)
    with pytest.raises(InputError, match=f"`successors` needs .* got {behavior}"):
        GoalMonitor(QuantileForest(4, successors=True)).fit(runs, progress=False)
