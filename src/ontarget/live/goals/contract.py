"""`GoalContract`: a monitor of several behaviors, a goal and an alarm rule, ready for use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ontarget._internal import internal
from ontarget._progress import Reached
from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.fitted._kernels import NUMBERS, P
from ontarget.fitted.calibrating import map_goal
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint._joint_kernel import Pieces, goals_of_rows, pieces_of_rows
from ontarget.fitted.joint.joint import GoalQuestion, Joint, pieces_room
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._assured import Contracts
from ontarget.live._reasons import one_sided_goal
from ontarget.live.alarms import warn_of_one_side, warn_of_silence
from ontarget.live.answers import Answers
from ontarget.live.contract import Contract
from ontarget.live.goals._answers import answer_goal, map_at, rehearsed_goal
from ontarget.live.rules import AlarmRule, Below, Trigger
from ontarget.live.runs import RunState, RunTable, admitted

Kept = TypeVar("Kept")

_MOST_KEPT = 16  # questions, maps, answers and contracts that are cached
_SILENT = Below(0.0)  # never raises an alarm: only the goal as a whole does
_FIRST = np.zeros(1, dtype=np.intp)


class GoalRoom(NamedTuple):
    """Working arrays of the compiled code for one run, and each behavior's part of them."""

    whole: Pieces
    each: tuple[Pieces, ...]

    @classmethod
    def of(cls, question: GoalQuestion) -> GoalRoom:
        """Working arrays for a run that is watched for this goal."""
        whole = pieces_room(question, 1)
        return cls(whole, tuple(zip(*whole, strict=True)))


class GoalContract:
    """What a run is watched for: a monitor of several behaviors, a goal and an alarm rule.

    Parameters
    ----------
    contracts
        The contracts of the monitor, which also hold the result of the fit.
    goal
        The goal that a run should meet.
    rule, triggers
        The alarm rule, and the rule as numbers to compare (`Trigger`), one per group of runs.
    own_map
        The calibration curve of p for this goal alone; None if p is not corrected.
    """

    def __init__(
        self,
        contracts: GoalContracts,
        goal: Goal,
        rule: AlarmRule,
        triggers: tuple[Trigger, ...],
        own_map: TargetMap | None = None,
    ) -> None:
        joint = contracts.joint
        self.contracts, self.goal, self.rule, self.triggers = contracts, goal, rule, triggers
        self.own_map = own_map
        self.question: GoalQuestion = contracts.question(goal)
        self.own_rule = triggers[0].compared < 0
        self.one_sided = contracts.one_sided(goal)
        self.numbers: FloatArray = read_only(
            np.array([trigger.numbers for trigger in triggers], dtype=np.float64)
        )
        silent = (_SILENT.trigger(None),) * joint.first.n_groups
        self.parts = tuple(
            Contract(joint.parts[name], asked.targets[0], _SILENT, silent, beside=asked.targets[1:])
            for name, asked in zip(self.question.names, self.question.questions, strict=True)
        )
        self._steps = {
            (t, g): self._step(t, g)
            for t in range(joint.first.horizon)
            for g in range(joint.first.n_groups)
            if not goal.is_function
        }
        self._warm_up()

    def __reduce__(self) -> tuple[Any, ...]:
        """Let unpickling call the constructor, which compiles all code before the first step."""
        made_for = (self.contracts, self.goal, self.rule, self.triggers, self.own_map)
        return GoalContract, made_for

    @property
    def fitted(self) -> Fitted:
        """The result of the first behavior's fit, for what all behaviors have in common."""
        return self.contracts.joint.first

    @property
    def target(self) -> Goal:
        """The goal that a run should meet.

        It has the name ``target``, as in `Contract`, so that both kinds of contract are used alike.
        """
        return self.goal

    @internal
    def admit(self, state: RunState) -> int:
        """The group number of a stored run.

        It is an error if the run belongs to another contract.
        """
        if len(state.parts) != len(self.parts):
            raise InputError(
                f"a run watched for a goal over {', '.join(self.question.names)} needs a state "
                f"with "
                f"{len(self.parts)} parts, got {len(state.parts)}"
            )
        for part, own in zip(self.parts, state.parts, strict=True):
            part.admit(own)
        return admitted(state, self.fitted, self.goal)

    def _step(self, t: int, group: int) -> tuple[Any, ...]:
        """The arrays that the compiled code reads for this step and group; see `goals_of_rows`."""
        joint, names = self.contracts.joint, self.question.names
        laws = [joint.parts[name].at(t, group) for name in names]
        stored = [
            law.stored(joint.parts[name].sorted_excess[group])
            for law, name in zip(laws, names, strict=True)
        ]
        assured = joint.assured_ranks(names, t, group)
        nobody = np.full(1, -1, dtype=np.intp)
        episodes = (joint.learned_places(names, t, group).ranks, nobody, assured)
        mapped = map_at(self.own_map, t, group)
        return (
            [
                (own, asked.components, int(law.behavior.translation), law.ahead, law.amounts)
                for own, asked, law in zip(stored, self.question.questions, laws, strict=True)
            ],
            episodes,
            (joint.sorted_excess[group], mapped),
        )

    @internal
    def look(
        self,
        t: int,
        group: int,
        limits: Sequence[tuple[FloatArray, FloatArray]],
        so_far: Sequence[FloatArray],
        room: GoalRoom,
        out: FloatArray,
    ) -> None:
        """Write the numbers of the answer about one run, from the predictions for each behavior.

        ``limits`` has two arrays for each behavior: the predicted probabilities of an outcome below
        each bound of its target, and of an outcome at or below each bound. ``so_far`` has the value
        so far of each behavior, as an array with one number. ``room`` has working arrays. The
        answer is written to ``out``.
        """
        parts, episodes, stored = self._steps[t, group]
        for part, own, had, into in zip(parts, limits, so_far, room.each, strict=True):
            kept, components, translation, (least, most), amounts = part
            asked = (translation, had, least, most)
            pieces_of_rows(kept, own, components, asked, amounts, into)
        goals_of_rows(room.whole, self.question.boxes, episodes, stored, out)

    @internal
    def judge_parts(self, tables: Sequence[RunTable], room: GoalRoom) -> None:
        """Store the answer about each behavior by itself, computed by `look`, in its table."""
        for part, table, (numbers, _, _) in zip(self.parts, tables, room.each, strict=True):
            table.real[0, :NUMBERS] = numbers[0, 0]
            k.judge_rows((table.whole, table.real), _FIRST, part.numbers)

    @internal
    def look_by_function(
        self, t: int, group: int, states: FloatArray, so_far: Sequence[FloatArray], out: FloatArray
    ) -> None:
        """Write the answer about one run to ``out``, for a goal given as a Python function."""
        mapped = map_at(self.own_map, t, group)
        found = self.contracts.joint.outlook(self.question, t, group, states, so_far, mapped)
        out[0] = found.numbers[0]

    def _warm_up(self) -> None:
        """Run every compiled function that a step needs once, so that the first step is fast."""
        for t, group in list(self._steps)[:1]:
            ends = [np.zeros((1, one.values.size)) for one in self.question.questions]
            limits = [(one, one.copy()) for one in ends]
            room, had = GoalRoom.of(self.question), [np.zeros(1) for _ in ends]
            self.look(t, group, limits, had, room, np.empty((1, NUMBERS)))


class GoalContracts:
    """Makes the contracts of a monitor of several behaviors, and keeps the last few in memory.

    A contract is a goal and an alarm rule, prepared for watching runs. Several threads may use this
    object at once.

    Parameters
    ----------
    joint
        The result of the monitor's fit.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self._lock = RLock()
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return GoalContracts, (self.joint,)

    @property
    def fitted(self) -> Fitted:
        """The result of the first behavior's fit, for what all behaviors have in common."""
        return self.joint.first

    @cached_property
    def parts(self) -> dict[str, Contracts]:
        """For each behavior, by name, the `Contracts` of the monitor for this behavior alone."""
        return {name: Contracts(one) for name, one in self.joint.parts.items()}

    def question(self, goal: Goal) -> GoalQuestion:
        """The goal as arrays for the compiled code."""
        return self._once(("question", goal), lambda: self.joint.question(goal))

    def check_sides(self, goal: Goal) -> None:
        """Raise a `TargetError` if rounding changes whether a recorded run meets the goal."""
        self._once(("sides", goal), lambda: self.joint.check_sides(goal))

    def map_of(self, goal: Goal) -> TargetMap:
        """The calibration curve of p for this goal alone; it is learned at the first call.

        See method M17 in docs/methods.md.
        """
        return self._once(("map", goal), lambda: map_goal(self.joint, self.question(goal)))

    def of(self, goal: Goal, rule: AlarmRule, own_map: TargetMap | None) -> GoalContract:
        """The contract for a goal and an alarm rule, ready for watching runs.

        A second call with the same arguments takes only microseconds.
        """
        return self._once(
            ("contract", goal, rule, own_map), lambda: self._make(goal, rule, own_map)
        )

    def _make(self, goal: Goal, rule: AlarmRule, own_map: TargetMap | None) -> GoalContract:
        triggers = self.triggers(goal, rule, own_map)
        if goal.is_function and triggers[0].compared > P:
            raise InputError(
                f"a goal that is given by a function has p but no {rule.compared_name}; use an "
                f"alarm rule on p: Below or Promised"
            )
        for g, trigger in enumerate(triggers):
            warn_of_silence(rule, trigger, self.assured(goal, own_map, g))
        contract = GoalContract(self, goal, rule, triggers, own_map)
        warn_of_one_side(contract.one_sided)
        return contract

    def triggers(
        self, goal: Goal, rule: AlarmRule, own_map: TargetMap | None = None
    ) -> tuple[Trigger, ...]:
        """For each group of runs: the alarm threshold of this rule, and what it promises."""
        groups = range(self.fitted.n_groups)
        if not rule.needs_assure:
            return (rule.trigger(None),) * len(groups)
        return tuple(rule.trigger(self.assured(goal, own_map, g)) for g in groups)

    def assured(self, goal: Goal, own_map: TargetMap | None = None, group: int = 0) -> Answers:
        """The monitor's answers, at every step, about the assure episodes of one group.

        The assure episodes are held out from learning, for promises. If there are none, these are
        the answers about each learning episode, by models that have not learned from that episode.
        """
        fitted, question = self.fitted, self.question(goal)
        observed = {name: self.joint.parts[name].observed for name in question.names}
        known = {name: one for name, one in observed.items() if one is not None}
        if not known:
            found = self._once(
                ("answers", goal, own_map),
                lambda: rehearsed_goal(self.joint, question, own_map=own_map),
            )
            groups = self.joint.rehearsal(question.names[0]).groups[: found.met.size]
            return found.take(np.flatnonzero(groups == group))
        found = self._once(
            ("answers", goal, own_map),
            lambda: answer_goal(self.joint, question, known, own_map=own_map),
        )
        own = np.flatnonzero(fitted.assure_groups[fitted.known_outcomes] == group)
        return replace(found.take(own), stopped=fitted.stopped[group])

    def recorded_met(self, goal: Goal) -> BoolArray | None:
        """Whether each assure (held-out) episode met the goal; None if there are none."""
        observed = {name: self.joint.parts[name].observed for name in goal.names}
        outcomes = {name: one.outcomes for name, one in observed.items() if one is not None}
        return goal.contains(outcomes, self.joint.grids) if outcomes else None

    def one_sided(self, goal: Goal) -> tuple[str, ...]:
        """For each group, why p has nothing to learn from; empty if it has something."""
        return one_sided_goal(self.joint, goal)

    def answers(
        self,
        episodes: Mapping[str, Episodes],
        goal: Goal,
        own_map: TargetMap | None = None,
        reached: Reached | None = None,
    ) -> Answers:
        """The monitor's answers about these episodes at every step; see `answer_goal`."""
        question = self.question(goal)
        return answer_goal(self.joint, question, episodes, own_map=own_map, reached=reached)

    def _once(self, key: Any, make: Callable[[], Kept]) -> Kept:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            found: Kept = self._kept[key]
            return found
