"""M9 with interpolated ranks (M19): errors near the promised rate, and the power that buys."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from ontarget.fitted.kernels import excess_of_rows
from ontarget.fitted.law import NO_CURVE

STEPS, N, M, DELTA = 8, 39, 59, 0.1
UNLIKELY = 1e-8
REPLICATES = 4000


def excesses(rng: np.random.Generator, *, shift: float, atoms: bool) -> np.ndarray:
    """M of the assure runs and, last, of one new run whose outcome is shifted after the fact.

    Runs are random walks, judged at every step by a law that takes their spread for half as much
    again; all calibrate and assure runs are fresh.
    """
    rewards = rng.normal(size=(STEPS, N + M + 1))
    if atoms:
        rewards = np.rint(rewards)
    remaining = np.cumsum(rewards[::-1], axis=0)[::-1]
    found = np.zeros(M + 1)
    for t in range(STEPS):
        g = remaining[t].copy()
        g[-1] += shift
        half, scale = 0.5 if atoms else 0.0, 1.5 * np.sqrt(STEPS - t)
        left, right = ndtr((g - half) / scale), ndtr((g + half) / scale)
        ranks = np.sort(left[:N] + rng.random(N) * (right - left)[:N])
        distance = np.empty(M + 1)
        excess_of_rows(ranks, NO_CURVE, left[N:].copy(), right[N:].copy(), distance)
        found = np.maximum(found, distance)
    return found


def ruled_out(
    seed: int, *, shift: float = 0.0, atoms: bool = False, replicates: int = REPLICATES
) -> int:
    """In how many replicates the new run's own outcome has plausibility δ or less at some step."""
    count = 0
    for replicate in range(replicates):
        found = excesses(np.random.default_rng([seed, replicate]), shift=shift, atoms=atoms)
        count += (1 + np.count_nonzero(found[:M] >= found[M])) / (M + 1) <= DELTA
    return count


def test_outcomes_are_ruled_out_wrongly_as_often_as_promised_and_no_less() -> None:
    low, high = binom(REPLICATES, DELTA).ppf([UNLIKELY, 1 - UNLIKELY])
    assert low <= ruled_out(1) <= high


def test_outcomes_with_atoms_are_ruled_out_wrongly_at_most_at_the_rate() -> None:
    found = ruled_out(2, atoms=True)
    assert binom.sf(found - 1, REPLICATES, DELTA) > UNLIKELY
    assert found > 0.02 * REPLICATES


@pytest.mark.parametrize("shift", [-14.0, 14.0])
def test_an_outcome_far_from_the_others_is_always_ruled_out(shift: float) -> None:
    assert ruled_out(3, shift=shift, replicates=300) > 0.99 * 300
