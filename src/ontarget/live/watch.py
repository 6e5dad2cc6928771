"""`Watch`: follows one live run, with an answer at every step in microseconds, and its alarm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ontarget._arrays import NUMBER_KINDS, number_or_nan
from ontarget._typing import ArrayLike, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.fitted.joint.asked import Limits
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._table import Runs, Turn, judge_own, named, news_of, outlook_of, said_of_taken
from ontarget.live.contract import Contract, Part
from ontarget.live.explaining import Reading, Seen, explained
from ontarget.live.explanation import Explanation
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable
from ontarget.target import Target

OnBad = Literal["unknown", "raise"]
_ONLY = (0,)
_FIRST = np.zeros(1, dtype=np.intp)


class _ShortCut:
    """Steps of the only row of a behavior's table, with the arrays that kernels always get."""

    __slots__ = (
        "_advancing",
        "_became",
        "_ends",
        "_looking",
        "_news",
        "_row",
        "features",
        "limits",
        "part",
        "real",
        "table",
        "whole",
    )

    def __init__(self, part: Part, table: RunTable) -> None:
        self.part, self.table = part, table
        self._row = np.zeros((1, part.fitted.width))
        self.features = self._row[:, : part.fitted.state_width]
        self._news = np.zeros((1, k.N_NEWS))
        self._ends = np.zeros((1, part.question.values.size))
        self.limits = np.empty_like(self._ends), np.empty_like(self._ends)
        self._became = np.zeros(1, dtype=np.int64)
        self._advancing = part.advancing(
            table, _FIRST, (self._news, self._row), (self._ends, self._became)
        )
        self._looking = part.looking(table, _FIRST, self.limits)
        self.whole: list[int]
        self.real: list[float]
        self.note()

    def note(self) -> None:
        """Copy the row to lists."""
        self.whole, self.real = self.table.whole[0].tolist(), self.table.real[0].tolist()

    def advance(self, reward: Any, behavior: Any, trouble: str, ending: float) -> int:
        """Bring the run to its next step; returns SETTLED, BAD or LOOK."""
        part = self.part
        if part.memory.size and not ending:
            # If a behavior that is computed from rewards is passed, no reward is known.
            known = (behavior is not None) == part.is_told
            came = number_or_nan(behavior if part.is_told else reward) if known else math.nan
            part.recall(self.table, _FIRST, np.array([came]), self._row)
        self._news[0] = news_of(
            part, self.table, 0, (self.whole, self.real), (reward, behavior), trouble, ending
        )
        k.advance_rows(*self._advancing)
        return int(self._became[0])

    def look(self) -> None:
        """Ask the models about the present step, and store the answer and the alarm."""
        part, table = self.part, self.table
        held = table.held(_ONLY) if table.taken else []
        if part.own_translation:
            part.look_at_own(table, 0, self._filled_row())
        else:
            self.ask()
            k.look_rows(*self._looking)
        if part.own_rule:
            judge_own(part, table, 0)
        if held:
            table.hold(held)

    def ask(self) -> None:
        """Store what the models predict about each bound of the target."""
        self.part.ask(self.whole[k.T], self._filled_row(), self._ends, self.limits)

    def _filled_row(self) -> FloatArray:
        """(1, inputs): the row that the models read: the features, and what else they read."""
        part, row = self.part, self._row
        if part.reads_so_far:
            row[0, self.features.size] = self.table.real[0, k.SNAPPED]
        if part.reads_step:
            row[0, self.features.size + part.reads_so_far] = self.whole[k.T]
        if part.guide is not None:
            part.guide.fill(row)
        return row


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
        "_given",
        "_group",
        "_is_joint",
        "_raises",
        "_real",
        "_runs",
        "_seen",
        "_short",
        "_signal",
        "_turn",
        "_unknown",
        "_whole",
        "changes",
    )

    def __init__(self, contract: Contract, *, group: int = 0, on_bad: OnBad = "unknown") -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(Argument("on_bad"), f" needs 'unknown' or 'raise', got {on_bad!r}")
        self._contract = contract
        self._group = group
        self._raises = on_bad == "raise"
        self._runs = runs = Runs(contract, 1)
        self._short = tuple(map(_ShortCut, contract.parts, runs.tables))
        runs.readings = self._short[0].features  # the last state is where the models read it
        self._given = runs.readings[0, : len(contract.fitted.schema)]
        self._unknown: dict[str, str] = {}  # categories of the last state, by feature
        # The signal of a single behavior that has a name.
        self._is_joint = contract.asked.is_joint
        names = () if self._is_joint else contract.readings.items()
        self._signal = next(iter(names), None)
        self._turn = Turn("watch")
        self._seen: Seen  # readings at which a model answered
        self._whole: list[int]  # the row that the run is judged by, as lists
        self._real: list[float]
        self.changes: list[Change]
        runs.put_in(group, 0)
        self.reset()

    def reset(self) -> None:
        """Begin a new run."""
        with self._turn:
            self._runs.begin(_ONLY)
            self._note_all()
            self._seen = Seen()
            self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    def _note_all(self) -> None:
        for one in self._short:
            one.note()
        table = self._runs.table
        self._whole, self._real = table.whole[0].tolist(), table.real[0].tolist()

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
        return Status(self._whole[k.STATUS])

    @property
    def intervened_at(self) -> int | None:
        """The step at which somebody took the run over; None if nobody did."""
        return self._runs.table.taken.get(0)

    @property
    def parts(self) -> dict[str, Outlook]:
        """The answer about each behavior by itself (`Outlook`), by the behavior's name."""
        contract = self._contract
        if contract.asked.is_function:
            return {}
        if not contract.asked.is_joint:
            return {name: self.peek() for name in contract.readings}
        return {
            name: outlook_of(one.part, one.whole, one.real, one.table.texts.get(0, ""))
            for name, one in zip(contract.asked.names, self._short, strict=True)
        }

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
        turn = self._turn
        try:
            turn.take()
        except IndexError:
            raise turn.refusal() from None
        try:
            return self._step(reward, behavior, self._read(state))
        finally:
            turn.give(None)

    def _read(self, state: Any) -> str:
        """Store the state's features; return, as text, what is wrong if they cannot be read."""
        features, schema = self._given, self._short[0].part.fitted.schema
        try:
            # Masked arrays and arrays of dates are left to the schema: here they would pass.
            if (
                type(state) is np.ndarray
                and state.shape == features.shape
                and state.dtype.kind in NUMBER_KINDS
            ):
                features[:] = state
                gap = schema.codes and schema.lacks_category(features)
                if gap:
                    features[:] = schema.settled_row(features)
            else:
                features[:] = schema.encode(state)
                gap = schema.codes and schema.lacks_category(features)
            self._unknown = schema.unseen_in(state) if gap else {}
        except Exception as error:  # no state, however strange, may stop the caller's loop
            features[:], self._unknown = math.nan, {}
            return str(error) or type(error).__name__
        return ""

    def _step(self, reward: Any, behavior: Any, trouble: str, ending: float = 0.0) -> Outlook:
        if self._is_joint:
            became, modelled = self._step_of_several(reward, behavior, trouble, ending)
        else:
            short = self._short[0]
            if self._signal is not None and (
                isinstance(reward, Mapping) or isinstance(behavior, Mapping)
            ):
                begun = self._whole[k.T] > 0
                reward, behavior = named(*self._signal, reward, behavior, begun=begun)
            became, modelled = short.advance(reward, behavior, trouble, ending), False
            if became == k.LOOK:
                modelled = short.part.has_model(short.whole[k.T], short.whole[k.GROUP])
                short.look()
            short.note()
            self._whole, self._real = short.whole, short.real
        if modelled:
            self._seen.add(self._reading())
        outlook = self.peek()
        if became == k.BAD and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook

    def _step_of_several(
        self, reward: Any, behavior: Any, trouble: str, ending: float
    ) -> tuple[int, bool]:
        """The step for a goal over several behaviors: BAD or not, and whether models answered."""
        contract, codes = self._contract, []
        begun = bool(ending) or self._whole[k.T] > 0
        for name, one in zip(contract.asked.names, self._short, strict=True):
            if one is not self._short[0]:
                one.features[:] = self._runs.readings
            brought = named(name, contract.readings[name], reward, behavior, begun=begun)
            codes.append(one.advance(*brought, trouble, ending))
        (modelled,) = self._runs.join(_FIRST, [[code] for code in codes], self._asked)
        self._note_all()
        return k.BAD if k.BAD in codes else k.SETTLED, modelled

    def _asked(self, behavior: int, _: IndexArray, look: bool) -> Limits:
        one = self._short[behavior]
        one.look() if look else one.ask()
        return one.limits

    def _reading(self) -> Reading:
        """What is known of the run at its last step."""
        so_far = tuple([one.real[k.SNAPPED] for one in self._short])
        return Reading(self._whole[k.LAST_T], self._runs.readings[0].copy(), so_far, self._unknown)

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
            return self._step(reward, behavior, "", k.CUT if truncated else k.ENDS)

    def intervene(self) -> Outlook:
        """Note that somebody, such as an operator, took the run over; returns the answer.

        From here on, p, bounds and plausibility are those of a run in the same state that nobody
        takes over, because the recorded runs say nothing about runs that are taken over. If the run
        is in alarm, it stays in alarm until its end, whatever p does, so that a controller does not
        leave its safe mode. Leave such runs out of drift guards and fits: see
        `docs/acting-on-alarms.md`.
        """
        with self._turn:
            if self._whole[k.ENDED]:
                raise InputError("the run is over; call reset to begin the next")
            if self.intervened_at is None:
                self._runs.table.take_over(_FIRST)
                now = self.peek()
                self.changes.append(Change(now.t, now.status, now.reason))
            return self.peek()

    def peek(self) -> Outlook:
        """The present answer about the run (`Outlook`) again; the run takes no step."""
        texts, taken = self._runs.table.texts, self._runs.table.taken
        found = outlook_of(self._contract, self._whole, self._real, texts.get(0, ""))
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
        (state,) = self._runs.states_of(_FIRST)
        return state

    def resume(self, state: RunState) -> Watch:
        """Continue a stored run in place of the present one; returns this watch."""
        group = self._contract.admit(state)
        with self._turn:
            self._group = group
            self._runs.restore(0, state, group)
            self._note_all()
            self._seen = Seen()
            now = self.peek()
            self.changes = [Change(now.t, now.status, now.reason)]
        return self

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
