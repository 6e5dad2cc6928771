"""One run, live: an outlook at every step, in microseconds, and an alarm that can be trusted."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ontarget._typing import ArrayLike
from ontarget.errors import InputError, OntargetError
from ontarget.fitted._kernels import ASSURANCE, DECIDED, HIGH, LOW, PLAUSIBILITY, P
from ontarget.live import _run_kernel as k
from ontarget.live._reasons import Reason, in_words
from ontarget.live.contract import Contract
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable
from ontarget.target import Target

__all__ = ["OnBad", "Watch", "judge_own", "outlook_of_run", "words_of_run"]

OnBad = Literal["unknown", "raise"]
_NAN = math.nan
_STATUSES = tuple(Status)


class Watch:
    """One watched run: `step` before each action, `end` if it ends early, `reset` for the next.

    Everything is opened, checked and compiled when the first watch of a target is made, never in
    `step`; a further watch takes microseconds. A watch is for one thread at a time.

    Examples
    --------
    See `GoalMonitor.watch`.
    """

    __slots__ = (
        "_became",
        "_contract",
        "_ends",
        "_features",
        "_group",
        "_limits",
        "_news",
        "_raises",
        "_row",
        "_table",
        "changes",
    )

    def __init__(self, contract: Contract, *, group: int = 0, on_bad: OnBad = "unknown") -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(f"on_bad needs 'unknown' or 'raise', got {on_bad!r}")
        self._contract = contract
        self._group = group
        self._raises = on_bad == "raise"
        self._table = RunTable(contract.fitted.behavior, 1)
        self._table.whole[0, k.GROUP] = group
        self._row = np.zeros((1, contract.fitted.width))
        self._features = self._row[0, : len(contract.fitted.schema)]
        self._news = np.zeros((1, k.N_NEWS))
        self._ends = np.zeros((1, contract.question.values.size))
        self._limits = np.empty_like(self._ends), np.empty_like(self._ends)
        self._became = np.zeros(1, dtype=np.int64)
        self.changes: list[Change] = [Change(0, Status.PENDING, self.peek().reason)]

    def reset(self) -> None:
        """Begin a new run."""
        self._table.begin([0])
        self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    @property
    def contract(self) -> Contract:
        """What the run is held to; other watches may share it."""
        return self._contract

    @property
    def target(self) -> Target:
        """What the run should end in."""
        return self._contract.target

    @property
    def rule(self) -> AlarmRule:
        """When it is in alarm."""
        return self._contract.rule

    @property
    def trigger(self) -> Trigger:
        """The rule as data: its threshold, and the promise behind it."""
        return self._contract.triggers[self._group]

    @property
    def status(self) -> Status:
        """The run's status now."""
        return _STATUSES[int(self._table.whole[0, k.STATUS])]

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float = 0.0,
        *,
        behavior: float | None = None,
    ) -> Outlook:
        """The outlook before acting at this step; call k is step t = k.

        Parameters
        ----------
        state
            The features in order, or a mapping by name.
        reward
            What the last action earned, r_{t−1}: 0 at the first call.
        behavior
            The behavior so far, where it is read rather than computed from rewards; it also repairs
            a sum that a bad reward has lost.
        """
        reading = self._read(state)
        became = self._advance(reward, behavior, reading, ending=False)
        if became == k.LOOK:
            contract, table, row = self._contract, self._table, self._row
            t = int(table.whole[0, k.LAST_T])
            if contract.reads_so_far:
                row[0, self._features.size] = table.real[0, k.SNAPPED]
            if contract.fitted.reads_step:
                row[0, -1] = t
            if contract.own_translation:
                contract.look_at_own(table, 0, row)
            else:
                contract.ask(t, row, self._ends, self._limits)
                contract.look(table, _FIRST, self._limits)
            if contract.own_rule:
                judge_own(contract, table, 0)
        return self._told(became)

    def end(self, reward: float = 0.0, *, behavior: float | None = None) -> Outlook:
        """Close a run that ended before the horizon: DONE, with p exactly 0 or 1."""
        return self._told(self._advance(reward, behavior, _GOOD, ending=True))

    def peek(self) -> Outlook:
        """The present outlook, without a step."""
        return outlook_of_run(self._contract, self._table, 0)

    @property
    def run_state(self) -> RunState:
        """Where the run stands, as a value to store and to `resume` elsewhere."""
        fitted = self._contract.fitted
        began = int(self._table.whole[0, k.T]) > 0
        return self._table.state_of(
            0,
            group=None if fitted.groups is None else fitted.groups[self._group],
            target=str(self.target),
            reading=self._features if began else None,
        )

    def resume(self, state: RunState) -> Watch:
        """Put the watch where another one stood; gives the watch itself."""
        fitted = self._contract.fitted
        group = fitted.group_of(state.group)
        if state.target != str(self.target):
            raise InputError(
                f"this watch is for the target {self.target}, the state for {state.target}"
            )
        if not 0 <= state.step <= fitted.horizon + 1:
            raise InputError(f"step needs 0 to {fitted.horizon + 1}, got {state.step}")
        if state.row is not None and len(state.row) != self._features.size:
            raise InputError(
                f"row needs {self._features.size} features, as the monitor reads, "
                f"got {len(state.row)}"
            )
        self._group = group
        self._table.whole[0, k.GROUP] = group
        self._table.restore(0, state)
        if state.row is not None:
            self._features[:] = [_NAN if one is None else one for one in state.row]
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
        self.__init__(kept["contract"], on_bad=kept["on_bad"])  # type: ignore[misc]
        self.resume(kept["state"])
        self.changes = kept["changes"]

    def __deepcopy__(self, memo: dict[int, Any]) -> Watch:
        twin = Watch.__new__(Watch)
        twin.__setstate__({**self.__getstate__(), "changes": list(self.changes)})
        return twin

    def _advance(
        self,
        reward: object,
        behavior: object,
        reading: tuple[int, float, float, str],
        *,
        ending: bool,
    ) -> int:
        """Account for what was earned, and bring the run up to its next step; what became of it."""
        table, rule = self._table, self._contract.fitted.behavior
        whole, earned = table.whole[0], _number(reward)
        told, is_told, updated, text = _NAN, 0.0, _NAN, ""
        if behavior is not None:
            told, is_told = _number(behavior), 1.0
            if not math.isfinite(told):
                text = _said(behavior)
            elif not rule.vectorised:
                told, text = _NAN, f"{behavior!r}: {rule.spec} keeps more than its value"
        elif not math.isfinite(earned):
            text = _said(reward)
        elif not rule.told and whole[k.T] > 0:
            t = int(whole[k.T])
            if rule.vectorised:
                updated = float(rule.update(float(table.real[0, k.SO_FAR]), earned, t - 1))
            elif not whole[k.ENDED]:
                table.behaviors[0] = rule.update(table.behaviors[0], earned, t - 1)
                updated = float(rule.value(table.behaviors[0]))
        # The words of a loss stand until it is repaired.
        repaired = not text and (is_told > 0.0 or rule.forgets)
        if text or repaired or not whole[k.LOST]:
            text = text or reading[3]
            if text:
                table.texts[0] = text
            elif table.texts:
                table.texts.clear()
        code, one, other, _ = reading
        self._news[0] = (earned, told, is_told, updated, code, one, other, ending)
        self._contract.advance(table, _FIRST, self._news, self._ends, self._became)
        return int(self._became[0])

    def _read(self, state: Any) -> tuple[int, float, float, str]:
        """Take the state's features; what is wrong with them: a code, two details and a text."""
        features, fitted = self._features, self._contract.fitted
        try:
            if isinstance(state, np.ndarray) and state.shape == features.shape:
                features[:] = state
            else:
                features[:] = fitted.schema.encode(state)
        except (OntargetError, TypeError, ValueError, OverflowError) as error:
            features[:] = _NAN
            return Reason.TEXT, 0.0, 0.0, str(error)
        # Not the sum: opposite infinities would warn, and so would large numbers.
        if not np.isfinite(features).all():
            found = fitted.bad_feature(features)
            if found is not None:
                return Reason.BAD_FEATURE, *found, ""
        return _GOOD

    def _told(self, became: int) -> Outlook:
        outlook = self.peek()
        if became == k.BAD and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook


_GOOD = (0, 0.0, 0.0, "")
_FIRST = np.zeros(1, dtype=np.intp)


def outlook_of_run(contract: Contract, table: RunTable, row: int) -> Outlook:
    """The outlook that a row holds."""
    whole, real = table.whole[row].tolist(), table.real[row].tolist()
    return Outlook(
        whole[k.LAST_T],
        real[P],
        real[LOW],
        real[HIGH],
        real[PLAUSIBILITY],
        real[ASSURANCE],
        whole[k.LAST_N],
        _STATUSES[whole[k.STATUS]],
        words_of_run(contract, whole, real, table.texts.get(row, "")) if whole[k.CODE] else "",
    )


def words_of_run(contract: Contract, whole: list[int], real: list[float], text: str) -> str:
    """The reason of a row in words; an alarm that stands while nothing is known says so."""
    said = in_words(
        whole[k.CODE],
        (real[k.ONE], real[k.OTHER]),
        contract.fitted,
        compares=(contract.rule.compared_name, contract.rule.relation),
        text=text,
    )
    if whole[k.STATUS] == Status.ALARM and real[P] != real[P]:
        return f"in alarm since step {whole[k.SINCE]}; {said}"
    return said


def judge_own(contract: Contract, table: RunTable, row: int) -> None:
    """Judge a run by a rule of the user's own."""
    whole, outlook = table.whole[row], outlook_of_run(contract, table, row)
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
    """What was passed for a number; a float speaks for itself, in the details of its reason."""
    return "" if isinstance(value, float) else reprlib.repr(value)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # whatever float() takes
    except (TypeError, ValueError, OverflowError):
        return _NAN
