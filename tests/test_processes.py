"""The study's processes: their equations, their truth, their independence of company."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget._grid import snap
from ontarget.domains import simulate, simulate_with_snapshots, true_probability
from ontarget.domains.draws import episode_keys
from ontarget.target import Target
from yardstick.processes import (
    CartPole,
    DriftingWalk,
    MountainCar,
    Reservoir,
    States,
    Storm,
    Walk,
)

PROCESSES = [Walk, Reservoir, Storm, DriftingWalk, CartPole, MountainCar]


@pytest.mark.parametrize(
    ("process", "name"), [(CartPole, "CartPole-v1"), (MountainCar, "MountainCar-v0")]
)
def test_moves_are_gymnasiums(process: type, name: str) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name).unwrapped
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(60):
        before = np.array(env.state, dtype=np.float64)
        action = int(rng.integers(env.action_space.n))
        push = np.array([action == 1]) if process is CartPole else np.array([action - 1.0])
        _, _, over, *_ = env.step(action)
        after = process.move(before[None], push)
        assert after[0] == pytest.approx(np.array(env.state), abs=1e-12)
        assert bool(process().over(States(after))[0]) == over
        if over:
            break


@pytest.mark.parametrize("process", [Walk, Reservoir])
def test_exact_truth_is_what_rollouts_count(process: type) -> None:
    domain = process()
    run = simulate_with_snapshots(domain, 40, seed=0, snapshots=[0, 12, domain.horizon - 1])
    target = Target(*np.quantile(run.episodes.outcomes, [0.2, 0.7], method="inverted_cdf"))
    for t, states in run.snapshots.items():
        behavior = run.episodes.at(t).behavior
        counted = true_probability(
            domain, states, behavior, t, target, rollouts=2_000, grid=run.episodes.grid
        )
        exact = domain.probability(states, behavior, t, target, run.episodes.grid)
        # 40 states at 3 steps: beyond 5 standard errors with a chance of less than 1e-4.
        assert np.abs(exact - counted.p).max() < 5.0 * np.sqrt(0.25 / 2_000)
        assert np.abs(exact - counted.p).mean() < 0.02


@pytest.mark.parametrize("t", [0, 3, 20, 39])
def test_the_drifting_walks_truth_is_that_of_all_walks_that_moved_alike(t: int) -> None:
    walk, n = DriftingWalk(), 400_000
    run = simulate_with_snapshots(walk, 6, seed=2, snapshots=[t])
    behavior, target = run.episodes.at(t).behavior, Target(-6.0, 4.0)
    exact = walk.probability(run.snapshots[t], behavior, t, target, run.episodes.grid)
    # Hidden drifts and spreads drawn as the process draws them, each weighted by how likely it
    # makes the steps seen.
    rng, left = np.random.default_rng(5), walk.horizon - t
    spread = np.sqrt(walk.scale / rng.gamma(walk.shape, size=n))
    drift = rng.normal(size=n) * spread / 5.0
    ahead = left * drift + np.sqrt(left) * spread * rng.normal(size=n)
    steps = [run.episodes.rewards_at(k) for k in range(t)]
    for i in range(6):
        fit = np.zeros(n)
        for step in steps:
            fit -= np.log(spread) + np.square((step[i] - drift) / spread) / 2.0
        weight = np.exp(fit - fit.max())
        weight /= weight.sum()
        share = weight @ target.contains(behavior[i] + ahead)
        assert exact[i] == pytest.approx(share, abs=5.0 * np.sqrt(0.25 * np.sum(weight**2)))
        assert np.sum(weight**2) < 1e-3


@pytest.mark.parametrize("process", PROCESSES)
def test_an_episode_is_the_same_in_any_company(process: type) -> None:
    few, many = simulate(process(), 5, seed=1), simulate(process(), 700, seed=1)
    # Outcomes are on a grid of their own company's, the coarser one of the many.
    assert np.array_equal(snap(few.outcomes, many.grid), many.outcomes[:5])
    assert np.unique(many.outcomes).size > 3


@pytest.mark.parametrize("process", [CartPole, MountainCar])
def test_what_is_over_stays_and_earns_nothing(process: type) -> None:
    domain, keys = process(), episode_keys(0, 0, 300)
    state = domain.start(keys)
    earned = np.stack([domain.step(state, t, keys) for t in range(domain.horizon)])
    assert set(np.unique(np.abs(earned))) == {0.0, 1.0}
    assert np.all(np.diff(np.abs(earned), axis=0) <= 0.0)
    ended = domain.over(state)
    assert 0.1 < ended.mean() < 0.9
    frozen = state.values[ended].copy()
    domain.step(state, domain.horizon, keys)
    assert np.array_equal(state.values[ended], frozen)
