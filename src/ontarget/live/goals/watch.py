"""`GoalWatch`: follows one live run for a goal over several behaviors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ontarget._internal import internal
from ontarget._typing import ArrayLike, FloatArray
from ontarget.episodes.judged import Reading
from ontarget.errors import Argument, InputError
from ontarget.fitted._kernels import DECIDED, NUMBERS, P
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._explaining import Seen
from ontarget.live._reasons import Reason
from ontarget.live._turns import Turn
from ontarget.live.explanation import Explanation
from ontarget.live.goals._explaining import GoalReading, explained_goal
from ontarget.live.goals._signals import news_of, standing_of
from ontarget.live.goals.contract import GoalContract, GoalRoom
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable, state_of
from ontarget.live.watch import OnBad, Watch, judge_own, outlook_of, said_of_taken

_FIRST = np.zeros(1, dtype=np.intp)
# Columns that have the same value for the goal and for each of its behaviors.
_SHARED = (k.T, k.ENDED, k.LAST_T, k.LAST_N)


class GoalWatch:
    """Follows one run for a goal over several behaviors; see `GoalMonitor.watch`.

    Use it like a `Watch`, but pass ``reward`` as a mapping: from the name of each signal (the
    reward or another column), or of the behavior computed from it, to its value since the last
    call. `parts` gives the answer about each behavior by itself.
    """

    __slots__ = (
        "_contract",
        "_each",
        "_group",
        "_had",
        "_limits",
        "_out",
        "_raises",
        "_readings",
        "_room",
        "_seen",
        "_table",
        "_tables",
        "_turn",
        "_watches",
        "changes",
    )

    def __init__(
        self,
        contract: GoalContract,
        readings: Mapping[str, Reading],
        *,
        group: int = 0,
        on_bad: OnBad = "unknown",
    ) -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(Argument("on_bad"), f" needs 'unknown' or 'raise', got {on_bad!r}")
        self._contract, self._group, self._raises = contract, group, on_bad == "raise"
        self._readings = readings
        names = contract.question.names
        # Each behavior's own watch only keeps its value so far and asks its models.
        self._watches = tuple(Watch(part, group=group) for part in contract.parts)
        self._each = [
            (name, readings[name], watch) for name, watch in zip(names, self._watches, strict=True)
        ]
        self._limits = [watch._limits for watch in self._watches]
        # The kernels always get the same arrays; only their contents change.
        self._had, self._out = [np.zeros(1) for _ in names], np.zeros((1, NUMBERS))
        self._room = GoalRoom.of(contract.question)
        self._tables = [watch._table for watch in self._watches]
        self._table = RunTable(contract.fitted.behavior, 1)
        self._turn = Turn("watch")
        self._seen: Seen[GoalReading]  # readings at which a model answered
        self.changes: list[Change]
        self.reset()

    def reset(self) -> None:
        """Begin a new run."""
        with self._turn:
            for watch in self._watches:
                watch.reset()
            self._table.whole[0, k.GROUP] = self._group
            self._table.begin((0,))
            self._seen = Seen()
            self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    @property
    def contract(self) -> GoalContract:
        """The monitor, goal and alarm rule of this watch; other watches may share it."""
        return self._contract

    @property
    def target(self) -> Goal:
        """The goal that the run should meet."""
        return self._contract.goal

    @property
    def rule(self) -> AlarmRule:
        """The alarm rule: when a run is in alarm."""
        return self._contract.rule

    @property
    def trigger(self) -> Trigger:
        """The alarm threshold, and what it promises, as numbers."""
        return self._contract.triggers[self._group]

    @property
    def status(self) -> Status:
        """The run's status now."""
        return Status(int(self._table.whole[0, k.STATUS]))

    @property
    def intervened_at(self) -> int | None:
        """The step at which somebody took the run over; None if nobody did."""
        return self._table.taken.get(0)

    @property
    def parts(self) -> dict[str, Outlook]:
        """The answer about each behavior by itself (`Outlook`), by the behavior's name.

        The behavior with the lowest p is the likely culprit. Each part is about the goal's target
        for that behavior. If the goal joins alternatives by ``|``, the part is about all values of
        the behavior with which some alternative can be met. A goal that is given by a function has
        no parts.
        """
        if self._contract.question.is_function:
            return {}
        return {name: watch.peek() for name, _, watch in self._each}

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: Mapping[str, float] | None = None,
    ) -> Outlook:
        """The monitor's answer about the run (`Outlook`) before acting; the first call is step 0.

        Parameters
        ----------
        state
            As for `Watch.step`.
        reward
            The value of each signal since the last call, by name; a plain number is taken as the
            reward. A missing signal makes the run UNKNOWN, and the reason names it.
        behavior
            The value so far of some behaviors, by name. It restores a sum that a missing or
            unreadable value has made unknown.
        """
        with self._turn:
            first = self._watches[0]
            trouble = first._read(state)
            for watch in self._watches[1:]:
                watch._features[:] = first._features
            begun = int(self._table.whole[0, k.T]) > 0
            return self._told(self._advance(reward, behavior, trouble, begun=begun))

    def end(
        self,
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: Mapping[str, float] | None = None,
        truncated: bool = False,
    ) -> Outlook:
        """End the run before the horizon; returns the last answer: status DONE, p 0 or 1.

        ``truncated`` says that the run was cut off: see `Watch.end`.
        """
        with self._turn:
            ending = k.CUT if truncated else k.ENDS
            return self._told(self._advance(reward, behavior, "", begun=True, ending=ending))

    def intervene(self) -> Outlook:
        """Note that somebody took the run over; returns the answer about it.

        See `Watch.intervene`.
        """
        with self._turn:
            if self._table.whole[0, k.ENDED]:
                raise InputError("the run is over; call reset to begin the next")
            if self.intervened_at is None:
                self._table.take_over(_FIRST)
                now = self.peek()
                self.changes.append(Change(now.t, now.status, now.reason))
            return self.peek()

    def explain(self, *, since: int | None = None) -> Explanation:
        """Why p is what it is: what changed p since an earlier step, and similar recorded runs.

        See `Watch.explain`. ``since`` is the step to compare with, by default the previous one.
        """
        now, before = self._seen.pair(since)
        contract = self._contract
        return explained_goal(
            contract.contracts.joint,
            contract.question,
            now,
            before,
            own_map=contract.own_map,
            group=self._group,
        )

    @internal
    def pack(self) -> bytes:
        """The state of the run as bytes, from which another watch can continue it exactly."""
        return json.dumps(self.run_state.to_json()).encode()

    @internal
    def unpack(self, packed: bytes) -> None:
        """Continue a run from bytes that another watch with the same goal and monitor packed."""
        self.resume(state_of(packed))

    @property
    @internal
    def standing(self) -> tuple[int, bool, int, bool]:
        """The run's group number, whether it is in alarm, since which step, whether it is over."""
        return standing_of(self._table.whole[0].tolist())

    def peek(self) -> Outlook:
        """The present answer about the run (`Outlook`) again; the run takes no step."""
        whole, real = self._table.whole[0].tolist(), self._table.real[0].tolist()
        contract: Any = self._contract  # it has all attributes that `outlook_of` needs
        found = outlook_of(contract, whole, real, self._table.texts.get(0, ""))
        t = self.intervened_at
        if t is None:
            return found
        return found._replace(reason=said_of_taken(found.reason, t, found.status))

    @property
    def run_state(self) -> RunState:
        """The state of the run, to be stored and later passed to `resume`."""
        groups = self._contract.fitted.groups
        state = self._table.states_of(
            _FIRST,
            groups=[None if groups is None else groups[self._group]],
            target=str(self.target),
            readings=self._watches[0]._features[None, :],
        )[0]
        return replace(state, parts=tuple(watch.run_state for watch in self._watches))

    def resume(self, state: RunState) -> GoalWatch:
        """Continue a stored run in place of the present one; returns this watch."""
        group = self._contract.admit(state)
        with self._turn:
            for watch, part in zip(self._watches, state.parts, strict=True):
                watch.resume(part)
            self._group = group
            self._table.whole[0, k.GROUP] = group
            self._table.restore(0, state)
            self._seen = Seen()
            now = self.peek()
            self.changes = [Change(now.t, now.status, now.reason)]
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {
            "contract": self._contract,
            "readings": dict(self._readings),
            "on_bad": "raise" if self._raises else "unknown",
            "state": self.run_state,
            "changes": list(self.changes),
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(kept["contract"], kept["readings"], on_bad=kept["on_bad"])  # type: ignore[misc]
        self.resume(kept["state"])
        self.changes = kept["changes"]

    def __deepcopy__(self, memo: dict[int, Any]) -> GoalWatch:
        twin = GoalWatch.__new__(GoalWatch)
        twin.__setstate__(self.__getstate__())
        return twin

    def _advance(
        self,
        reward: Any,
        behavior: Mapping[str, float] | None,
        trouble: str,
        *,
        begun: bool,
        ending: float = 0.0,
    ) -> list[int]:
        """Bring each behavior to the next step; returns the code SETTLED, BAD or LOOK for each.

        SETTLED means that there is nothing more to do, BAD that a value is bad, and LOOK that the
        models must be asked.
        """
        became = []
        for name, reading, watch in self._each:
            earned, told = news_of(name, reading, reward, behavior, begun=begun)
            became.append(watch._advance(earned, told, trouble, ending=ending))
        return became

    def _told(self, became: list[int]) -> Outlook:
        """The answer about the goal (`Outlook`), from the codes that `_advance` returned."""
        table, watches = self._table, self._watches
        whole, first = table.whole[0], watches[0]._table.whole[0]
        for place in _SHARED:
            whole[place] = first[place]
        table.texts.clear()
        looks = all(one == k.LOOK for one in became)
        if looks:
            looks = self._look()
        else:  # a behavior for which a model can answer still gets its own outlook
            for watch, one in zip(watches, became, strict=True):
                if one == k.LOOK:
                    watch._look()
        for watch in watches:
            watch._note()
        if not looks:
            if all(watch.status is Status.DONE for watch in watches):
                self._close()
            else:
                self._know_nothing(became)
        outlook = self.peek()
        if k.BAD in became and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook

    def _look(self) -> bool:
        """Ask the models about the present step, and store the answer and the alarm.

        Returns False if the answer is unknown.
        """
        contract, table = self._contract, self._table
        t = int(table.whole[0, k.LAST_T])
        unknown = contract.contracts.joint.unknown(t, self._group)
        held = table.held((0,)) if table.taken else []
        for watch, table_of_one, had in zip(self._watches, self._tables, self._had, strict=True):
            if unknown:  # then each behavior only gets its own outlook
                watch._look()
            else:
                watch._ask()
            had[0] = table_of_one.real[0, k.SNAPPED]
        so_far = [float(had[0]) for had in self._had]
        if contract.question.is_function:
            states = self._watches[0]._features[None, :]
            contract.look_by_function(t, self._group, states, self._had, self._out)
        else:
            contract.look(t, self._group, self._limits, self._had, self._room, self._out)
            if not unknown:
                contract.judge_parts(self._tables, self._room)
            elif self._out[0, DECIDED] < 0.0:
                return False
        if np.isnan(self._out[0, P]):
            return False
        if not unknown:
            first = self._watches[0]
            now = t, first._features.copy(), np.array(so_far), first._unknown
            self._seen.add(GoalReading(*now))
        table.real[0, :NUMBERS] = self._out[0]
        if contract.own_rule:
            judging: Any = contract
            judge_own(judging, table, 0)
        else:
            k.judge_rows((table.whole, table.real), _FIRST, contract.numbers)
            if table.whole[0, k.CODE] == Reason.DECIDED:
                self._say(Status.ALARM, "the goal is out of reach")
        table.hold(held)
        return True

    def _close(self) -> None:
        """Store the last answer about a run, in which p is exactly 0 or 1."""
        grids = self._contract.contracts.joint.grids
        ended: dict[str, FloatArray] = {
            name: watch._table.real[:, k.SO_FAR] for name, _, watch in self._each
        }
        met = bool(self._contract.goal.contains(ended, grids)[0])
        self._table.real[0, :NUMBERS] = float(met)
        shown = ", ".join(f"{name} = {float(value[0]) + 0.0:.6g}" for name, value in ended.items())
        self._say(Status.DONE, f"ended {'inside' if met else 'outside'} the goal at {shown}")

    def _know_nothing(self, became: list[int]) -> None:
        """Store an answer without numbers, and the reason; a run in alarm stays in alarm."""
        whole = self._table.whole[0]
        self._table.real[0, :NUMBERS] = math.nan
        each = [
            (name, watch.peek().reason if one != k.LOOK else self._structure(watch))
            for (name, _, watch), one in zip(self._each, became, strict=True)
        ]
        unknown = [(name, reason) for name, reason in each if reason]
        shared = len({reason for _, reason in unknown}) == 1 and len(unknown) == len(became)
        said = "; ".join(f"{name}: {reason}" for name, reason in unknown)
        if k.BAD in became:
            whole[k.STREAK] = 0
        if whole[k.ENDED]:
            whole[k.ALARMED] = 0
        status = Status.ALARM if whole[k.ALARMED] else Status.UNKNOWN
        self._say(status, unknown[0][1] if shared else said)

    def _structure(self, watch: Watch) -> str:
        """Why no model answers for a behavior at the present step, as text; empty if one does."""
        t = int(self._table.whole[0, k.LAST_T])
        return watch.contract.fitted.unknown(t, self._group)

    def _say(self, status: Status, text: str) -> None:
        self._table.whole[0, k.STATUS], self._table.whole[0, k.CODE] = status, Reason.TEXT
        self._table.texts[0] = text
