"""Exact binomial bounds, shared by the tests that compare frequencies with probabilities."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scipy.stats import binom

# Two tails of a fixed seed's one draw: with hundreds of checks the suite's budget of 1e-6 holds.
TAIL = 1e-10

Agrees = Callable[[int, int, float], bool]


@pytest.fixture(scope="session")
def agrees() -> Agrees:
    """Whether a count of n is one that this probability gives, but for two tails of 1e-10."""

    def check(count: int, n: int, p: float) -> bool:
        if p <= 0.0 or p >= 1.0:
            return count == n * round(p)
        return bool(binom.cdf(count, n, p) > TAIL and binom.sf(count - 1, n, p) > TAIL)

    return check
