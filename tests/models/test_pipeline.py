"""A scikit-learn Pipeline that ends in a model."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.outside.nearest_outcomes import NearestOutcomes

from ontarget.conformal.pcqr import PCQR
from ontarget.errors import CalibrationError, UnfittedError
from ontarget.models import PipelineDistribution, QuantileForest, RegressorQuantiles
from refusals import refuses

RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 3, 300).astype(float)
X = np.column_stack([KIND, RNG.normal(size=300)])
Y = np.array([0.0, 9.0, -9.0])[KIND.astype(int)] + X[:, 1]
LINEAR = RegressorQuantiles(QuantileRegressor(alpha=0.0), n_levels=9)
ENCODED = make_pipeline(
    make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough", sparse_threshold=1.0),
    LINEAR,
)


def test_categories_that_the_pipeline_encodes_reach_the_last_step_as_numbers() -> None:
    model = PipelineDistribution(ENCODED).fit(X, Y, categorical=[0])
    found = model.predict([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    assert found == pytest.approx([1.0, 10.0, -9.0], abs=0.1)
    assert model.quantile(X, 0.5) == pytest.approx(Y, abs=0.1)


def test_weights_reach_the_last_step() -> None:
    pipeline = make_pipeline(StandardScaler(), LINEAR)
    even = PipelineDistribution(pipeline).fit(X, Y)
    heavy = PipelineDistribution(pipeline).fit(X, Y, np.where(Y > 0.0, 9.0, 1.0))
    assert heavy.predict(X).mean() > even.predict(X).mean() + 1.0


def test_the_pipeline_that_was_given_stays_unfitted() -> None:
    model = PipelineDistribution(ENCODED).fit(X, Y)
    assert model.model_ is not ENCODED.steps[-1][1]
    with pytest.raises(UnfittedError, match="fit"):
        ENCODED.steps[-1][1].predict(X)
    with refuses(UnfittedError, None, "PipelineDistribution"):
        PipelineDistribution(ENCODED).cdf_limits(X, 0.0)


def test_copies_answer_alike() -> None:
    model = PipelineDistribution(ENCODED).fit(X, Y)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.cdf_limits(X, 0.0), model.cdf_limits(X, 0.0))


def test_episodes_that_trained_the_last_step_are_refused_in_calibration() -> None:
    ids = np.arange(300)
    forest = make_pipeline(StandardScaler(), QuantileForest(3))
    model = PipelineDistribution(forest).fit(X[:200], Y[:200], ids=ids[:200])
    PCQR(model).calibrate(X[200:], Y[200:], ids=ids[200:])
    with refuses(CalibrationError, None, "50 of 150"):
        PCQR(model).calibrate(X[150:], Y[150:], ids=ids[150:])
    own = PipelineDistribution(make_pipeline(StandardScaler(), NearestOutcomes())).fit(X, Y)
    PCQR(own).calibrate(X, Y, ids=ids)  # a model that keeps no ids cannot tell


def test_out_of_bag_answers_are_those_of_the_last_step() -> None:
    ids, forest = np.arange(300) % 60, QuantileForest(20)
    model = PipelineDistribution(make_pipeline(StandardScaler(), forest)).fit(X, Y, ids=ids)
    scaled = StandardScaler().fit_transform(X)
    wanted = forest.fit(scaled, Y, ids=ids).out_of_bag_limits(scaled, Y, ids)
    assert np.array_equal(model.out_of_bag_limits(X, Y, ids), wanted)
    assert not hasattr(PipelineDistribution(ENCODED), "out_of_bag_limits")
