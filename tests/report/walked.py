"""Monitors of walks, fitted when a test first asks for one, not while tests are collected."""

from __future__ import annotations

from functools import cache

from ontarget import GoalMonitor, QuantileForest
from tests.walks import walks


@cache
def monitor_of(n: int) -> GoalMonitor:
    """A monitor of n walks."""
    return GoalMonitor(QuantileForest(n_trees=20, min_leaf=10)).fit(walks(n), progress=False)
