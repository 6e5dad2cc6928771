"""The paper's experiment on one partition: PCQR at t = 0, and PCQR⁻¹ at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IntArray
from ontarget.conformal._limits import TargetEnds, raw_probability
from ontarget.conformal._ranks import TargetCounts, target_counts
from ontarget.conformal.pcqr import PCQR
from ontarget.evaluation import brier, coverage, log_loss, width
from ontarget.evaluation.calibration import bin_of
from ontarget.fitted._inputs import inputs_of
from ontarget.fitted.blocks import Block, plan_blocks
from ontarget.fitting.fit import Preset, preset_model
from ontarget.models._entry import fresh_model
from ontarget.paper.partitions import Partition, Rows
from ontarget.paper.plan import Plan

__all__ = ["METHODS", "Part", "calibrated_at", "run_partition"]

# The lower bound, the middle and the upper bound of PCQR⁻¹, and the forest's own probability.
METHODS: Final = ("low", "p", "high", "raw")


@dataclass(frozen=True, eq=False)
class Part:
    """What one partition gave: the lower bounds themselves, and the sums that measures need.

    Attributes
    ----------
    low
        (steps, tests): numerators of p_low over n + 1.
    met, ids, outcomes
        Which test episodes met the target, who they are, and what they came to.
    target
        Its lower and upper end.
    bins
        (methods, steps, bins, 3): how many forecasts, their sum, and how many came true.
    brier, log_loss
        (methods, steps).
    interval
        Of the intervals at t = 0: coverage and mean width.
    n
        How many calibration episodes.
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
        """The lower bound of each test episode at each step."""
        return self.low / (self.n + 1)

    def ece_by_step(self, method: str) -> FloatArray:
        """The expected calibration error of each step by itself (M12)."""
        return _ece(self.bins[METHODS.index(method)])

    def pooled_ece(self, method: str) -> float:
        """The expected calibration error of all steps' forecasts together (M12)."""
        return float(_ece(self.bins[METHODS.index(method)].sum(axis=0)))

    def mean_by_step(self, method: str) -> FloatArray:
        """The mean forecast of each step."""
        sums = self.bins[METHODS.index(method)].sum(axis=1)
        mean: FloatArray = sums[:, 1] / sums[:, 0]
        return mean

    def to_arrays(self) -> dict[str, AnyArray]:
        """The part as flat arrays, for its file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """The part that gave these arrays."""
        return cls(**{**arrays, "n": int(arrays["n"])})  # type: ignore[arg-type]  # by name


def calibrated_at(plan: Plan, partition: Partition, t: int) -> PCQR:
    """One plain forest for this step, calibrated."""
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
    """The whole experiment on one partition; `tick` is called after each step.

    ``preset`` says how F̂ is learnt: a plain forest per step, or the goal monitor's default, guided
    forests of five steps each (M14).
    """
    horizon, met = partition.test.horizon, partition.met
    ends = TargetEnds.of(partition.target, partition.grid)
    low = np.empty((horizon, met.size), dtype=np.int32)
    bins = np.empty((len(METHODS), horizon, plan.bins, 3))
    scores = np.empty((2, len(METHODS), horizon))
    interval = np.empty(2)
    for t, (pcqr, rows) in enumerate(_calibrated(plan, partition, preset)):
        counts, raw = _forecasts(pcqr, ends, rows)
        low[t] = counts.low
        for m, p in enumerate([*counts.probability(), raw]):
            bins[m, t] = _binned(p, met, plan.bins)
            scores[:, m, t] = brier(p, met), log_loss(p, met, n_calibration=plan.calibrate)
        if t == 0:
            lower, upper = pcqr.interval(rows.X, plan.level)
            interval[:] = coverage(lower, upper, rows.y).value, width(lower, upper).mean
        tick()
    target = partition.target
    return Part(
        low=low,
        met=met,
        ids=partition.test.ids,
        outcomes=partition.outcomes,
        target=np.array([target.components[0].lower, target.components[0].upper]),
        bins=bins,
        brier=scores[0],
        log_loss=scores[1],
        interval=interval,
        n=plan.calibrate,
    )


def _calibrated(plan: Plan, partition: Partition, preset: Preset) -> Iterator[tuple[PCQR, Rows]]:
    """The calibrated model of each step, and the test episodes as it reads them."""
    horizon = partition.test.horizon
    if preset == "paper":
        for t in range(horizon):
            yield calibrated_at(plan, partition, t), partition.rows(partition.test, t)
        return
    unfitted = preset_model(preset).set_params(n_trees=plan.n_trees)
    for block in plan_blocks(horizon)[0]:
        seed = (plan.seed, partition.number, block.start)
        model = fresh_model(unfitted, seed=seed, n_steps=len(block.train_steps))
        steps = [_with_step(partition.rows(partition.train, t), t) for t in block.train_steps]
        model.fit(
            np.concatenate([rows.X for rows in steps]),
            np.concatenate([rows.y for rows in steps]),
            ids=np.concatenate([rows.ids for rows in steps]),
            steps=np.repeat(block.train_steps, [rows.y.size for rows in steps]),
            categorical=partition.categorical,
        )
        yield from _block_steps(plan, partition, block, model)


def _block_steps(
    plan: Plan, partition: Partition, block: Block, model: Any
) -> Iterator[tuple[PCQR, Rows]]:
    """The steps that share one model; each has ranks of its own."""
    for t in block.steps:
        calibrate, test = (
            _with_step(partition.rows(part, t), t) for part in (partition.calibrate, partition.test)
        )
        pcqr = PCQR(model, grid=partition.grid).calibrate(
            calibrate.X, calibrate.y, ids=calibrate.ids, seed=plan.seed, step=t
        )
        yield pcqr, test


def _with_step(rows: Rows, t: int) -> Rows:
    return replace(rows, X=inputs_of(rows.X, None, t))


def _forecasts(pcqr: PCQR, ends: TargetEnds, rows: Rows) -> tuple[TargetCounts, FloatArray]:
    """Calibrated and raw probability from one descent through the forest."""
    a_minus, a_plus = ends.limits(pcqr.model, rows.X, rows.offset)
    return (
        target_counts(pcqr.ranks, a_minus, a_plus),
        raw_probability(a_minus, a_plus, ends.first)[:, 0],
    )


def _binned(p: FloatArray, met: BoolArray, bins: int) -> FloatArray:
    places = bin_of(p, bins)
    sums = (np.bincount(places, weights=w, minlength=bins) for w in (np.ones(p.size), p, met))
    return np.stack(list(sums), axis=-1)


def _ece(bins: FloatArray) -> FloatArray:
    """Σ_b |Σ p − Σ met| / N over the bins of the last axis but one."""
    error: FloatArray = np.abs(bins[..., 1] - bins[..., 2]).sum(axis=-1) / bins[..., 0].sum(axis=-1)
    return error
