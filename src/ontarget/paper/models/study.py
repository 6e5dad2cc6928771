"""Compares kinds of models in the paper's own setting: one model per step, calibrated afterwards.

Every model learns from the same training episodes at a step. Each calibration method (M6 in
docs/methods.md) then calibrates each model with the same episodes. All models forecast the same
test episodes and states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from ontarget import CQR, PCQR, LinearQuantiles, QuantileForest, RawInverse, SplitConformal
from ontarget.episodes import Episodes
from ontarget.evaluation import absolute_error, brier, coverage, ece, width
from ontarget.models import (
    BoostedQuantiles,
    DistributionRegression,
    Marginal,
    QuantileNetwork,
    StackedForest,
)
from ontarget.paper.arrays import BoolArray, FloatArray
from ontarget.paper.cases import Case
from ontarget.paper.distance import excess_over
from ontarget.paper.partitions import Rows, train_and_calibrate
from ontarget.paper.plan import Plan
from ontarget.paper.summary import mean_sd

__all__ = [
    "FOREST",
    "INTERVALS",
    "MODELS",
    "PROBABILITIES",
    "measure_model",
    "models_here",
    "sized",
    "summarize_models",
]

FOREST: Final = "forest per step (the paper's)"
MODELS: Final[dict[str, Callable[[], Any]]] = {
    FOREST: QuantileForest,
    "stacked forest (the default's)": StackedForest,
    "boosted quantiles": BoostedQuantiles,
    "quantile network": partial(QuantileNetwork, progress=False),
    "distribution regression": DistributionRegression,
    "linear quantiles": partial(LinearQuantiles, 19),
    "marginal (no features)": Marginal,
}
_NEEDS_TORCH: Final = "quantile network"
# Late in a run a category may be new to a linear model; codes are ordered, so they are numbers to
# it.
_READS_CODES: Final = "linear quantiles"

INTERVALS: Final[dict[str, type[Any]]] = {
    "PCQR": PCQR,
    "CQR": CQR,
    "split conformal": SplitConformal,
}
PROBABILITIES: Final[dict[str, type[Any]]] = {"PCQR⁻¹": PCQR, "raw": RawInverse}

_MOST_TESTED = 1_000  # episodes


def sized(plan: Plan) -> Plan:
    """The plan with the smaller sizes of this study, which has seven models and eight processes."""
    if plan.quick:
        return replace(plan, partitions=1)
    return replace(plan, train=1_500, calibrate=1_500, partitions=2)


def models_here() -> tuple[str, ...]:
    """The names of the models that can be fitted here; the network needs PyTorch."""
    has_torch = find_spec("torch") is not None
    return tuple(name for name in MODELS if has_torch or name != _NEEDS_TORCH)


def measure_model(plan: Plan, name: str, number: int, case: Case) -> dict[str, Any]:
    """A model's results and running times on one partition (random division of the episodes).

    The results are given for each method of calibration.
    """
    split = train_and_calibrate(plan, case.episodes, number)
    assert split.rest is not None  # the plan leaves episodes to test on
    test, grid = split.rest.take(np.arange(min(_MOST_TESTED, len(split.rest)))), split.train.grid
    intervals: dict[str, list[list[float]]] = {kind: [] for kind in INTERVALS}
    asked: dict[str, list[tuple[int, FloatArray, FloatArray]]] = {
        kind: [] for kind in PROBABILITIES
    }
    met, fit_seconds, answer_seconds = [], [], 0.0
    for t in sorted(case.tests):
        train, calibrate = (_rows(part, t, grid) for part in (split.train, split.calibrate))
        rows, truth = _rows(test, t, grid), case.tests[t]
        started = time.process_time()
        model = _fitted(name, (plan.seed, number, t), train, split.train.schema.categorical)
        fit_seconds.append(time.process_time() - started)
        for kind, method in INTERVALS.items():
            rival = _calibrated(method, model, calibrate, (plan.seed, t, grid))
            lower, upper = rival.interval(rows.X, plan.level)
            inside = coverage(lower, upper, rows.y).value
            intervals[kind].append([inside, width(lower, upper).mean])
        for kind, method in PROBABILITIES.items():
            rival = _calibrated(method, model, calibrate, (plan.seed, t, grid))
            started = time.process_time()
            own = rival.probability(rows.X, case.target, rows.offset).p
            answer_seconds += time.process_time() - started
            there = rival.probability(truth.states, case.target, truth.behavior).p
            asked[kind].append((t, own, there))
        met.append(case.target.contains(test.at(t, grid=grid).outcomes, grid))
    tested = len(PROBABILITIES) * sum(one.size for one in met)
    return {
        "intervals": intervals,
        "forecasts": {kind: _scores(plan, case, found, met) for kind, found in asked.items()},
        "fit_seconds": float(np.mean(fit_seconds)),
        "answer_us": 1e6 * answer_seconds / max(tested, 1),
    }


def summarize_models(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Each model's means over random divisions (partitions) of the episodes.

    Widths of intervals are divided by those of the paper's method (PCQR) on the forest.
    """
    unit = [_widths(one, "PCQR") for one in found[FOREST]]
    return {
        name: {
            "intervals": {
                kind: {
                    "coverage": mean_sd(_mean_of(one["intervals"][kind], 0) for one in each),
                    "width": mean_sd(
                        _widths(one, kind) / whole for one, whole in zip(each, unit, strict=True)
                    ),
                }
                for kind in INTERVALS
            },
            "forecasts": {
                kind: {
                    measure: mean_sd(one["forecasts"][kind][measure] for one in each)
                    for measure in each[0]["forecasts"][kind]
                }
                for kind in PROBABILITIES
            },
        }
        for name, each in found.items()
    }


def _rows(part: Episodes, t: int, grid: float) -> Rows:
    step = part.at(t, grid=grid)
    return Rows(step.states, step.response, step.behavior, step.ids)


def _fitted(name: str, seed: tuple[int, ...], train: Rows, categorical: Sequence[int]) -> Any:
    model = MODELS[name]()
    if "seed" in model.get_params():
        model.set_params(seed=seed)
    read = () if name == _READS_CODES else categorical
    return model.fit(train.X, train.y, ids=train.ids, categorical=read)


def _calibrated(method: type[Any], model: Any, rows: Rows, how: tuple[int, int, float]) -> Any:
    seed, t, grid = how
    return method(model, grid=grid).calibrate(rows.X, rows.y, ids=rows.ids, seed=seed, step=t)


def _scores(
    plan: Plan,
    case: Case,
    found: Sequence[tuple[int, FloatArray, FloatArray]],
    met: Sequence[BoolArray],
) -> dict[str, float]:
    """How well forecasts came true on test episodes, and how far they are from the truth.

    The measures are given by name.
    """
    p, hit = np.concatenate([one[1] for one in found]), np.concatenate(met)
    pairs = [(there, case.tests[t].p_true) for t, _, there in found]
    return {
        "ece": ece(p, hit, plan.bins),
        "brier": brier(p, hit),
        "absolute": float(np.mean([absolute_error(*one) for one in pairs])),
        "excess": float(np.mean([excess_over(*one, case.rollouts) for one in pairs])),
    }


def _widths(one: Mapping[str, Any], kind: str) -> float:
    return _mean_of(one["intervals"][kind], 1)


def _mean_of(pairs: Sequence[Sequence[float]], place: int) -> float:
    return float(np.mean([pair[place] for pair in pairs]))
