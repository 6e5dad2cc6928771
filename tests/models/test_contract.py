"""What every conditional distribution promises (M2), whatever model it is.

A new model joins with one line in `MODELS`. The law of M2 holds for all of them. Checked input,
weights, means and arrays are what `OURS` promise besides, the kinds that a model file may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.outside.nearest_outcomes import NearestOutcomes

from ontarget.conformal.pcqr import PCQR
from ontarget.errors import CalibrationError, InputError, ModelFileError, UnfittedError
from ontarget.models import registry
from ontarget.models.base import ConditionalDistribution, StoredDistribution
from ontarget.models.entry import (
    check_model,
    fit_model,
    fresh_model,
    live_model,
    model_arrays,
)
from ontarget.models.forest.estimator import QuantileForest
from ontarget.models.marginal import Marginal
from ontarget.models.network.estimator import QuantileNetwork
from ontarget.models.pipeline import PipelineDistribution
from ontarget.models.quantiles import RegressorQuantiles
from ontarget.models.regression.estimator import DistributionRegression
from ontarget.models.stacked.estimator import StackedForest
from refusals import refuses

BOOSTED = GradientBoostingRegressor(loss="quantile", n_estimators=5)

OURS: dict[str, Callable[[], StoredDistribution]] = {
    "marginal": Marginal,
    "marginal-steps": lambda: Marginal(smooth=False),
    "forest": lambda: QuantileForest(n_trees=12, min_leaf=5),
    "forest-steps": lambda: QuantileForest(n_trees=12, min_leaf=5, smooth=False),
    "stacked": lambda: StackedForest(n_trees=12, min_leaf=3),
    "regression": DistributionRegression,
    "network": lambda: QuantileNetwork(width=8, max_epochs=20),
}
MODELS: dict[str, Callable[[], ConditionalDistribution]] = {
    **OURS,
    "a user's own": NearestOutcomes,
    "regressor": lambda: RegressorQuantiles(BOOSTED, n_levels=3),
    "pipeline": lambda: PipelineDistribution(
        make_pipeline(StandardScaler(), QuantileForest(n_trees=12, min_leaf=5))
    ),
    "pipeline of a user's own": lambda: PipelineDistribution(
        make_pipeline(StandardScaler(), NearestOutcomes())
    ),
}

N_ROWS, N_FEATURES = 120, 3
FEATURES = np.random.default_rng(1).normal(size=(N_ROWS, N_FEATURES))
QUERIES = np.random.default_rng(2).normal(size=(7, N_FEATURES))


def outcomes(law: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=N_ROWS)
    continuous = FEATURES[:, 0] + (1.0 + (FEATURES[:, 1] > 0)) * noise
    return {
        "continuous": continuous,
        "integers": np.round(2.0 * continuous),
        "mixed": np.where(rng.random(N_ROWS) < 0.3, 0.0, continuous),
        "constant": np.full(N_ROWS, -1.5),
    }[law]


LAWS = ["continuous", "integers", "mixed", "constant"]


@cache
def fitted(name: str, law: str) -> ConditionalDistribution:
    model = MODELS[name]()
    return model.fit(FEATURES, outcomes(law)) or model


NEEDS_TORCH = pytest.mark.skipif(
    find_spec("torch") is None, reason="a network is trained with PyTorch: ontarget[network]"
)


def named(names: Iterable[str]) -> list[Any]:
    return [pytest.param(one, marks=NEEDS_TORCH) if one == "network" else one for one in names]


each_model = pytest.mark.parametrize("name", named(MODELS))
each_of_ours = pytest.mark.parametrize("name", named(OURS))
each_law = pytest.mark.parametrize("law", LAWS)
each_atom_keeper = pytest.mark.parametrize("name", named(OURS))
numbers = st.floats(-1e3, 1e3) | st.floats(-6.0, 6.0) | st.sampled_from([-1.5, 0.0, 1.0, 2.0])
levels = st.floats(0.0, 1.0) | st.sampled_from([1e-12, 1e-7, 0.25, 0.5, 0.75, 1 - 1e-7, 1.0])


@each_model
def test_model_follows_the_protocol(name: str) -> None:
    assert isinstance(MODELS[name](), ConditionalDistribution)


def test_every_kind_of_ours_runs_through_the_contract() -> None:
    models = [factory() for factory in OURS.values()]
    assert {model.kind for model in models} == set(registry._BUILT_IN)
    assert all(registry.model_of_kind(model.kind) is type(model) for model in models)


@each_model
@each_law
def test_every_model_takes_the_whole_way_into_a_monitor(name: str, law: str) -> None:
    given = MODELS[name]()
    check_model(given)
    y, ids = outcomes(law), np.arange(N_ROWS)
    fitted = [
        fit_model(
            fresh_model(given, seed=(3, 0), n_steps=2),
            FEATURES,
            y,
            ids=ids // 2,
            steps=ids % 2,
            categorical=(),
        )
        for _ in range(2)
    ]
    ys = np.tile([-1.5, 0.0, 0.3], (7, 1))
    wanted = np.array(fitted[0].cdf_limits(QUERIES, ys))
    assert np.array_equal(fitted[1].cdf_limits(QUERIES, ys), wanted)
    found = np.full((2, 7, 3), np.nan)
    live_model(fitted[0]).limits(QUERIES, ys, *found)
    assert np.array_equal(found, wanted)
    assert fitted[0].quantile(QUERIES, [0.1, 0.5]).shape == (7, 2)
    if isinstance(given, StoredDistribution):
        again = type(given).from_arrays(model_arrays(fitted[0]))
        assert np.array_equal(again.cdf_limits(QUERIES, ys), wanted)
    else:
        with refuses(ModelFileError, None, type(fitted[0]).__name__, "to_arrays"):
            model_arrays(fitted[0])


@each_model
@each_law
@given(ys=st.lists(numbers, min_size=2, max_size=8))
@settings(max_examples=40)
def test_cdf_rises_in_y_with_ordered_limits_inside_0_and_1(
    name: str, law: str, ys: list[float]
) -> None:
    grid = np.tile(np.sort(ys), (QUERIES.shape[0], 1))
    left, right = fitted(name, law).cdf_limits(QUERIES, grid)
    assert np.all((left >= 0.0) & (left <= right) & (right <= 1.0))
    assert np.all(np.diff(left, axis=1) >= 0.0)
    rises = grid[:, 1:] > grid[:, :-1]
    assert np.all(right[:, :-1][rises] <= left[:, 1:][rises])


@each_model
@each_law
@given(q=levels, y=numbers)
@settings(max_examples=60)
def test_quantile_and_cdf_are_inverses_of_each_other(
    name: str, law: str, q: float, y: float
) -> None:
    model = fitted(name, law)
    _, right = model.cdf_limits(QUERIES, y)
    assert np.array_equal(model.quantile(QUERIES, q) <= y, right >= q) or q <= 0.0
    assert np.array_equal(model.quantile(QUERIES, q, side="right") <= y, right > q)


@each_model
@each_law
@given(q=levels)
@settings(max_examples=60)
def test_cdf_crosses_the_level_at_its_quantile(name: str, law: str, q: float) -> None:
    model = fitted(name, law)
    at = model.quantile(QUERIES, q)
    inside = np.isfinite(at)
    left, right = model.cdf_limits(QUERIES, np.where(inside, at, 0.0))
    assert np.all(right[inside] >= q)
    below = np.nextafter(at, -np.inf)
    assert np.all(model.cdf_limits(QUERIES, np.where(inside, below, 0.0))[1][inside] < q)
    assert np.all(left[inside] <= q + 1e-9)


@each_model
@each_law
def test_levels_at_or_beyond_the_ends_give_infinite_quantiles(name: str, law: str) -> None:
    model = fitted(name, law)
    assert np.all(model.quantile(QUERIES, [-1.0, 0.0]) == -np.inf)
    assert np.all(model.quantile(QUERIES, [1.0, 2.0], side="right") == np.inf)
    assert np.all(model.quantile(QUERIES, 1.5) == np.inf)
    assert np.all(model.quantile(QUERIES, -0.5, side="right") == -np.inf)


@each_model
@each_law
def test_cdf_is_exactly_0_and_1_at_the_ends_of_the_line(name: str, law: str) -> None:
    left, right = fitted(name, law).cdf_limits(QUERIES, np.tile([-np.inf, np.inf], (7, 1)))
    assert np.array_equal(left, np.tile([0.0, 1.0], (7, 1)))
    assert np.array_equal(right, np.tile([0.0, 1.0], (7, 1)))


@each_model
@each_law
def test_answers_do_not_depend_on_row_order_or_batch_size(name: str, law: str) -> None:
    model = fitted(name, law)
    many = np.random.default_rng(4).normal(size=(600, N_FEATURES))
    ys = np.random.default_rng(5).normal(size=(600, 2))
    whole = np.stack(model.cdf_limits(many, ys))
    order = np.random.default_rng(6).permutation(600)
    assert np.array_equal(np.stack(model.cdf_limits(many[order], ys[order])), whole[:, order])
    assert np.array_equal(
        model.quantile(many[order], [0.1, 0.9]), model.quantile(many, [0.1, 0.9])[order]
    )
    for i in range(0, 600, 97):
        one = np.stack(model.cdf_limits(many[i : i + 1], ys[i : i + 1]))
        assert np.array_equal(one, whole[:, i : i + 1])
        if name in OURS:
            assert np.array_equal(model.predict(many[i : i + 1]), model.predict(many)[i : i + 1])


@each_model
def test_one_target_and_several_agree(name: str) -> None:
    model = fitted(name, "mixed")
    table = model.cdf_limits(QUERIES, np.tile([-1.0, 0.0, 2.5], (7, 1)))[1]
    assert table.shape == (7, 3)
    for k, y in enumerate([-1.0, 0.0, 2.5]):
        assert np.array_equal(model.cdf_limits(QUERIES, y)[1], table[:, k])
        assert np.array_equal(model.cdf_limits(QUERIES, np.full(7, y))[1], table[:, k])


@each_model
def test_quantiles_come_back_flat_for_one_level_and_as_a_table_for_several(name: str) -> None:
    model = fitted(name, "continuous")
    table = model.quantile(QUERIES, [0.2, 0.7])
    assert table.shape == (7, 2)
    assert np.array_equal(model.quantile(QUERIES, 0.7), table[:, 1])


@each_atom_keeper
def test_constant_outcome_has_all_its_mass_on_the_constant(name: str) -> None:
    left, right = fitted(name, "constant").cdf_limits(QUERIES, np.tile([-1.6, -1.5, -1.4], (7, 1)))
    assert np.array_equal(left, np.tile([0.0, 0.0, 1.0], (7, 1)))
    assert np.array_equal(right, np.tile([0.0, 1.0, 1.0], (7, 1)))
    assert np.all(fitted(name, "constant").predict(QUERIES) == -1.5)


@each_atom_keeper
def test_one_training_row_is_all_the_model_knows(name: str) -> None:
    model = MODELS[name]().fit([[1.0, np.nan, 2.0]], [4.0])
    left, right = model.cdf_limits(QUERIES, 4.0)
    assert np.all(left == 0.0)
    assert np.all(right == 1.0)
    assert np.all(model.quantile(QUERIES, 0.5) == 4.0)


@each_atom_keeper
def test_duplicate_rows_are_atoms(name: str) -> None:
    twice = np.repeat([1.0, 2.0, 4.0], 40)
    left, right = MODELS[name]().fit(np.ones((120, 2)), twice).cdf_limits(np.ones((1, 2)), 2.0)
    assert left[0] < right[0]
    assert left[0] == pytest.approx(1 / 3, abs=0.1)
    assert right[0] == pytest.approx(2 / 3, abs=0.1)


@each_atom_keeper
def test_integers_keep_their_atoms_and_nothing_lies_between_them(name: str) -> None:
    model = fitted(name, "integers")
    grid = np.arange(-20.0, 21.0)
    left, right = model.cdf_limits(QUERIES, np.tile(grid, (7, 1)))
    assert np.all(right[:, :-1] == left[:, 1:])
    assert np.allclose((right - left).sum(axis=1), 1.0)


@each_atom_keeper
def test_an_atom_among_continuous_outcomes_stays_a_jump(name: str) -> None:
    left, right = fitted(name, "mixed").cdf_limits(QUERIES, 0.0)
    assert np.all(right - left > 0.05)


@each_of_ours
def test_rows_of_weight_0_might_as_well_not_be_there(name: str) -> None:
    y, weight = outcomes("continuous"), np.repeat([1.0, 0.0], N_ROWS // 2)
    weighted = MODELS[name]().fit(FEATURES, y, weight)
    half = MODELS[name]().fit(FEATURES[: N_ROWS // 2], y[: N_ROWS // 2])
    assert np.array_equal(weighted.cdf_limits(QUERIES, 0.3), half.cdf_limits(QUERIES, 0.3))


@each_of_ours
def test_weights_pull_the_distribution_towards_heavy_rows(name: str) -> None:
    y = outcomes("continuous")
    heavy = MODELS[name]().fit(FEATURES, y, np.where(y > 0.0, 9.0, 1.0))
    even = fitted(name, "continuous")
    assert np.mean(heavy.cdf_limits(QUERIES, 0.0)[1]) < np.mean(even.cdf_limits(QUERIES, 0.0)[1])


@each_of_ours
@each_law
def test_arrays_are_flat_and_read_only_and_give_the_model_back(name: str, law: str) -> None:
    model = fitted(name, law)
    arrays = model.to_arrays()
    assert all(a.ndim == 1 and not a.flags.writeable for a in arrays.values())
    again = type(model).from_arrays({key: a.copy() for key, a in arrays.items()})
    assert np.array_equal(again.cdf_limits(QUERIES, 0.3), model.cdf_limits(QUERIES, 0.3))
    assert np.array_equal(again.quantile(QUERIES, 0.3), model.quantile(QUERIES, 0.3))
    assert np.array_equal(again.predict(QUERIES), model.predict(QUERIES))
    returned = again.to_arrays()
    assert returned.keys() == arrays.keys()
    assert all(np.array_equal(returned[key], arrays[key]) for key in arrays)


@each_of_ours
def test_an_unfitted_model_says_so(name: str) -> None:
    with pytest.raises(UnfittedError, match="fit"):
        MODELS[name]().cdf_limits(QUERIES, 0.0)
    with pytest.raises(UnfittedError, match="fit"):
        MODELS[name]().to_arrays()


@each_of_ours
@pytest.mark.parametrize(
    ("X", "y", "weight", "argument", "shown"),
    [
        (np.ones((3, 2)), [1.0, np.nan, 2.0], None, "y", "nan in"),
        (np.ones((3, 2)), [1.0, 2.0, np.inf], None, "y", "inf in"),
        (np.ones((3, 2)), [1.0, 2.0], None, "y", "(2,)"),
        (np.ones((0, 2)), [], None, None, "0 sample"),
        (np.ones(3), [1.0, 2.0, 3.0], None, None, "2D array"),
        ([[1.0], [np.inf]], [1.0, 2.0], None, None, "column 0"),
        (np.ones((3, 2)), [1.0, 2.0, 3.0], [1.0, -1.0, 1.0], "sample_weight", "-1.0"),
        (np.ones((3, 2)), [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], "sample_weight", "zero"),
        (np.ones((3, 2)), [1.0, 2.0, 3.0], [1.0, 1.0], "sample_weight", "(2,)"),
    ],
)
def test_bad_training_rows_are_refused(
    name: str, X: object, y: object, weight: object, argument: str | None, shown: str
) -> None:
    with refuses(InputError, argument, shown):
        MODELS[name]().fit(X, y, weight)  # type: ignore[arg-type]


@each_of_ours
def test_ids_and_steps_need_one_value_per_row(name: str) -> None:
    with refuses(InputError, "ids", "(2,)"):
        MODELS[name]().fit(FEATURES, outcomes("continuous"), ids=[1, 2])
    with refuses(InputError, "steps", "NaN"):
        MODELS[name]().fit(FEATURES, outcomes("continuous"), steps=np.full(N_ROWS, np.nan))


@each_of_ours
def test_episodes_that_trained_the_model_are_refused_in_calibration(name: str) -> None:
    y, ids = outcomes("continuous"), np.array([f"run-{i}" for i in range(N_ROWS)])
    weight = np.where(np.arange(N_ROWS) < 100, 1.0, 0.0)
    model = MODELS[name]().fit(FEATURES, y, weight, ids=ids)
    PCQR(model).calibrate(FEATURES[100:], y[100:], ids=ids[100:])  # these weighed nothing
    with refuses(CalibrationError, None, "10 of 20", "'run-90'"):
        PCQR(model).calibrate(FEATURES[90:110], y[90:110], ids=ids[90:110])
    PCQR(fitted(name, "continuous")).calibrate(FEATURES, y, ids=ids)  # fitted without ids


@each_of_ours
def test_bad_questions_are_refused(name: str) -> None:
    model = fitted(name, "continuous")
    with refuses(InputError, None, "2 features"):
        model.cdf_limits(np.ones((1, 2)), 0.0)
    with refuses(InputError, "y", "NaN", "row 0"):
        model.cdf_limits(QUERIES, np.nan)
    with refuses(InputError, "y", "(3,)"):
        model.cdf_limits(QUERIES, [0.0, 1.0, 2.0])
    with refuses(InputError, "q", "NaN"):
        model.quantile(QUERIES, np.nan)
    with refuses(InputError, "q", "(1, 1)"):
        model.quantile(QUERIES, [[0.1]])
    with refuses(InputError, "side", "'up'"):
        model.quantile(QUERIES, 0.5, side="up")  # type: ignore[arg-type]
    with refuses(InputError, None, "-inf", "row 0", "column 1"):
        model.predict([[0.0, -np.inf, 0.0]])


@each_of_ours
def test_no_rows_get_no_answers(name: str) -> None:
    model = fitted(name, "continuous")
    assert model.predict(np.empty((0, N_FEATURES))).shape == (0,)
    assert model.quantile(np.empty((0, N_FEATURES)), [0.1, 0.9]).shape == (0, 2)
