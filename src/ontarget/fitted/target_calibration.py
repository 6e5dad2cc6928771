"""Venn–Abers calibration of one fixed target, at every step (method M7 in docs/methods.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.fitted.law import StepLaw
from ontarget.goal import Goal
from ontarget.target import Target


@dataclass(frozen=True, eq=False)
class OfOneTarget:
    """A calibration that was made for one target and must not be used for another."""

    target: Target | Goal

    def check(self, target: object, grid: float) -> None:
        """Raise an `InputError` if ``target`` is not the target of this calibration."""
        if not isinstance(target, Target) or target.shift(0.0, grid) != self.target:
            raise InputError(
                Argument("calibration"),
                f" is only for the target {self.target}, got {target}; call "
                "calibrate_target for each target",
            )


@dataclass(frozen=True, eq=False)
class TargetCalibration(OfOneTarget):
    """A Venn–Abers calibration of one target; see `GoalMonitor.calibrate_target`.

    If you pass it as ``calibration=``, the ``low`` and ``high`` of an outlook (the monitor's
    answer) are the Venn–Abers pair (p0, p1), and ``p`` is a single number between them, p1/(1 − p0
    + p1). Plausibility and assurance do not change.

    Attributes
    ----------
    target
        The target.
    table
        (3, entries): one part per step and group. Its first row has the distinct scores (raw
        probabilities) of the calibration episodes in order, then +inf; the second row the
        calibrated probability if the new run fails, the third row if it succeeds; see `Envelopes`.
    spans
        (steps, groups, 2): where the part of each step and group begins and ends in the table.

    Notes
    -----
    The guarantee assumes three things: the calibration episodes and a new run are exchangeable, the
    model has seen none of these, and the target was fixed before anybody looked at their outcomes.
    Then, at each step, one number of the pair is calibrated: with Z = 1 if the target is met and Z
    = 0 if not, ``E[Z | p_Z] = p_Z``. Nothing is promised about the single number between the two.
    """

    table: FloatArray
    spans: IndexArray

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The step's predicted distribution, with this Venn–Abers calibration attached."""
        start, stop = self.spans[step.t, group].tolist()
        return replace(step, envelopes=read_only(self.table[:, start:stop]))
