"""Monitors of unusual size are fitted, saved, loaded and watched like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import Marginal, QuantileForest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning"),
]

TARGET = Target.at_least(0.0)


def loaded(monitor: GoalMonitor, folder: Path) -> GoalMonitor:
    monitor.save(folder / "m.ontarget")
    return GoalMonitor.load(folder / "m.ontarget")


def test_two_thousand_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(rng.normal(size=(150, 2, 2_000)), rng.normal(size=(150, 2)))
    model = QuantileForest(n_trees=4)
    monitor = GoalMonitor(model, steps_per_model=2, min_calibration=5).fit(runs, progress=False)
    state = rng.normal(size=2_000)
    found = loaded(monitor, tmp_path).watch(TARGET, alarm_below=0.2).step(state)
    assert found.p == monitor.outlook(0, state[None], 0.0, TARGET, calibration="target").p[0]


def test_a_hundred_thousand_categories(tmp_path: Path) -> None:
    n = 100_000
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "episode": np.repeat(np.arange(n // 2), 2),
            "step": np.tile([0, 1], n // 2),
            "place": [f"place {i}" for i in range(n)],
            "reward": rng.normal(size=n),
        }
    )
    runs = Episodes.from_frame(frame)
    monitor = GoalMonitor(Marginal(), steps_per_model=2).fit(runs, progress=False)
    watch = loaded(monitor, tmp_path).watch(TARGET, alarm_below=0.2)
    assert 0.0 < watch.step({"place": "place 0"}).p < 1.0


def test_ten_thousand_steps(tmp_path: Path) -> None:
    rng, steps = np.random.default_rng(2), 10_000
    runs = Episodes.from_arrays(rng.normal(size=(40, steps, 1)), rng.normal(size=(40, steps)))
    model = GoalMonitor(Marginal(), steps_per_model=steps, min_calibration=5)
    monitor = loaded(model.fit(runs, progress=False), tmp_path)
    watch = monitor.watch(TARGET, false_alarm_rate=0.4)
    for t in range(steps):
        found = watch.step([0.0], 0.0 if t == 0 else 0.01)
        assert 0.0 <= found.low <= found.high <= 1.0
    assert watch.end(0.01).p == 1.0
