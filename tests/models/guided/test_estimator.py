"""The guided forest as a user meets it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ontarget import _threads
from ontarget.errors import InputError, ModelFileError
from ontarget.models import GuidedForest, QuantileForest
from ontarget.models.base import TrainingRows
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.guided._boosting_kernel import BoostingRules
from ontarget.models.guided._guides import GuidePlan, fit_guides, guide_rows
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X @ [1.0, -1.0, 0.5, 2.0, 0.0] + 0.3 * RNG.normal(size=400)
QUERIES = RNG.normal(size=(50, 5))
SMALL = {"n_trees": 10, "n_boosted": 12}


def arrays_equal(a: GuidedForest | QuantileForest, b: GuidedForest | QuantileForest) -> bool:
    first, second = a.to_arrays(), b.to_arrays()
    return all(np.array_equal(first[key], second[key]) for key in first)


SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API"}


def expected_failures(estimator: object) -> dict[str, str]:
    return {"check_sample_weight_equivalence_on_dense_data": "a bootstrap draws rows, not weights"}


@parametrize_with_checks([GuidedForest(**SMALL)], expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_estimator(estimator: object, check: object) -> None:
    if check.func.__name__ in SKIPPED:  # type: ignore[attr-defined]
        pytest.skip(SKIPPED[check.func.__name__])  # type: ignore[attr-defined]
    check(estimator)  # type: ignore[operator]


def test_same_rows_in_any_order_give_the_same_model() -> None:
    order = RNG.permutation(400)
    rounded = np.round(Y)  # ties, so that other columns must tell rows apart
    ids = np.repeat(np.arange(100), 4)
    for y in (Y, rounded):
        assert arrays_equal(
            GuidedForest(**SMALL).fit(X, y), GuidedForest(**SMALL).fit(X[order], y[order])
        )
        assert arrays_equal(
            GuidedForest(**SMALL).fit(X, y, ids=ids),
            GuidedForest(**SMALL).fit(X[order], y[order], ids=ids[order]),
        )


def test_threads_do_not_change_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    for n_threads in ("1", "3"):
        monkeypatch.setenv("ONTARGET_THREADS", n_threads)
        models.append(GuidedForest(**SMALL).fit(X, Y))
    assert arrays_equal(*models)
    assert not arrays_equal(models[0], GuidedForest(**SMALL, seed=1).fit(X, Y))


@pytest.mark.parametrize("model", [QuantileForest(10), GuidedForest(**SMALL)])
def test_the_number_of_jobs_bounds_the_threads_and_changes_no_answer(
    model: GuidedForest | QuantileForest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.tile(QUERIES, (20, 1))
    free = model.fit(X, Y)
    wanted = [free.cdf_limits(rows, 0.0), free.quantile(rows, 0.5), free.predict(rows)]
    monkeypatch.setenv("ONTARGET_THREADS", "8")
    monkeypatch.setattr(_threads, "_threads", lambda size: pytest.fail("a thread was asked for"))
    alone = clone(model).set_params(n_jobs=1).fit(X, Y)
    assert arrays_equal(alone, free)
    found = [alone.cdf_limits(rows, 0.0), alone.quantile(rows, 0.5), alone.predict(rows)]
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    free.set_params(n_jobs=1).predict(rows)
    with refuses(InputError, "n_jobs", 0):
        clone(model).set_params(n_jobs=0).fit(X, Y)


def test_guides_bring_the_mean_nearer_than_a_plain_forest() -> None:
    truth = QUERIES @ [1.0, -1.0, 0.5, 2.0, 0.0]
    plain = np.abs(QuantileForest(50).fit(X, Y).predict(QUERIES) - truth).mean()
    for guides, share in ((("ridge",), 0.4), (("boosted",), 0.9), (("ridge", "boosted"), 0.4)):
        guided = GuidedForest(50, guides=guides).fit(X, Y)
        assert np.abs(guided.predict(QUERIES) - truth).mean() < share * plain


def plan() -> GuidePlan:
    boosting = BoostingRules(n_trees=30, depth=3, rate=0.3, least_weight=5.0, penalty=1.0)
    return GuidePlan(("ridge", "boosted"), n_folds=5, seed=(0,), boosting=boosting)


@pytest.mark.parametrize("categorical", [(), (0,)])
def test_training_rows_are_guided_by_models_that_never_saw_their_episode(
    categorical: tuple[int, ...],
) -> None:
    # Outcomes are noise of the episode: whoever saw it could tell, whoever did not cannot.
    ids = np.repeat(np.arange(80), 5)
    y = np.repeat(RNG.normal(size=80), 5)
    features = np.stack([ids.astype(float), np.repeat(RNG.normal(size=80), 5)], axis=1)
    rows = TrainingRows.of(features, y, None, ids=ids, steps=None)
    guides, folds = fit_guides(rows, plan(), categorical)
    guided = folds.guide_rows(features, rows.units)
    seen = guide_rows(guides, features)
    assert np.array_equal(guided[:, :2], features)
    assert np.corrcoef(seen[:, 3], y)[0, 1] > 0.7
    assert abs(np.corrcoef(guided[:, 3], y)[0, 1]) < 0.35
    # An episode whose outcomes change moves its own guides not at all, but for the common scale.
    changed = np.where(ids == 7, y + 100.0, y)
    other = TrainingRows.of(features, changed, None, ids=ids, steps=None)
    scale = y.std() / changed.std()
    moved = fit_guides(other, plan(), categorical)[1].guide_rows(features, ids)[:, 2:]
    # The change is of nine spreads; splits that gain the same may fall another way by rounding.
    assert moved[ids == 7] == pytest.approx(guided[ids == 7, 2:] * scale, abs=0.05)
    assert np.ptp(moved[ids != 7], axis=0).min() > 0.1


CATEGORIES = np.column_stack([np.tile([0.0, 1.0, 2.0, 1.0], 100), np.repeat([3.0, 4.0], 200)])
EPISODES = {"ids": np.arange(400) % 80, "steps": np.arange(400) // 80}


@pytest.mark.parametrize("weight", [None, np.tile([0.0, 1.0, 2.0, 2.0], 100)])
@pytest.mark.parametrize("episodes", [{}, EPISODES], ids=["rows", "episodes"])
@pytest.mark.parametrize(
    ("features", "categorical"), [(X, ()), (CATEGORIES, (0,))], ids=["numbers", "equal rows"]
)
def test_its_forest_is_one_fitted_on_rows_that_carry_their_guides(
    features: np.ndarray, categorical: tuple[int, ...], episodes: dict, weight: np.ndarray | None
) -> None:
    y = np.round(Y)
    model = GuidedForest(**SMALL).fit(features, y, weight, categorical=categorical, **episodes)
    parts = {"ids": None, "steps": None, **episodes}
    rows = in_canonical_order(TrainingRows.of(features, y, weight, **parts))
    _, folds = fit_guides(rows, model._plan(), categorical)
    alone = QuantileForest(10, max_features=0.5, max_bins=255).fit(
        folds.guide_rows(rows.X, rows.units),
        rows.y,
        rows.weight,
        ids=rows.episodes if rows.has_ids else None,
        steps=rows.steps,
        categorical=categorical,
    )
    assert arrays_equal(model.forest_, alone)


def test_features_that_say_nothing_give_guides_that_say_nothing() -> None:
    # Not even which fold a row was in, by the mean of the others or by rounding.
    rows = TrainingRows.of(np.ones((400, 2)), Y, None, ids=None, steps=None)
    assert np.all(fit_guides(rows, plan(), ())[1].guide_rows(rows.X, rows.units)[:, 2:] == 0.0)


def test_missing_features_and_categories_have_effects_of_their_own() -> None:
    rng = np.random.default_rng(1)
    kind, number = rng.integers(0, 4, size=600).astype(float), rng.normal(size=600)
    lost = rng.random(600) < 0.3
    effect = np.array([3.0, -2.0, 0.0, 5.0])[kind.astype(int)]
    y = effect + np.where(lost, 4.0, number) + 0.1 * rng.normal(size=600)
    features = np.stack([kind, np.where(lost, np.nan, number)], axis=1)
    model = GuidedForest(50, min_leaf=5).fit(features, y, categorical=[0])
    queries = np.array([[0.0, 0.0], [3.0, np.nan], [1.0, 1.0]])
    assert model.predict(queries) == pytest.approx([3.0, 9.0, -1.0], abs=0.6)
    assert np.isfinite(model.predict([[17.0, 1e300], [np.nan, np.nan], [2.0, -1e300]])).all()


def test_more_categories_than_the_linear_guide_counts_are_no_trouble() -> None:
    kinds = np.tile(np.arange(50.0), 20)
    y = np.tile(RNG.normal(size=50), 20)
    model = GuidedForest(20, min_leaf=3).fit(kinds[:, None], y, categorical=[0])
    assert np.corrcoef(model.predict(np.arange(50.0)[:, None]), y[:50])[0, 1] > 0.9


def test_huge_and_tiny_numbers_stay_numbers() -> None:
    for scale in (1e-300, 1e150):
        model = GuidedForest(**SMALL).fit(X * scale, Y * scale)
        assert np.isfinite(model.predict(QUERIES * scale)).all()


def test_the_live_model_answers_as_the_batch_does() -> None:
    rows = QUERIES.copy()
    rows[3, 1] = np.nan
    for guides in (("ridge",), ("boosted",), ("ridge", "boosted")):
        model = GuidedForest(**SMALL, guides=guides).fit(X, np.round(Y))
        live, ys = model.live(), np.tile([-1.0, 0.0, 2.5], (50, 1))
        wanted = np.array(model.cdf_limits(rows, ys))
        found = np.empty((2, 50, 3))
        live.limits(rows, ys, *found)
        assert np.array_equal(found, wanted)
        for i in range(50):
            live.limits(rows[i : i + 1], ys[i : i + 1], *found[:, :1])
            assert np.array_equal(found[:, 0], wanted[:, i])


def test_a_copy_through_pickle_answers_alike() -> None:
    model = GuidedForest(**SMALL).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.cdf(QUERIES, 0.0), model.cdf(QUERIES, 0.0))
    assert not again.guides_.linear.terms.flags.writeable


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("guides", ()),
        ("guides", ("ridge", "oracle")),
        ("n_folds", 1),
        ("n_boosted", 0),
        ("boosted_depth", 9),
        ("boosted_rate", 0.0),
        ("min_leaf", 0),
        ("seed", -1),
        ("seed", ()),
    ],
)
def test_bad_arguments_are_named(argument: str, value: object) -> None:
    with refuses(InputError, argument):
        GuidedForest(**{argument: value}).fit(X, Y)


DAMAGE = {
    "guide_terms": lambda a: a[:-1],
    "guide_category_start": lambda a: a + 1,
    "guide_categories": lambda a: a[::-1],
    "guide_effects": lambda a: a * np.inf,
    "guide_edges": lambda a: a[::-1],
    "guide_edge_start": lambda a: a[:-1],
    "guide_categorical": lambda a: a[1:],
    "guide_category_order": lambda a: a[1:],
    "guide_nodes": lambda a: a | (np.int64(0x7FFF) << 48),
    "guide_values": lambda a: a[:-3],
    "edge_start": lambda a: a[:-1],
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damaged_arrays_are_refused(name: str) -> None:
    features = np.column_stack([X, np.tile(np.arange(4.0), 100)])
    arrays = GuidedForest(**SMALL).fit(features, Y, categorical=[5]).to_arrays()
    GuidedForest.from_arrays(arrays)
    with pytest.raises(ModelFileError, match=r"damaged|needs"):
        GuidedForest.from_arrays({**arrays, name: DAMAGE[name](arrays[name])})
    with refuses(ModelFileError, None, name):
        GuidedForest.from_arrays({key: a for key, a in arrays.items() if key != name})


def test_arrays_without_any_guide_are_refused() -> None:
    arrays = GuidedForest(**SMALL).fit(X, Y).to_arrays()
    none = {key: a[:0] for key, a in arrays.items() if key.startswith("guide_")}
    with refuses(ModelFileError, None, "guide_terms", "guide_values"):
        GuidedForest.from_arrays({**arrays, **none})
