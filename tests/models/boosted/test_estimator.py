"""Boosted quantiles find laws of one shape, and stay a law on all others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ontarget.errors import InputError, ModelFileError
from ontarget.models import BoostedQuantiles, Marginal

SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API"}


def expected_failures(estimator: object) -> dict[str, str]:
    why = "a row draws its rank however much it weighs"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@parametrize_with_checks([BoostedQuantiles(10)], expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_estimator(estimator: object, check: object) -> None:
    if check.func.__name__ in SKIPPED:  # type: ignore[attr-defined]
        pytest.skip(SKIPPED[check.func.__name__])  # type: ignore[attr-defined]
    check(estimator)  # type: ignore[operator]


def law(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose outcome has a mean and a spread that bend with the features."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    return rows, rows[:, 0] ** 2 + np.exp(0.5 * rows[:, 1]) * rng.normal(size=n)


def test_a_law_that_bends_in_mean_and_spread_is_found() -> None:
    model, rows = BoostedQuantiles().fit(*law(4_000)), law(200, seed=1)[0]
    grid = np.tile(np.linspace(-3.0, 5.0, 17), (200, 1))
    scaled = (grid - rows[:, [0]] ** 2) / np.exp(0.5 * rows[:, [1]])
    truth = np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0)))(scaled)
    error = np.abs(model.cdf(rows, grid) - truth).mean()
    assert error < 0.04
    unaware = Marginal().fit(*law(4_000)).cdf(rows, grid)
    assert np.abs(unaware - truth).mean() > 4.0 * error


def test_the_same_rows_in_any_order_give_the_same_model() -> None:
    rows, y = law(500)
    ids, order = np.arange(500) // 5, np.random.default_rng(3).permutation(500)
    mine = BoostedQuantiles(20).fit(rows, y, ids=ids).to_arrays()
    theirs = BoostedQuantiles(20).fit(rows[order], y[order], ids=ids[order]).to_arrays()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_training_episodes_are_answered_by_trees_that_never_saw_them() -> None:
    rng = np.random.default_rng(4)
    rows, y, ids = rng.normal(size=(300, 2)), rng.normal(size=300), np.arange(300) // 2
    model = BoostedQuantiles(40).fit(rows, y, ids=ids)
    _, right = model.out_of_bag_limits(rows, y, ids)
    # Their ranks are as even as those of noise should be.
    assert np.abs(np.sort(right) - np.arange(1, 301) / 300).max() < 0.1
    with pytest.raises(InputError, match="episodes that were in fit"):
        model.out_of_bag_limits(rows[:1], 0.0, ["another"])


def test_two_outcomes_stay_two_atoms() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2_000, 2))
    p = 1.0 / (1.0 + np.exp(-2.0 * rows[:, 0]))
    y = (rng.random(2_000) < p).astype(float)
    left, right = BoostedQuantiles().fit(rows, y).cdf_limits(rows, 0.0)
    assert np.all(left == 0.0)
    assert np.abs(1.0 - right - p).mean() < 0.08


def test_one_feature_constant_outcomes_and_500_features_are_fine() -> None:
    rows, y = law(300)
    assert BoostedQuantiles(5).fit(rows[:, :1], y).quantile([[0.0]], 0.5).shape == (1,)
    constant = BoostedQuantiles(5).fit(rows, np.full(300, 3.0))
    assert constant.quantile(rows[:5], [0.1, 0.9]).tolist() == [[3.0, 3.0]] * 5
    wide = np.random.default_rng(7).normal(size=(300, 500))
    assert np.isfinite(BoostedQuantiles(5).fit(wide, wide[:, 0]).predict(wide[:5])).all()


@pytest.mark.parametrize("odd", [1e300, 1e-320, 0.0, np.nan])
def test_features_that_are_huge_tiny_constant_or_always_missing_are_fine(odd: float) -> None:
    rows, y = law(60)
    rows[:, 1] *= odd
    found = BoostedQuantiles(5).fit(rows, y)
    assert np.isfinite(found.quantile(rows, [0.1, 0.5, 0.9])).all()


@pytest.mark.slow
def test_100_000_rows_are_fine() -> None:
    rows, y = law(100_000)
    model = BoostedQuantiles(50).fit(rows, y)
    assert model.quantile([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]], 0.5) == pytest.approx([0, 4], abs=0.3)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shift_shape", lambda a: a[:-1], "one number of shift_shape per level"),
        ("shift_units", lambda a: a * 1e9, "numbers up to 1e\\+06 in size"),
        ("shift_values", lambda a: np.array([1.0]), "no shift_values"),
        ("rank_time", lambda a: a + 9, "rank_clock needs a first"),
        ("guide_terms", lambda a: a[:0], "both guides"),
    ],
)
def test_damaged_arrays_are_refused(name: str, change: object, message: str) -> None:
    arrays = BoostedQuantiles(10).fit(*law(100)).to_arrays()
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    with pytest.raises(ModelFileError, match=message):
        BoostedQuantiles.from_arrays(arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_boosted": 0}, "`n_boosted` needs a whole number from 1 up, got 0"),
        ({"boosted_depth": 99}, "boosted_depth"),
        ({"n_folds": 1}, "`n_folds` needs a whole number from 2 up, got 1"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BoostedQuantiles(**options).fit(*law(20))
