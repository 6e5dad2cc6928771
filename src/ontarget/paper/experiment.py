"""The paper's experiment on one random division (partition) of the episodes.

PCQR, the paper's method, gives intervals at t = 0. Its inverse PCQR⁻¹ gives the probability of the
target at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from ontarget import PCQR, GoalMonitor, Interval, RawInverse
from ontarget.evaluation import bin_of, brier, coverage, log_loss, width
from ontarget.paper.arrays import AnyArray, BoolArray, FloatArray, IntArray
from ontarget.paper.partitions import Partition
from ontarget.paper.plan import Plan, Preset

__all__ = ["METHODS", "Part", "calibrated_at", "run_partition"]

# The lower bound, the middle and the upper bound of PCQR⁻¹, and the forest's own probability.
METHODS: Final = ("low", "p", "high", "raw")


@dataclass(frozen=True, eq=False)
class Part:
    """The results of one partition: lower bounds of the probability, and data for the measures.

    A partition is one random division of the episodes.

    Attributes
    ----------
    low
        (steps, tests): the lower bound p_low times n + 1, as whole numbers.
    met, ids, outcomes
        Which test episodes met the target, their ids, and their outcomes.
    target
        The lower and upper end of the target.
    bins
        (methods, steps, bins, 3): the number of forecasts, their sum, and how many came true.
    brier, log_loss
        (methods, steps): the Brier score and the log loss.
    interval
        The coverage and mean width of the prediction intervals at t = 0.
    n
        The number of held-out episodes that p_low was computed from: the calibrate episodes or, for
        a default monitor, its assure episodes.
    """

    low: IntArray
    met: BoolArray
    ids: AnyArray
    outcomes: FloatArray
    target: FloatArray
    bins: FloatArray
    brier: FloatArray
    log_loss: FloatArray
    interval: FloatArray
    n: int

    @property
    def p_low(self) -> FloatArray:
        """(steps, tests): the lower bound of the probability for each test episode at each step."""
        return self.low / (self.n + 1)

    def ece_by_step(self, method: str) -> FloatArray:
        """The expected calibration error of this method's forecasts at each step."""
        return _ece(self.bins[METHODS.index(method)])

    def pooled_ece(self, method: str) -> float:
        """The expected calibration error of this method's forecasts of all steps together."""
        return float(_ece(self.bins[METHODS.index(method)].sum(axis=0)))

    def mean_by_step(self, method: str) -> FloatArray:
        """The mean forecast of each step."""
        sums = self.bins[METHODS.index(method)].sum(axis=1)
        mean: FloatArray = sums[:, 1] / sums[:, 0]
        return mean

    def to_arrays(self) -> dict[str, AnyArray]:
        """The results as flat arrays, to be stored in a file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The results, from the arrays that `to_arrays` returned."""
        return cls(**{**arrays, "n": int(arrays["n"])})  # type: ignore[arg-type]  # by name


def calibrated_at(plan: Plan, partition: Partition, t: int) -> PCQR:
    """The paper's calibrated method (PCQR) for step t, on a plain forest."""
    train = partition.rows(partition.train, t)
    rows = partition.rows(partition.calibrate, t)
    forest = plan.forest(partition.number, t).fit(
        train.X, train.y, ids=train.ids, categorical=partition.categorical
    )
    return PCQR(forest, grid=partition.grid).calibrate(
        rows.X, rows.y, ids=rows.ids, seed=plan.seed, step=t
    )


def run_partition(
    plan: Plan, partition: Partition, tick: Callable[[], object], preset: Preset = "paper"
) -> Part:
    """The paper's whole experiment on one random division (partition) of the episodes.

    ``tick`` is called after each step. ``preset`` chooses what is fitted: one plain forest per
    step, calibrated in the paper's way, or a default monitor. The default monitor learns from 80 %
    of the same episodes and computes bounds from the rest. Its p is calibrated for this target
    (methods M16 and M17 in docs/methods.md). It uses the outcomes without added noise, so outcomes
    may be equal.
    """
    ask = _plain_forests if preset == "paper" else _default_monitor
    panels, interval, n = ask(plan, partition, tick)
    met, end = partition.met, partition.target.components[0]
    return Part(
        low=np.rint(panels[0] * (n + 1)).astype(np.int32),
        met=met,
        ids=partition.test.ids,
        outcomes=partition.outcomes,
        target=np.array([end.lower, end.upper]),
        bins=np.array([[_binned(p, met, plan.bins) for p in panel] for panel in panels]),
        brier=np.array([[brier(p, met) for p in panel] for panel in panels]),
        log_loss=np.array([[log_loss(p, met, n_calibration=n) for p in panel] for panel in panels]),
        interval=np.array(
            [coverage(*interval, partition.outcomes).value, width(*interval).mean],
        ),
        n=n,
    )


def _plain_forests(
    plan: Plan, partition: Partition, tick: Callable[[], object]
) -> tuple[FloatArray, Interval, int]:
    """The probabilities of each method, (methods, steps, tests); intervals at t = 0; and n.

    ``n`` is the number of calibration episodes. Each step has its own forest.
    """
    horizon = partition.test.horizon
    panels = np.empty((len(METHODS), horizon, len(partition.test)))
    for t in range(horizon):
        pcqr, rows = calibrated_at(plan, partition, t), partition.rows(partition.test, t)
        asked = (rows.X, partition.target, rows.offset)
        panels[:3, t] = pcqr.probability(*asked)
        panels[3, t] = RawInverse(pcqr.model, grid=partition.grid).probability(*asked).p
        if t == 0:
            interval = pcqr.interval(rows.X, plan.level)
        tick()
    return panels, interval, plan.calibrate


def _default_monitor(
    plan: Plan, partition: Partition, tick: Callable[[], object]
) -> tuple[FloatArray, Interval, int]:
    """The probabilities of a default monitor, (methods, steps, tests); intervals at t = 0; and n.

    ``n`` is the number of assure (held-out) episodes. The monitor is fitted once for all steps.
    """
    monitor = GoalMonitor().fit(split=partition.monitored, seed=plan.seed, progress=False)
    found = monitor.evaluate(partition.test, partition.target)
    for _ in range(partition.test.horizon):
        tick()
    first = partition.test.at(0)
    return (
        np.stack([found.low, found.p, found.high, found.raw]),
        monitor.interval(0, first.states, first.behavior, plan.level),
        monitor.sizes["assure"],
    )


def _binned(p: FloatArray, met: BoolArray, bins: int) -> FloatArray:
    places = bin_of(p, bins)
    sums = (np.bincount(places, weights=w, minlength=bins) for w in (np.ones(p.size), p, met))
    return np.stack(list(sums), axis=-1)


def _ece(bins: FloatArray) -> FloatArray:
    """The expected calibration error, from sums over bins of forecasts.

    For each bin it takes the difference between the sum of forecasts p and the number that came
    true; it adds up their absolute values and divides by the number N of forecasts.
    """
    error: FloatArray = np.abs(bins[..., 1] - bins[..., 2]).sum(axis=-1) / bins[..., 0].sum(axis=-1)
    return error
