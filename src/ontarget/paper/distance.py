"""How far each method's probability is from the truth, and what the method costs.

Every method gets the same past episodes, on random partitions, and forecasts the same states. A
method that is calibrated in the paper's way trains on one half of the past episodes and calibrates
with the other. A default monitor divides them into learn (for the model) and assure (for promises).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ontarget import GoalMonitor, GuidedForest, QuantileForest
from ontarget.episodes import PaperSplit, Split
from ontarget.evaluation import absolute_error, excess_brier
from ontarget.models import StackedForest
from ontarget.paper.arrays import FloatArray
from ontarget.paper.cases import Case
from ontarget.paper.partitions import Partition, Rows, learn_and_assure, train_and_calibrate
from ontarget.paper.plan import Plan
from ontarget.paper.rivals import calibrated_rivals, fit_models, forecasts_of
from ontarget.paper.summary import mean_sd

__all__ = [
    "BEFORE",
    "DEFAULT",
    "METHODS",
    "OWN_MAP",
    "SMALL_LEAF",
    "UNIT",
    "Method",
    "Score",
    "excess_over",
    "methods_of",
    "row_name",
    "score",
    "score_rivals",
    "step_microseconds",
    "summarize_case",
]

# How p is calibrated: by one curve for all targets, or by this target's own curve (method M17 in
# docs/methods.md).
Calibration: TypeAlias = Literal["common", "target"]


@dataclass(frozen=True)
class Method:
    """One way to get p: a monitor to fit, how episodes are divided, and how p is calibrated."""

    monitor: Callable[[], GoalMonitor]
    papers_split: bool = False
    calibrations: tuple[Calibration, ...] = ("common",)

    def split(self, plan: Plan, case: Case, partition: int) -> Split | PaperSplit:
        """The past episodes of a case (a process), divided into the parts that a fit needs.

        The parts are learn and assure (held out for promises), or train and calibrate.
        """
        divide = train_and_calibrate if self.papers_split else learn_and_assure
        return divide(plan, case.episodes, partition)


def _papers(model: Callable[[], Any], steps_per_model: int = 1) -> Method:
    return Method(lambda: GoalMonitor(model(), steps_per_model=steps_per_model), papers_split=True)


def _stack(**options: Any) -> Method:
    return Method(lambda: GoalMonitor(StackedForest(**options)))


def row_name(method: str, calibration: str) -> str:
    """The name under which a method's results are stored, given how its p is calibrated."""
    return method if calibration == "common" else f"{method}, this target's own map"


UNIT: Final = "paper: forest per step, leaf 15"
SMALL_LEAF: Final = "forest per step, leaf 5"
BEFORE: Final = "default before: guided forest, blocks of 5"
DEFAULT: Final = "default"
OWN_MAP: Final = row_name(DEFAULT, "target")

# What is measured on every process: where we come from, what smaller leaves alone would change,
# and where we stand.
_EVERYWHERE: Final = (UNIT, SMALL_LEAF, BEFORE, DEFAULT)

METHODS: Final[dict[str, Method]] = {
    UNIT: _papers(QuantileForest),
    SMALL_LEAF: _papers(lambda: QuantileForest(min_leaf=5)),
    BEFORE: _papers(lambda: GuidedForest(min_leaf=7), 5),
    DEFAULT: Method(GoalMonitor, calibrations=("common", "target")),
    "default without small leaves": _stack(experts=("large_leaves", "shift", "linear")),
    "default without large leaves": _stack(experts=("small_leaves", "shift", "linear")),
    "default without the shift": _stack(experts=("small_leaves", "large_leaves", "linear")),
    "default without the regression": _stack(experts=("small_leaves", "large_leaves", "shift")),
    # About a quarter of both domains' horizons, each learned from as many steps again.
    "default, long blocks only": Method(lambda: GoalMonitor(steps_per_model=14, window=7)),
    "default, guides of 80 trees of depth 2": _stack(n_boosted=80, boosted_depth=2),
}


def methods_of(case: str) -> tuple[str, ...]:
    """The names of the methods to measure on a case (a process to study).

    These are all methods on the paper's domains, and the main ones elsewhere.
    """
    return tuple(METHODS) if case in ("tamarisk", "skirmish") else _EVERYWHERE


@dataclass(frozen=True)
class Score:
    """A method's result on one random partition: how far p is from the truth by step, and cost."""

    steps: tuple[int, ...]
    absolute: tuple[float, ...]
    excess: tuple[float, ...]
    fit_seconds: float = float("nan")  # of processor time, per step of the horizon
    bytes_per_step: float = float("nan")

    @classmethod
    def of(cls, case: Case, forecasts: Mapping[int, FloatArray], **cost: float) -> Score:
        """The result of a method, from its forecasts at each step."""
        steps = tuple(sorted(forecasts))
        pairs = [(forecasts[t], case.tests[t].p_true) for t in steps]
        return cls(
            steps=steps,
            absolute=tuple(absolute_error(p, p_true) for p, p_true in pairs),
            excess=tuple(excess_over(p, p_true, case.rollouts) for p, p_true in pairs),
            **cost,
        )

    def describe(self) -> dict[str, Any]:
        """The result as plain values, to be stored in a file."""
        return asdict(self)


def score(plan: Plan, method: Method, case: Case, partition: int) -> dict[Calibration, Score]:
    """The results of a method fitted on one random partition of the episodes.

    They are given by kind of calibration.
    """
    split, steps = method.split(plan, case, partition), sorted(case.tests)
    started = time.process_time()
    monitor = method.monitor().fit(split=split, seed=partition, progress=False, steps=steps)
    seconds = time.process_time() - started
    n_answered = sum(not monitor.fitted.unknown(t) for t in range(monitor.horizon))
    return {
        calibration: Score.of(
            case,
            {t: _asked(case, monitor, t, calibration) for t in steps},
            fit_seconds=seconds / n_answered,
            bytes_per_step=_file_size(monitor) / n_answered,
        )
        for calibration in method.calibrations
    }


def score_rivals(plan: Plan, case: Case, partition: int) -> dict[str, Score]:
    """The results of other methods of calibration (rivals of the paper's).

    They are for one random division (partition) of the episodes, and use the paper's forest or a
    linear model.
    """
    split = train_and_calibrate(plan, case.episodes, partition)
    divided = Partition(
        partition,
        "atoms",
        plan.seed,
        split.train.grid,
        split.train,
        split.calibrate,
        split.calibrate,  # not asked about
        None,
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


def step_microseconds(
    plan: Plan, method: Method, case: Case, runs: int = 200
) -> dict[Calibration, float]:
    """The median time of `Watch.step` in microseconds, by kind of calibration.

    It is taken from the fastest of ten rounds of runs, because other work on the machine can only
    make steps slower.
    """
    split = method.split(plan, case, 0)
    monitor = method.monitor().fit(split=split, seed=0, progress=False)
    assert split.rest is not None  # the plan leaves episodes to test on
    watched = split.rest.take(np.arange(min(runs, len(split.rest))))
    horizon = watched.horizon
    states = [watched.at(t).states for t in range(horizon)]
    rewards = [np.zeros(len(watched)), *(watched.rewards_at(t) for t in range(horizon))]
    found: dict[Calibration, float] = {}
    for calibration in method.calibrations:
        watch = monitor.watch(case.target, alarm_below=0.5, calibration=calibration)
        taken = np.empty((len(watched), horizon))
        for i in range(len(watched)):
            watch.reset()
            for t in range(horizon):
                state, reward = states[t][i], float(rewards[t][i])
                started = time.perf_counter_ns()
                watch.step(state, reward)
                taken[i, t] = time.perf_counter_ns() - started
        rounds = np.array_split(taken, min(10, len(watched)))
        found[calibration] = float(min(np.median(one) for one in rounds)) / 1e3
    return found


def summarize_case(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """For each method: the mean distance to the truth over steps, and the means by step.

    The mean comes with its spread over random divisions (partitions) of the episodes.
    """
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


def _asked(case: Case, monitor: GoalMonitor, t: int, calibration: Calibration) -> FloatArray:
    """The monitor's probability of the target, for the test states of a case at step t."""
    test = case.tests[t]
    return monitor.outlook(t, test.states, test.behavior, case.target, calibration=calibration).p


def _file_size(monitor: GoalMonitor) -> int:
    """The size of the monitor's model file in bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "monitor.ontarget"
        monitor.save(path)
        return path.stat().st_size


def excess_over(p: FloatArray, p_true: FloatArray, rollouts: int | None) -> float:
    """How much higher the Brier score of p is than that of the true probability.

    ``rollouts`` is how many simulations each ``p_true`` was estimated from; None if ``p_true`` is
    exact.
    """
    if rollouts is None:
        return float(np.square(p - p_true).mean())
    return excess_brier(p, p_true, rollouts=rollouts)
