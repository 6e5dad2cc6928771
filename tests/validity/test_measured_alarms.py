"""Alarms set by the learning episodes out of bag (M16): false alarms near the rate, not above it.

Nothing is proved of them, so the rate is measured here: over fresh recordings, on fresh runs.
Answers by trees that have seen the episode would break both bounds below.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.walks import walks

from ontarget import GoalMonitor, Target
from ontarget.models import QuantileForest

RATE, REPLICATES, NEW = 0.1, 160, 80
TARGET = Target.at_least(0.0)
FOREST = QuantileForest(n_trees=25, min_leaf=3, max_depth=6)


@pytest.mark.parametrize(
    ("n", "runs"),
    [
        pytest.param(50, {"ragged": True}, id="few"),
        pytest.param(90, {"atoms": False}, id="more", marks=pytest.mark.slow),
    ],
)
def test_false_alarms_stay_near_the_rate(n: int, runs: dict) -> None:
    false, due = [], []
    for replicate in range(REPLICATES):
        learn = walks(n, 4, seed=10_000 + replicate, **runs)
        new = walks(NEW, 4, seed=50_000 + replicate, **runs)
        monitor = GoalMonitor(FOREST, min_calibration=5)
        monitor.fit(split=learn.split(assure=0), progress=False)
        raised = monitor.evaluate(new, TARGET, resamples=2).alarms(false_alarm_rate=RATE)
        threshold = raised.triggers[0].measured
        false.append(raised.quality.false_alarms.value)
        due.append(threshold.k / (threshold.m + 1))
    # A promised alarm would have exactly `due` on average; 0.025 is over four standard errors.
    assert 0.03 < np.mean(false) < 0.13
    assert abs(np.mean(false) - np.mean(due)) < 0.025
