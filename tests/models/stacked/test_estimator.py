"""The stacked forest: experts that can be switched off, and weights that tell who is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone

from ontarget import _threads
from ontarget.errors import InputError, ModelFileError
from ontarget.models import QuantileForest, StackedForest
from ontarget.models.stacked._experts import EXPERTS
from ontarget.models.stacked._shift import ShiftLaw
from ontarget.models.stacked._stack_kernel import ShiftTable
from ontarget.models.stacked._weights import learned_weights
from refusals import refuses

N = 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
IDS = np.arange(N)


def small(**options: object) -> StackedForest:
    return StackedForest(**{"n_trees": 15, **options})  # type: ignore[arg-type]


def arrays_equal(a: StackedForest | QuantileForest, b: StackedForest | QuantileForest) -> bool:
    first, second = a.to_arrays(), b.to_arrays()
    return all(np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("model", [QuantileForest(10), small(n_trees=5)])
def test_the_number_of_jobs_bounds_the_threads_and_changes_no_answer(
    model: StackedForest | QuantileForest, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = np.round(X[:, 0])
    free = clone(model).fit(X, y)
    wanted = [free.cdf_limits(X, 0.0), free.quantile(X, 0.5), free.predict(X)]
    monkeypatch.setenv("ONTARGET_THREADS", "8")
    monkeypatch.setattr(_threads, "_threads", lambda size: pytest.fail("a thread was asked for"))
    alone = clone(model).set_params(n_jobs=1).fit(X, y)
    assert arrays_equal(alone, free)
    found = [alone.cdf_limits(X, 0.0), alone.quantile(X, 0.5), alone.predict(X)]
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    free.set_params(n_jobs=1).predict(X)
    with refuses(InputError, "n_jobs", 0):
        clone(model).set_params(n_jobs=0).fit(X, y)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_folds", 1),
        ("min_leaf", 0),
        ("seed", -1),
        ("seed", ()),
    ],
)
def test_bad_arguments_are_named(argument: str, value: object) -> None:
    with refuses(InputError, argument):
        StackedForest(**{argument: value}).fit(X, X[:, 0])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def moved() -> tuple[StackedForest, np.ndarray]:
    """A model of outcomes that differ by location and scale, and those outcomes."""
    y = 4.0 * X[:, 0] + np.exp(0.7 * X[:, 1]) * np.random.default_rng(1).normal(size=N)
    return small().fit(X, y, ids=IDS), y


def test_a_moved_and_stretched_shape_counts_most_where_it_is_the_truth(
    moved: tuple[StackedForest, np.ndarray],
) -> None:
    weights = moved[0].weights_
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["shift"] + weights["linear"] > 0.5


def test_the_stack_is_nearer_to_the_truth_than_its_forests(
    moved: tuple[StackedForest, np.ndarray],
) -> None:
    model, y = moved
    forests = small(experts=("forest",)).fit(X, y, ids=IDS)
    queries = np.random.default_rng(2).normal(size=(300, 3))
    values = np.random.default_rng(3).normal(scale=4.0, size=300)
    truth = norm.cdf(values, loc=4.0 * queries[:, 0], scale=np.exp(0.7 * queries[:, 1]))
    ours, theirs = (np.square(m.cdf(queries, values) - truth).mean() for m in (model, forests))
    assert ours < 0.6 * theirs


@pytest.mark.parametrize("left_out", EXPERTS[1:])
def test_every_expert_can_be_switched_off(
    left_out: str, moved: tuple[StackedForest, np.ndarray]
) -> None:
    others = tuple(name for name in EXPERTS if name != left_out)
    model = small(experts=others).fit(X, moved[1], ids=IDS)
    assert model.weights_[left_out] == 0.0
    again = StackedForest.from_arrays(model.to_arrays())
    np.testing.assert_array_equal(again.cdf(X, 0.0), model.cdf(X, 0.0))
    assert left_out not in again.experts


def test_answers_for_training_episodes_come_from_what_never_saw_them() -> None:
    noise = np.random.default_rng(4).normal(size=N)
    # The other experts would find nothing and say so.
    model = small(min_leaf=1, experts=("forest",)).fit(X, noise, ids=IDS)
    seen, unseen = model.cdf(X, 0.0), model.out_of_bag_limits(X, 0.0, IDS)[1]
    low = noise < 0.0
    assert seen[low].mean() - seen[~low].mean() > 0.2
    assert abs(unseen[low].mean() - unseen[~low].mean()) < 0.05


def test_a_shape_is_left_out_among_atoms_and_others() -> None:
    y = np.where(np.arange(N) % 3 == 0, 0.0, X[:, 0] + RNG.normal(size=N))
    assert small().fit(X, y, ids=IDS).weights_["shift"] == 0.0


def test_without_ids_only_the_forest_counts() -> None:
    weights = small().fit(X, X[:, 0]).weights_
    assert weights == {"forest": 1.0, "shift": 0.0, "linear": 0.0}


@pytest.mark.parametrize("experts", [(), ("shift",), ("linear", "shift"), ("forest", "other")])
def test_experts_need_a_forest(experts: tuple[str, ...]) -> None:
    with refuses(InputError, "experts"):
        small(experts=experts).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", np.array([0.5, 0.5])),
        ("weights", np.array([0.5, 0.5, 0.5, 0.5])),
        ("weights", np.array([0.0, 0.0, 0.5, 0.5])),
        ("weights", np.array([np.nan, 0.5, 0.25, 0.25])),
        ("shift_units", np.array([0.0, 1.0, 1.0, 1.0, 0.0])),
        ("shift_shape", np.array([1.0, 0.0])),
    ],
)
def test_forged_arrays_are_refused(
    name: str, value: np.ndarray, moved: tuple[StackedForest, np.ndarray]
) -> None:
    arrays = {**moved[0].to_arrays(), name: value}
    with pytest.raises(ModelFileError):
        StackedForest.from_arrays(arrays)


def test_a_shift_is_its_shape_moved_and_stretched() -> None:
    shape = np.sort(np.random.default_rng(5).normal(size=101))
    law = ShiftLaw(ShiftTable(np.array([0.0, 1.0, 1.0, 0.0, 0.1]), shape, np.empty(0)))
    places, values = np.array([[3.0, 2.0], [-1.0, 0.5]]), np.array([2.0, -1.2])
    left, right = law.cdf_limits(places, values)
    by_hand = np.interp((values - places[:, 0]) / places[:, 1], shape, np.linspace(0.0, 1.0, 101))
    np.testing.assert_allclose(right, by_hand, atol=1e-12)
    np.testing.assert_array_equal(left, right)


@given(st.floats(-3.0, 3.0), st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=50)
def test_a_shift_on_atoms_puts_all_mass_on_them(location: float, scale: float) -> None:
    shape, atoms = np.linspace(-2.0, 2.0, 33), np.array([-1.0, 0.0, 2.0])
    law = ShiftLaw(ShiftTable(np.array([0.0, 1.0, 1.0, 0.0, 0.1]), shape, atoms))
    left, right = law.cdf_limits(np.array([[location, scale]]), np.array([[-1.5, -1.0, 0, 1, 2]]))
    assert left[0, 0] == right[0, 0] == 0.0
    assert left[0, 3] == right[0, 3] == right[0, 2]
    assert right[0, 4] == 1.0
    assert (np.diff(right[0]) >= 0.0).all()


def test_weights_are_those_of_the_best_log_score() -> None:
    rng = np.random.default_rng(6)
    truth = rng.random((4_000, 1))
    below = (rng.random((4_000, 1)) < truth).astype(float)
    good, bad = np.clip(truth + 0.05, 0.0, 1.0), np.full((4_000, 1), 0.5)
    found = learned_weights(np.stack([good, bad]), below, 4_000)
    told = [np.where(below == 1.0, p, 1.0 - p).clip(1e-4, 1.0) for p in (good, bad)]
    grid = np.linspace(0.0, 1.0, 1_001)
    scores = [np.log(w * told[0] + (1.0 - w) * told[1]).sum() for w in grid]
    assert found[0] == pytest.approx(grid[int(np.argmax(scores))], abs=0.01)


def test_an_expert_that_is_always_wrong_is_let_go() -> None:
    below = np.ones((100, 1))
    found = learned_weights(np.stack([np.full((100, 1), 0.9), np.zeros((100, 1))]), below, 1_000)
    assert found.tolist() == [1.0, 0.0]
