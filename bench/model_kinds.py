"""Which model under PCQR? Every kind of model in the place of the paper's forest.

    python bench/model_kinds.py --cache DIR                 # eight processes, some ten minutes
    python bench/model_kinds.py --processes walk reservoir

One model per step, calibrated afterwards, as in the paper; exact atoms. The truth is known, so the
excess Brier score over it can be measured. DIR stores the true probabilities. The neural network is
measured only if PyTorch is installed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import QuantileRegressor

from ontarget import (
    CQR,
    PCQR,
    ConformalPredictiveSystem,
    QuantileForest,
    RawInverse,
    SplitConformal,
)
from ontarget.evaluation import coverage, mean_width
from ontarget.models import (
    DistributionRegression,
    Marginal,
    QuantileNetwork,
    RegressorQuantiles,
    StackedForest,
)
from ontarget.paper.experiment import FULL, Plan, train_and_calibrate
from yardstick.cases import CASES, Case, build_case, excess
from yardstick.figures import keep
from yardstick.tables import lines

FOREST = "forest (the paper's)"
MODELS: dict[str, Callable[[], Any]] = {
    FOREST: QuantileForest,
    "stacked forest (the default's)": StackedForest,
    "quantile network": partial(QuantileNetwork, progress=False),
    "distribution regression": DistributionRegression,
    "linear quantiles": partial(RegressorQuantiles, QuantileRegressor(alpha=0.0), 19),
    "marginal (no features)": Marginal,
}
if find_spec("torch") is None:
    del MODELS["quantile network"]

INTERVALS = {"PCQR": PCQR, "CQR": CQR, "split conformal": SplitConformal}
PROBABILITIES = {"PCQR⁻¹": PCQR, "raw": RawInverse, "CPS": ConformalPredictiveSystem}
PLAN = replace(FULL, train=1_500, calibrate=1_500, partitions=2)
MOST_TESTED = 1_000  # episodes


def measure(plan: Plan, name: str, number: int, case: Case) -> dict[str, float]:
    """A model's distances to the truth, coverages and widths on one partition, means over steps."""
    split = train_and_calibrate(plan, case.episodes, number)
    test, grid = split.rest.take(range(min(MOST_TESTED, len(split.rest)))), split.train.grid
    found: dict[str, list[float]] = {}
    for t, truth in sorted(case.tests.items()):
        train, held, rows = (one.at(t, grid=grid) for one in (split.train, split.calibrate, test))
        model = MODELS[name]()
        if "seed" in model.get_params():
            model.set_params(seed=(plan.seed, number, t))
        started = time.process_time()
        model = model.fit(
            train.states, train.response, ids=train.ids, categorical=split.train.schema.categorical
        )
        found.setdefault("fit, ms", []).append(1e3 * (time.process_time() - started))
        for kind, method in (INTERVALS | PROBABILITIES).items():
            rival = method(model, grid=grid).calibrate(
                held.states, held.response, ids=held.ids, seed=plan.seed, step=t
            )
            if kind in PROBABILITIES:
                p = rival.probability(truth.states, case.target, truth.behavior).p
                off = 1e4 * excess(p, truth.p_true, case.rollouts)
                found.setdefault(f"{kind}: excess · 10⁴", []).append(off)
            else:
                lower, upper = rival.interval(rows.states, plan.level)
                inside = 100.0 * coverage(lower, upper, rows.response).value
                found.setdefault(f"{kind}: coverage, %", []).append(inside)
                found.setdefault(f"{kind}: width", []).append(mean_width(lower, upper))
    return {measure: float(np.mean(values)) for measure, values in found.items()}


def measured(plan: Plan, case: Case) -> dict[str, dict[str, float]]:
    """Each model's means over the partitions; widths are those of PCQR on the forest times this."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}
    for number in range(plan.partitions):
        each = {name: measure(plan, name, number, case) for name in MODELS}
        unit = each[FOREST]["PCQR: width"]
        for name, one in each.items():
            found[name].append({m: v / unit if m.endswith("width") else v for m, v in one.items()})
    return {
        name: {measure: float(np.mean([one[measure] for one in own])) for measure in own[0]}
        for name, own in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="folder that stores the true probabilities")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    args = parser.parse_args()
    plan, results = PLAN.with_seed(args.seed), {}
    for name in args.processes:
        case = build_case(name, args.cache, n_episodes=plan.episodes, seed=plan.seed)
        results[name] = found = measured(plan, case)
        measures = list(found[FOREST])
        rows = [(model, *(f"{one[m]:.2f}" for m in measures)) for model, one in found.items()]
        print(f"{lines((CASES[name].label, *measures), rows)}\n", flush=True)
        off = {model: one["PCQR⁻¹: excess · 10⁴"] for model, one in found.items()}
        best = min(off, key=off.__getitem__)
        keep(f"least excess Brier · 10⁴, {name}", off[best], "", beside=best)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
