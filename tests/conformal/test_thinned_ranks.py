"""Thinned ranks promise what all ranks do: their bounds only widen, by less than one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from known import Uniform
from ontarget.conformal import PCQR
from ontarget.conformal import ranks as conformal_ranks
from ontarget.conformal.ranks import FEWEST_THINNED, MOST_RANKS, Ranks, thinned_ranks
from ontarget.target import Target


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformal_ranks, "MOST_RANKS", 9)


def keys(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 2**63, n).astype(np.uint64)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.integers(2, 7), st.integers(0, 10_000), st.booleans())
def test_bounds_only_widen_by_less_than_one_kept_rank(
    m: int, every: int, seed: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = every * (m + 1) - 1
    if -(-(n + 1) // 10) != every:
        return
    values = np.sort(rng.integers(0, 8, n) / 8 if ties else rng.random(n))
    kept = thinned_ranks(values, keys(n), seed=0, step=0)
    assert kept.size == m
    asked = np.concatenate([values, rng.random(20), [0.0, 1.0]])
    whole, some = Ranks(values).bounds(asked), Ranks(kept).bounds(asked)
    fall, rise = whole.low - some.low, some.high - whole.high
    assert fall.min() >= -1e-12
    assert rise.min() >= -1e-12
    assert max(fall.max(), rise.max()) < 1 / (m + 1)


def test_targets_get_a_lower_low_and_a_higher_high() -> None:
    rng = np.random.default_rng(3)
    values = np.sort(rng.random(79))
    kept = thinned_ranks(values, keys(79), seed=0, step=0)
    X = np.zeros((1, 1))
    for a, b in rng.random((200, 2)):
        target = Target(min(a, b), max(a, b))
        whole, some = (
            PCQR.from_ranks(Uniform(), Ranks(one)).probability(X, target) for one in (values, kept)
        )
        assert some.low[0] <= whole.low[0] + 1e-12
        assert some.high[0] >= whole.high[0] - 1e-12


def held(thin: Any, level: float) -> dict[str, float]:
    """How often what thinned ranks promise holds, over many calibration sets of 83 ranks."""
    rng, X, times = np.random.default_rng(1), np.zeros((1, 1)), 1000
    found = dict.fromkeys(("lower", "upper", "interval"), 0)
    for i in range(times):
        kept = thin(np.sort(rng.random(83)), keys(83, i), seed=i, step=0)
        pcqr, new = PCQR.from_ranks(Uniform(), Ranks(kept), thinned=True), rng.random()
        found["lower"] += pcqr.promise(X, level, "lower")[0] <= new
        found["upper"] += pcqr.promise(X, level, "upper")[0] >= new
        lower, upper = pcqr.interval(X, level, unbounded=True)
        found["interval"] += lower[0] <= new <= upper[0]
    return {name: count / times for name, count in found.items()}


def test_what_thinned_ranks_promise_holds() -> None:
    assert min(held(thinned_ranks, 0.7).values()) >= 0.7 - 3 * np.sqrt(0.21 / 1000)


def overstated(thin: Any, n: int = 87) -> float:
    """How far the share that a kept rank stands for is from the share of ranks up to it."""
    numbers = np.arange(1.0, n + 1)
    kept = np.array([thin(numbers, keys(n, i), seed=i, step=0) for i in range(400)])
    claimed = np.arange(1, kept.shape[1] + 1) / (kept.shape[1] + 1)
    return float(np.abs(kept.mean(axis=0) / (n + 1) - claimed).max())


def test_a_kept_rank_stands_for_its_exact_share() -> None:
    assert overstated(thinned_ranks) < 0.003


def test_thinning_that_leaves_out_no_episode_is_caught() -> None:
    """The planted bug: n + 1 is no multiple of m + 1, so every share is a little off."""
    assert overstated(lambda ranks, *_, **__: ranks[8::9]) > 0.015


def test_the_least_that_thinning_leaves_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformal_ranks, "MOST_RANKS", MOST_RANKS)
    for n in (MOST_RANKS, MOST_RANKS + 1, MOST_RANKS + 2, 2 * MOST_RANKS + 2, 123_457):
        kept = thinned_ranks(np.linspace(0, 1, n), keys(n), seed=0, step=0)
        assert FEWEST_THINNED <= kept.size <= MOST_RANKS
    few = np.linspace(0, 1, MOST_RANKS)
    assert thinned_ranks(few, keys(few.size), seed=0, step=0) is few
