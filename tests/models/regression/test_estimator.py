"""The distribution regression finds laws that it can express, and stays a law on all others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from ontarget.errors import InputError, ModelFileError
from ontarget.models import DistributionRegression, Marginal
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -0.5, 0.0] + RNG.logistic(size=400)
QUERIES = RNG.normal(size=(50, 3))


def logistic(values: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-values))


def normal(values: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0)))(values)


@pytest.mark.parametrize(
    ("noise", "truth", "scale", "error"),
    [
        (RNG.logistic, logistic, lambda rows: 1.0, 0.015),
        (RNG.normal, normal, lambda rows: 1.0, 0.015),
        (RNG.normal, normal, lambda rows: np.exp(0.2 * rows[:, 1]), 0.03),  # linear only nearly
    ],
    ids=["logistic", "normal", "uneven"],
)
def test_a_linear_process_is_recovered(
    noise: object, truth: object, scale: object, error: float
) -> None:
    rows = RNG.normal(size=(10_000, 3))
    y = rows[:, 0] + scale(rows) * noise(size=10_000)  # type: ignore[operator]
    model, grid = DistributionRegression().fit(rows, y), np.linspace(-2.5, 2.5, 21)
    found = model.cdf(QUERIES, np.tile(grid, (50, 1)))
    spread = np.broadcast_to(scale(QUERIES), 50)[:, None]  # type: ignore[operator]
    wanted = truth((grid - QUERIES[:, :1]) / spread)  # type: ignore[operator]
    assert np.abs(found - wanted).mean() < error
    unaware = Marginal().fit(rows, y).cdf(QUERIES, np.tile(grid, (50, 1)))
    assert np.abs(unaware - wanted).mean() > 5.0 * error


def test_integers_of_a_linear_process_are_recovered() -> None:
    rows = RNG.normal(size=(5_000, 3))
    y = np.floor(rows[:, 0] + 2.0 * RNG.logistic(size=5_000))
    model, grid = DistributionRegression().fit(rows, y), np.arange(-4.0, 5.0)
    left, right = model.cdf_limits(QUERIES, np.tile(grid, (50, 1)))
    wanted = logistic((grid + 1.0 - QUERIES[:, :1]) / 2.0)
    assert np.abs(right - wanted).max() < 0.06
    assert np.array_equal(left[:, 1:], right[:, :-1])


@pytest.mark.parametrize("n_rows", [300, 30_000])
def test_two_outcomes_make_it_a_logistic_regression(n_rows: int) -> None:
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(2.0, 3.0, size=n_rows), rng.integers(0, 3, size=n_rows)])
    y = np.where(rng.random(n_rows) < logistic(rows[:, 0] / 3.0 - rows[:, 1]), 7.0, -1.0)
    model = DistributionRegression(2.0, max_rows=n_rows).fit(rows, y, categorical=[1])
    number = (rows[:, :1] - rows[:, 0].mean()) / rows[:, 0].std()
    # The square is pulled ten times as strongly, in units of its spread.
    square = number**2 / (number**2).std() / math.sqrt(10.0)
    kinds = (rows[:, 1:] == [0.0, 1.0, 2.0]).astype(float)
    design = np.column_stack([number, square, kinds / kinds.std(axis=0)])
    peer = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(design, y == 7.0)
    wanted = peer.predict_proba(design[:200])[:, 0]
    assert model.cdf(rows[:200], 0.0) == pytest.approx(wanted, abs=1e-3)


def test_effects_may_turn_round_as_the_steps_go_by() -> None:
    steps = np.tile(np.arange(11), 400)
    x = RNG.normal(size=steps.size)
    y = (steps - 5.0) / 5.0 * 2.0 * x + RNG.logistic(size=steps.size)
    rows = np.column_stack([x, steps])
    model = DistributionRegression(penalty=0.3).fit(rows, y, steps=steps)
    first, middle, last = model.cdf([[1.0, 0.0], [1.0, 5.0], [1.0, 10.0]], 0.0)
    assert [first, middle, last] == pytest.approx(logistic(np.array([2.0, 0.0, -2.0])), abs=0.05)
    # Beyond the steps seen, the nearest one counts; unknown, halfway.
    found = model.cdf([[1.0, -9.0], [1.0, np.nan], [1.0, 1e300]], 0.0)
    assert found.tolist() == [first, middle, last]
    unaware = DistributionRegression().fit(rows, y)  # no steps, so that column is like any other
    assert unaware.table_.columns.time[0] == -1
    assert np.abs(unaware.cdf([[1.0, 0.0]], 0.0) - logistic(2.0)) > 0.05


def test_each_step_has_outcomes_of_its_own() -> None:
    steps = np.tile(np.arange(40), 100)
    y = steps + RNG.normal(size=steps.size)
    rows = steps[:, None].astype(float)
    model = DistributionRegression().fit(rows, y, steps=steps)
    assert model.table_.columns.time[0] == 0
    steps = np.array([3.0, 20.0, 36.0])
    assert model.quantile(steps[:, None], 0.5) == pytest.approx(steps, abs=0.5)
    widths = np.diff(model.quantile(steps[:, None], [0.1, 0.9]))[:, 0]
    assert widths == pytest.approx([2.56] * 3, abs=0.6)


def test_missing_numbers_and_categories_have_effects_of_their_own() -> None:
    rng = np.random.default_rng(1)
    kind, number = rng.integers(0, 4, size=2000).astype(float), rng.normal(size=2000)
    lost = rng.random(2000) < 0.3
    effect = np.array([2.0, -2.0, 0.0, 1.0])[kind.astype(int)]
    y = effect + np.where(lost, 1.0, number) + rng.logistic(size=2000)
    rows = np.stack([kind, np.where(lost, np.nan, number)], axis=1)
    model = DistributionRegression().fit(rows, y, categorical=[0])
    queries = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, np.nan], [3.0, -1.0]])
    wanted = [2.0, -1.0, 1.0, 0.0]
    assert model.quantile(queries, 0.5) == pytest.approx(wanted, abs=0.4)
    assert np.isfinite(model.predict([[17.0, 1e300], [np.nan, np.nan], [2.0, -1e300]])).all()
    unseen = model.cdf([[17.0, 0.0], [1e300, 0.0], [-5.0, 0.0]], 0.0)
    assert np.all(unseen == unseen[0])


def test_rare_categories_share_what_all_rows_have_in_common() -> None:
    kinds = np.concatenate([np.repeat(np.arange(60.0), 20), np.arange(60.0, 100.0)])
    y = np.where(kinds % 2 == 0, 1.0, -1.0) + 0.1 * RNG.normal(size=kinds.size)
    model = DistributionRegression().fit(kinds[:, None], y, categorical=[0])
    found = model.cdf(np.arange(100.0)[:, None], 0.0)
    assert np.all(found[0:60:2] < 0.2)
    assert np.all(found[1:60:2] > 0.8)
    assert np.all(found[60:] == found[60])


def test_fewer_rows_than_all_give_nearly_the_same_model() -> None:
    rows = RNG.normal(size=(8_000, 3))
    y = rows[:, 0] + RNG.logistic(size=8_000)
    whole, part = (DistributionRegression(max_rows=n).fit(rows, y) for n in (8_000, 4_000))
    assert np.array_equal(part.table_.levels, whole.table_.levels)
    difference = np.abs(part.cdf(QUERIES, 0.0) - whole.cdf(QUERIES, 0.0))
    assert 0.0 < difference.max() < 0.08


def test_episodes_are_answered_by_fits_that_never_saw_them() -> None:
    # Outcomes are noise of the episode: whoever saw it could tell, whoever did not cannot.
    ids, rows = np.repeat(np.arange(60), 5), np.repeat(RNG.normal(size=(60, 20)), 5, axis=0)
    y = np.repeat(RNG.normal(size=60), 5)
    model = DistributionRegression().fit(rows, y, ids=ids)
    seen, unseen = model.cdf(rows, 0.0), model.out_of_bag_limits(rows, 0.0, ids)[1]
    brier = [np.mean((p - (y <= 0.0)) ** 2) for p in (seen, unseen)]
    assert brier[0] < 0.15
    assert brier[1] > 0.24
    # An episode whose outcomes change hardly moves the answers about itself.
    changed = DistributionRegression().fit(rows, np.where(ids == 7, -y, y), ids=ids)
    moved = changed.out_of_bag_limits(rows, 0.0, ids)[1]
    assert moved[ids == 7] == pytest.approx(unseen[ids == 7], abs=0.1)


def test_one_episode_alone_has_no_honest_answer() -> None:
    alone = DistributionRegression().fit(X, Y, ids=np.zeros(400, dtype=int))
    assert np.isnan(alone.out_of_bag_limits(X[:2], 0.0, [0, 0])).all()


def test_a_fold_without_rows_to_learn_from_answers_by_its_levels() -> None:
    # One of two episodes has all the rows that are chosen.
    ids = np.append(np.zeros(399, dtype=int), 1)
    model = DistributionRegression(max_rows=1).fit(X, Y, ids=ids)
    assert np.isfinite(model.out_of_bag_limits(X, 0.0, ids)).all()


def test_many_continuous_outcomes_are_cut_at_quantiles_and_keep_their_ends_and_atoms() -> None:
    y = np.concatenate([RNG.normal(size=20_000), np.zeros(500)])
    model = DistributionRegression().fit(RNG.normal(size=(y.size, 1)), y)
    values, atoms, _ = model.table_.support
    assert values.size <= 1042
    assert values[atoms].tolist() == [0.0]
    left, right = model.cdf_limits([[0.0]], 0.0)
    assert left < model.cdf([[0.0]], np.nextafter(np.sort(y[y < 0.0])[-1], 0.0)) + 1e-9
    assert right - left == pytest.approx(500 / y.size, abs=1e-3)
    assert (values[0], values[-1]) == (y.min(), y.max())
    grid = np.quantile(y, np.linspace(0.01, 0.99, 400))
    truth = np.searchsorted(np.sort(y), grid, side="right") / y.size
    assert model.cdf(np.zeros((1, 1)), grid[None, :])[0] == pytest.approx(truth, abs=0.03)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([0.1, 3.0, 1e3, 1e99]))
def test_whatever_the_effects_the_cdf_rises_and_its_quantile_inverts_it(
    seed: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    steps = np.arange(60) % 3
    rows = np.column_stack([rng.normal(size=(60, 2)), steps])
    y = np.round(rng.normal(size=60), int(rng.integers(0, 3)))
    arrays = DistributionRegression().fit(rows, y, steps=steps).to_arrays()
    effects = size * rng.normal(size=arrays["regression_effects"].size)
    model = DistributionRegression.from_arrays({**arrays, "regression_effects": effects})
    grid = np.sort(np.concatenate([y, rng.normal(size=60)]))
    left, right = model.cdf_limits(rows[:9], np.tile(grid, (9, 1)))
    assert np.all((left >= 0.0) & (left <= right) & (right <= 1.0))
    assert np.all(np.diff(left) >= 0.0)
    rises = np.diff(grid) > 0.0
    assert np.all(right[:, :-1][:, rises] <= left[:, 1:][:, rises])
    levels = rng.random(5)
    at = model.quantile(rows[:9], levels)
    reached = np.array([model.cdf(rows[:9], at[:, k]) for k in range(5)]).T
    before = np.array([model.cdf(rows[:9], np.nextafter(at[:, k], -np.inf)) for k in range(5)]).T
    assert np.all((reached >= levels) & (before < levels))


def test_an_outcome_ever_seen_is_never_impossible() -> None:
    steps = np.repeat([0, 1], 100)
    y = np.where(steps == 0, np.tile([0.0, 1.0], 100), np.tile([5.0, 6.0], 100))
    model = DistributionRegression().fit(steps[:, None].astype(float), y, steps=steps)
    left, right = model.cdf_limits([[0.0]], [[0.0, 1.0, 5.0, 6.0]])
    assert np.all(right > left)
    assert (right - left)[0, 2:].sum() < 0.02
    assert model.cdf_limits([[0.0]], 3.0)[0] == model.cdf_limits([[0.0]], 3.0)[1]


def test_huge_and_tiny_numbers_stay_numbers() -> None:
    for scale in (1e-300, 1e150):
        model = DistributionRegression().fit(X * scale, Y * scale)
        assert np.isfinite(model.predict(QUERIES * scale)).all()
        assert np.isfinite(model.cdf(QUERIES * scale, 0.0)).all()


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("penalty", 0.0),
        ("penalty", math.nan),
        ("n_folds", 1),
        ("max_rows", 0),
        ("seed", -1),
        ("n_jobs", 0),
    ],
)
def test_bad_parameters_are_refused(argument: str, wrong: float) -> None:
    with refuses(InputError, argument, f"got {wrong}"):
        DistributionRegression(**{argument: wrong}).fit(X, Y)


STEPS = np.arange(400) % 4
WHOLE = DistributionRegression().fit(
    np.column_stack([X[:, 0], RNG.integers(0, 3, size=400), STEPS]),
    np.round(Y),
    steps=STEPS,
    categorical=[1],
)


@pytest.mark.parametrize(
    ("name", "change", "shown"),
    [
        ("start", lambda a: a[::-1], "regression_start"),
        ("start", lambda a: np.append(a, 2**62), "regression_start"),
        ("start", lambda a: np.array([0, 3, 6, 6]), "two columns"),
        ("categorical", lambda a: a[:-1], "one flag"),
        ("categorical", lambda a: ~a, "two columns"),
        ("codes", lambda a: a[::-1] * np.nan, "regression_codes"),
        ("codes", lambda a: np.where(a == 1.0, 2.0, a), "regression_codes"),
        ("location", lambda a: -a - 1.0, "regression_location"),
        ("location", lambda a: a[:-1], "regression_location"),
        ("time", lambda a: a + 1, "regression_time"),
        ("time", lambda a: a - 1, "two columns"),
        ("time", lambda a: np.append(a, 0), "regression_time"),
        ("clock", lambda a: a[::-1], "regression_clock"),
        ("clock", lambda a: a + np.inf, "regression_clock"),
        ("effects", lambda a: a[:-1], "regression_effects"),
        ("effects", lambda a: a + 1e101, "1e+100"),
        ("effects", lambda a: a * np.nan, "1e+100"),
        ("levels", lambda a: a[:-1], "and cut"),
        ("levels", lambda a: a[:0], "and cut"),
        ("levels", lambda a: a[::-1], "regression_levels"),
        ("levels", lambda a: a * np.float32(1e9), "regression_levels"),
        ("levels", lambda a: a.astype(float), "float32"),
        ("mass", lambda a: a[::-1], "regression_mass"),
        ("mass", lambda a: a[:-1], "regression_mass"),
        ("support", lambda a: a[::-1], "`support`"),
    ],
)
def test_damaged_arrays_are_refused(name: str, change: object, shown: str) -> None:
    arrays = WHOLE.to_arrays()
    arrays[f"regression_{name}"] = change(arrays[f"regression_{name}"])  # type: ignore[operator]
    with refuses(ModelFileError, None, shown):
        DistributionRegression.from_arrays(arrays)


def test_arrays_that_are_missing_are_named() -> None:
    arrays = WHOLE.to_arrays()
    del arrays["regression_clock"]
    with refuses(ModelFileError, None, "'regression_clock'"):
        DistributionRegression.from_arrays(arrays)
