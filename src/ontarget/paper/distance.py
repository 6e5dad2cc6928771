"""How far each method's probability is from the truth, and what the method costs (M12, M14).

Every model is fitted and calibrated as `GoalMonitor` does it, on random partitions of the same
episodes, and asked about the same states. The defaults of `GoalMonitor` follow from this study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ontarget import GoalMonitor, GuidedForest, QuantileForest
from ontarget.episodes import PaperSplit
from ontarget.evaluation import absolute_error, excess_brier
from ontarget.paper.arrays import FloatArray
from ontarget.paper.cases import Case
from ontarget.paper.partitions import Partition, Rows
from ontarget.paper.plan import Plan
from ontarget.paper.rivals import calibrated_rivals, fit_models, forecasts_of
from ontarget.paper.summary import mean_sd

__all__ = [
    "DEFAULT",
    "METHODS",
    "SMALL_LEAF",
    "UNIT",
    "Method",
    "Score",
    "methods_of",
    "score",
    "score_rivals",
    "step_microseconds",
    "summarize_case",
]


@dataclass(frozen=True)
class Method:
    """A way to fit F̂: a model, and how many steps share it. Leaf sizes count episodes (M14)."""

    model: Callable[[], Any]
    steps_per_model: int = 1
    window: int = 0

    def monitor(self) -> GoalMonitor:
        """The unfitted monitor with this model and these blocks."""
        return GoalMonitor(self.model(), steps_per_model=self.steps_per_model, window=self.window)

    def n_fitted(self, asked: Iterable[int], horizon: int) -> int:
        """The number of steps that get a model: those asked about, and all that share a model."""
        size = self.steps_per_model
        return sum(min(size, horizon - size * block) for block in {t // size for t in asked})


def _forest(**options: Any) -> Callable[[], QuantileForest]:
    return lambda: QuantileForest(**options)


def _guided(**options: Any) -> Callable[[], GuidedForest]:
    return lambda: GuidedForest(**{"min_leaf": 7, **options})


UNIT: Final = "paper: forest per step, leaf 15"
SMALL_LEAF: Final = "forest per step, leaf 5"
DEFAULT: Final = "default: both guides, blocks of 5, leaf 7"

# What is measured on every process: where we come from, what smaller leaves alone would change,
# and where we stand.
_EVERYWHERE: Final = (UNIT, SMALL_LEAF, DEFAULT)

METHODS: Final[dict[str, Method]] = {
    UNIT: Method(_forest()),
    SMALL_LEAF: Method(_forest(min_leaf=5)),
    "forest per step, leaf 5, variance split": Method(_forest(min_leaf=5, split="variance")),
    "pooling: forest, blocks of 5, leaf 5": Method(_forest(min_leaf=5), 5),
    "pooling: forest, window of 2, leaf 2": Method(_forest(min_leaf=2), 1, 2),
    "guides: ridge, per step, leaf 15": Method(_guided(guides=("ridge",), min_leaf=15)),
    "guides: both, per step, leaf 15": Method(_guided(min_leaf=15)),
    "guides: ridge, blocks of 5": Method(_guided(guides=("ridge",)), 5),
    "guides: boosted, blocks of 5": Method(_guided(guides=("boosted",)), 5),
    DEFAULT: Method(_guided(), 5),
    "default, window of 2 for each step": Method(_guided(), 1, 2),
    "default, blocks of 10": Method(_guided(), 10),
    "default, leaf 3": Method(_guided(min_leaf=3), 5),
    "default, leaf 15": Method(_guided(min_leaf=15), 5),
    "default, variance split": Method(_guided(split="variance"), 5),
    "default, three quarters of features": Method(_guided(max_features=0.75), 5),
    "default, 50 trees": Method(_guided(n_trees=50), 5),
    "default, 200 trees": Method(_guided(n_trees=200), 5),
    "default, boosted trees of depth 3": Method(_guided(boosted_depth=3), 5),
}


def methods_of(case: str) -> tuple[str, ...]:
    """The methods for a case: all of them on the paper's domains, the main ones elsewhere."""
    return tuple(METHODS) if case in ("tamarisk", "skirmish") else _EVERYWHERE


@dataclass(frozen=True)
class Score:
    """The result of a method on one partition: its distance to the truth by step, and its cost."""

    steps: tuple[int, ...]
    absolute: tuple[float, ...]
    excess: tuple[float, ...]
    fit_seconds: float = float("nan")  # of processor time, per step of the horizon
    bytes_per_step: float = float("nan")

    @classmethod
    def of(cls, case: Case, forecasts: Mapping[int, FloatArray], **cost: float) -> Score:
        """The result for one method's forecasts at each step."""
        steps = tuple(sorted(forecasts))
        pairs = [(forecasts[t], case.tests[t].p_true) for t in steps]
        return cls(
            steps=steps,
            absolute=tuple(absolute_error(p, p_true) for p, p_true in pairs),
            excess=tuple(_excess(p, p_true, case.rollouts) for p, p_true in pairs),
            **cost,
        )

    def describe(self) -> dict[str, Any]:
        """The result as plain values, for its file."""
        return asdict(self)


def score(plan: Plan, method: Method, case: Case, partition: int) -> Score:
    """The result of the method, fitted and calibrated on one random partition of the episodes."""
    split = _split(plan, case, partition)
    steps = sorted(case.tests)
    started = time.process_time()
    monitor = method.monitor().fit(split=split, seed=partition, progress=False, steps=steps)
    seconds = time.process_time() - started
    n_fitted = method.n_fitted(steps, case.episodes.horizon)
    return Score.of(
        case,
        {t: _asked(case, monitor, t) for t in steps},
        fit_seconds=seconds / n_fitted,
        bytes_per_step=_file_size(monitor) / n_fitted,
    )


def score_rivals(plan: Plan, case: Case, partition: int) -> dict[str, Score]:
    """The results of PCQR⁻¹'s rivals on a partition, with the paper's forest or a linear model."""
    split = _split(plan, case, partition)
    divided = Partition(
        partition,
        "atoms",
        plan.seed,
        split.train.grid,
        split.train,
        split.calibrate,
        split.calibrate,  # not asked about
        goal=case.target,
    )
    forecasts: dict[str, dict[int, FloatArray]] = {}
    for t, test in case.tests.items():
        train, calibrate = (divided.rows(part, t) for part in (split.train, split.calibrate))
        models = fit_models(plan, divided, train, t)
        asked = Rows(test.states, np.zeros(0), test.behavior, np.zeros(0))
        for name, rival in calibrated_rivals(divided, models, calibrate, t):
            if hasattr(rival, "probability"):
                own = forecasts.setdefault(name, {})
                own[t] = forecasts_of(rival, divided, asked)
    return {name: Score.of(case, own) for name, own in forecasts.items()}


def step_microseconds(plan: Plan, method: Method, case: Case, runs: int = 200) -> float:
    """The median time of `Watch.step` in the fastest of ten rounds of runs.

    Other work on the machine can only make steps slower, so the fastest round is taken.
    """
    split = _split(plan, case, 0)
    monitor = method.monitor().fit(split=split, seed=0, progress=False)
    watch = monitor.watch(case.target, alarm_below=0.5)
    assert split.rest is not None  # the plan leaves episodes to test on
    watched = split.rest.take(np.arange(min(runs, len(split.rest))))
    horizon = watched.horizon
    states = [watched.at(t).states for t in range(horizon)]
    rewards = [np.zeros(len(watched)), *(watched.rewards_at(t) for t in range(horizon))]
    taken = np.empty((len(watched), horizon))
    for i in range(len(watched)):
        watch.reset()
        for t in range(horizon):
            state, reward = states[t][i], float(rewards[t][i])
            started = time.perf_counter_ns()
            watch.step(state, reward)
            taken[i, t] = time.perf_counter_ns() - started
    rounds = np.array_split(taken, min(10, len(watched)))
    return float(min(np.median(one) for one in rounds)) / 1e3


def summarize_case(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The means over steps with their spread over partitions, and the means by step."""
    found = {}
    for name, each in scores.items():
        found[name] = {
            "excess": mean_sd(float(np.mean(one["excess"])) for one in each),
            "absolute": mean_sd(float(np.mean(one["absolute"])) for one in each),
            "excess_by_step": np.mean([one["excess"] for one in each], axis=0).tolist(),
            "absolute_by_step": np.mean([one["absolute"] for one in each], axis=0).tolist(),
            "bytes_per_step": float(np.mean([one["bytes_per_step"] or np.nan for one in each])),
        }
    return found


def _split(plan: Plan, case: Case, partition: int) -> PaperSplit:
    return case.episodes.split(
        train=plan.train,
        calibrate=plan.calibrate,
        assure=0,
        seed=1_000 * plan.seed + partition,
    )


def _asked(case: Case, monitor: GoalMonitor, t: int) -> FloatArray:
    """The monitor's probability of the target, for the case's states at one step."""
    test = case.tests[t]
    return monitor.outlook(t, test.states, test.behavior, case.target).p


def _file_size(monitor: GoalMonitor) -> int:
    """The size of the monitor's model file in bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "monitor.ontarget"
        monitor.save(path)
        return path.stat().st_size


def _excess(p: FloatArray, p_true: FloatArray, rollouts: int | None) -> float:
    if rollouts is None:
        return float(np.square(p - p_true).mean())
    return excess_brier(p, p_true, rollouts=rollouts)
