"""`GoalContract`: a monitor of several behaviors, a goal and an alarm rule, ready for use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ontarget._internal import internal
from ontarget._readonly import read_only
from ontarget._typing import FloatArray
from ontarget.errors import InputError
from ontarget.fitted._kernels import NUMBERS
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint._joint_kernel import Pieces
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._reasons import one_sided
from ontarget.live.contract import Contract
from ontarget.live.rules import AlarmRule, Below, Trigger
from ontarget.live.runs import RunState, RunTable, admitted

_SILENT = Below(0.0)  # never raises an alarm: only the goal as a whole does
_FIRST = np.zeros(1, dtype=np.intp)


class GoalContract:
    """What a run is watched for: a monitor of several behaviors, a goal and an alarm rule.

    Parameters
    ----------
    asked
        The goal, asked of the fitted monitor.
    rule, triggers
        The alarm rule, and the rule as numbers to compare (`Trigger`), one per group of runs.
    """

    def __init__(self, asked: Asked, rule: AlarmRule, triggers: Sequence[Trigger]) -> None:
        joint = asked.joint
        self.asked, self.rule, self.triggers = asked, rule, tuple(triggers)
        self.own_map = asked.own_map
        self.own_rule = triggers[0].compared < 0
        self.one_sided = one_sided(asked)
        self.numbers: FloatArray = read_only(
            np.array([trigger.numbers for trigger in triggers], dtype=np.float64)
        )
        silent = (_SILENT.trigger(None),) * joint.first.n_groups
        self.parts = tuple(
            Contract(Asked(Joint.of(part), targets), _SILENT, silent)
            for part, targets in zip(asked.parts, asked.targets, strict=True)
        )
        if not asked.is_function:  # every step's arrays are made now, so that each step is fast
            for t, g in product(range(joint.first.horizon), range(joint.first.n_groups)):
                asked.step(t, g)
        self._warm_up()

    def __reduce__(self) -> tuple[Any, ...]:
        """Let unpickling call the constructor, which compiles all code before the first step."""
        return GoalContract, (self.asked, self.rule, self.triggers)

    @property
    def fitted(self) -> Fitted:
        """The result of the first behavior's fit, for what all behaviors have in common."""
        return self.asked.fitted

    @property
    def target(self) -> Goal:
        """The goal that a run should meet.

        It has the name ``target``, as in `Contract`, so that both kinds of contract are used alike.
        """
        assert isinstance(self.asked.target, Goal)
        return self.asked.target

    @internal
    def admit(self, state: RunState) -> int:
        """The group number of a stored run.

        It is an error if the run belongs to another contract.
        """
        if len(state.parts) != len(self.parts):
            raise InputError(
                f"a run watched for a goal over {', '.join(self.asked.names)} needs a state "
                f"with "
                f"{len(self.parts)} parts, got {len(state.parts)}"
            )
        for part, own in zip(self.parts, state.parts, strict=True):
            part.admit(own)
        return admitted(state, self.fitted, self.target)

    @internal
    def judge_parts(self, tables: Sequence[RunTable], room: Pieces) -> None:
        """Store the answer about each behavior by itself, computed by `look`, in its table."""
        for part, table, numbers in zip(self.parts, tables, room[0], strict=True):
            table.real[0, :NUMBERS] = numbers[0, 0]
            k.judge_rows((table.whole, table.real), _FIRST, part.numbers)

    def _warm_up(self) -> None:
        """Run every compiled function that a step needs once, so that the first step is fast."""
        if not self.asked.is_function:
            ends = [np.zeros((1, one.values.size)) for one in self.asked.questions]
            limits, had = [(one, one.copy()) for one in ends], [np.zeros(1) for _ in ends]
            self.asked.step(0, 0).join(limits, had, self.asked.room(1), np.empty((1, NUMBERS)))
