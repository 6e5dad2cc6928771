"""Compares the paper's methods PCQR and PCQR⁻¹ with other methods of calibration.

All are applied to the same partitions (random divisions of the episodes). The other methods are M6
and M7 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ontarget import (
    CQR,
    PCQR,
    ConformalPredictiveSystem,
    LinearQuantiles,
    RawInverse,
    SplitConformal,
    VennAbers,
)
from ontarget.evaluation import brier, coverage, ece, log_loss, width
from ontarget.paper.arrays import FloatArray
from ontarget.paper.partitions import Partition, Rows
from ontarget.paper.plan import Plan
from ontarget.paper.summary import mean_sd

__all__ = [
    "LEVELS",
    "Fitted",
    "calibrated_rivals",
    "compare",
    "fit_models",
    "forecasts_of",
    "summarize_rivals",
]

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)


class Fitted(NamedTuple):
    """The models of one step, fitted to the training episodes."""

    forest: Any
    linear: Any


class _Distinct:
    """A model that predicts only once for rows of inputs that are equal.

    This saves time, because late in an episode many rivers have the same state.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def cdf_limits(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The model's predicted probabilities of less than y, and of at most y.

        ``y`` has one value for each row of inputs.
        """
        limits: tuple[FloatArray, FloatArray] = self._model.cdf_limits(X, y)
        return limits

    def quantile(
        self, X: FloatArray, q: ArrayLike, *, side: Literal["left", "right"] = "left"
    ) -> FloatArray:
        """The quantiles at the levels q that the model predicts for each row of inputs."""
        rows, place = np.unique(X, axis=0, return_inverse=True)
        found: FloatArray = self._model.quantile(rows, q, side=side)[place]
        return found

    def predict(self, X: FloatArray) -> FloatArray:
        """The mean that the model predicts for each row of inputs."""
        rows, place = np.unique(X, axis=0, return_inverse=True)
        found: FloatArray = self._model.predict(rows)[place]
        return found


def compare(plan: Plan, partition: Partition, tick: Callable[[], object]) -> dict[str, Any]:
    """The results of every calibration method on one random division (partition) of the episodes.

    They are intervals by level and step, and probabilities.
    """
    intervals: dict[str, list[list[list[float]]]] = {}
    forecasts: dict[str, list[FloatArray]] = {}
    for t in plan.study_steps:
        train, calibrate, test = (
            partition.rows(part, t)
            for part in (partition.train, partition.calibrate, partition.test)
        )
        models = fit_models(plan, partition, train, t)
        for name, rival in calibrated_rivals(partition, models, calibrate, t):
            # With atoms intervals cover more than their level, each by another amount.
            if partition.mode == "noise" and hasattr(rival, "interval"):
                intervals.setdefault(name, []).append(_intervals(rival, test))
            if hasattr(rival, "probability"):
                forecasts.setdefault(name, []).append(forecasts_of(rival, partition, test))
        tick()
    return {
        "intervals": intervals,
        "scores": {name: _scores(plan, partition, p) for name, p in forecasts.items()},
    }


def summarize_rivals(plan: Plan, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The means and standard deviations of the results of `compare`.

    They are over random divisions (partitions) of the episodes.
    """
    first = found[0]
    table: dict[str, Any] = {"steps": list(plan.study_steps), "levels": list(LEVELS)}
    table["intervals"] = {}
    for name in first["intervals"]:
        values = np.array([one["intervals"][name] for one in found])  # partition, step, level, 2
        sd = values.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(values.shape[1:])
        table["intervals"][name] = {
            "coverage": values.mean(axis=0)[..., 0].tolist(),
            "coverage_sd": sd[..., 0].tolist(),
            "width": values.mean(axis=0)[..., 1].tolist(),
        }
    table["scores"] = {
        name: {
            measure: mean_sd(one["scores"][name][measure] for one in found)
            for measure in first["scores"][name]
        }
        for name in first["scores"]
    }
    return table


def fit_models(plan: Plan, partition: Partition, train: Rows, t: int) -> Fitted:
    """The forest and the linear model of step t, fitted to the rows ``train``."""
    forest = plan.forest(partition.number, t).fit(
        train.X, train.y, ids=train.ids, categorical=partition.categorical
    )
    # Late in a run an edge may hold what no training episode held there, and a linear model knows
    # no category that it has not seen; the codes are ordered from good to bad, so they are numbers
    # to it.
    linear = LinearQuantiles(plan.linear_levels).fit(train.X, train.y, ids=train.ids)
    return Fitted(_Distinct(forest), _Distinct(linear))


def calibrated_rivals(
    partition: Partition, models: Fitted, rows: Rows, t: int
) -> Iterator[tuple[str, Any]]:
    """Each calibration method by name, calibrated with the same rows."""
    kinds: dict[str, tuple[type[Any], Any]] = {
        "PCQR": (PCQR, models.forest),
        "CQR": (CQR, models.forest),
        "split conformal": (SplitConformal, models.forest),
        "raw forest": (RawInverse, models.forest),
        "conformal predictive system": (ConformalPredictiveSystem, models.forest),
        "PCQR, linear": (PCQR, models.linear),
        "raw linear": (RawInverse, models.linear),
    }
    for name, (kind, model) in kinds.items():
        yield (
            name,
            kind(model, grid=partition.grid).calibrate(
                rows.X, rows.y, ids=rows.ids, seed=partition.seed, step=t
            ),
        )
    yield (
        "Venn–Abers",
        VennAbers(models.forest, partition.target, grid=partition.grid).calibrate(
            rows.X, rows.y, offset=rows.offset, ids=rows.ids
        ),
    )


def _intervals(rival: Any, test: Rows) -> list[list[float]]:
    found = []
    for level in LEVELS:
        lower, upper = rival.interval(test.X, level)
        found.append([coverage(lower, upper, test.y).value, width(lower, upper).mean])
    return found


def forecasts_of(rival: Any, partition: Partition, test: Rows) -> FloatArray:
    """A calibration method's probability that each row's episode meets the target."""
    if isinstance(rival, VennAbers):
        return rival.probability(test.X, test.offset).p
    answer: FloatArray = rival.probability(test.X, partition.target, test.offset).p
    return answer


def _scores(plan: Plan, partition: Partition, forecasts: Sequence[FloatArray]) -> dict[str, float]:
    p = np.concatenate(forecasts)
    met = np.tile(partition.met, len(forecasts))
    return {
        "ece": ece(p, met, plan.bins),
        "brier": brier(p, met),
        "log_loss": log_loss(p, met, n_calibration=plan.calibrate),
    }
