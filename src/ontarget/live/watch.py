"""`Watch`: follows one live run, with an answer at every step in microseconds, and its alarm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ontarget._package import internal
from ontarget._typing import ArrayLike
from ontarget.errors import Argument, InputError
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._explaining import Seen, explained
from ontarget.live._track import JointRow, Track, news_of, said_of_taken
from ontarget.live._turns import Turn
from ontarget.live.contract import Contract
from ontarget.live.explanation import Explanation
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable, state_of
from ontarget.target import Target

OnBad = Literal["unknown", "raise"]
_FIRST = np.zeros(1, dtype=np.intp)


class Watch:
    """Follows one run: call `step` before each action, `end` if the run ends early, then `reset`.

    The first watch of a target prepares and compiles everything, so that `step` never has to;
    further watches take only microseconds to make. Only one thread at a time may use a watch; a
    second thread gets an `InputError`.

    Attributes
    ----------
    changes
        Each change of the run's status so far, with its step and reason, as a list of `Change`; the
        first one is the status before the first step.

    Examples
    --------
    See `GoalMonitor.watch`.
    """

    __slots__ = (
        "_contract",
        "_group",
        "_raises",
        "_row",
        "_seen",
        "_signal",
        "_tracks",
        "_turn",
        "changes",
    )

    def __init__(self, contract: Contract, *, group: int = 0, on_bad: OnBad = "unknown") -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(Argument("on_bad"), f" needs 'unknown' or 'raise', got {on_bad!r}")
        self._contract = contract
        self._group = group
        self._raises = on_bad == "raise"
        self._tracks = tuple(Track(part, group) for part in contract.parts)
        # The row that the run is judged by: that of its only behavior, or that of the goal.
        self._row: Track | JointRow = self._tracks[0]
        # The signal of a single behavior that has a name.
        self._signal = next(iter(contract.readings.items()), None)
        if contract.asked.is_joint:
            self._row, self._signal = JointRow(contract, self._tracks, group), None
        self._turn = Turn("watch")
        self._seen: Seen  # readings at which a model answered
        self.changes: list[Change]
        self.reset()

    def reset(self) -> None:
        """Begin a new run."""
        with self._turn:
            self._row.begin()
            self._seen = Seen()
            self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    @property
    def contract(self) -> Contract:
        """The monitor, target and alarm rule of this watch; other watches may share it."""
        return self._contract

    @property
    def target(self) -> Target | Goal:
        """The outcomes that the run should end in; for several behaviors, a `Goal`."""
        return self._contract.target

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
        return Status(self._row.whole[k.STATUS])

    @property
    def intervened_at(self) -> int | None:
        """The step at which somebody took the run over; None if nobody did."""
        return self._row.table.taken.get(0)

    @property
    def parts(self) -> dict[str, Outlook]:
        """The answer about each behavior by itself (`Outlook`), by the behavior's name.

        The behavior with the lowest p is the likely culprit. Each part is about the goal's target
        for that behavior. If the goal joins alternatives by ``|``, the part is about all values of
        the behavior with which some alternative can be met. A single behavior without a name, and
        a goal that is given by a function, have no parts.
        """
        contract = self._contract
        if contract.asked.is_function:
            return {}
        if not contract.asked.is_joint:
            return {name: self.peek() for name in contract.readings}
        each = zip(contract.asked.names, self._tracks, strict=True)
        return {name: track.peek() for name, track in each}

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: float | Mapping[str, float] | None = None,
    ) -> Outlook:
        """The monitor's answer about the run (`Outlook`) before acting; the first call is step 0.

        Parameters
        ----------
        state
            The features in order, or by name: a mapping, a pandas Series, a named tuple. If the
            state cannot be read, the status is UNKNOWN and the reason says why.
        reward
            What the action at the previous step earned; 0 at the first call. For a monitor of
            several behaviors: a mapping from the name of each signal (the reward or another column)
            to its value since the last call; a plain number is taken as the reward. A missing
            signal makes the run UNKNOWN, and the reason names it.
        behavior
            The behavior so far. Pass it if the monitor's behavior is read from a column rather than
            computed from rewards. It also restores a sum that became unknown by a missing reward.
            For several behaviors: the value so far of some of them, by name.
        """
        turn, row = self._turn, self._row
        try:
            turn.take()
        except IndexError:
            raise turn.refusal() from None
        try:
            trouble = self._tracks[0].read(state)
            if self._signal is not None:
                reward, behavior = self._brought(reward, behavior)
            became = row.step(reward, behavior, trouble)
            if row.has_model:
                self._seen.add(row.reading())
            return self._told(became)
        finally:
            turn.give(None)

    def end(
        self,
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: float | Mapping[str, float] | None = None,
        truncated: bool = False,
    ) -> Outlook:
        """End the run before the horizon; returns the last answer: status DONE, p 0 or 1.

        Parameters
        ----------
        reward, behavior
            As for `step`: what the last action earned, or the behavior at the end.
        truncated
            Whether the run was cut off: it was stopped, by a person or a limit, before it came to
            its own end. Its outcome is then unknown, so the status is UNKNOWN and p is NaN. A run
            that is cut off exactly at the horizon is complete.
        """
        with self._turn:
            ending = k.CUT if truncated else k.ENDS
            if self._signal is not None:
                reward, behavior = self._brought(reward, behavior)
            return self._told(self._row.step(reward, behavior, "", ending))

    def intervene(self) -> Outlook:
        """Note that somebody, such as an operator, took the run over; returns the answer.

        From here on, p, bounds and plausibility are those of a run in the same state that nobody
        takes over, because the recorded runs say nothing about runs that are taken over. If the run
        is in alarm, it stays in alarm until its end, whatever p does, so that a controller does not
        leave its safe mode. Leave such runs out of drift guards and fits: see
        `docs/acting-on-alarms.md`.
        """
        with self._turn:
            if self._row.whole[k.ENDED]:
                raise InputError("the run is over; call reset to begin the next")
            if self.intervened_at is None:
                self._row.table.take_over(_FIRST)
                now = self.peek()
                self.changes.append(Change(now.t, now.status, now.reason))
            return self.peek()

    def peek(self) -> Outlook:
        """The present answer about the run (`Outlook`) again; the run takes no step."""
        found, taken = self._row.peek(), self._row.table.taken
        if not taken:
            return found
        return found._replace(reason=said_of_taken(found.reason, taken[0], found.status))

    def explain(self, *, since: int | None = None) -> Explanation:
        """Why p is what it is: what changed p since an earlier step, and similar recorded runs.

        Like `GoalMonitor.explain`, for the last step at which a model answered. It takes
        milliseconds, so call it when p has fallen, not at every step.

        Parameters
        ----------
        since
            The step to compare with; by default the previous step with an answer. The watch keeps
            the first step of a run and the last 64.
        """
        now, before = self._seen.pair(since)
        return explained(self._contract.asked, now, before, group=self._group)

    @property
    def run_state(self) -> RunState:
        """The state of the run, to be stored and later passed to `resume`."""
        return self._state_of(self._row.table, str(self.target), self._states_of_parts())

    def _states_of_parts(self) -> tuple[RunState, ...]:
        if not self._contract.asked.is_joint:
            return ()
        return tuple(self._state_of(one.table, str(one.part.target)) for one in self._tracks)

    def _state_of(self, table: RunTable, target: str, parts: tuple[RunState, ...] = ()) -> RunState:
        groups = self._contract.fitted.groups
        (state,) = table.states_of(
            _FIRST,
            groups=[None if groups is None else groups[self._group]],
            target=target,
            readings=self._tracks[0].features[None, :],
        )
        return replace(state, parts=parts) if parts else state

    def resume(self, state: RunState) -> Watch:
        """Continue a stored run in place of the present one; returns this watch."""
        group = self._contract.admit(state)
        with self._turn:
            self._group = group
            self._row.restore(state, group)
            self._seen = Seen()
            now = self.peek()
            self.changes = [Change(now.t, now.status, now.reason)]
        return self

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
        whole = self._row.whole
        return whole[k.GROUP], bool(whole[k.ALARMED]), whole[k.SINCE], bool(whole[k.ENDED])

    def __getstate__(self) -> dict[str, Any]:
        return {
            "contract": self._contract,
            "on_bad": "raise" if self._raises else "unknown",
            "state": self.run_state,
            "changes": self.changes,
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        contract, state = kept["contract"], kept["state"]
        self.__init__(contract, on_bad=kept["on_bad"])  # type: ignore[misc]
        self.resume(state)
        self.changes = kept["changes"]

    def __deepcopy__(self, memo: dict[int, Any]) -> Watch:
        twin = type(self).__new__(type(self))
        twin.__setstate__({**self.__getstate__(), "changes": list(self.changes)})
        return twin

    def _brought(self, reward: Any, behavior: Any) -> tuple[Any, Any]:
        """The reward and the behavior of a call, for a single behavior with a name.

        They are looked up by name if the caller passed mappings.
        """
        if not isinstance(reward, Mapping) and not isinstance(behavior, Mapping):
            return reward, behavior
        assert self._signal is not None
        begun = self.status is not Status.PENDING
        return news_of(*self._signal, reward, behavior, begun=begun)

    def _told(self, became: int) -> Outlook:
        outlook = self.peek()
        if became == k.BAD and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook
