"""Drift: runs of one log are called changed in at most 1 % of its random divisions (M36)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats
from tests.walks import shifted, walks

from ontarget import Episodes, GoalMonitor, Target
from ontarget.drift import DriftJudgement
from ontarget.models import Marginal, QuantileForest

GOAL = Target.at_least(0.3)
UNLIKELY = 1e-4


def calls(splits: int) -> tuple[int, int]:
    """How many random divisions of one finite log into recorded and new runs are called changed.

    Without an order of the new runs, and with one.
    """
    log, rng, found = walks(450, 3), np.random.default_rng(5), np.zeros(2, dtype=int)
    for seed in range(splits):
        mixed = rng.permutation(450)
        monitor = GoalMonitor(Marginal()).fit(log.take(mixed[:300]), seed=seed, progress=False)
        new = log.take(mixed[300:])
        found += [monitor.drift(new, GOAL, order=one).changed for one in (None, np.arange(150))]
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("splits", [25, pytest.param(1_000, marks=pytest.mark.slow)])
def test_one_division_of_a_log_in_a_hundred_is_called_changed_at_most(splits: int) -> None:
    for count in calls(splits):
        assert stats.binom.sf(count - 1, splits, 0.01) > UNLIKELY


@cache
def monitor() -> GoalMonitor:
    forest = QuantileForest(n_trees=12, min_leaf=5)
    return GoalMonitor(forest).fit(walks(1_500), progress=False)


def renamed(runs: Episodes, prefix: str) -> Episodes:
    states = np.stack([runs.at(t).states for t in range(runs.horizon)], axis=1)
    rewards = np.stack([runs.rewards_at(t) for t in range(runs.horizon)], axis=1)
    ids = [f"{prefix}{i}" for i in range(len(runs))]
    return Episodes.from_arrays(states, rewards, ids=ids, horizon=runs.horizon)


def test_the_verdict_depends_neither_on_names_nor_on_the_order_of_a_file() -> None:
    """Bets along a random order called half of these renamed files changed."""
    runs = shifted(300, 4, -0.03)
    found = [monitor().drift(renamed(runs, f"{name}-"), GOAL) for name in "abcdef"]
    assert {one.judgement for one in found} == {DriftJudgement.WORSE}
    mixed = runs.take(np.random.default_rng(0).permutation(300))
    assert monitor().drift(mixed, GOAL) == monitor().drift(runs, GOAL)


def lifted(n: int, seed: int, share: float) -> Episodes:
    """Walks of which so many near misses end just inside the target instead."""
    runs = walks(n, seed=seed)
    states = np.stack([runs.at(t).states for t in range(6)], axis=1)
    rewards = np.stack([runs.rewards_at(t) for t in range(6)], axis=1)
    ended = rewards.sum(axis=1)
    near = (ended < 0.3) & (ended > -0.5) & (np.random.default_rng(seed).random(n) < share)
    rewards[near, -1] += 0.3 - ended[near]
    return Episodes.from_arrays(states, np.round(rewards, 1), ids=runs.ids, horizon=6)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_share_of_good_runs_that_differs_beyond_chance_is_a_change(ordered: bool) -> None:
    new = lifted(400, 10, 0.6)
    order = np.arange(400) if ordered else None
    found = monitor().evaluate(new, GOAL, order=order, resamples=5)
    drift = found.drifted
    assert drift is not None
    met, before = drift.bias.met, drift.before.met
    assert (met - before) / np.sqrt(0.25 / 400 + 0.25 / 300) > 4.0
    assert drift.judgement is DriftJudgement.CHANGED
    assert "no change" not in str(found.verdict())


@pytest.mark.parametrize(
    "new",
    [
        shifted(300, 4, -0.1),
        shifted(300, 4, 0.1),
        Episodes.concat([walks(150, seed=5), shifted(150, 6, -0.25)]),
    ],
    ids=["lower", "higher", "lower in the second half"],
)
def test_planted_changes_are_found_without_an_order(new: Episodes) -> None:
    assert monitor().drift(new, GOAL).changed
