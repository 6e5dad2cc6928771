"""Newton's method for a penalised logistic regression."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import BoolArray, FloatArray
from ontarget.models.kernels import factor, solve


@kernel
def slope(
    design: FloatArray,
    rows: tuple[BoolArray, FloatArray, FloatArray],
    effects: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> float:
    """The log loss of these effects (coefficients); also writes its gradient.

    ``rows`` is the labels, the offsets of the log odds, and the weights. ``out`` receives the
    gradient, and the weight of each row in the second derivative.
    """
    labels, offsets, weights = rows
    gradient, bends = out
    gradient[:] = 0.0
    loss = 0.0
    whole = effects.size - effects.size % 4
    for i in range(np.uint64(labels.size)):
        row = design[i]
        # Four sums side by side: one alone would wait for itself at every step.
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for k in range(0, whole, 4):
            a += row[k] * effects[k]
            b += row[k + 1] * effects[k + 1]
            c += row[k + 2] * effects[k + 2]
            d += row[k + 3] * effects[k + 3]
        logit = offsets[i] + ((a + b) + (c + d))
        for k in range(whole, effects.size):
            logit += row[k] * effects[k]
        small = math.exp(-abs(logit))
        chance = (1.0 if logit > 0.0 else small) / (1.0 + small)
        loss += weights[i] * (math.log1p(small) + max(logit, 0.0) - (logit if labels[i] else 0.0))
        pull = weights[i] * (chance - (1.0 if labels[i] else 0.0))
        bends[i] = weights[i] * small / ((1.0 + small) * (1.0 + small))
        for k in range(np.uint64(effects.size)):
            gradient[k] += pull * row[k]
    return loss


@kernel
def curvature(design: FloatArray, bends: FloatArray) -> FloatArray:
    """The matrix design' diag(bends) design, which is the second derivative of the log loss.

    Only its lower triangle is filled. Four rows are added at a time, so that each sum is loaded and
    stored a quarter as often.
    """
    n_rows, n = design.shape
    sums = np.zeros((n, n))
    whole = n_rows - n_rows % 4
    for i in range(0, whole, 4):
        a, b, c, d = design[i], design[i + 1], design[i + 2], design[i + 3]
        for j in range(np.uint64(n)):
            w, x = bends[i] * a[j], bends[i + 1] * b[j]
            y, z = bends[i + 2] * c[j], bends[i + 3] * d[j]
            own = sums[j]
            for k in range(j + np.uint64(1)):
                own[k] += (w * a[k] + x * b[k]) + (y * c[k] + z * d[k])
    for i in range(whole, n_rows):
        row = design[i]
        for j in range(n):
            for k in range(j + 1):
                sums[j, k] += bends[i] * row[j] * row[k]
    return sums


@kernel
def squares(design: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weighted mean square and the weighted variance of each column."""
    n = design.shape[1]
    centres, found, whole = np.zeros(n), np.zeros(n), 0.0
    for i in range(np.uint64(weights.size)):
        row = design[i]
        whole += weights[i]
        for k in range(np.uint64(n)):
            centres[k] += weights[i] * row[k]
            found[k] += weights[i] * row[k] * row[k]
    centres /= whole
    found /= whole
    return found, found - centres * centres


# The loss lies above its minimum by about half of this when the search ends: far less than the
# half per effect by which chance moves it.
CLOSE = 1e-5
_MOST_STEPS = 50


class Problem(NamedTuple):
    """A logistic regression to solve: rows, their labels and weights, and the penalties.

    ``offsets`` are added to the log odds. ``penalty`` says how strongly each effect (coefficient)
    is pulled towards 0.
    """

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
    # The factor is that of the loss's second derivative, computed near the minimum. ``lower`` may
    # be such a factor of a similar problem, which saves time: the second derivative is computed
    # again only if steps with the old one improve the loss too slowly. The search stops when the
    # next step would improve the loss by less than about half of ``close``.
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
