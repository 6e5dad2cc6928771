"""How good a monitor is on episodes it has never seen: measures by step and pooled (M12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ontarget.conformal.levels import Level
from ontarget.conformal.limits import raw_probability
from ontarget.episodes import Episodes
from ontarget.errors import EpisodesError
from ontarget.evaluation import (
    AlarmQuality,
    CalibrationEstimate,
    Estimate,
    Rate,
    Reliability,
    Resampling,
    alarm_quality,
    coverage,
    ece_by_step,
    first_alarms,
    log_losses,
    mean_by_step,
    pool,
    pooled_ece,
    pooled_mean,
    reliability,
    squared_errors,
    sustained,
)
from ontarget.grid import snap
from ontarget.monitor.calibrated import Calibrated, ends_with_complements
from ontarget.monitor.guarantee import band_depth, band_interval
from ontarget.target import Target
from ontarget.typing import AnyArray, BoolArray, FloatArray, IndexArray

__all__ = ["Evaluation", "evaluate"]

METHODS = ("p", "low", "high", "raw")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A monitor's answers on new episodes, beside what came of them.

    Panels are (steps, episodes), NaN where an episode is over or a step is UNKNOWN. ``raw`` is the
    model's own probability, before calibration.
    """

    target: Target
    p: FloatArray
    low: FloatArray
    high: FloatArray
    raw: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    met: BoolArray
    lengths: IndexArray
    outcomes: FloatArray
    ids: AnyArray
    n_calibration: IndexArray  # (steps, episodes): how many stand behind each answer
    resampling: Resampling

    def panel(self, method: str = "p") -> FloatArray:
        """The answers of one method: ``"p"``, ``"low"``, ``"high"`` or ``"raw"``."""
        found: FloatArray = getattr(self, method)
        return found

    def ece(self, method: str = "p") -> CalibrationEstimate[float]:
        """The expected calibration error over all steps, with its interval."""
        return pooled_ece(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def ece_by_step(self, method: str = "p") -> CalibrationEstimate[FloatArray]:
        """The expected calibration error of each step by itself."""
        return ece_by_step(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def brier(self, method: str = "p") -> Estimate[float]:
        """The mean squared error of the probability, with its interval."""
        return pooled_mean(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def brier_by_step(self, method: str = "p") -> Estimate[FloatArray]:
        """The mean squared error of each step by itself."""
        return mean_by_step(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def log_loss(self, method: str = "p") -> Estimate[float]:
        """The mean log loss, p kept half a rank away from 0 and 1."""
        return pooled_mean(self._losses(method, "log"), ids=self.ids, resampling=self.resampling)

    @cached_property
    def reliability(self) -> Reliability:
        """How often each forecast came true, over all steps."""
        pooled = pool(self.p, self.met)
        return reliability(pooled.p, pooled.met, episode=pooled.episode)

    def alarms(self, threshold: float, for_steps: int = 1) -> AlarmQuality:
        """False alarms, detections and lead times of an alarm below this threshold."""
        first = first_alarms(sustained(self.p, for_steps), threshold)
        return alarm_quality(first, self.met, self.lengths)

    def ruled_out_wrongly(self, delta: float = 0.05) -> Rate:
        """How often the target was met although it had been ruled out: at most δ promised (M9)."""
        lowest = np.fmin.reduce(self.plausibility, axis=0)
        return Rate.of(int(np.count_nonzero(self.met & (lowest <= delta))), self.met.size)

    def assured_wrongly(self, delta: float = 0.05) -> Rate:
        """How often the target was missed although it had been assured: at most δ promised (M9)."""
        highest = np.fmax.reduce(self.assurance, axis=0)
        return Rate.of(int(np.count_nonzero(~self.met & (highest >= 1 - delta))), self.met.size)

    def summary(self) -> str:
        """A few lines for people."""
        ece, raw = self.ece(), self.ece("raw")
        lines = [
            f"target     {self.target}: met by {self.met.mean():.1%} of {self.met.size:,} episodes",
            f"ECE        {ece.value:.4f} [{ece.low:.4f}, {ece.high:.4f}], chance alone "
            f"{ece.floor:.4f}; uncalibrated {raw.value:.4f}",
            f"Brier      {_with_interval(self.brier())}; uncalibrated "
            f"{self.brier('raw').value:.4f}",
            f"log loss   {_with_interval(self.log_loss())}; uncalibrated "
            f"{self.log_loss('raw').value:.4f}",
            f"ruled out wrongly at 5 %: {self.ruled_out_wrongly()}; assured wrongly: "
            f"{self.assured_wrongly()}",
        ]
        return "\n".join(lines)

    def _losses(self, method: str, kind: str) -> FloatArray:
        panel = self.panel(method)
        if kind == "brier":
            return squared_errors(panel, self.met)
        return log_losses(panel, self.met, n_calibration=self.n_calibration)


def evaluate(
    fitted: Calibrated,
    episodes: Episodes,
    target: Target,
    *,
    groups: IndexArray,
    resampling: Resampling,
) -> Evaluation:
    """The monitor's answers on these episodes at every step."""
    if episodes.horizon != fitted.horizon or episodes.schema.names != fitted.schema.names:
        raise EpisodesError(
            f"the episodes need the monitor's horizon {fitted.horizon} and features "
            f"({', '.join(fitted.schema.names)}), got {episodes.horizon} and "
            f"({', '.join(episodes.schema.names)}); read them with like="
        )
    ends = ends_with_complements(target, fitted.grid)
    panels = np.full((6, fitted.horizon, len(episodes)), np.nan)
    n_calibration = np.ones((fitted.horizon, len(episodes)), dtype=np.intp)
    for t in range(fitted.horizon):
        rows = episodes.at(t, grid=fitted.grid)
        for g in range(fitted.n_groups):
            step = fitted.at(t, g)
            own = np.flatnonzero(groups[rows.index] == g)
            own = own[~fitted.bad_readings(rows.states[own])] if own.size else own
            if fitted.unknown(step) or not own.size:
                continue
            states, behavior, index = rows.states[own], rows.behavior[own], rows.index[own]
            left, right = step.limits(states, behavior, ends)
            found = step.outlook_of(left, right, ends, fitted.sorted_excess[g])
            panels[:5, t, index] = found[:, 0].T
            n_calibration[t, index] = step.ranks.n
            a_minus, a_plus = ends.spread(left, right)
            panels[5, t, index] = raw_probability(a_minus, a_plus, ends.first)[:, 0]
    low, p, high, plausibility, assurance, raw = panels
    return Evaluation(
        target=target,
        p=p,
        low=low,
        high=high,
        raw=raw,
        plausibility=plausibility,
        assurance=assurance,
        met=target.contains(episodes.outcomes, fitted.grid),
        lengths=episodes.lengths,
        outcomes=episodes.outcomes,
        ids=episodes.ids,
        n_calibration=n_calibration,
        resampling=resampling,
    )


def interval_coverage(
    fitted: Calibrated, episodes: Episodes, level: Level, *, steps: Sequence[int] | None = None
) -> dict[int, Rate]:
    """How often the step's interval at this level held the outcome (M5)."""
    found = {}
    for t in range(fitted.horizon) if steps is None else steps:
        step, rows = fitted.at(t), episodes.at(t, grid=fitted.grid)
        if not fitted.unknown(step) and len(rows):
            interval = step.pcqr().interval(step.inputs(rows.states, rows.behavior), level)
            found[t] = coverage(interval.lower, interval.upper, rows.response)
    return found


def band_coverage(fitted: Calibrated, episodes: Episodes, level: Level) -> Rate:
    """How often the simultaneous band held the outcome at every step of the episode (M9)."""
    held = np.ones(len(episodes), dtype=np.bool_)
    depth = band_depth(fitted.sorted_excess[0], level)
    for t in range(fitted.horizon):
        step, rows = fitted.at(t), episodes.at(t, grid=fitted.grid)
        if step.model is None or not len(rows) or not step.ranks.n:
            continue
        band = band_interval(step.pcqr(), step.inputs(rows.states, rows.behavior), depth)
        inside = band.contains(snap(rows.response, fitted.grid))
        held[rows.index[~inside]] = False
    return Rate.of(int(held.sum()), held.size)


def _with_interval(estimate: Estimate[float]) -> str:
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"
