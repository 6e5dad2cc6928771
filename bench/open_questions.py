"""Three questions that the paper leaves open, on its own domains and partitions.

    python bench/open_questions.py           # some eight minutes of processor time
    python bench/open_questions.py --quick

What calibration error would perfect forecasts show (on Tamarisk the truth is exact)? How good is a
default monitor on the same past episodes? And do its alarms and its statements about whole episodes
keep their promises? Everything is measured with exact atoms, on the test episodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ontarget import Below, Evaluation, GoalMonitor
from ontarget.domains import Rivers, Tamarisk
from ontarget.evaluation import brier, ece
from ontarget.paper.experiment import (
    FULL,
    LABELS,
    QUICK,
    Part,
    Partition,
    Plan,
    mean_sd,
    part_of,
    partition_of,
    simulated,
    split_seed,
    summarize_forecasts,
)
from ontarget.paper.page import plus_minus
from yardstick.exact import ExactReturns
from yardstick.figures import keep
from yardstick.tables import lines

RATES = (0.01, 0.05, 0.1)  # of false alarms
DELTA, LEVEL = 0.05, 0.9
STEPS_AT_ONCE = 17  # the distributions of one step take some 25 MB


def true_panels(domain: Tamarisk, partitions: Sequence[Partition]) -> list[np.ndarray]:
    """For each partition, the exact probability of its target, (steps, tests)."""
    horizon = domain.horizon
    lowest = min(partition.target.lower for partition in partitions)
    panels = [np.empty((horizon, len(partition.test))) for partition in partitions]
    for start in range(0, horizon, STEPS_AT_ONCE):
        steps = range(start, min(start + STEPS_AT_ONCE, horizon))
        exact = ExactReturns(domain, steps=steps, lowest=lowest)
        for t in steps:
            for partition, panel in zip(partitions, panels, strict=True):
                rows = partition.rows(partition.test, t)
                rivers = Rivers(rows.X.astype(np.int8))
                p = exact.probability(rivers, rows.offset, t, partition.target, grid=partition.grid)
                panel[t] = np.clip(p, 0.0, 1.0)  # sums of chances end a few bits beyond 1
    return panels


def truth(plan: Plan, domain: Tamarisk, partitions: Sequence[Partition]) -> dict[str, Any]:
    """The expected calibration error and Brier score of the true probabilities."""
    panels = true_panels(domain, partitions)
    pairs = [
        (panel.ravel(), np.broadcast_to(partition.met, panel.shape).ravel())
        for partition, panel in zip(partitions, panels, strict=True)
    ]
    p, met = (np.concatenate(own) for own in zip(*pairs, strict=True))
    return {
        "ece": mean_sd(ece(*pair, plan.bins) for pair in pairs),
        "ece_all_partitions": ece(p, met, plan.bins),
        "brier": mean_sd(brier(*pair) for pair in pairs),
    }


def fitted(plan: Plan, episodes: Any, number: int) -> GoalMonitor:
    """A default monitor of the same past episodes: 80 % to learn from, the rest for promises."""
    past = plan.train + plan.calibrate
    learn = round(0.8 * past)
    split = episodes.split(learn, past - learn, seed=split_seed(plan, number))
    return GoalMonitor().fit(split=split, seed=plan.seed, progress=False)


def forecasts(plan: Plan, partition: Partition, monitor: GoalMonitor, found: Evaluation) -> Part:
    """The monitor's forecasts, as the paper's own are measured."""
    first = partition.test.at(0)
    return part_of(
        plan,
        partition,
        np.stack([found.low, found.p, found.high, found.raw]),
        monitor.interval(0, first.states, first.behavior, plan.level),
        monitor.sizes["assure"],
    )


def promises(partition: Partition, monitor: GoalMonitor, found: Evaluation) -> dict[str, float]:
    """How often alarms, statements about whole episodes and bands did as they had promised.

    A rate that too few successes can promise is left out.
    """
    kept: dict[str, float] = {}
    curve = monitor.alarm_curve(partition.target, rates=RATES)
    for rate, threshold in zip(RATES, curve.threshold, strict=True):
        if not np.isnan(threshold):
            quality = found.alarms(Below(min(float(threshold), 1.0))).quality
            kept[f"false alarms, {100 * rate:g} % promised"] = quality.false_alarms.value
            kept[f"failures detected, {100 * rate:g} %"] = quality.detections.value
    kept[f"ruled out wrongly, {100 * DELTA:g} % promised"] = found.ruled_out_wrongly(DELTA).value
    kept[f"assured wrongly, {100 * DELTA:g} % promised"] = found.assured_wrongly(DELTA).value
    kept[f"{100 * LEVEL:g} % band holds at all steps"] = found.band_coverage(LEVEL).value
    return kept


def default(plan: Plan, domain: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The measures of a default monitor's forecasts and of its promises, over the partitions."""
    episodes = simulated(plan, domain)
    parts, kept = [], []
    for number in range(plan.partitions):
        partition = partition_of(plan, episodes, number, "atoms")
        monitor = fitted(plan, episodes, number)
        found = monitor.evaluate(partition.test, partition.target, progress=False)
        parts.append(forecasts(plan, partition, monitor, found))
        kept.append(promises(partition, monitor, found))
    said = [name for name in kept[0] if all(name in one for one in kept)]
    return summarize_forecasts(parts), {name: mean_sd(one[name] for one in kept) for name in said}


def row(name: str, found: Mapping[str, Any], method: str | None = None) -> tuple[str, ...]:
    own = {key: found[key] if method is None else found[key][method] for key in ("ece", "brier")}
    together = found["ece_all_partitions"]
    together = together if method is None else together[method]
    return (name, plus_minus(own["ece"]), f"{together:.4f}", f"{own['brier']['mean']:.5f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few episodes")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    plan = (QUICK if args.quick else FULL).with_seed(args.seed)
    rows = []
    for domain in plan.domains:
        if domain == "tamarisk" and not plan.quick:  # the truth takes half a minute
            episodes = simulated(plan, domain)
            each = [partition_of(plan, episodes, k, "atoms") for k in range(plan.partitions)]
            found = truth(plan, Tamarisk(), each)
            rows.append(row("Tamarisk, the truth itself", found))
            keep("ECE of the true probabilities, Tamarisk", found["ece"]["mean"], "")
        said, kept = default(plan, domain)
        rows += [row(f"{LABELS[domain]}, {m}", said, m) for m in ("low", "p", "raw")]
        difference = said["brier_minus_raw"]
        print(
            f"{LABELS[domain]}, default monitor: calibrated less raw Brier score "
            f"{1e6 * difference['mean']:+.0f} ± {1e6 * difference['se']:.0f} · 10⁻⁶"
        )
        print(lines(("", ""), [(k, plus_minus(v, 2, percent=True)) for k, v in kept.items()]))
        for name, value in kept.items():
            keep(f"{name}, {domain}", 100.0 * value["mean"], "%")
    print(lines(("", "ECE", "all partitions together", "Brier"), rows))


if __name__ == "__main__":
    main()
