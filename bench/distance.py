"""How far p is from the true probability, on eight processes whose truth is known.

    python bench/distance.py --cache DIR                        # all eight, some twenty minutes
    python bench/distance.py --processes walk cartpole --parts  # and the default without each part

The excess Brier score is how much higher a method's Brier score is than that of the truth. Every
method gets the same past episodes, on random partitions, and forecasts the same states. DIR stores
the true probabilities.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ontarget import GoalMonitor, QuantileForest
from ontarget.models import StackedForest
from ontarget.paper.experiment import FULL, QUICK, Plan, mean_sd, split_seed, train_and_calibrate
from yardstick.cases import CASES, Case, build_case, excess
from yardstick.figures import keep
from yardstick.tables import lines


@dataclass(frozen=True)
class Method:
    """One way to get p: a monitor to fit, and whether episodes are divided as in the paper."""

    monitor: Callable[[], GoalMonitor]
    papers_split: bool = False

    def split(self, plan: Plan, case: Case, partition: int) -> Any:
        """The past episodes: train and calibrate, or learn and assure (held out for promises)."""
        if self.papers_split:
            return train_and_calibrate(plan, case.episodes, partition)
        past = plan.train + plan.calibrate
        learn = round(0.8 * past)
        return case.episodes.split(learn, past - learn, seed=split_seed(plan, partition))


def without(part: str) -> Method:
    """The default whose model has every expert but one."""
    every = ("forest", "shift", "linear")
    return Method(lambda: GoalMonitor(StackedForest(experts=tuple(e for e in every if e != part))))


DEFAULT, OWN = "default", "default, own curve"  # the curve of this target alone, as in a watch
METHODS = {
    "forest per step, leaf 15": Method(lambda: GoalMonitor(preset="paper"), papers_split=True),
    "forest per step, leaf 5": Method(
        lambda: GoalMonitor(QuantileForest(min_leaf=5), steps_per_model=1), papers_split=True
    ),
    DEFAULT: Method(GoalMonitor),
}
PARTS = {
    "without the shift": without("shift"),
    "without the regression": without("linear"),
    # About a quarter of both domains' horizons, each learned from as many steps again.
    "long blocks only": Method(lambda: GoalMonitor(steps_per_model=14, window=7)),
}


def score(plan: Plan, name: str, method: Method, case: Case, partition: int) -> dict[str, dict]:
    """The distances of a method on one partition, by name of its row, and what its fit costs."""
    steps = sorted(case.tests)
    split = method.split(plan, case, partition)
    started = time.process_time()
    monitor = method.monitor().fit(split=split, seed=partition, progress=False, steps=steps)
    seconds = time.process_time() - started
    found = {name: distance(monitor, case, "common")}
    if name == DEFAULT:
        found[OWN] = distance(monitor, case, "target")
    return {row: own | {"fit_seconds": seconds} for row, own in found.items()}


def distance(monitor: GoalMonitor, case: Case, calibration: str) -> dict[str, Any]:
    """How far the monitor's p is from the truth, at each step of the test states."""
    pairs = []
    for t, test in sorted(case.tests.items()):
        asked = (t, test.states, test.behavior, case.target)
        pairs.append((monitor.outlook(*asked, calibration=calibration).p, test.p_true))
    return {
        "excess": [excess(*pair, case.rollouts) for pair in pairs],
        "absolute": [float(np.abs(p - p_true).mean()) for p, p_true in pairs],
    }


def measured(plan: Plan, case: Case, methods: dict[str, Method]) -> dict[str, Any]:
    """The means over steps and partitions of every method on one process."""
    each: dict[str, list[dict]] = {}
    for partition in range(plan.partitions):
        for name, method in methods.items():
            for row, one in score(plan, name, method, case, partition).items():
                each.setdefault(row, []).append(one)
    return {
        row: {
            "excess": mean_sd(float(np.mean(one["excess"])) for one in own),
            "absolute": mean_sd(float(np.mean(one["absolute"])) for one in own),
            "excess_by_step": np.mean([one["excess"] for one in own], axis=0).tolist(),
            "fit_seconds": float(np.mean([one["fit_seconds"] for one in own])),
        }
        for row, own in each.items()
    }


def table(case: Case, found: dict[str, Any]) -> str:
    """A text table of one process: the distance of every method, over all steps and by step."""
    measures = ("excess · 10⁴", "|p − p_true|", "fit, s", *(f"t = {t}" for t in sorted(case.tests)))
    rows: list[Sequence[str]] = [
        (
            name,
            f"{1e4 * one['excess']['mean']:.1f} ± {1e4 * one['excess']['sd']:.1f}",
            f"{one['absolute']['mean']:.4f}",
            f"{one['fit_seconds']:.1f}",
            *(f"{1e4 * own:.1f}" for own in one["excess_by_step"]),
        )
        for name, one in found.items()
    ]
    return lines((CASES[case.name].label, *measures), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--parts", action="store_true", help="also the default without each part")
    parser.add_argument("--partitions", type=int, default=FULL.partitions)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few episodes and small forests")
    parser.add_argument("--cache", type=Path, help="folder that stores the true probabilities")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    args = parser.parse_args()
    plan = replace(QUICK if args.quick else FULL, partitions=args.partitions, seed=args.seed)
    results = {}
    for name in args.processes:
        case = build_case(name, args.cache, n_episodes=plan.episodes, seed=plan.seed)
        found = measured(plan, case, METHODS | (PARTS if args.parts else {}))
        print(f"{table(case, found)}\n", flush=True)
        keep(f"excess Brier · 10⁴, {name}", 1e4 * found[DEFAULT]["excess"]["mean"], "")
        results[name] = found
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
