"""Newton's method for a logistic regression with a quadratic penalty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._typing import BoolArray, FloatArray
from ontarget.models._cholesky_kernel import factor, solve
from ontarget.models.regression._newton_kernel import curvature, slope

# The loss lies above its minimum by about half of this when the search ends: far less than the
# half per effect by which chance moves it.
CLOSE = 1e-5
_MOST_STEPS = 50


class Problem(NamedTuple):
    """A logistic regression to solve: rows, their labels and weights, and the penalties."""

    design: FloatArray
    labels: BoolArray
    offsets: FloatArray
    weights: FloatArray
    penalty: FloatArray

    def every_fourth(self) -> Problem:
        """The same problem on every fourth row, with a quarter of the penalty."""
        return Problem(
            design=self.design[::4].copy(),
            labels=self.labels[::4].copy(),
            offsets=self.offsets[::4].copy(),
            weights=self.weights[::4].copy(),
            penalty=self.penalty / 4.0,
        )


def minimise(
    problem: Problem,
    start: FloatArray,
    lower: FloatArray | None = None,
    *,
    close: float = CLOSE,
) -> tuple[FloatArray, FloatArray]:
    """The coefficients (*effects*) that minimise the penalised log loss, and a Cholesky factor."""
    rows = (problem.labels, problem.offsets, problem.weights)
    effects, gradient, bends = start.copy(), np.empty(start.size), np.empty(problem.labels.size)
    loss = _loss(problem, rows, effects, (gradient, bends))
    before = np.inf
    for _ in range(_MOST_STEPS):
        fresh = lower is None
        if lower is None:
            lower = _factor(problem, bends)
        step = solve(lower, gradient)
        promise = float(np.sum(gradient * step))
        if promise < close:
            break
        share = 1.0
        tried = effects - step
        found = _loss(problem, rows, tried, (gradient, bends))
        while not found <= loss and share > 1e-6:
            share *= 0.25
            tried = effects - share * step
            found = _loss(problem, rows, tried, (gradient, bends))
        effects, loss = tried, found
        # A new curvature is worth its price while steps are large, or shrink too slowly.
        slow = promise > 0.1 * before and promise * promise > before * close
        if share < 1.0 or slow or (fresh and promise > 1.0):
            lower = None
        before = promise
    assert lower is not None
    return effects, lower


def _loss(
    problem: Problem,
    rows: tuple[BoolArray, FloatArray, FloatArray],
    effects: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> float:
    """The penalised log loss; also writes its gradient and each row's share in the curvature."""
    loss = slope(problem.design, rows, effects, out)
    pulled = problem.penalty * effects
    out[0][:] += pulled
    return loss + 0.5 * float(np.sum(pulled * effects))


def _factor(problem: Problem, bends: FloatArray) -> FloatArray:
    matrix = curvature(problem.design, bends)
    least = 1e-12 * (1.0 + np.diag(matrix))
    matrix[np.diag_indices_from(matrix)] += problem.penalty
    factor(matrix, least, np.inf)
    return matrix
