"""PCQR, its inverse, Venn–Abers and groups keep their promises: identities and laws (M13)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor

from known import Atoms, Uniform
from ontarget.conformal.pcqr import PCQR, GroupedPCQR
from ontarget.models.forest.estimator import QuantileForest
from ontarget.models.quantiles import RegressorQuantiles
from validity.checks import (
    check_beta_law,
    check_cdf_identity,
    check_fresh_coverage,
    check_interval_identity,
    check_promise_identity,
    check_rank_is_uniform,
    check_unreachable_level_is_refused,
    check_venn_identity,
)

DISTINCT = np.random.default_rng(0).random(40)
ROUNDED = np.random.default_rng(1).integers(1, 10, 40) / 10  # ties where the model knows no atoms
ROLLS = np.random.default_rng(2).choice(6, 40, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.3]) + 1.0
DIE = Atoms(range(1, 7), [1, 2, 1, 3, 2, 1])  # and a model that has the odds wrong
LEVELS = ["0.05", "0.3", "0.5", "0.77", "0.8", "0.9", "0.95", "0.975"]
CASES = {
    "distinct": (Uniform(), DISTINCT, False),
    "ties": (Uniform(), ROUNDED, True),
    "atoms": (DIE, ROLLS, True),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", list(CASES))
def test_each_outcome_left_out_in_turn_the_right_number_is_covered(case: str, level: str) -> None:
    model, outcomes, ties = CASES[case]
    check_interval_identity(model, outcomes, level, ties=ties)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", list(CASES))
def test_each_outcome_left_out_in_turn_the_right_number_breaks_a_promise(
    case: str, level: str
) -> None:
    model, outcomes, ties = CASES[case]
    check_promise_identity(model, outcomes, level, ties=ties)


@pytest.mark.parametrize("case", list(CASES))
def test_each_outcome_left_out_in_turn_the_calibrated_cdf_is_valid(case: str) -> None:
    model, outcomes, ties = CASES[case]
    check_cdf_identity(model, outcomes, ties=ties)


@pytest.mark.parametrize("n", [100, 200])
def test_coverage_given_the_calibration_set_follows_the_beta_law(n: int) -> None:
    check_beta_law(Uniform(), n, "0.9", seed=n)


@pytest.mark.parametrize("n", [5, 30])
def test_rank_of_a_new_outcome_is_uniform_on_the_grid(n: int) -> None:
    check_rank_is_uniform(n, seed=n)


def linear(n_levels: int) -> RegressorQuantiles:
    return RegressorQuantiles(QuantileRegressor(alpha=0.0), n_levels)


def fitted_and_fresh(name: str, *, integers: bool) -> tuple[object, np.ndarray, np.ndarray]:
    """A fitted model, and 40 rows with outcomes that it has not seen."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(240, 2))
    y = X[:, 0] + (1.0 + (X[:, 1] > 0.0)) * rng.normal(size=240)
    y = np.round(y) if integers else y
    make = {"linear": lambda: linear(19), "forest": lambda: QuantileForest(n_trees=20, min_leaf=5)}
    return make[name]().fit(X[:200], y[:200]), X[200:], y[200:]


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("name", ["linear", "forest"])
def test_identities_hold_to_the_episode_through_fitted_models(name: str, integers: bool) -> None:
    # The model's inverses are exact, so not one outcome on a border is lost to rounding.
    model, X, y = fitted_and_fresh(name, integers=integers)
    for level in ("0.5", "0.8", "0.95"):
        check_interval_identity(model, y, level, ties=integers, X=X)
        check_promise_identity(model, y, level, ties=integers, X=X)
    check_cdf_identity(model, y, ties=integers, X=X)


def fresh_bit(rng: np.random.Generator, *, leak: bool = False) -> bool:
    """Whether a new outcome is covered at 80 %, with a model that fits its few rows too well."""
    X = rng.normal(size=(40, 6))
    y = X[:, 0] + rng.normal(size=40)
    model = linear(3).fit(X[:19], y[:19])
    calibration = slice(0, 19) if leak else slice(19, 38)
    pcqr = PCQR(model).calibrate(X[calibration], y[calibration])
    return bool(pcqr.interval(X[39:], 0.8).contains(y[39:])[0])


def test_new_outcome_is_covered_as_promised_with_a_fitted_model() -> None:
    check_fresh_coverage(fresh_bit, 0.8)  # 16 of 20, exactly, because outcomes are continuous


def test_level_out_of_reach_is_refused() -> None:
    check_unreachable_level_is_refused()


@pytest.mark.parametrize("decimals", [3, 1])
def test_venn_abers_is_calibrated_given_what_it_says(decimals: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(60).round(decimals)
    check_venn_identity(scores, rng.random(60) < scores)


def test_promise_holds_within_every_group() -> None:
    groups = np.repeat(["few", "many"], [20, 40])
    rng = np.random.default_rng(4)
    outcomes = np.where(groups == "few", rng.random(60) ** 4, rng.random(60))
    covered = {"few": 0, "many": 0}
    for i in range(60):
        rest = np.arange(60) != i
        grouped = GroupedPCQR(Uniform(), min_size=5).calibrate(
            np.zeros((59, 1)), outcomes[rest], groups=groups[rest]
        )
        interval = grouped.interval(np.zeros((1, 1)), 0.8, groups=groups[[i]])
        covered[groups[i]] += int(interval.contains(outcomes[i])[0])
    assert covered == {"few": 16, "many": 32}
