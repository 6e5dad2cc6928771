"""A calibration for one target at every step: Venn–Abers on the model's probability of it (M7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.venn_abers import Envelopes
from ontarget.episodes import Episodes
from ontarget.errors import CalibrationError, InputError
from ontarget.fitted._kernels import scores_of_rows
from ontarget.fitted.law import StepDistribution, components_of
from ontarget.target import Target

if TYPE_CHECKING:
    from ontarget.conformal._limits import TargetEnds
    from ontarget.fitted.fitted import Calibrated

__all__ = ["TargetCalibration"]


@dataclass(frozen=True, eq=False)
class TargetCalibration:
    """One target calibrated for itself at every step; see `GoalMonitor.calibrate_target`.

    Passed on as ``calibration=``, it makes an outlook's ``low`` and ``high`` the Venn–Abers pair
    (p0, p1), and ``p`` the one number between them, p1/(1 − p0 + p1). Plausibility and assurance
    stay what they are.

    Attributes
    ----------
    target
        The target.
    table
        (3, entries): for each step and group the distinct calibration scores in order and +inf,
        then what `Envelopes` gives if the new run fails, and if it succeeds.
    spans
        (steps, groups, 2): where each step and group finds its part of the table.

    Notes
    -----
    If the calibration episodes and a new run are exchangeable, the model has seen none of them, and
    the target was fixed before their outcomes were looked at, then at each step one number of the
    pair is calibrated: with Z whether the target is met, ``E[Z | p_Z] = p_Z``.
    """

    target: Target
    table: FloatArray
    spans: IndexArray

    @classmethod
    def of(
        cls,
        calibrated: Calibrated,
        ends: TargetEnds,
        episodes: Episodes,
        groups: IndexArray,
    ) -> TargetCalibration:
        """The calibration of the first of the ends' targets on these episodes."""
        target = ends.targets[0]
        met = target.contains(episodes.outcomes, calibrated.grid)
        spans = np.zeros((calibrated.horizon, calibrated.n_groups, 2), dtype=np.intp)
        parts, size = [np.empty((3, 0))], 0
        for t in range(calibrated.horizon):
            for g in range(calibrated.n_groups):
                start = size
                if not calibrated.unknown(calibrated.at(t, g)):
                    scores, labels = _scored(calibrated, ends, episodes, met, (groups, t, g))
                    parts.append(_part(Envelopes.of(scores, labels)))
                    size += parts[-1].shape[1]
                spans[t, g] = start, size
        return cls(target, read_only(np.concatenate(parts, axis=1)), read_only(spans))

    def at(self, step: StepDistribution, group: int) -> StepDistribution:
        """The step with its part of this calibration."""
        start, stop = self.spans[step.t, group].tolist()
        return replace(step, envelopes=self.table, envelope=(start, stop))

    def check(self, target: object, grid: float) -> None:
        """Nothing, or an `InputError` where another target is asked for."""
        if not isinstance(target, Target) or target.shift(0.0, grid) != self.target:
            raise InputError(
                f"this calibration is for the target {self.target} alone, got {target}; make one "
                "with calibrate_target for each target"
            )


def _scored(
    calibrated: Calibrated,
    ends: TargetEnds,
    episodes: Episodes,
    met: BoolArray,
    which: tuple[IndexArray, int, int],
) -> tuple[FloatArray, BoolArray]:
    """The model's probability of the target for each episode alive at the step, and what came."""
    groups, t, g = which
    step, rows = calibrated.at(t, g), episodes.at(t, grid=calibrated.grid)
    own = np.flatnonzero((groups[rows.index] == g) & ~calibrated.bad_readings(rows.states))
    if own.size < calibrated.min_calibration:
        raise CalibrationError(
            f"calibrate_target needs at least {calibrated.min_calibration} episodes at every step "
            f"that the monitor knows, got {own.size} at step {t}; pass the part of the fit's "
            "split that calibrated the monitor, or record more"
        )
    limits = step.limits(rows.states[own], rows.behavior[own], ends)
    scores = np.empty(own.size)
    scores_of_rows(limits, components_of(ends), scores)
    return scores, met[rows.index[own]]


def _part(envelopes: Envelopes) -> FloatArray:
    scores = np.append(envelopes.scores, np.inf)
    return np.stack([scores, envelopes.if_failure, envelopes.if_success])
