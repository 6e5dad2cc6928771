"""Cholesky's method against NumPy's solver."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.models.kernels import factor, solve


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_solution_is_numpys(n: int) -> None:
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n + 3, n))
    matrix, rhs = root.T @ root, rng.normal(size=n)
    lower = np.tril(matrix)  # the upper triangle is not read
    factor(lower, np.zeros(n), np.inf)
    assert np.tril(lower) == pytest.approx(np.linalg.cholesky(matrix))
    assert solve(lower, rhs) == pytest.approx(np.linalg.solve(matrix, rhs))


def test_a_column_that_repeats_another_gets_no_part() -> None:
    matrix = np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 9.0]])
    factor(matrix, np.full(3, 1e-12), np.inf)
    assert solve(matrix, np.array([8.0, 8.0, 27.0])).tolist() == [2.0, 0.0, 3.0]
