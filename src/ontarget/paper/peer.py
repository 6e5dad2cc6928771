"""Measures how long another library (quantile-forest and NumPy) takes for the same work as ours."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ontarget.models import n_threads
from ontarget.paper.experiment import calibrated_at
from ontarget.paper.partitions import Partition
from ontarget.paper.plan import Plan

__all__ = ["PEER_STEPS", "time_peer"]

# Few: with the ties of late Tamarisk steps a single one takes the peer a minute.
PEER_STEPS: Final = {"tamarisk": (0,), "skirmish": (0, 28)}


def time_peer(plan: Plan, domain: str, partition: Partition) -> dict[str, Any] | None:
    """The seconds that our code and the other library take for the same steps.

    None if the library quantile-forest is not installed.
    """
    try:
        library = importlib.import_module("quantile_forest")
    except ModuleNotFoundError:
        return None
    steps = [t for t in PEER_STEPS[domain] if t < partition.test.horizon]

    def ours(t: int) -> object:
        rows = partition.rows(partition.test, t)
        pcqr = calibrated_at(plan, partition, t)
        return pcqr.probability(rows.X, partition.target, rows.offset)

    ours(steps[0])  # compiles, or loads what was compiled
    own = [_seconds(lambda t=t: ours(t)) for t in steps]  # type: ignore[misc]
    other = [_seconds(lambda t=t: _peer(library, plan, partition, t)) for t in steps]  # type: ignore[misc]
    return {"steps": steps, "ours": sum(own), "peer": sum(other), "ratio": sum(other) / sum(own)}


def _peer(library: Any, plan: Plan, partition: Partition, t: int) -> object:
    """Do the work of step t with the library quantile-forest.

    It fits a forest, finds where the outcomes of the calibration episodes fall in their predicted
    distributions (``quantile_ranks``), and counts.
    """
    train, calibrate, test = (
        partition.rows(part, t) for part in (partition.train, partition.calibrate, partition.test)
    )
    forest = library.RandomForestQuantileRegressor(
        plan.n_trees,
        min_samples_leaf=plan.min_leaf,
        max_samples_leaf=None,
        n_jobs=n_threads(),
        random_state=plan.seed,
    ).fit(train.X, train.y)

    def cdf(X: Any, y: Any) -> Any:
        return forest.quantile_ranks(X, y, kind="weak", aggregate_leaves_first=False)

    ranks = np.sort(cdf(calibrate.X, calibrate.y))
    lower, upper = partition.target.lower - test.offset, partition.target.upper - test.offset
    below = np.searchsorted(ranks, cdf(test.X, upper), side="left")
    upto = np.searchsorted(ranks, cdf(test.X, lower), side="right")
    return (below - upto - 1) / (ranks.size + 1)


def _seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start
