"""`Watch`: follows one live run, with an answer at every step in microseconds, and its alarm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ontarget._scalars import NUMBER_KINDS, number_or_nan, shown
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    PLAUSIBILITY,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
)
from ontarget.live import _run_kernel as k
from ontarget.live._explaining import Reading, Seen, explained
from ontarget.live._reasons import Reason, in_words
from ontarget.live._turns import Turn
from ontarget.live.contract import Contract
from ontarget.live.explanation import Explanation
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable
from ontarget.target import Target

OnBad = Literal["unknown", "raise"]
_NAN = math.nan
_STATUSES = tuple(Status)


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
        "_advancing",
        "_became",
        "_contract",
        "_ends",
        "_features",
        "_given",
        "_group",
        "_limits",
        "_looking",
        "_news",
        "_raises",
        "_real",
        "_row",
        "_seen",
        "_table",
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
        self._table = contract.table(1)
        self._table.whole[0, k.GROUP] = group
        self._row = np.zeros((1, contract.fitted.width))
        self._given = self._row[0, : len(contract.fitted.schema)]
        self._features = self._row[0, : contract.fitted.state_width]
        self._news = np.zeros((1, k.N_NEWS))
        self._ends = np.zeros((1, contract.question.values.size))
        self._limits = np.empty_like(self._ends), np.empty_like(self._ends)
        self._became = np.zeros(1, dtype=np.int64)
        self._turn = Turn("watch")
        # The kernels always get the same arrays; only their contents change.
        self._advancing = contract.advancing(
            self._table, _FIRST, (self._news, self._row), (self._ends, self._became)
        )
        self._looking = contract.looking(self._table, _FIRST, self._limits)
        self._whole: list[int]  # the run's row of the table after the last call
        self._real: list[float]
        self._unknown: dict[str, str] = {}  # unknown categories of the last state, by feature
        self._seen: Seen  # readings at which a model answered
        self.changes: list[Change]
        self.reset()

    def reset(self) -> None:
        """Begin a new run."""
        with self._turn:
            self._table.begin(_ONLY)
            self._note()
            self._seen = Seen()
            self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    @property
    def contract(self) -> Contract:
        """The monitor, target and alarm rule of this watch; other watches may share it."""
        return self._contract

    @property
    def target(self) -> Target:
        """The outcomes that the run should end in."""
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
        return _STATUSES[self._whole[k.STATUS]]

    @property
    def intervened_at(self) -> int | None:
        """The step at which somebody took the run over; None if nobody did."""
        return self._table.taken.get(0)

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float = 0.0,
        *,
        behavior: float | None = None,
    ) -> Outlook:
        """The monitor's answer about the run (`Outlook`) before acting; the first call is step 0.

        Parameters
        ----------
        state
            The features in order, or by name: a mapping, a pandas Series, a named tuple. If the
            state cannot be read, the status is UNKNOWN and the reason says why.
        reward
            What the action at the previous step earned; 0 at the first call.
        behavior
            The behavior so far. Pass it if the monitor's behavior is read from a column rather than
            computed from rewards. It also restores a sum that became unknown by a missing reward.
        """
        turn, contract = self._turn, self._contract
        try:
            turn.take()
        except IndexError:
            raise turn.refusal() from None
        try:
            trouble = self._read(state)
            if contract.memory.size:
                # If a behavior that is computed from rewards is passed, no reward is known.
                known = (behavior is not None) == contract.is_told
                came = number_or_nan(behavior if contract.is_told else reward) if known else _NAN
                contract.recall(self._table, _FIRST, np.array([came]), self._row)
            became = self._advance(reward, behavior, trouble)
            if became == k.LOOK:
                self._look()
                if contract.has_model(self._whole[k.T], self._group):
                    so_far = float(self._table.real[0, k.SNAPPED])
                    now = self._whole[k.T], self._features.copy(), (so_far,), self._unknown
                    self._seen.add(Reading(*now))
            return self._told(became)
        finally:
            turn.give(None)

    def end(
        self, reward: float = 0.0, *, behavior: float | None = None, truncated: bool = False
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
            return self._told(self._advance(reward, behavior, "", ending=ending))

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
                self._table.take_over(_FIRST)
                now = self.peek()
                self.changes.append(Change(now.t, now.status, now.reason))
            return self.peek()

    def peek(self) -> Outlook:
        """The present answer about the run (`Outlook`) again; the run takes no step."""
        table = self._table
        found = outlook_of(self._contract, self._whole, self._real, table.texts.get(0, ""))
        if not table.taken:
            return found
        return found._replace(reason=said_of_taken(found.reason, table.taken[0], found.status))

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
        fitted = self._contract.fitted
        return self._table.states_of(
            _FIRST,
            groups=[None if fitted.groups is None else fitted.groups[self._group]],
            target=str(self.target),
            readings=self._features[None, :],
        )[0]

    def resume(self, state: RunState) -> Watch:
        """Continue a stored run in place of the present one; returns this watch."""
        group = self._contract.admit(state)
        with self._turn:
            self._group = group
            self._table.whole[0, k.GROUP] = group
            self._table.restore(0, state)
            self._features[:] = state.reading(self._features.size)
            self._note()
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

    def _advance(
        self, reward: object, behavior: object, trouble: str, *, ending: float = 0.0
    ) -> int:
        """Add the reward, and bring the run to its next step; returns SETTLED, BAD or LOOK.

        SETTLED means that there is nothing more to do, BAD that a value is bad, and LOOK that the
        model must be asked. ``trouble`` says why the state could not be read; it is empty if the
        state is fine. ``ending`` is ENDS at the end of a run, and CUT if it was cut off.
        """
        contract, whole = self._contract, self._whole
        earned, rule = number_or_nan(reward), contract.behavior
        told, is_told, updated, text = _NAN, 0.0, _NAN, ""
        if behavior is not None:
            told, is_told = number_or_nan(behavior), 1.0
            if not math.isfinite(told):
                text = _said(behavior)
            elif not rule.vectorised:
                told, text = _NAN, f"{shown(behavior)}: one number cannot restore {rule.spec}"
        elif not math.isfinite(earned):
            text = _said(reward)
        elif whole[k.T] > 0 and not contract.is_told:
            updated = self._updated(earned, whole[k.T] - 1)
        texts = self._table.texts
        lost = not math.isfinite(told if is_told > 0.0 else earned)
        # If the behavior so far is unknown, the text that says why stays until it is known again.
        if lost or not whole[k.LOST] or is_told > 0.0 or rule.forgets:
            words = text if lost or text else trouble
            if words:
                texts[0] = words
            elif texts:
                texts.clear()
        self._news[0] = (earned, told, is_told, updated, 1.0 if trouble else 0.0, ending)
        k.advance_rows(*self._advancing)
        return int(self._became[0])

    def _look(self) -> None:
        """Ask the model about the present step, and store the answer and the alarm."""
        contract, table = self._contract, self._table
        held = table.held(_ONLY) if table.taken else []
        if contract.own_translation:
            contract.look_at_own(table, 0, self._filled_row())
        else:
            self._ask()
            k.look_rows(*self._looking)
        if contract.own_rule:
            judge_own(contract, table, 0)
        table.hold(held)

    def _ask(self) -> None:
        """Store what the model predicts about each bound of the target.

        These are two probabilities: of an outcome below the bound, and of one at or below it.
        """
        self._contract.ask(self._whole[k.T], self._filled_row(), self._ends, self._limits)

    def _filled_row(self) -> FloatArray:
        """(1, inputs): the row that the models read at the present step.

        The features are in the row already; this adds the behavior so far, the step, and the
        prediction of the run's guide, if the models read them.
        """
        contract, row = self._contract, self._row
        if contract.reads_so_far:
            row[0, self._features.size] = self._table.real[0, k.SNAPPED]
        if contract.reads_step:
            row[0, self._features.size + contract.reads_so_far] = self._whole[k.T]
        if contract.guide is not None:
            contract.guide.fill(row)
        return row

    def _updated(self, earned: float, t: int) -> float:
        """The behavior so far after this reward was earned at step t."""
        rule, table = self._contract.behavior, self._table
        if rule.vectorised:
            return float(rule.update(self._real[k.SO_FAR], earned, t))
        if not self._whole[k.ENDED]:
            table.behaviors[0] = rule.update(table.behaviors[0], earned, t)
        return float(rule.value(table.behaviors[0]))

    def _read(self, state: Any) -> str:
        """Store the state's features; return, as text, what is wrong if they cannot be read."""
        features, schema = self._given, self._contract.fitted.schema
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
            features[:], self._unknown = _NAN, {}
            return str(error) or type(error).__name__
        return ""

    def _note(self) -> None:
        """Copy the run's row of the tables to lists, once per call; lists are faster to read."""
        self._whole, self._real = self._table.whole[0].tolist(), self._table.real[0].tolist()

    def _told(self, became: int) -> Outlook:
        self._note()
        outlook = self.peek()
        if became == k.BAD and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook


_ONLY = (0,)
_FIRST = np.zeros(1, dtype=np.intp)


def outlook_of(contract: Contract, whole: list[int], real: list[float], text: str) -> Outlook:
    """The monitor's answer about a run (`Outlook`), read from its row of two tables.

    ``whole`` and ``real`` are the row of whole numbers and that of real numbers. ``text`` is the
    reason of the status if that reason has no code.
    """
    return Outlook(
        whole[k.LAST_T],
        real[P],
        (real[SPREAD_LOW], real[SPREAD_HIGH]),
        real[LOW],
        real[HIGH],
        real[PLAUSIBILITY],
        real[ASSURANCE],
        whole[k.LAST_N],
        _STATUSES[whole[k.STATUS]],
        words_of_run(contract, whole, real, text)
        if whole[k.CODE] or contract.one_sided[whole[k.GROUP]]
        else "",
    )


def taken_over(outlook: Outlook, at: int) -> Outlook:
    """The same answer for a run that somebody took over at the step ``at``; its reason says so."""
    taken = f"taken over at step {at}"
    if outlook.status is not Status.DONE:
        taken += ": the numbers are those of a run that is left alone"
    return outlook._replace(reason="; ".join(filter(None, [outlook.reason, taken])))


def words_of_run(contract: Contract, whole: list[int], real: list[float], text: str) -> str:
    """The reason of a run's status, as text, from its row of the two tables.

    If the run is in alarm but the monitor cannot answer now, the text says both. If p is a guess
    because all runs that it learned from ended alike, the text says so; what arithmetic decides
    is no guess (method M18 in docs/methods.md).
    """
    said = in_words(
        whole[k.CODE],
        (real[k.ONE], real[k.OTHER]),
        contract.fitted,
        compares=(contract.rule.compared_name, contract.rule.relation),
        text=text,
    )
    if real[P] != real[P]:
        in_alarm = whole[k.STATUS] == Status.ALARM
        return f"in alarm since step {whole[k.SINCE]}; {said}" if in_alarm else said
    if real[DECIDED] < 0.0:
        return "; ".join(filter(None, [said, contract.one_sided[whole[k.GROUP]]]))
    return said


def said_of_taken(reason: str, t: int, status: int) -> str:
    """The reason, with words added that somebody took the run over at step t."""
    taken = f"taken over at step {t}"
    if status != Status.DONE:
        taken += ": the numbers are those of a run that is left alone"
    return f"{reason}; {taken}" if reason else taken


def judge_own(contract: Contract, table: RunTable, row: int) -> None:
    """Raise or clear a run's alarm, if p is known, by an alarm rule written in Python."""
    if np.isnan(table.real[row, P]):
        return
    whole = table.whole[row]
    outlook = outlook_of(contract, whole.tolist(), table.real[row].tolist(), "")
    rule, before = contract.rule, bool(whole[k.ALARMED])
    raised = rule.alarming(outlook) or float(table.real[row, DECIDED]) == 0.0
    alarmed = raised or (before and not rule.clearing(outlook))
    whole[k.ALARMED] = alarmed
    if alarmed and not before:
        whole[k.SINCE] = whole[k.LAST_T]
    whole[k.STATUS] = Status.ALARM if alarmed else Status.OK
    whole[k.CODE] = Reason.TEXT if alarmed else Reason.NONE
    if alarmed:
        table.texts[row] = f"{type(rule).__name__}: p = {outlook.p:.3g}"


def _said(value: object) -> str:
    """A value that was passed in place of a number, as text for a message; empty for a float."""
    return "" if isinstance(value, float) else shown(value)
