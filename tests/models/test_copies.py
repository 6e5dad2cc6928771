"""A fitted model that was pickled or copied is the same model, and compiles nothing anew."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor

from ontarget.models import (
    DistributionRegression,
    Marginal,
    QuantileForest,
    RegressorQuantiles,
    StackedForest,
)
from ontarget.models.base import ConditionalDistribution

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + RNG.normal(size=300)
QUERIES = RNG.normal(size=(40, 3))
VALUES = RNG.normal(size=(40, 2))

MODELS = {
    "forest": QuantileForest(5),
    "marginal": Marginal(),
    "regression": DistributionRegression(),
    "stacked": StackedForest(5),
    "regressor": RegressorQuantiles(QuantileRegressor(alpha=0.0), 3),
}
COPIES: dict[str, Callable] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


def compiled() -> dict[str, int]:
    """How many specialisations each kernel of the models has in this process."""
    return {
        f"{module}.{name}": len(value.signatures)
        for module in [name for name in sys.modules if name.startswith("ontarget.models")]
        for name, value in vars(sys.modules[module]).items()
        if hasattr(value, "signatures")
    }


def answers(model: ConditionalDistribution) -> list[np.ndarray]:
    found = [*model.cdf_limits(QUERIES, VALUES), model.quantile(QUERIES, [0.1, 0.9])]
    found.append(model.predict(QUERIES))
    if hasattr(model, "live"):
        left, right = np.empty_like(VALUES), np.empty_like(VALUES)
        model.live().limits(QUERIES, VALUES, left, right)
        found += [left, right]
    return found


@pytest.mark.parametrize("way", list(COPIES))
@pytest.mark.parametrize("name", list(MODELS))
def test_a_copy_answers_alike_and_compiles_nothing(name: str, way: str) -> None:
    model = MODELS[name].fit(X, Y)
    wanted, before = answers(model), compiled()
    assert sum(before.values()) > 0
    found = answers(COPIES[way](model))
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert compiled() == before


@pytest.mark.parametrize("way", list(COPIES))
@pytest.mark.parametrize("name", ["forest", "stacked", "regression"])
def test_a_copied_live_model_answers_alike_and_compiles_nothing(name: str, way: str) -> None:
    live = MODELS[name].fit(X, Y).live()
    wanted, found = np.empty((2, *VALUES.shape)), np.empty((2, *VALUES.shape))
    live.limits(QUERIES, VALUES, *wanted)
    before = compiled()
    COPIES[way](live).limits(QUERIES, VALUES, *found)
    assert np.array_equal(found, wanted)
    assert compiled() == before
