"""The calibration of one target by itself at every step, by Venn–Abers (M7)."""

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
    """A calibration that is made for one target and must not be used for another."""

    target: Target | Goal

    def check(self, target: object, grid: float) -> None:
        """Raise an `InputError` if the target is another one."""
        if not isinstance(target, Target) or target.shift(0.0, grid) != self.target:
            raise InputError(
                f"this calibration is only for the target {self.target}, got {target}; call "
                f"calibrate_target for each target"
            )


@dataclass(frozen=True, eq=False)
class TargetCalibration(OfOneTarget):
    """A Venn–Abers calibration of one target; see `GoalMonitor.calibrate_target`.

    If you pass it as ``calibration=``, an outlook's ``low`` and ``high`` are the Venn–Abers pair
    (p0, p1), and ``p`` is a single number between them, p1/(1 − p0 + p1). Plausibility and
    assurance do not change.

    Attributes
    ----------
    target
        The target.
    table
        (3, entries), for each step and group: the distinct calibration scores in order, then +inf;
        the values of `Envelopes` if the new run fails; and those if it succeeds.
    spans
        (steps, groups, 2): where the part of each step and group begins and ends in the table.

    Notes
    -----
    If the episodes that calibrate it and a new run are exchangeable, the model has seen none of
    them, and the target was fixed before their outcomes were looked at, then at each step one
    number of the pair is calibrated: with Z whether the target is met, ``E[Z | p_Z] = p_Z``.
    Nothing is promised about the single number between the two.
    """

    table: FloatArray
    spans: IndexArray

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The law of a step, with this calibration."""
        start, stop = self.spans[step.t, group].tolist()
        return replace(step, envelopes=read_only(self.table[:, start:stop]))
