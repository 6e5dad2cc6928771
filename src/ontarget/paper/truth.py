"""The calibration error that perfect forecasts would show on Tamarisk's test episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ontarget.domains import ExactReturns, Rivers, Tamarisk
from ontarget.evaluation import brier, ece
from ontarget.paper.arrays import FloatArray
from ontarget.paper.partitions import Partition
from ontarget.paper.plan import Plan
from ontarget.paper.summary import mean_sd

__all__ = ["STEPS_AT_ONCE", "true_panels", "truth_study"]

# The distributions of one step take some 25 MB, so not all steps are held at once.
STEPS_AT_ONCE: Final = 17


def truth_study(
    plan: Plan, domain: Tamarisk, partitions: Sequence[Partition], tick: Callable[[], object]
) -> dict[str, Any]:
    """The expected calibration error and Brier score of the true probabilities.

    They are measured on the same test episodes as the methods, over all steps together.
    """
    panels = true_panels(domain, partitions, tick)
    met = [
        np.broadcast_to(partition.met, panel.shape).ravel()
        for partition, panel in zip(partitions, panels, strict=True)
    ]
    flat = [panel.ravel() for panel in panels]
    pairs = list(zip(flat, met, strict=True))
    return {
        "ece": mean_sd(ece(p, z, plan.bins) for p, z in pairs),
        "ece_all_partitions": ece(np.concatenate(flat), np.concatenate(met), plan.bins),
        "brier": mean_sd(brier(p, z) for p, z in pairs),
    }


def true_panels(
    domain: Tamarisk, partitions: Sequence[Partition], tick: Callable[[], object]
) -> list[FloatArray]:
    """For each division (partition) of the episodes, the true probability of its target.

    The arrays are (steps, tests); the probabilities are exact and without noise.
    """
    horizon = domain.horizon
    lowest = min(partition.target.lower for partition in partitions)
    panels = [np.empty((horizon, len(partition.test))) for partition in partitions]
    for start in range(0, horizon, STEPS_AT_ONCE):
        steps = range(start, min(start + STEPS_AT_ONCE, horizon))
        exact = ExactReturns(domain, steps=steps, lowest=lowest)
        for t in steps:
            for partition, panel in zip(partitions, panels, strict=True):
                rows = partition.rows(partition.test, t)
                states = Rivers(rows.X.astype(np.int8))
                inside = exact.probability(
                    states, rows.offset, t, partition.target, grid=partition.grid
                )
                panel[t] = np.clip(inside, 0.0, 1.0)  # sums of chances end a few bits beyond 1
            tick()
    return panels
