from __future__ import annotations

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget.models import Marginal, QuantileForest

SMALL = QuantileForest(n_trees=20, min_leaf=20)


def waves(n: int, horizon: int, *, fast: bool) -> Episodes:
    """Runs that earn at last what a feature tells; if fast, its sign turns every fifth step."""
    rng = np.random.default_rng(3)
    sign = np.where(np.arange(horizon) // 5 % 2 == 0, 1.0, -1.0) if fast else np.ones(horizon)
    level = rng.normal(size=(n, 1))
    states = (level * sign + rng.normal(size=(n, horizon)))[:, :, None]
    rewards = np.zeros((n, horizon))
    rewards[:, -1:] = level + 0.3 * rng.normal(size=(n, 1))
    return Episodes.from_arrays(states, rewards)


def test_blocks_are_as_short_as_the_process_needs() -> None:
    slow, fast = (
        GoalMonitor(SMALL).fit(waves(300, 40, fast=fast), progress=False) for fast in (False, True)
    )
    shared = [[b for b in m.fitted.blocks if len(b.steps) > 1] for m in (slow, fast)]
    assert len(shared[1]) > len(shared[0]) == 5


@pytest.mark.parametrize("model", [Marginal(), SMALL])
def test_few_episodes_and_models_without_bags_keep_a_quarter_of_the_horizon(model) -> None:
    n = 300 if isinstance(model, Marginal) else 60
    monitor = GoalMonitor(model).fit(waves(n, 40, fast=True), progress=False)
    assert len(monitor.fitted.blocks) == 5


def test_the_choice_depends_on_learn_alone() -> None:
    parts = waves(400, 40, fast=True).split(seed=0)
    other = parts._replace(assure=parts.assure.take(np.arange(30)))
    one, another = (GoalMonitor(SMALL).fit(split=s, progress=False) for s in (parts, other))
    assert one.fitted.blocks == another.fitted.blocks
    assert np.array_equal(one.fitted.curves.values, another.fitted.curves.values)


def test_whole_numbers_of_steps_are_taken_as_they_are() -> None:
    monitor = GoalMonitor(SMALL, steps_per_model=8).fit(waves(300, 40, fast=True), progress=False)
    assert [block.start for block in monitor.fitted.blocks] == [0, 8, 16, 24, 32]
