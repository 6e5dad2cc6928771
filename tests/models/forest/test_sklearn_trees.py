"""Forests of scikit-learn and quantile-forest, served by our kernels."""

from __future__ import annotations

import numpy as np
import pytest
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ontarget.errors import InputError, UnfittedError
from ontarget.models import QuantileForest
from ontarget.models.forest._sklearn_trees import _float32_edges

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4))
Y = np.round(3 * X[:, 0] + RNG.normal(size=500), 1)
QUERIES = np.concatenate([RNG.normal(size=(200, 4)), X[:50]])
TARGETS = np.round(3 * RNG.normal(size=250), 1)


@pytest.mark.parametrize("family", [RandomForestQuantileRegressor, ExtraTreesQuantileRegressor])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_cdf_equals_quantile_forest_on_the_same_trees(family: type, bootstrap: bool) -> None:
    peer = family(
        15, min_samples_leaf=3, bootstrap=bootstrap, random_state=0, max_samples_leaf=None
    ).fit(X, Y)
    ours = QuantileForest.from_sklearn(peer, X, Y, smooth=False)
    theirs = peer.quantile_ranks(QUERIES, TARGETS, kind="weak", aggregate_leaves_first=False)
    assert np.max(np.abs(ours.cdf(QUERIES, TARGETS) - theirs)) <= 1e-12


def test_mean_equals_scikit_learns_with_missing_values() -> None:
    holes = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    forest = RandomForestRegressor(10, min_samples_leaf=3, random_state=0).fit(holes, Y)
    asked = np.where(RNG.random(QUERIES.shape) < 0.2, np.nan, QUERIES)
    ours = QuantileForest.from_sklearn(forest, holes, Y)
    assert np.allclose(ours.predict(asked), forest.predict(asked), atol=1e-12)


def test_queries_at_a_threshold_fall_to_the_side_that_float32_gives() -> None:
    forest = RandomForestRegressor(3, random_state=0).fit(X, Y)
    thresholds = np.concatenate([tree.tree_.threshold[:5] for tree in forest.estimators_])
    near = thresholds[:, None] * (1 + np.arange(-3, 4) * 2e-8)
    asked = np.repeat(near.reshape(-1, 1), 4, axis=1)
    ours = QuantileForest.from_sklearn(forest, X, Y)
    assert np.allclose(ours.predict(asked), forest.predict(asked), atol=1e-12)


def test_float32_edges_divide_exactly_as_the_cast_does() -> None:
    thresholds = RNG.normal(size=200) * 10.0 ** RNG.integers(-3, 4, 200)
    edges = _float32_edges(thresholds)
    above = np.nextafter(edges, np.inf)
    assert np.all(edges.astype(np.float32) <= thresholds)
    assert np.all(above.astype(np.float32) > thresholds)


def test_too_many_thresholds_are_refused() -> None:
    n_rows = 80_000
    x = np.random.default_rng(1).permutation(n_rows).astype(float)[:, None]
    forest = RandomForestRegressor(1, bootstrap=False).fit(x, x[:, 0])
    with pytest.raises(InputError, match=r"fewer than 65535 distinct thresholds .* got 79999"):
        QuantileForest.from_sklearn(forest, x, x[:, 0])


def test_other_forests_and_other_rows_are_refused() -> None:
    with pytest.raises(UnfittedError, match="not fitted"):
        QuantileForest.from_sklearn(RandomForestRegressor(), X, Y)
    classifier = RandomForestClassifier(2).fit(X, Y > 0)
    with pytest.raises(InputError, match="got RandomForestClassifier"):
        QuantileForest.from_sklearn(classifier, X, Y)
    forest = RandomForestRegressor(2, random_state=0).fit(X, Y)
    with pytest.raises(InputError, match="4 features"):
        QuantileForest.from_sklearn(forest, X[:, :2], Y)
    with pytest.raises(InputError, match="fitted on"):
        QuantileForest.from_sklearn(forest, X[:100], Y[:100])
