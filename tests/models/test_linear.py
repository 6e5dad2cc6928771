"""Linear quantile regression attains the least pinball loss and says what it cannot do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from ontarget.errors import InputError, ModelFileError
from ontarget.models._pinball_kernel import pinball_fit
from ontarget.models.linear import LinearQuantiles


def line(n: int = 300, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ np.arange(1.0, d + 1) + (1.0 + np.abs(X[:, 0])) * rng.normal(size=n)


def pinball(y: np.ndarray, fitted: np.ndarray, level: float, weight: object = None) -> float:
    over = y - fitted
    return float(np.average(np.maximum(level * over, (level - 1.0) * over), weights=weight))


SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API"}


@parametrize_with_checks([LinearQuantiles(n_levels=5)])
def test_scikit_learn_accepts_the_estimator(estimator: object, check: object) -> None:
    if check.func.__name__ in SKIPPED:  # type: ignore[attr-defined]
        pytest.skip(SKIPPED[check.func.__name__])  # type: ignore[attr-defined]
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize("weighted", [False, True])
def test_loss_is_that_of_scikit_learns_linear_program(weighted: bool) -> None:
    X, y = line()
    weight = np.random.default_rng(1).uniform(0.2, 3.0, y.size) if weighted else None
    model = LinearQuantiles(n_levels=19).fit(X, y, weight)
    assert np.all(model.gaps_ <= 1e-10)
    for j in (0, 4, 9, 18):
        level = model.levels_[j]
        peer = QuantileRegressor(quantile=level, alpha=0.0).fit(X, y, sample_weight=weight)
        ours = pinball(y, X @ model.coef_[j] + model.intercept_[j], level, weight)
        theirs = pinball(y, peer.predict(X), level, weight)
        assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_few_rows_are_fitted_as_well_as_can_be(n: int) -> None:
    X, y = line(n, 3)
    model = LinearQuantiles(n_levels=9).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    median = X @ model.coef_[4] + model.intercept_[4]
    peer = QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y)
    assert pinball(y, median, 0.5) <= pinball(y, peer.predict(X), 0.5) + 1e-8


def test_collinear_constant_and_huge_columns_do_no_harm() -> None:
    X, y = line(200, 2)
    awkward = np.column_stack((X, X[:, 0] * 2.0, np.full(200, 7.0), 1e6 + 1e3 * X[:, 1]))
    plain, model = LinearQuantiles(9).fit(X, y), LinearQuantiles(9).fit(awkward, y)
    assert model.quantile(awkward, [0.1, 0.5]) == pytest.approx(
        plain.quantile(X, [0.1, 0.5]), abs=1e-5
    )


def test_quantiles_never_cross_even_far_outside_the_training_rows() -> None:
    X, y = line(60, 2)
    far = 50.0 * np.random.default_rng(2).normal(size=(200, 2))
    model = LinearQuantiles().fit(X, y)
    raw = far @ model.coef_.T + model.intercept_
    assert np.any(np.diff(raw, axis=1) < 0.0)
    assert np.all(np.diff(model.quantile(far, model.levels_), axis=1) >= 0.0)


def test_row_order_of_training_makes_no_difference_to_speak_of() -> None:
    X, y = line()
    order = np.random.default_rng(3).permutation(y.size)
    a, b = LinearQuantiles(9).fit(X, y), LinearQuantiles(9).fit(X[order], y[order])
    assert a.coef_ == pytest.approx(b.coef_, abs=1e-6)


def test_threads_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = line()
    monkeypatch.setenv("ONTARGET_THREADS", "1")
    one = LinearQuantiles(9).fit(X, y)
    monkeypatch.setenv("ONTARGET_THREADS", "2")
    two = LinearQuantiles(9).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)


def test_categories_become_indicators_and_survive_storage() -> None:
    rng = np.random.default_rng(4)
    X = np.column_stack((rng.normal(size=600), rng.choice([2.0, 5.0, 9.0], 600)))
    y = X[:, 0] + np.select([X[:, 1] == 2.0, X[:, 1] == 5.0], [10.0, -10.0]) + rng.normal(size=600)
    model = LinearQuantiles(9).fit(X, y, categorical=[1])
    middle = model.quantile([[0.0, 2.0], [0.0, 5.0], [0.0, 9.0]], 0.5)
    assert middle == pytest.approx([10.0, -10.0, 0.0], abs=0.5)
    again = LinearQuantiles.from_arrays(model.to_arrays())
    assert np.array_equal(again.quantile(X, 0.3), model.quantile(X, 0.3))
    with pytest.raises(
        InputError,
        match=r"column 1 is categorical and needs a category from training, got 4 in row 1",
    ):
        model.quantile([[0.0, 2.0], [0.0, 4.0]], 0.5)


def test_coinciding_quantiles_are_an_atom() -> None:
    y = np.repeat([0.0, 1.0, 5.0], [30, 40, 30])
    model = LinearQuantiles(19).fit(np.zeros((100, 1)), y)
    left, right = model.cdf_limits([[0.0]], model.quantile([[0.0]], 0.5))
    assert left[0] == pytest.approx(0.35, abs=0.051)
    assert right[0] == pytest.approx(0.7, abs=0.051)


def test_missing_features_and_bad_settings_are_refused() -> None:
    X, y = line(20, 2)
    with pytest.raises(InputError, match=r"got NaN \(missing\) in row 0, column 1"):
        LinearQuantiles().fit([[1.0, math.nan]], [1.0])
    model = LinearQuantiles(3).fit(X, y)
    with pytest.raises(InputError, match=r"got NaN \(missing\) in row 0, column 0"):
        model.predict([[math.nan, 1.0]])
    with pytest.raises(InputError, match="`n_levels` needs a whole number from 3 up, got 2"):
        LinearQuantiles(2).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("levels", np.array([0.5, 0.2, 0.9]), "three rising numbers"),
        ("levels", np.array([0.2, 0.5]), "three rising numbers"),
        ("coef", np.array([1.0]), "one number per level and column"),
        ("intercept", np.array([1.0, np.nan, 2.0]), "finite"),
        ("floor", np.array([0.0]), "positive"),
    ],
)
def test_damaged_arrays_are_refused(name: str, value: np.ndarray, message: str) -> None:
    arrays = LinearQuantiles(3).fit(*line(20, 2)).to_arrays()
    with pytest.raises(ModelFileError, match=message):
        LinearQuantiles.from_arrays({**arrays, name: value})
    del arrays[name]
    with pytest.raises(ModelFileError, match=f"lack '{name}'"):
        LinearQuantiles.from_arrays(arrays)


def test_exact_fit_needs_no_steps() -> None:
    X = np.column_stack((np.ones(5), np.arange(5.0)))
    solution = pinball_fit(X, np.zeros(5), 0.3, np.zeros(2))
    assert solution.tolist() == [0.0, 0.0, 0.0]
