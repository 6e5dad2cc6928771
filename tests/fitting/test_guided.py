"""Fits of long runs, whose blocks read the prediction of one model for all steps (M30)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.fitted import choices

HORIZON, TARGET = 120, Target.at_least(120)


def robots(n: int, seed: int, *, told: bool = True) -> Episodes:
    """Runs that fall when two slow states are far out together; ``told`` by their states."""
    rng, states = np.random.default_rng(seed), []
    for _ in range(n):
        worn = 0.3 * rng.normal(size=(HORIZON, 4))
        pushes = 0.31 * rng.normal(size=worn.shape)
        for t in range(1, HORIZON):
            worn[t] = 0.95 * worn[t - 1] + pushes[t]
        falls = np.flatnonzero(worn[:, 0] * worn[:, 1] > 2.0)
        shown = worn if told else rng.normal(size=worn.shape)
        states.append(shown[: falls[0] + 1 if falls.size else HORIZON])
    rewards = [np.ones(len(rows)) for rows in states]
    return Episodes.from_arrays(states, rewards, horizon=HORIZON)


@cache
def fitted() -> GoalMonitor:
    with patch.dict(choices._CLEARLY, guide=1.0):  # the robot is too simple for a gain of four
        return GoalMonitor().fit(robots(300, 0), seed=0, progress=False)


def test_long_runs_are_guided_only_if_that_predicts_better() -> None:
    assert fitted().fitted.guide is not None
    plain = GoalMonitor().fit(robots(150, 1, told=False), seed=0, progress=False)
    assert plain.fitted.guide is None
    assert "guide" in plain.fitted.trained.chosen.extras  # tried, and left out


def test_live_batch_and_file_answer_alike(tmp_path: Path) -> None:
    new = robots(5, 2)
    p = fitted().evaluate(new, TARGET).p
    fitted().save(tmp_path / "robots.ontarget")
    loaded = GoalMonitor.load(tmp_path / "robots.ontarget")
    np.testing.assert_array_equal(loaded.evaluate(new, TARGET).p, p)
    watch, fleet = loaded.watch(TARGET), loaded.fleet(TARGET)
    fleet.join(["a"])
    for t in range(int(new.lengths[0])):
        state, earned = new.at(t).states[:1], 1.0 if t else 0.0
        alone = watch.step(state[0], earned)
        assert alone.p == p[t, 0]
        assert fleet.step(state, earned).p[0] == p[t, 0]
