"""How far each model's probability lies from the truth, and what that costs (M12, M14).

Every method is fitted and calibrated as `GoalMonitor` does it, on random partitions of the same
episodes, and asked about the same states. `python -m ontarget.paper.distance --help` says more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from ontarget.evaluation import absolute_error, excess_brier
from ontarget.models.forest import QuantileForest
from ontarget.models.guided import GuidedForest
from ontarget.models.kinds import model_of_kind
from ontarget.monitor.calibrated import ends_with_complements
from ontarget.monitor.distribution import BlockDistribution, StepDistribution
from ontarget.monitor.fit import Recipe
from ontarget.monitor.fitting import fit_block, task_of
from ontarget.monitor.plan import StepsPerModel, plan_blocks
from ontarget.paper.cases import CASES, Case, build_case
from ontarget.typing import FloatArray

__all__ = ["METHODS", "Method", "Score", "score", "study", "table"]

N_TRAIN = N_CALIBRATE = 2_500


@dataclass(frozen=True)
class Method:
    """A way to fit F̂: a model, and which steps share it."""

    model: Callable[[], Any]
    steps_per_model: StepsPerModel = 1
    window: int = 0

    def describe(self) -> str:
        """Everything that decides a fit, for the name of its result."""
        model = self.model()
        return repr(
            (model.kind, sorted(model.get_params().items()), self.steps_per_model, self.window)
        )


def _forest(**options: Any) -> Callable[[], QuantileForest]:
    return lambda: QuantileForest(**{"min_leaf": 5, **options})


def _guided(**options: Any) -> Callable[[], GuidedForest]:
    return lambda: GuidedForest(**{"min_leaf": 7, **options})


METHODS: Final[dict[str, Method]] = {
    "paper: forest per step": Method(_forest()),
    "default: both guides, blocks of 5": Method(_guided(), 5),
    "forest per step, leaf 15": Method(_forest(min_leaf=15)),
    "forest, blocks of 5": Method(_forest(), 5),
    "forest, window 2": Method(_forest(min_leaf=2), 1, 2),
    "ridge, per step, leaf 15": Method(_guided(guides=("ridge",), min_leaf=15)),
    "both, per step, leaf 15": Method(_guided(min_leaf=15)),
    "ridge, blocks of 5": Method(_guided(guides=("ridge",)), 5),
    "boosted, blocks of 5": Method(_guided(guides=("boosted",)), 5),
    "both, window 2": Method(_guided(), 1, 2),
    "both, blocks of 5, window 2": Method(_guided(), 5, 2),
    "both, blocks of 10": Method(_guided(), 10),
    "default, leaf 3": Method(_guided(min_leaf=3), 5),
    "default, leaf 15": Method(_guided(min_leaf=15), 5),
    "default, variance split": Method(_guided(split="variance"), 5),
    "default, three quarters of features": Method(_guided(max_features=0.75), 5),
    "default, 50 trees": Method(_guided(n_trees=50), 5),
    "default, 200 trees": Method(_guided(n_trees=200), 5),
    "default, boosted depth 3": Method(_guided(boosted_depth=3), 5),
}


@dataclass(frozen=True)
class Score:
    """One method on one partition: its distance to the truth by step, and its cost."""

    steps: tuple[int, ...]
    absolute: tuple[float, ...]
    excess: tuple[float, ...]
    fit_seconds: float  # of processor time, per step of the horizon
    bytes_per_step: float


def score(method: Method, case: Case, partition: int) -> Score:
    """The method, fitted and calibrated on one random partition of the case's episodes."""
    split = case.episodes.split(train=N_TRAIN, calibrate=N_CALIBRATE, assure=0, seed=partition)
    blocks = plan_blocks(
        case.episodes.horizon, steps_per_model=method.steps_per_model, window=method.window
    )
    recipe = Recipe(method.model(), True, blocks, None, 20, "", seed=partition)
    ends = ends_with_complements(case.target, split.train.grid)
    may_miss = np.zeros(len(split.train.schema), dtype=np.bool_)
    errors, seconds, size, fitted_steps = {}, 0.0, 0, 0
    for block in blocks:
        asked = [t for t in block.steps if t in case.tests]
        if not asked:
            continue
        parts = (split.train, split.calibrate, None)
        started = time.process_time()
        task = task_of(
            block,
            recipe.model_of(block),
            parts,
            seed=partition,
            grid=split.train.grid,
            groups=None,
            may_miss=may_miss,
        )
        arrays = fit_block(task)
        seconds += time.process_time() - started
        size += sum(array.nbytes for name, array in arrays.items() if name != "excess")
        fitted_steps += len(block.steps)
        fitted = BlockDistribution.of(
            block, arrays, model_class=model_of_kind(recipe.model.kind), n_groups=1
        )
        for t in asked:
            at = StepDistribution(
                t=t,
                model=fitted.model,
                ranks=fitted.ranks[t - block.start][0],
                additive=True,
                pooled=block.pooled,
                grid=split.train.grid,
            )
            test = case.tests[t]
            p = at.outlook(test.states, test.behavior, ends, np.empty(0))[:, 0, 1]
            errors[t] = absolute_error(p, test.p_true), _excess(p, test.p_true, case.rollouts)
    steps = tuple(sorted(errors))
    return Score(
        steps=steps,
        absolute=tuple(errors[t][0] for t in steps),
        excess=tuple(errors[t][1] for t in steps),
        fit_seconds=seconds / fitted_steps,
        bytes_per_step=size / fitted_steps,
    )


def _excess(p: FloatArray, p_true: FloatArray, rollouts: int | None) -> float:
    if rollouts is None:
        return float(np.square(p - p_true).mean())
    return excess_brier(p, p_true, rollouts=rollouts)


def study(
    case: Case, methods: Iterable[str], folder: Path, *, partitions: int = 5
) -> dict[str, list[Score]]:
    """The scores of each method on each partition; those in the folder are not made again."""
    found: dict[str, list[Score]] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in methods:
        found[name] = []
        for partition in range(partitions):
            text = f"{case.name} {case.target} {len(case.episodes)} {METHODS[name].describe()}"
            label = blake2b(f"{text} {partition}".encode(), digest_size=8).hexdigest()
            kept = folder / f"score-{case.name}-{label}.json"
            if not kept.exists():
                made = score(METHODS[name], case, partition)
                kept.write_text(json.dumps(made.__dict__))
            found[name].append(Score(**json.loads(kept.read_text())))
    return found


def table(case: Case, found: dict[str, list[Score]]) -> str:
    """The scores as lines of text: means over steps and partitions, with the first as the unit."""
    lines = [
        f"{case.name}, target [{case.target.lower:g}, {case.target.upper:g}]",
        f"{'method':<36} {'excess Brier':>20} {'ratio':>6} {'|p - p_true|':>18} "
        f"{'fit ms':>7} {'MB':>6}",
    ]
    unit = None
    for name, scores in found.items():
        excess = np.array([np.mean(one.excess) for one in scores])
        absolute = np.array([np.mean(one.absolute) for one in scores])
        unit = excess.mean() if unit is None else unit
        lines.append(
            f"{name:<36} {excess.mean():>10.5f} ± {excess.std():.5f} {excess.mean() / unit:>6.2f} "
            f"{absolute.mean():>9.4f} ± {absolute.std():.4f} "
            f"{1e3 * np.mean([one.fit_seconds for one in scores]):>7.0f} "
            f"{np.mean([one.bytes_per_step for one in scores]) / 1e6:>6.2f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Print the study's tables."""
    parser = argparse.ArgumentParser(description="How far each model is from the truth.")
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--folder", type=Path, default=Path("distance"), help="keeps what was made")
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    asked = parser.parse_args(arguments)
    for name in asked.cases:
        case = build_case(name, asked.folder)
        found = study(case, asked.methods, asked.folder, partitions=asked.partitions)
        print(table(case, found), end="\n\n", flush=True)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
