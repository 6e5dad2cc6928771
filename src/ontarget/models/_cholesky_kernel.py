"""Cholesky's method for small symmetric systems of equations."""

from __future__ import annotations

import math

from ontarget._kernel import kernel
from ontarget._typing import FloatArray


@kernel
def factor(matrix: FloatArray, least: FloatArray, instead: float) -> None:
    """Replace a symmetric matrix by its lower Cholesky factor; only its lower triangle is read."""
    n = matrix.shape[0]
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
        pivot = math.sqrt(matrix[j, j]) if matrix[j, j] > least[j] else instead
        for i in range(j + 1, n):
            matrix[i, j] /= pivot
        matrix[j, j] = pivot


@kernel
def solve(lower: FloatArray, rhs: FloatArray) -> FloatArray:
    """The solution x of (lower · lower') x = rhs, where ``lower`` is a Cholesky factor."""
    n = rhs.size
    x = rhs.copy()
    for i in range(n):
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]
    return x
