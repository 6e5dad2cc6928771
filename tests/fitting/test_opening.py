"""The first step's own model counts where runs begin otherwise than they go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.fitted.blocks import LawTable, opened
from ontarget.models import QuantileForest

SMALL = QuantileForest(n_trees=20, min_leaf=20)


def starts(n: int, horizon: int = 20, *, odd: bool) -> Episodes:
    """Runs that earn at last what a feature tells; if odd, its sign is turned at the start."""
    rng = np.random.default_rng(5)
    sign = np.ones(horizon)
    sign[0] = -1.0 if odd else 1.0
    level = rng.normal(size=(n, 1))
    states = (level * sign + 0.5 * rng.normal(size=(n, horizon)))[:, :, None]
    rewards = np.zeros((n, horizon))
    rewards[:, -1:] = level + 0.3 * rng.normal(size=(n, 1))
    return Episodes.from_arrays(states, rewards)


def fitted(episodes: Episodes) -> GoalMonitor:
    return GoalMonitor(SMALL).fit(episodes, progress=False)


def test_an_odd_start_has_a_law_of_its_own() -> None:
    monitor = fitted(starts(400, odd=True))
    share = monitor.fitted.trained.chosen.opening
    assert share >= 0.05
    own = monitor.fitted.blocks[-1]
    assert (own.steps, own.train_steps) == (range(1), range(1))
    assert (share, own.index) in monitor.fitted.law.at(0)
    assert monitor.fitted.law.steps_of(own.index) == (0,)


def test_the_start_is_told_better_than_without() -> None:
    episodes, new = starts(400, odd=True), starts(800, odd=True).take(np.arange(400, 800))
    alone, target = fitted(episodes), Target.at_least(0.0)
    pooled = GoalMonitor(SMALL, steps_per_model=10).fit(episodes, progress=False)
    met = target.contains(new.outcomes)
    step = new.at(0)
    brier = [
        np.square(m.outlook(0, step.states, step.behavior, target).p - met).mean()
        for m in (alone, pooled)
    ]
    assert brier[0] < brier[1] - 0.01


def test_few_episodes_and_single_steps_have_none() -> None:
    assert fitted(starts(60, odd=True)).fitted.trained.chosen.opening == 0.0
    assert len(fitted(starts(300, 1, odd=False)).fitted.blocks) == 1


def test_it_comes_back_from_a_file(tmp_path: Path) -> None:
    monitor = fitted(starts(400, odd=True))
    monitor.save(tmp_path / "m.ontarget")
    again = GoalMonitor.load(tmp_path / "m.ontarget")
    states = starts(10, odd=True).at(0).states
    asked = [m.outlook(0, states, np.zeros(10), Target.at_least(0.0)).p for m in (monitor, again)]
    assert np.array_equal(*asked)
    assert again.fitted.trained.chosen == monitor.fitted.trained.chosen


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_a_share_moves_the_first_step_alone(share: float) -> None:
    law = LawTable.of([[(0.25, 0), (0.75, 1)], [(1.0, 1)]])
    moved = opened(law, share)
    assert moved.at(1) == law.at(1)
    assert (share, 2) in moved.at(0)
    assert sum(weight for weight, _ in moved.at(0)) == pytest.approx(1.0)
