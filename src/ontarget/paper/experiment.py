"""The paper's experiment on one random division (partition) of the episodes.

PCQR, the paper's method, gives intervals at t = 0. Its inverse PCQR⁻¹ gives the probability of the
target at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ontarget import PCQR, Interval, RawInverse
from ontarget.evaluation import bin_of, brier, coverage, log_loss, mean_width
from ontarget.paper.partitions import Partition
from ontarget.paper.plan import Plan

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
        The number of held-out episodes that p_low was computed from.
    """

    low: NDArray[np.integer]
    met: NDArray[np.bool_]
    ids: NDArray[Any]
    outcomes: NDArray[np.float64]
    target: NDArray[np.float64]
    bins: NDArray[np.float64]
    brier: NDArray[np.float64]
    log_loss: NDArray[np.float64]
    interval: NDArray[np.float64]
    n: int

    @property
    def p_low(self) -> NDArray[np.float64]:
        """(steps, tests): the lower bound of the probability for each test episode at each step."""
        return self.low / (self.n + 1)

    def ece_by_step(self, method: str) -> NDArray[np.float64]:
        """The expected calibration error of this method's forecasts at each step."""
        return _ece(self.bins[METHODS.index(method)])

    def pooled_ece(self, method: str) -> float:
        """The expected calibration error of this method's forecasts of all steps together."""
        return float(_ece(self.bins[METHODS.index(method)].sum(axis=0)))

    def mean_by_step(self, method: str) -> NDArray[np.float64]:
        """The mean forecast of each step."""
        sums = self.bins[METHODS.index(method)].sum(axis=1)
        mean: NDArray[np.float64] = sums[:, 1] / sums[:, 0]
        return mean


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


def run_partition(plan: Plan, partition: Partition, tick: Callable[[], object]) -> Part:
    """The paper's whole experiment on one random division (partition) of the episodes.

    Each step has its own forest; ``tick`` is called after each step.
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
    return part_of(plan, partition, panels, interval, plan.calibrate)


def part_of(
    plan: Plan, partition: Partition, panels: NDArray[np.float64], interval: Interval, n: int
) -> Part:
    """The results of a partition, from the probabilities of each method and intervals at t = 0.

    ``panels`` is (methods, steps, tests); p_low is computed from ``n`` episodes.
    """
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
            [coverage(*interval, partition.outcomes).value, mean_width(*interval)],
        ),
        n=n,
    )


def _binned(p: NDArray[np.float64], met: NDArray[np.bool_], bins: int) -> NDArray[np.float64]:
    places = bin_of(p, bins)
    sums = (np.bincount(places, weights=w, minlength=bins) for w in (np.ones(p.size), p, met))
    return np.stack(list(sums), axis=-1)


def _ece(bins: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expected calibration error, from sums over bins of forecasts.

    For each bin it takes the difference between the sum of forecasts p and the number that came
    true; it adds up their absolute values and divides by the number N of forecasts.
    """
    gaps = np.abs(bins[..., 1] - bins[..., 2]).sum(axis=-1)
    error: NDArray[np.float64] = gaps / bins[..., 0].sum(axis=-1)
    return error
