"""Exact binomial bounds for tests that compare frequencies with probabilities."""

from __future__ import annotations

from scipy.stats import binom

# Seeds are fixed and there are thousands of checks, so the suite's budget of 1e-6 holds.
TAIL = 1e-10


def agrees(count: int, n: int, p: float) -> bool:
    """Whether p gives a count like this one of n: it lies outside neither tail of 1e-10."""
    if p <= 0.0 or p >= 1.0:
        return count == n * round(p)
    return bool(binom.cdf(count, n, p) > TAIL and binom.sf(count - 1, n, p) > TAIL)
