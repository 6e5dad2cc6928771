"""A monitor on the paper's data: its alarms, and its guarantees for whole episodes.

See methods M8 and M9 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ontarget import Below, Evaluation, GoalMonitor
from ontarget.episodes import PaperSplit, uniform_by_id
from ontarget.paper.partitions import Partition
from ontarget.paper.plan import Plan, Preset
from ontarget.paper.summary import mean_sd

__all__ = ["BAND_LEVEL", "DELTA", "PRESETS", "RATES", "summarize_watches", "watch_partition"]

RATES: Final = (0.01, 0.05, 0.1)
DELTA: Final = 0.05
BAND_LEVEL: Final = 0.9
PRESETS: Final[tuple[Preset, ...]] = ("paper", "default")


def watch_partition(plan: Plan, partition: Partition, preset: Preset) -> dict[str, Any]:
    """How good one monitor's alarms are on the test episodes of a partition.

    A partition is one random division of the episodes. Alarm thresholds come from assure episodes
    (held out for promises). The paper's partitions have none, so half of the calibration episodes
    are used as such; a default monitor has its own.
    """
    split = partition.monitored if preset == "default" else _with_assure(plan, partition)
    monitor = GoalMonitor(preset=preset).fit(split=split, seed=plan.seed, progress=False)
    found = monitor.evaluate(partition.test, partition.target)
    promised = monitor.alarm_curve(partition.target, rates=RATES)
    alarms = {}
    for rate, threshold in zip(RATES, promised.threshold, strict=True):
        if np.isnan(threshold):
            continue  # too few successes to promise so little
        quality = found.alarms(Below(min(float(threshold), 1.0))).quality
        alarms[str(rate)] = {
            "threshold": float(threshold),
            "false_alarms": quality.false_alarms.value,
            "detections": quality.detections.value,
            "lead_steps": quality.median_lead_steps,
        }
    return {"alarms": alarms, "whole_episode": _whole_episode(found)}


def summarize_watches(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The means and standard deviations of the results of `watch_partition`.

    They are over partitions (random divisions of the episodes).
    """
    rates = [rate for rate in map(str, RATES) if all(rate in one["alarms"] for one in found)]
    return {
        "alarms": {
            rate: {
                name: mean_sd(one["alarms"][rate][name] for one in found)
                for name in found[0]["alarms"][rate]
            }
            for rate in rates
        },
        "whole_episode": {
            name: mean_sd(one["whole_episode"][name] for one in found)
            for name in found[0]["whole_episode"]
        },
    }


def _with_assure(plan: Plan, partition: Partition) -> PaperSplit:
    kept = partition.calibrate
    order = np.argsort(uniform_by_id(kept.ids, plan.seed, "assure"))
    half = len(kept) // 2
    return PaperSplit(
        partition.train,
        kept.take(np.sort(order[half:])),
        kept.take(np.sort(order[:half])),
        partition.test,
    )


def _whole_episode(found: Evaluation) -> dict[str, float]:
    """How often the target was wrongly ruled out or assured, and how early episodes were decided.

    Plausibility rules the target out, assurance calls it certain; either decides the episode.
    """
    ruled_out = found.plausibility <= DELTA
    assured = found.assurance >= 1.0 - DELTA
    decided = ruled_out | assured
    some = decided.any(axis=0)
    first = decided.argmax(axis=0)[some]
    return {
        "ruled_out_wrongly": found.ruled_out_wrongly(DELTA).value,
        "assured_wrongly": found.assured_wrongly(DELTA).value,
        "band_coverage": found.band_coverage(BAND_LEVEL).value,
        "decided": float(some.mean()),
        "decided_at_step": float(np.median(first)) if first.size else float("nan"),
    }
