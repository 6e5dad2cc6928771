"""`Runs`: the runs under way of one contract, one row each; all kinds of watches are views of it.

Each behavior of the contract has a table of its own. A goal over several behaviors has one more,
for its own answers; they join what the behaviors' models predict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ontarget._arrays import number_or_nan, shown
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes.judged import Reading as Signal
from ontarget.errors import InputError
from ontarget.fitted.joint.asked import Limits
from ontarget.fitted.kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
)
from ontarget.live import _run_kernel as k
from ontarget.live.contract import Contract, Part
from ontarget.live.outlook import Outlook, Outlooks, Status
from ontarget.live.reasons import Reason, in_words
from ontarget.live.runs import RunState, RunTable, state_of, stretches

# Asks the models of one behavior, by its number, about the runs at these positions; or looks, which
# also stores the behavior's own answers. Returns what the models say.
Ask: TypeAlias = Callable[[int, IndexArray, bool], Limits]

_NAN = math.nan
_STATUSES = tuple(Status)
# Columns that have the same value for a goal and for each of its behaviors.
_SHARED = (k.T, k.ENDED, k.LAST_T, k.LAST_N)
_ALL_LOOK = {k.LOOK}
_FIRST = np.zeros(1, dtype=np.intp)


class Turn:
    """A lock for a ``with`` statement; a second thread does not wait but gets an `InputError`.

    A ``with`` statement would be slow in every step of a watch. So a watch calls ``take`` and
    ``give`` instead. These are the ``pop`` and ``append`` of a list: no thread can interrupt them,
    and each takes a tenth of a microsecond. ``take`` raises an IndexError if another thread holds
    the lock.
    """

    __slots__ = ("_what", "give", "take")

    def __init__(self, what: str) -> None:
        free = [None]
        self.take: Callable[[], None] = free.pop
        self.give: Callable[[None], None] = free.append
        self._what = what

    def __enter__(self) -> None:
        try:
            self.take()
        except IndexError:
            raise self.refusal() from None

    def __exit__(self, *_: object) -> None:
        self.give(None)

    def refusal(self) -> InputError:
        """The error for a second thread that tries to use the object."""
        return InputError(
            f"this {self._what} is in use by another thread; give each thread its own "
            f"{self._what}, or use a lock"
        )


class Runs:
    """The runs under way of one contract, one row each."""

    __slots__ = ("_alone", "contract", "readings", "table", "tables")

    def __init__(self, contract: Contract, n: int) -> None:
        asked = contract.asked
        self.contract = contract
        self.tables = tuple(part.table(n) for part in contract.parts)
        self.table = self.tables[0]
        if asked.is_joint:
            self.table = RunTable(contract.fitted.behavior, n)
        self.readings: FloatArray = np.zeros((n, contract.fitted.state_width))
        # Most calls are about one run at a time, and need no new arrays.
        self._alone = asked.room(1) if asked.is_joint and not asked.is_function else None

    @property
    def _each(self) -> tuple[RunTable, ...]:
        return (*self.tables, self.table) if self.contract.asked.is_joint else self.tables

    def grow(self, more: int) -> None:
        """Add rows, each at the beginning of a run."""
        for table in self._each:
            table.grow(more)
        self.readings = np.concatenate([self.readings, np.zeros((more, self.readings.shape[1]))])

    def put_in(self, groups: Any, rows: Any) -> None:
        """Note the group of each of these rows, by number."""
        for table in self._each:
            table.whole[rows, k.GROUP] = groups

    def begin(self, rows: Any) -> None:
        """Begin new runs in these rows; each row keeps its group."""
        for table in self._each:
            table.begin(rows)

    def step(
        self,
        rows: IndexArray,
        given: FloatArray,
        unread: Mapping[int, str],
        brought: tuple[Any, Any],
        ending: float = 0.0,
    ) -> None:
        """Bring these runs to their next step, and store the answers about them."""
        contract, became, ends = self.contract, [], []
        for c, (part, table) in enumerate(zip(contract.parts, self.tables, strict=True)):
            if contract.readings:
                news = self._news_by_name(c, rows, brought, unread, ending)
            else:
                news = news_of_rows(part, table, rows, *brought)
                for row in rows.tolist() if table.texts else ():
                    if not table.whole[row, k.LOST]:
                        table.texts.pop(row, None)
            news[list(unread), k.READING], news[:, k.ENDING] = 1.0, ending
            if not ending and not c:
                given = _recalled(part, table, rows, news, given)
                self.readings[rows] = given
            codes = np.zeros(rows.size, dtype=np.int64)
            ends.append(np.empty((rows.size, part.question.values.size)))
            k.advance_rows(*part.advancing(table, rows, (news, given), (ends[c], codes)))
            became.append(codes.tolist())
            if not contract.readings:
                for i, text in unread.items():
                    if table.whole[rows[i], k.CODE] == Reason.TEXT:
                        table.texts[int(rows[i])] = text

        def ask(c: int, here: IndexArray, look: bool) -> Limits:
            part, table, at = contract.parts[c], self.tables[c], rows[here]
            if not look:
                return part.ask_many(table, at, given[here], ends[c][here], look=False)
            held = table.held(at.tolist()) if table.taken else []
            found = part.ask_many(table, at, given[here], ends[c][here])
            if part.own_rule:
                for row in at.tolist():
                    judge_own(part, table, row)
            table.hold(held)
            return found

        if contract.asked.is_joint:
            self.join(rows, became, ask)
            return
        looking = np.array([i for i, one in enumerate(became[0]) if one == k.LOOK], dtype=np.intp)
        if looking.size:
            ask(0, looking, True)

    def _news_by_name(
        self,
        c: int,
        rows: IndexArray,
        brought: tuple[Sequence[Any], Sequence[Any]],
        unread: Mapping[int, str],
        ending: float,
    ) -> FloatArray:
        """(runs, columns): what the call brings for behavior c, by name for each run."""
        contract, part, table = self.contract, self.contract.parts[c], self.tables[c]
        news = np.zeros((rows.size, k.N_NEWS))
        joint = contract.asked.is_joint
        name = contract.asked.names[c] if joint else next(iter(contract.readings))
        for i, (row, reward, behavior) in enumerate(zip(rows.tolist(), *brought, strict=True)):
            t = int(table.whole[row, k.T])
            if joint or isinstance(reward, Mapping) or isinstance(behavior, Mapping):
                begun = t > 0 or (joint and bool(ending))
                reward, behavior = named(
                    name, contract.readings[name], reward, behavior, begun=begun
                )
            run = table.whole[row].tolist(), table.real[row].tolist()
            news[i] = news_of(part, table, row, run, (reward, behavior), unread.get(i, ""))
        return news

    def join(self, rows: IndexArray, became: Sequence[Sequence[int]], ask: Ask) -> list[bool]:
        """Write the answers about the goal, after each behavior was brought to the next step."""
        table, texts, places = self.table, self.table.texts, rows.tolist()
        alone = len(places) == 1  # the most frequent call: views of one row are fast
        own: Any = slice(places[0], places[0] + 1) if alone else rows
        for place in _SHARED:
            table.whole[own, place] = self.tables[0].whole[own, place]
        for row in places if texts else ():
            texts.pop(row, None)
        times = table.whole[own, k.LAST_T].tolist()
        groups = table.whole[own, k.GROUP].tolist()
        alike: dict[tuple[int, int], list[int]] = {}
        modelled, known = [False] * len(places), [False] * len(places)
        for i, step in enumerate(zip(times, groups, strict=True)):
            codes = {one[i] for one in became}
            if codes == _ALL_LOOK:
                alike.setdefault(step, []).append(i)
            elif k.LOOK in codes:  # a behavior that a model can judge still gets its own outlook
                for c, one in enumerate(became):
                    if one[i] == k.LOOK:
                        ask(c, np.array([i]), True)
        for (t, group), positions in alike.items():
            unknown = bool(self.contract.asked.joint.unknown(t, group))
            here = _FIRST if alone else np.array(positions)
            found = self._join_at(t, group, rows if alone else rows[here], here, ask, unknown)
            for i, sure in zip(positions, found, strict=True):
                known[i], modelled[i] = sure, sure and not unknown
        for i, row in enumerate(places):
            if not known[i]:
                if all(one.whole[row, k.STATUS] == Status.DONE for one in self.tables):
                    self._close(row)
                else:
                    self._know_nothing(row, [one[i] for one in became])
        return modelled

    def _join_at(
        self, t: int, group: int, at: IndexArray, here: IndexArray, ask: Ask, unknown: bool
    ) -> list[bool]:
        """Ask the models about the runs in these rows, and store the answers and the alarms."""
        contract, table, asked = self.contract, self.table, self.contract.asked
        own: Any = slice(at[0], at[0] + 1) if at.size == 1 else at
        held = table.held(at.tolist()) if table.taken else []
        limits = [ask(c, here, unknown) for c in range(len(self.tables))]
        had = [one.real[own, k.SNAPPED] for one in self.tables]
        parts: FloatArray | tuple[()] = ()
        if asked.is_function:
            out = asked.said(t, group, self.readings[own], had).numbers[:, 0]
        elif at.size == 1 and self._alone is not None:
            out = np.empty((1, NUMBERS))
            asked.step(t, group).join(limits, had, self._alone, out)
            parts = self._alone.whole[0][:, :, 0]
        else:
            said = asked.joined(asked.step(t, group), limits, had)
            out, parts = said.numbers[:, 0], said.parts
        if not unknown:
            for part, one, numbers in zip(contract.parts, self.tables, parts, strict=False):
                one.real[own, :NUMBERS] = numbers
                k.judge_rows((one.whole, one.real), at, part.numbers)
        sure = zip(out[:, P].tolist(), out[:, DECIDED].tolist(), strict=True)
        known = [p == p and not (unknown and decided < 0.0) for p, decided in sure]
        if not all(known):
            own = at = at[known]
            out = out[known]
        table.real[own, :NUMBERS] = out
        if contract.own_rule:
            for row in at.tolist():
                judge_own(contract, table, row)
        else:
            k.judge_rows((table.whole, table.real), at, contract.numbers)
            for row, code in zip(at.tolist(), table.whole[own, k.CODE].tolist(), strict=True):
                if code == Reason.DECIDED:
                    self._say(row, Status.ALARM, "the goal is out of reach")
        if held:
            table.hold(held)
        return known

    def _close(self, row: int) -> None:
        """Store the last answer about a run, in which p is exactly 0 or 1."""
        asked = self.contract.asked
        ended = [table.real[row : row + 1, k.SO_FAR] for table in self.tables]
        met = bool(asked.contains(ended)[0])
        self.table.real[row, :NUMBERS] = float(met)
        each = zip(asked.names, ended, strict=True)
        values = ", ".join(f"{name} = {float(value[0]) + 0.0:.6g}" for name, value in each)
        where = "inside" if met else "outside"
        self._say(row, Status.DONE, f"ended {where} the goal at {values}")

    def _know_nothing(self, row: int, became: Sequence[int]) -> None:
        """Store an answer without numbers, and the reason; a run in alarm stays in alarm."""
        contract, whole = self.contract, self.table.whole[row]
        self.table.real[row, :NUMBERS] = _NAN
        t, group = whole[[k.LAST_T, k.GROUP]].tolist()
        each = [
            (
                name,
                part.fitted.unknown(t, group)
                if code == k.LOOK
                else outlook_of_row(part, table, row).reason,
            )
            for name, part, table, code in zip(
                contract.asked.names, contract.parts, self.tables, became, strict=True
            )
        ]
        unknown = [(name, reason) for name, reason in each if reason]
        shared = len({reason for _, reason in unknown}) == 1 and len(unknown) == len(became)
        said = "; ".join(f"{name}: {reason}" for name, reason in unknown)
        if k.BAD in became:
            whole[k.STREAK] = 0
        if whole[k.ENDED]:
            whole[k.ALARMED] = 0
        status = Status.ALARM if whole[k.ALARMED] else Status.UNKNOWN
        self._say(row, status, unknown[0][1] if shared else said)

    def _say(self, row: int, status: Status, text: str) -> None:
        self.table.whole[row, [k.STATUS, k.CODE]] = status, Reason.TEXT
        self.table.texts[row] = text

    def outlooks(self, rows: IndexArray, behavior: int | None = None) -> Outlooks:
        """The present answers about these runs, or about one of their behaviors by itself."""
        if behavior is None:
            return outlooks_of(self.contract, self.table, rows)
        return outlooks_of(self.contract.parts[behavior], self.tables[behavior], rows)

    def states_of(self, rows: IndexArray) -> list[RunState]:
        """The runs in these rows, each as a value to be stored."""
        contract = self.contract
        names, readings = contract.fitted.groups, self.readings[rows]
        numbers = self.table.whole[rows, k.GROUP].tolist()
        groups = [None if names is None else names[number] for number in numbers]

        def states(table: RunTable, target: object) -> list[RunState]:
            return table.states_of(rows, groups=groups, target=str(target), readings=readings)

        found = states(self.table, contract.target)
        if not contract.asked.is_joint:
            return found
        own = [states(t, p.target) for p, t in zip(contract.parts, self.tables, strict=True)]
        return [replace(one, parts=tuple(p)) for one, *p in zip(found, *own, strict=True)]

    def restore(self, row: int, state: RunState, group: int) -> None:
        """Continue a stored run, which the contract has admitted, in this row."""
        self.put_in(group, row)
        self.table.restore(row, state)
        for table, own in zip(self.tables, state.parts, strict=False):
            table.restore(row, own)
        self.readings[row] = state.reading(self.readings.shape[1])

    def pack(self, rows: IndexArray) -> list[bytes]:
        """The runs in these rows as bytes, from which another table can continue them exactly."""
        if self.contract.asked.is_joint:
            return [json.dumps(one.to_json()).encode() for one in self.states_of(rows)]
        return self.table.pack(rows, self.readings[rows])

    def unpack(self, rows: Sequence[int], packed: Sequence[bytes]) -> None:
        """Continue runs, from the bytes that `pack` returned, in these rows."""
        joint, admit = self.contract.asked.is_joint, self.contract.admit
        texts = [joint or one[:1] == b"{" for one in packed]
        states = [state_of(one) for one, text in zip(packed, texts, strict=True) if text]
        admitted = iter([(state, admit(state)) for state in states])  # all before any is taken
        for row, one, text in zip(rows, packed, texts, strict=True):
            if text:
                self.restore(row, *next(admitted))
            else:
                self.readings[row] = self.table.unpack(row, one, self.contract.fitted)


def outlook_of(
    contract: Contract | Part, whole: Sequence[int], real: Sequence[float], text: str
) -> Outlook:
    """The monitor's answer about a run, read from its row of the two tables."""
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


def outlook_of_row(contract: Contract | Part, table: RunTable, row: int) -> Outlook:
    """The monitor's answer about the run in a row, without words about who took it over."""
    whole, real = table.whole[row].tolist(), table.real[row].tolist()
    return outlook_of(contract, whole, real, table.texts.get(row, ""))


def outlooks_of(contract: Contract | Part, table: RunTable, rows: IndexArray) -> Outlooks:
    """The monitor's answers about the runs in these rows."""
    whole, real = table.whole[rows], table.real[rows]
    places = rows.tolist() if table.texts or table.taken else []
    said = {i: table.texts[row] for i, row in enumerate(places) if row in table.texts}
    taken = {i: table.taken[row] for i, row in enumerate(places) if row in table.taken}

    def words(run: int) -> str:
        own = whole[run].tolist()
        reason = ""
        if own[k.CODE] or contract.one_sided[own[k.GROUP]]:
            reason = words_of_run(contract, own, real[run].tolist(), said.get(run, ""))
        return said_of_taken(reason, taken[run], own[k.STATUS]) if run in taken else reason

    return Outlooks(
        t=whole[:, k.LAST_T],
        p=real[:, P],
        spread=real[:, SPREAD_LOW : SPREAD_HIGH + 1],
        low=real[:, LOW],
        high=real[:, HIGH],
        plausibility=real[:, PLAUSIBILITY],
        assurance=real[:, ASSURANCE],
        n=whole[:, k.LAST_N],
        status=whole[:, k.STATUS].astype(np.int8),
        words=words,
    )


def words_of_run(
    contract: Contract | Part, whole: Sequence[int], real: Sequence[float], text: str
) -> str:
    """The reason of a run's status, as text, from its row of the two tables."""
    # If the run is in alarm but the monitor cannot answer now, the text says both. If p is a guess
    # because all runs that it learned from ended alike, the text says so; what arithmetic decides
    # is no guess (method M18 in docs/methods.md).
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


def judge_own(contract: Contract | Part, table: RunTable, row: int) -> None:
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


def news_of(
    part: Part,
    table: RunTable,
    row: int,
    run: tuple[Sequence[int], Sequence[float]],
    brought: tuple[Any, Any],
    trouble: str,
    ending: float = 0.0,
) -> tuple[float, ...]:
    """What a call brings for one run, as `advance_rows` reads it; it notes what is wrong with it.

    ``run`` is the run's row of the two tables. ``brought`` are the reward, and the behavior if the
    caller passed it. ``trouble`` says why the state could not be read; it is empty if the state is
    fine.
    """
    (reward, behavior), whole = brought, run[0]
    earned, rule = number_or_nan(reward), part.behavior
    told, is_told, updated, text = _NAN, 0.0, _NAN, ""
    if behavior is not None:
        told, is_told = number_or_nan(behavior), 1.0
        if not math.isfinite(told):
            text = _said(behavior)
        elif not rule.vectorised:
            told, text = _NAN, f"{shown(behavior)}: one number cannot restore {rule.spec}"
    elif not math.isfinite(earned):
        text = _said(reward)
    elif whole[k.T] > 0 and not part.is_told:
        updated = _updated(part, table, row, run[1][k.SO_FAR], earned, whole[k.T] - 1)
    lost = not math.isfinite(told if is_told > 0.0 else earned)
    # If the behavior so far is unknown, the text that says why stays until it is known again.
    if lost or not whole[k.LOST] or is_told > 0.0 or rule.forgets:
        words = text if lost or text else trouble
        if words:
            table.texts[row] = words
        else:
            table.texts.pop(row, None)
    return earned, told, is_told, updated, 1.0 if trouble else 0.0, ending


def _updated(part: Part, table: RunTable, row: int, so_far: float, earned: float, t: int) -> float:
    """A run's behavior so far, after it earned this reward at step t."""
    rule = part.behavior
    if rule.vectorised:
        return float(rule.update(so_far, earned, t))
    if not table.whole[row, k.ENDED]:
        table.behaviors[row] = rule.update(table.behaviors[row], earned, t)
    return float(rule.value(table.behaviors[row]))


def news_of_rows(
    part: Part, table: RunTable, rows: IndexArray, earned: FloatArray, behavior: FloatArray | None
) -> FloatArray:
    """(runs, columns): the rewards or behaviors of a call, as `advance_rows` reads them."""
    news = np.zeros((rows.size, k.N_NEWS))
    news[:, k.REWARD] = earned
    rule = part.behavior
    if behavior is not None:
        news[:, k.TOLD] = behavior if rule.vectorised else np.nan
        news[:, k.IS_TOLD] = 1.0
    elif not rule.told:
        times = table.whole[rows, k.T]
        moving = np.flatnonzero((times > 0) & np.isfinite(earned))
        for t, some in _by_value(times[moving]):
            here = moving[some]
            if rule.vectorised:
                with np.errstate(over="ignore", invalid="ignore"):
                    so_far = table.real[rows[here], k.SO_FAR]
                    news[here, k.UPDATED] = rule.update(so_far, earned[here], t - 1)
            else:
                for i in here.tolist():
                    reward = float(earned[i])
                    news[i, k.UPDATED] = _updated(part, table, int(rows[i]), _NAN, reward, t - 1)
    return news


def _recalled(
    part: Part, table: RunTable, rows: IndexArray, news: FloatArray, given: FloatArray
) -> FloatArray:
    """The states in ``given``, with columns about the run so far if the monitor reads these."""
    if not part.memory.size:
        return given
    known = (news[:, k.IS_TOLD] > 0.0) == part.is_told
    came = np.where(known, news[:, k.TOLD if part.is_told else k.REWARD], np.nan)
    states = np.empty((rows.size, part.fitted.state_width))
    states[:, : given.shape[1]] = given
    part.recall(table, rows, came, states)
    return states


def _by_value(times: IndexArray) -> Iterator[tuple[int, IndexArray]]:
    """Each distinct value of ``times``, and the positions that have it."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    for a, b in stretches(ordered):
        yield int(ordered[a]), order[a:b]


def _said(value: object) -> str:
    """A value that was passed in place of a number, as text for a message; empty for a float."""
    return "" if isinstance(value, float) else shown(value)


class _Wrong:
    """Takes the place of a value that was not passed; its text says what is wrong."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def named(
    name: str, reading: Signal, reward: Any, behavior: Any, *, begun: bool
) -> tuple[Any, Any]:
    """The reward and the behavior so far that the caller passed for the behavior ``name``."""
    if behavior is not None:
        if not isinstance(behavior, Mapping):
            return 0.0, _Wrong(f"{shown(behavior)}, not {{name: number}}")
        if name in behavior:
            return 0.0, behavior[name]
    signal = reading.column or "reward"
    # At the first step there is no signal yet.
    missing: Any = _Wrong(f"no signal {signal!r}") if begun else 0.0
    found: Any = missing
    if isinstance(reward, Mapping):
        found = reward.get(signal, reward.get(name, missing))
    elif reading.column is None:
        found = reward
    if not reading.behavior.told:
        return found, None
    return 0.0, found if begun else None
