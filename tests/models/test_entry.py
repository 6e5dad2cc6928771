"""What a model needs to enter a monitor, and what is used if it is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.outside.nearest_outcomes import NearestOutcomes

from ontarget.errors import InputError, ModelFileError
from ontarget.models import (
    PipelineDistribution,
    QuantileForest,
    RegressorQuantiles,
    StackedForest,
)
from ontarget.models.entry import (
    check_model,
    fit_model,
    fresh_model,
    live_model,
    model_arrays,
)
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = X[:, 0] + RNG.normal(size=120)
ROWS: dict[str, Any] = {"ids": np.arange(120) // 2, "steps": np.arange(120) % 2}


class Listening(NearestOutcomes):
    """A model that keeps what its fit was told."""

    def fit(self, X, y, ids=None, *, categorical=None):
        self.told = {"ids": ids, "categorical": categorical}
        super().fit(X, y)


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (None, ("NoneType", "fit, cdf_limits, quantile")),
        (RandomForestRegressor(), ("RandomForestRegressor", "cdf_limits, quantile")),
        (QuantileForest, ("class QuantileForest", "QuantileForest()")),
        (make_pipeline(StandardScaler()), ("StandardScaler", "Pipeline")),
        (PipelineDistribution(make_pipeline(PCA())), ("PCA", "PipelineDistribution")),
        (Pipeline([]), ("NoneType", "Pipeline")),
    ],
)
def test_what_lacks_a_method_is_refused_by_name_with_an_example(
    model: object, shown: tuple[str, ...]
) -> None:
    with refuses(InputError, "model", "()", *shown):
        check_model(model)


def test_what_has_the_three_methods_is_let_in() -> None:
    for model in (NearestOutcomes(), make_pipeline(PCA(), StackedForest()), RegressorQuantiles()):
        check_model(model)


def test_a_fresh_forest_counts_its_leaves_in_episodes_and_takes_the_seed() -> None:
    given = QuantileForest(min_leaf=7, n_trees=3)
    fresh = fresh_model(given, seed=(5, 20), n_steps=5)
    assert fresh.get_params() == {**given.get_params(), "min_leaf": 35, "seed": (5, 20)}
    assert given.min_leaf == 7
    assert given.seed == 0
    with refuses(InputError, "min_leaf", 2.5):
        fresh_model(QuantileForest(min_leaf=2.5), seed=(0,), n_steps=5)  # type: ignore[arg-type]


def test_the_last_step_of_a_pipeline_is_made_fresh_as_it_would_be_alone() -> None:
    given = make_pipeline(StandardScaler(), QuantileForest(min_leaf=3, n_trees=4))
    fresh = fresh_model(given, seed=(5, 20), n_steps=4)
    assert isinstance(fresh, PipelineDistribution)
    assert fresh.last_step.min_leaf == 12
    assert fresh.last_step.seed == (5, 20)
    assert given.steps[-1][1].min_leaf == 3
    fitted = fit_model(fresh, X, Y, **ROWS, categorical=())
    scaled = StandardScaler().fit_transform(X)
    alone = fit_model(
        fresh_model(given.steps[-1][1], seed=(5, 20), n_steps=4), scaled, Y, **ROWS, categorical=()
    )
    assert np.array_equal(fitted.cdf_limits(X, 0.0), alone.cdf_limits(scaled, 0.0))


def test_every_random_state_is_derived_from_the_seed() -> None:
    boosted = GradientBoostingRegressor(loss="quantile", n_estimators=3, subsample=0.5)
    given = make_pipeline(PCA(), RegressorQuantiles(boosted, n_levels=3))
    names = ["pipeline__pca__random_state", "pipeline__regressorquantiles__regressor__random_state"]
    states = []
    for seed in ((0, 0), (0, 0), (0, 10), (1, 0)):
        parameters = fresh_model(given, seed=seed, n_steps=1).get_params()
        states.append(parameters[names[0]])
        assert {parameters[name] for name in names} == {states[-1]}
    assert states[0] == states[1]
    assert len(set(states)) == 3
    assert all(type(state) is int and 0 <= state < 2**32 for state in states)


def test_an_object_without_parameters_is_copied_whole_and_seeded_by_attribute() -> None:
    given = NearestOutcomes(k=4)
    given.seed, given.random_state = 7, 7
    fresh = fresh_model(given, seed=(1, 2), n_steps=9)
    assert (fresh.k, fresh.seed) == (4, (1, 2))
    assert fresh.random_state not in (7, (1, 2))
    assert (given.seed, given.random_state) == (7, 7)
    assert not hasattr(fresh_model(NearestOutcomes(), seed=(1,), n_steps=1), "seed")


def test_fit_is_told_only_what_it_asks_for() -> None:
    plain = fit_model(NearestOutcomes(), X, Y, **ROWS, categorical=(1,))
    assert isinstance(plain, NearestOutcomes)  # though its fit returns nothing
    told = fit_model(Listening(), X, Y, **ROWS, categorical=(1,)).told
    assert told == {"ids": ROWS["ids"], "categorical": (1,)}

    class Everything(Listening):
        def fit(self, X, y, **kwargs):
            self.told = kwargs
            return self

    everything = fit_model(Everything(), X, Y, **ROWS, categorical=(1,))
    assert everything.told == {**ROWS, "categorical": (1,)}


def test_a_pipeline_tells_its_last_step_of_ids_and_of_columns_that_are_still_there() -> None:
    kept = fit_model(make_pipeline(StandardScaler(), Listening()), X, Y, **ROWS, categorical=(1,))
    assert kept.model_.told == {"ids": ROWS["ids"], "categorical": (1,)}
    fewer = fit_model(make_pipeline(PCA(2), Listening()), X, Y, **ROWS, categorical=(1,))
    assert fewer.model_.told == {"ids": ROWS["ids"], "categorical": None}
    alone = fit_model(make_pipeline(Listening()), X, Y, **ROWS, categorical=(1,))
    assert alone.model_.told["categorical"] == (1,)


def test_a_model_without_a_live_entry_is_asked_through_its_limits() -> None:
    model = fit_model(NearestOutcomes(), X, Y, **ROWS, categorical=())
    live, ys = live_model(model), np.tile([-0.5, 0.5], (120, 1))
    left, right = np.empty((2, 120, 2))
    live.limits(X, ys, left, right)
    assert np.array_equal([left, right], model.cdf_limits(X, ys))
    live.limits(X, ys[:, :0], left[:, :0], right[:, :0])
    assert not live.takes_threads
    assert live_model(QuantileForest(2).fit(X, Y)).takes_threads
    assert live_model(StackedForest(2).fit(X, Y)).takes_threads


def test_limits_of_a_shape_that_would_be_stretched_are_refused() -> None:
    class Forgetful(NearestOutcomes):
        def cdf_limits(self, X, y):
            return super().cdf_limits(X, np.asarray(y)[:, 0])

    live = live_model(fit_model(Forgetful(), X, Y, **ROWS, categorical=()))
    room = np.empty((2, 3, 3))
    with refuses(InputError, None, "Forgetful", "(3, 3)", "(3,)"):
        live.limits(X[:3], np.zeros((3, 3)), *room)


def test_a_model_that_stays_in_memory_says_so() -> None:
    assert "roots" in model_arrays(QuantileForest(3).fit(X, Y))

    class Loose:
        kind = "loose"

    with refuses(ModelFileError, None, "Loose", "to_arrays, from_arrays"):
        model_arrays(Loose())  # type: ignore[arg-type]
    pipeline = fit_model(make_pipeline(PCA(), QuantileForest(2)), X, Y, **ROWS, categorical=())
    with refuses(ModelFileError, None, "register(kind, PipelineDistribution)"):
        model_arrays(pipeline)
