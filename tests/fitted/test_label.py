"""What an outcome is called: by the reward's own column, if it has one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.models import Marginal


def log(name: str) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {"run": np.repeat(np.arange(60), 3), "x": rng.normal(size=180)}
    hours = np.tile([0.0, 0.0, 2.0], 60)
    return pl.DataFrame({**columns, name: hours})


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"reward": "hours"}, "sum of hours"),
        ({"reward": "hours", "reward_since_last": True}, "sum of hours"),
        ({"reward": "hours", "behavior": "max"}, "largest hours"),
        ({"behavior": "discounted:0.9", "reward": "hours"}, "discounted sum of hours"),
        ({"outcome": "hours"}, "hours"),
    ],
)
def test_an_outcome_is_named_after_its_column(options: dict[str, object], label: str) -> None:
    table = log("hours")
    if "outcome" in options:
        table = table.with_columns(hours=2.0)
    runs = Episodes.from_frame(table, episode="run", step=None, **options)
    assert GoalMonitor(Marginal()).fit(runs, progress=False).fitted.label == label


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_without_a_name_of_its_own_it_is_a_reward() -> None:
    runs = Episodes.from_frame(log("reward"), episode="run", step=None)
    monitor = GoalMonitor(Marginal(), reward_bounds=(0, None)).fit(runs, progress=False)
    assert monitor.fitted.label == "sum of rewards"
    watch = monitor.watch(Target.at_most(1), alarm_below=0.1)
    watch.step([0.0])
    reason = watch.step([0.0], 3.0).reason
    assert "sum of rewards at 3" in reason
