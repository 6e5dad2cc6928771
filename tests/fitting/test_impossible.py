"""An outcome that never happens although the law would expect it carries no mass (M16)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.fitting.ranking import doubted_outcomes
from ontarget.models import QuantileForest

HORIZON = 6


def games(n: int, seed: int, *, ties: bool) -> Episodes:
    """Games of six quarters; without ties one that is even at the end goes on to a sudden death."""
    rng = np.random.default_rng(seed)
    rewards = rng.integers(-2, 3, size=(n, HORIZON)).astype(float)
    if not ties:
        even = rewards.sum(axis=1) == 0.0
        rewards[even, -1] += rng.choice([-1.0, 1.0], size=int(even.sum()))
    margin = np.cumsum(rewards, axis=1) - rewards
    return Episodes.from_arrays(margin[:, :, None], rewards, features=["margin"])


def fitted(episodes: Episodes) -> GoalMonitor:
    return GoalMonitor(QuantileForest(n_trees=20, min_leaf=10)).fit(episodes, progress=False)


@pytest.fixture(scope="module")
def never_even() -> GoalMonitor:
    return fitted(games(1_500, 0, ties=False))


def test_only_a_gap_between_common_outcomes_is_doubted() -> None:
    assert doubted_outcomes(games(1_500, 0, ties=False)).tolist() == [0.0]
    assert doubted_outcomes(games(1_500, 0, ties=True)).size == 0


def test_few_episodes_prove_nothing() -> None:
    few = games(40, 0, ties=False)
    assert doubted_outcomes(few).tolist() == [0.0]
    assert fitted(few).fitted.impossible.size == 0


def test_a_tie_that_never_happens_has_no_probability(never_even: GoalMonitor) -> None:
    tie = Target(0.0, 0.0)
    states, so_far = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    assert never_even.fitted.impossible.tolist() == [0.0]
    found = never_even.outlook(3, states, so_far, tie)
    assert (found.p < 1e-5).all()
    possible = fitted(games(1_500, 0, ties=True)).outlook(3, states, so_far, tie)
    assert (possible.p > 0.05).all()


def test_the_rest_of_the_law_is_a_law(never_even: GoalMonitor) -> None:
    law = never_even.fitted.at(3)
    X = law.inputs(np.array([[0.0], [-2.0]]), np.array([0.0, -2.0]))
    remainders = np.tile(np.arange(-8.0, 9.0), (2, 1))
    left, right = law.cdf_limits(X, remainders)
    assert (np.diff(right, axis=1) >= -1e-15).all()
    np.testing.assert_allclose(right[:, -1], 1.0, atol=1e-12)
    np.testing.assert_allclose(left[:, 1:], right[:, :-1], atol=1e-15)
    never = remainders == -np.array([[0.0], [-2.0]])
    assert (left[never] == right[never]).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_quantiles_are_the_inverse_and_never_impossible(never_even: GoalMonitor, side: str) -> None:
    law, levels = never_even.fitted.at(3), np.linspace(0.05, 0.95, 19)
    so_far = np.array([0.0, 1.0])
    X = law.inputs(so_far[:, None], so_far)
    found = law.quantile(X, levels, side=side)
    assert (found + so_far[:, None] != 0.0).all()
    left, right = law.cdf_limits(X, found)
    assert (left <= levels + 1e-12).all()
    assert (right >= levels - 1e-12).all()


def test_live_runs_and_files_know_it_too(never_even: GoalMonitor, tmp_path: Path) -> None:
    never_even.save(tmp_path / "games.ontarget")
    loaded = GoalMonitor.load(tmp_path / "games.ontarget")
    target = Target.at_least(1.0)
    new = games(50, 1, ties=False)
    found = never_even.evaluate(new, target)
    again = loaded.evaluate(new, target)
    np.testing.assert_array_equal(found.p, again.p)
    watch = loaded.watch(target)
    for i in range(5):
        watch.reset()
        reward = 0.0
        for t in range(HORIZON):
            row = new.at(t)
            p = watch.step(row.states[i], reward).p
            assert p == found.p[t, i]
            reward = float(new.rewards_at(t)[i])
