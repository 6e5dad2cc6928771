"""Linear quantile regression by a primal–dual interior point method.

The minimum of the pinball loss is the solution of a linear program. The variables of the dual
program lie in the box [0, 1]ⁿ. Portnoy and Koenker (1997) solve it by Mehrotra's
predictor–corrector steps ("Frisch–Newton"). Each step needs one pass over the rows and solves one
small symmetric system. Every sum is a plain loop, so the result does not depend on threads or on a
linear-algebra library.
"""

from __future__ import annotations

import math

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import FloatArray
from ontarget.models._cholesky_kernel import factor, solve

# How much of the way to the border of the box a step may go.
_REACH = 0.9995
_TOLERANCE = 1e-10
_MAX_STEPS = 100


@kernel
def _normal_matrix(X: FloatArray, q: FloatArray, gram: FloatArray) -> None:
    """Write the lower triangle of X' diag(q) X into ``gram``."""
    n, d = X.shape
    gram[:] = 0.0
    for i in range(n):
        for j in range(d):
            weighted = q[i] * X[i, j]
            for k in range(j + 1):
                gram[j, k] += weighted * X[i, k]


@kernel
def _weighted_sum(X: FloatArray, v: FloatArray) -> FloatArray:
    """The product X' v, one number per column of X."""
    n, d = X.shape
    total = np.zeros(d)
    for i in range(n):
        for j in range(d):
            total[j] += v[i] * X[i, j]
    return total


@kernel
def _apply(X: FloatArray, b: FloatArray) -> FloatArray:
    """The product X b, one number per row of X."""
    n, d = X.shape
    out = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(d):
            total += X[i, j] * b[j]
        out[i] = total
    return out


@kernel
def _reach(x: FloatArray, dx: FloatArray) -> float:
    """The largest step size for which x + step · dx has no number below 0."""
    step = np.inf
    for i in range(x.size):
        if dx[i] < 0.0:
            step = min(step, -x[i] / dx[i])
    return step


@kernel
def pinball_fit(X: FloatArray, y: FloatArray, level: float, start: FloatArray) -> FloatArray:
    """The coefficients that minimise the pinball loss at this level, then the relative duality gap.

    The gap, the last number, bounds how far the loss is above its minimum. X must have full column
    rank. ``start`` is any first guess, such as the least-squares coefficients.
    """
    n, d = X.shape
    beta = start.copy()
    x = np.full(n, 1.0 - level)  # the dual: the share of each row below its outcome
    s = np.full(n, level)
    residual = _apply(X, beta) - y
    scale = np.abs(residual).mean()
    if scale == 0.0:
        return np.append(beta, 0.0)
    # z − w is the residual, both positive: slacks of the two sides of the box.
    z = np.maximum(residual, 0.0) + 1e-3 * scale
    w = np.maximum(-residual, 0.0) + 1e-3 * scale
    gram = np.empty((d, d))
    gap = np.sum(z * x + w * s)
    for _ in range(_MAX_STEPS):
        if gap <= _TOLERANCE * n * scale:
            break
        q = 1.0 / (z / x + w / s)
        r = z - w
        _normal_matrix(X, q, gram)
        ridge = 1e-15 * np.max(np.diag(gram))
        factor(gram, np.full(d, ridge), math.sqrt(ridge))
        rhs = _weighted_sum(X, q * r)
        step = solve(gram, rhs)
        dx = q * (_apply(X, step) - r)
        dz = -z * (1.0 + dx / x)
        dw = -w * (1.0 - dx / s)
        primal = min(_REACH * min(_reach(x, dx), _reach(s, -dx)), 1.0)
        dual = min(_REACH * min(_reach(z, dz), _reach(w, dw)), 1.0)
        if min(primal, dual) < 1.0:
            left = np.sum((z + dual * dz) * (x + primal * dx) + (w + dual * dw) * (s - primal * dx))
            mu = gap * (left / gap) ** 3 / (2.0 * n)
            # Second-order terms of the complementarity conditions, with the centring term mu.
            bend = mu * (1.0 / x - 1.0 / s) - dx * dz / x - dx * dw / s
            step = solve(gram, rhs - _weighted_sum(X, q * bend))
            dx_affine, dz_affine, dw_affine = dx, dz, dw
            dx = q * (_apply(X, step) + bend - r)
            dz = (mu - dx_affine * dz_affine - z * dx) / x - z
            dw = (mu + dx_affine * dw_affine + w * dx) / s - w
            primal = min(_REACH * min(_reach(x, dx), _reach(s, -dx)), 1.0)
            dual = min(_REACH * min(_reach(z, dz), _reach(w, dw)), 1.0)
        x += primal * dx
        s -= primal * dx
        # z − w follows X beta − y: a step of the slacks is a step of beta the other way.
        beta -= dual * step
        z += dual * dz
        w += dual * dw
        gap = np.sum(z * x + w * s)
    return np.append(beta, gap / (n * scale))
