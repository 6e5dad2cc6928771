"""The logistic regression's sums and its search beside NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ontarget.models.regression._newton import Problem, curvature, minimise, slope, squares

RNG = np.random.default_rng(0)


def problem(n_rows: int = 203, penalty: float = 2.0) -> Problem:
    design = np.column_stack([np.ones(n_rows), RNG.normal(size=(n_rows, 3))])
    logits = design @ [0.5, 1.0, -2.0, 0.0]
    return Problem(
        design=design,
        labels=RNG.random(n_rows) < 1.0 / (1.0 + np.exp(-logits)),
        offsets=np.zeros(n_rows),
        weights=RNG.uniform(0.5, 2.0, size=n_rows),
        penalty=np.array([0.0, penalty, penalty, penalty]),
    )


def test_loss_slope_and_curvature_are_those_of_the_definition() -> None:
    one = problem()._replace(offsets=RNG.normal(size=203))
    effects = RNG.normal(size=4)
    gradient, bends = np.empty(4), np.empty(203)
    rows = (one.labels, one.offsets, one.weights)
    loss = slope(one.design, rows, effects, (gradient, bends))
    chance = 1.0 / (1.0 + np.exp(-one.offsets - one.design @ effects))
    likely = np.where(one.labels, chance, 1.0 - chance)
    assert loss == pytest.approx(-one.weights @ np.log(likely))
    assert gradient == pytest.approx(one.design.T @ (one.weights * (chance - one.labels)))
    assert bends == pytest.approx(one.weights * chance * (1.0 - chance))
    wanted = np.tril(one.design.T @ (bends[:, None] * one.design))
    assert curvature(one.design, bends) == pytest.approx(wanted)


def test_the_loss_of_certain_rows_is_a_number() -> None:
    design, gradient, bends = np.ones((2, 1)), np.empty(1), np.empty(2)
    rows = (np.array([True, False]), np.array([800.0, 800.0]), np.ones(2))
    assert slope(design, rows, np.zeros(1), (gradient, bends)) == 800.0
    assert gradient.tolist() == [1.0]


def test_squares_are_weighted_means() -> None:
    one = problem()
    square, spread = squares(one.design, one.weights)
    centre = np.average(one.design, axis=0, weights=one.weights)
    assert square == pytest.approx(np.average(one.design**2, axis=0, weights=one.weights))
    wanted = np.average((one.design - centre) ** 2, axis=0, weights=one.weights)
    assert spread == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("penalty", [0.01, 2.0])
def test_the_search_ends_where_scikit_learns_does(penalty: float) -> None:
    one = problem(penalty=penalty)
    found, lower = minimise(one, np.zeros(4), close=1e-12)
    peer = LogisticRegression(C=1.0 / penalty, tol=1e-10, max_iter=1000)
    peer.fit(one.design[:, 1:], one.labels, sample_weight=one.weights)
    assert found == pytest.approx(np.append(peer.intercept_, peer.coef_), abs=1e-5)
    far, _ = minimise(one, np.array([30.0, -30.0, 30.0, 30.0]), close=1e-12)
    assert far == pytest.approx(found, abs=1e-5)
    # A factor of a similar problem leads to the same place.
    again, _ = minimise(one, np.zeros(4), 1.5 * lower, close=1e-12)
    assert again == pytest.approx(found, abs=1e-5)
