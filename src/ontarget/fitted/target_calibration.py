"""A calibration for one target at every step: Venn–Abers on the law's probability of it (M7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.errors import InputError
from ontarget.fitted.law import StepLaw
from ontarget.goal import Goal
from ontarget.target import Target

__all__ = ["OfOneTarget", "TargetCalibration"]


@dataclass(frozen=True, eq=False)
class OfOneTarget:
    """What is made for one target, and must not be used for another."""

    target: Target | Goal

    def check(self, target: object, grid: float) -> None:
        """Refuse, with an `InputError`, another target than this one."""
        if not isinstance(target, Target) or target.shift(0.0, grid) != self.target:
            raise InputError(
                f"this calibration is for the target {self.target} alone, got {target}; make one "
                "with calibrate_target for each target"
            )


@dataclass(frozen=True, eq=False)
class TargetCalibration(OfOneTarget):
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
    If the episodes that calibrate it and a new run are exchangeable, the model has seen none of
    them, and the target was fixed before their outcomes were looked at, then at each step one
    number of the pair is calibrated: with Z whether the target is met, ``E[Z | p_Z] = p_Z``.
    """

    table: FloatArray
    spans: IndexArray

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The step with its part of this calibration."""
        start, stop = self.spans[step.t, group].tolist()
        return replace(step, envelopes=read_only(self.table[:, start:stop]))
