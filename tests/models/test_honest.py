"""What models with out-of-bag answers share: no order, thread or copy changes what they say."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from ontarget.errors import InputError, UnfittedError
from ontarget.models import DistributionRegression, QuantileForest, StackedForest
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -0.5, 0.0] + RNG.logistic(size=400)
IDS = np.arange(400) % 80
VALUES = RNG.normal(size=(400, 2))

MODELS: dict[str, Any] = {
    "forest": QuantileForest(12),
    "stacked": StackedForest(12),
    "regression": DistributionRegression(),
}
each_model = pytest.mark.parametrize("name", list(MODELS))

SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API"}
EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data": "trees and thresholds draw rows, not weights"
}


@parametrize_with_checks(
    [QuantileForest(n_trees=10), StackedForest(n_trees=5), DistributionRegression()],
    expected_failed_checks=lambda _: EXPECTED_TO_FAIL,
)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    if check.func.__name__ in SKIPPED:
        pytest.skip(SKIPPED[check.func.__name__])
    check(estimator)


def test_only_the_weight_check_is_expected_to_fail() -> None:
    names = {check.func.__name__ for _, check in estimator_checks_generator(QuantileForest())}
    assert EXPECTED_TO_FAIL.keys() <= names
    assert len(names) > 40


def fitted(name: str, *rows: np.ndarray, **options: Any) -> Any:
    return copy.deepcopy(MODELS[name]).fit(*rows, **options)


def arrays_equal(a: Any, b: Any) -> bool:
    first, second = a.to_arrays(), b.to_arrays()
    return all(np.array_equal(first[key], second[key]) for key in first)


@each_model
@pytest.mark.parametrize("y", [Y, np.round(Y)], ids=["continuous", "ties"])
@pytest.mark.parametrize("episodes", [False, True], ids=["rows", "episodes"])
def test_order_and_threads_change_nothing(
    name: str, y: np.ndarray, episodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = RNG.permutation(400)
    known = {"ids": IDS, "steps": np.arange(400) // 80} if episodes else {}
    shuffled = {key: part[order] for key, part in known.items()}
    monkeypatch.setenv("ONTARGET_THREADS", "1")
    one = fitted(name, X, y, **known)
    wanted = np.array(one.out_of_bag_limits(X, VALUES, IDS)) if episodes else None
    monkeypatch.setenv("ONTARGET_THREADS", "3")
    other = fitted(name, X[order], y[order], **shuffled)
    assert arrays_equal(one, other)
    if wanted is None:
        return
    found = np.array(other.out_of_bag_limits(X[order], VALUES[order], IDS[order]))
    assert np.array_equal(found, wanted[:, order], equal_nan=True)
    for i in (0, 7, 399):
        alone = one.out_of_bag_limits(X[i : i + 1], VALUES[i : i + 1], IDS[i : i + 1])
        assert np.array_equal(alone, wanted[:, i : i + 1], equal_nan=True)


@each_model
def test_another_seed_gives_another_model(name: str) -> None:
    other = copy.deepcopy(MODELS[name]).set_params(seed=1).fit(X, Y, ids=IDS)
    assert not arrays_equal(fitted(name, X, Y, ids=IDS), other)


@each_model
def test_who_asks_for_an_episode_that_is_not_known_is_told_why(name: str) -> None:
    with pytest.raises(UnfittedError, match="not fitted"):
        copy.deepcopy(MODELS[name]).out_of_bag_limits(X, Y, IDS)
    with refuses(InputError, None, "ids="):
        fitted(name, X, Y).out_of_bag_limits(X, Y, IDS)
    model = fitted(name, X, Y, ids=np.array([f"run {i:03d}" for i in IDS]))
    with refuses(InputError, "ids", "'run 9'", "row 1"):
        model.out_of_bag_limits(X[:2], 0.0, ["run 001", "run 9"])
    with refuses(InputError, "ids", "(1,)"):
        model.out_of_bag_limits(X[:2], 0.0, ["run 001"])
    for copied in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        type(model).from_arrays(model.to_arrays()),
    ):
        assert np.array_equal(copied.cdf(X, Y), model.cdf(X, Y))
        with refuses(InputError, None, type(model).__name__, "loaded"):
            copied.out_of_bag_limits(X[:1], 0.0, ["run 001"])
