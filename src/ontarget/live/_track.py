"""One live run as one behavior judges it (`Track`), and as a goal over several does (`JointRow`).

Both are one row of a table, with the arrays that the compiled code always gets again. A `Watch`
has one of them for the run's answer; a goal's row asks the tracks of its behaviors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ontarget._arrays import NUMBER_KINDS, number_or_nan, shown
from ontarget._typing import FloatArray
from ontarget.episodes.judged import Reading as Signal
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
from ontarget.live._explaining import Reading
from ontarget.live._reasons import Reason, in_words
from ontarget.live.contract import Contract, Part
from ontarget.live.outlook import Outlook, Status
from ontarget.live.runs import RunState, RunTable

_NAN = math.nan
_STATUSES = tuple(Status)
_ONLY = (0,)
_FIRST = np.zeros(1, dtype=np.intp)
# Columns that have the same value for a goal and for each of its behaviors.
_SHARED = (k.T, k.ENDED, k.LAST_T, k.LAST_N)


class Track:
    """One run as one behavior judges it.

    Attributes
    ----------
    table
        The run's row, as the compiled code reads it.
    whole, real
        The row's numbers after the last call, as lists, which are faster to read.
    features
        The run's last state, with all columns that the models read.
    unknown
        The categories of the last state that are not known, by feature.
    limits
        What the models last said, for each bound of the targets.
    has_model
        Whether the last step got an answer from models, so that it can be explained.
    """

    __slots__ = (
        "_advancing",
        "_became",
        "_ends",
        "_given",
        "_looking",
        "_news",
        "_row",
        "features",
        "has_model",
        "limits",
        "part",
        "real",
        "table",
        "unknown",
        "whole",
    )

    def __init__(self, part: Part, group: int) -> None:
        self.part = part
        self.table = part.table(1)
        self.table.whole[0, k.GROUP] = group
        self._row = np.zeros((1, part.fitted.width))
        self._given = self._row[0, : len(part.fitted.schema)]
        self.features = self._row[0, : part.fitted.state_width]
        self._news = np.zeros((1, k.N_NEWS))
        self._ends = np.zeros((1, part.question.values.size))
        self.limits = np.empty_like(self._ends), np.empty_like(self._ends)
        self._became = np.zeros(1, dtype=np.int64)
        # The kernels always get the same arrays; only their contents change.
        self._advancing = part.advancing(
            self.table, _FIRST, (self._news, self._row), (self._ends, self._became)
        )
        self._looking = part.looking(self.table, _FIRST, self.limits)
        self.unknown: dict[str, str] = {}
        self.has_model = False
        self.whole: list[int]
        self.real: list[float]
        self.note()

    def begin(self) -> None:
        """Begin a new run."""
        self.table.begin(_ONLY)
        self.note()

    def peek(self) -> Outlook:
        """The present answer, without words about who took the run over."""
        return outlook_of(self.part, self.whole, self.real, self.table.texts.get(0, ""))

    def reading(self) -> Reading:
        """What is known of the run at its last step."""
        whole, real = self.whole, self.real
        return Reading(whole[k.LAST_T], self.features.copy(), (real[k.SNAPPED],), self.unknown)

    def step(self, reward: Any, behavior: Any, trouble: str, ending: float = 0.0) -> int:
        """Bring the run to its next step and answer; returns SETTLED, BAD or LOOK.

        The arguments are those of `advance`; the state was read before, by `read`.
        """
        part = self.part
        if part.memory.size and not ending:
            # If a behavior that is computed from rewards is passed, no reward is known.
            known = (behavior is not None) == part.is_told
            came = number_or_nan(behavior if part.is_told else reward) if known else _NAN
            part.recall(self.table, _FIRST, np.array([came]), self._row)
        became = self.advance(reward, behavior, trouble, ending=ending)
        self.has_model = False
        if became == k.LOOK:
            self.has_model = part.has_model(self.whole[k.T], self.whole[k.GROUP])
            self.look()
        self.note()
        return became

    def restore(self, state: RunState, group: int) -> None:
        """Continue a stored run in place of the present one."""
        self.table.whole[0, k.GROUP] = group
        self.table.restore(0, state)
        self.features[:] = state.reading(self.features.size)
        self.note()

    def advance(
        self, reward: object, behavior: object, trouble: str, *, ending: float = 0.0
    ) -> int:
        """Add the reward, and bring the run to its next step; returns SETTLED, BAD or LOOK.

        SETTLED means that there is nothing more to do, BAD that a value is bad, and LOOK that the
        model must be asked. ``trouble`` says why the state could not be read; it is empty if the
        state is fine. ``ending`` is ENDS at the end of a run, and CUT if it was cut off.
        """
        part, whole = self.part, self.whole
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
            updated = self._updated(earned, whole[k.T] - 1)
        texts = self.table.texts
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

    def look(self) -> None:
        """Ask the model about the present step, and store the answer and the alarm."""
        part, table = self.part, self.table
        held = table.held(_ONLY) if table.taken else []
        if part.own_translation:
            part.look_at_own(table, 0, self._filled_row())
        else:
            self.ask()
            k.look_rows(*self._looking)
        if part.own_rule:
            judge_own(part, table, 0)
        table.hold(held)

    def ask(self) -> None:
        """Store what the model predicts about each bound of the target.

        These are two probabilities: of an outcome below the bound, and of one at or below it.
        """
        self.part.ask(self.whole[k.T], self._filled_row(), self._ends, self.limits)

    def _filled_row(self) -> FloatArray:
        """(1, inputs): the row that the models read at the present step.

        The features are in the row already; this adds the behavior so far, the step, and the
        prediction of the run's guide, if the models read them.
        """
        part, row = self.part, self._row
        if part.reads_so_far:
            row[0, self.features.size] = self.table.real[0, k.SNAPPED]
        if part.reads_step:
            row[0, self.features.size + part.reads_so_far] = self.whole[k.T]
        if part.guide is not None:
            part.guide.fill(row)
        return row

    def _updated(self, earned: float, t: int) -> float:
        """The behavior so far after this reward was earned at step t."""
        rule, table = self.part.behavior, self.table
        if rule.vectorised:
            return float(rule.update(self.real[k.SO_FAR], earned, t))
        if not self.whole[k.ENDED]:
            table.behaviors[0] = rule.update(table.behaviors[0], earned, t)
        return float(rule.value(table.behaviors[0]))

    def read(self, state: Any) -> str:
        """Store the state's features; return, as text, what is wrong if they cannot be read."""
        features, schema = self._given, self.part.fitted.schema
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
            self.unknown = schema.unseen_in(state) if gap else {}
        except Exception as error:  # no state, however strange, may stop the caller's loop
            features[:], self.unknown = _NAN, {}
            return str(error) or type(error).__name__
        return ""

    def note(self) -> None:
        """Copy the run's row of the tables to lists, once per call; lists are faster to read."""
        self.whole, self.real = self.table.whole[0].tolist(), self.table.real[0].tolist()


class JointRow:
    """One run as a goal over several behaviors judges it; each behavior has its own `Track`.

    Attributes
    ----------
    table, whole, real
        As for a `Track`; the row of the goal.
    has_model
        Whether the last step got an answer from models, so that it can be explained.
    """

    __slots__ = (
        "_contract",
        "_had",
        "_limits",
        "_out",
        "_room",
        "has_model",
        "real",
        "table",
        "tracks",
        "whole",
    )

    def __init__(self, contract: Contract, tracks: Sequence[Track], group: int) -> None:
        asked = contract.asked
        self._contract, self.tracks = contract, tracks
        self.table = RunTable(contract.fitted.behavior, 1)
        self.table.whole[0, k.GROUP] = group
        # The kernels always get the same arrays; only their contents change.
        self._limits = [track.limits for track in tracks]
        self._had, self._out = [np.zeros(1) for _ in tracks], np.zeros((1, NUMBERS))
        self._room = None if asked.is_function else asked.room(1)
        self.has_model = False
        self.whole: list[int]
        self.real: list[float]
        self.note()

    def begin(self) -> None:
        """Begin a new run."""
        for track in self.tracks:
            track.begin()
        self.table.begin(_ONLY)
        self.note()

    def peek(self) -> Outlook:
        """The present answer, without words about who took the run over."""
        return outlook_of(self._contract, self.whole, self.real, self.table.texts.get(0, ""))

    def reading(self) -> Reading:
        """What is known of the run at its last step."""
        first, so_far = self.tracks[0], [float(had[0]) for had in self._had]
        return Reading(self.whole[k.LAST_T], first.features.copy(), tuple(so_far), first.unknown)

    def note(self) -> None:
        """Copy the run's row of the table to lists."""
        self.whole, self.real = self.table.whole[0].tolist(), self.table.real[0].tolist()

    def step(self, reward: Any, behavior: Any, trouble: str, ending: float = 0.0) -> int:
        """Bring each behavior to the next step, and answer; returns SETTLED, BAD or LOOK.

        ``reward`` and ``behavior`` are those of `Watch.step`; the first track has read the state.
        """
        begun, became = bool(ending) or self.whole[k.T] > 0, []
        first = self.tracks[0]
        for name, track in zip(self._contract.asked.names, self.tracks, strict=True):
            reading = self._contract.readings[name]
            if track is not first:
                track.features[:] = first.features
            earned, told = news_of(name, reading, reward, behavior, begun=begun)
            became.append(track.advance(earned, told, trouble, ending=ending))
        self._answer(became)
        self.note()
        return k.BAD if k.BAD in became else k.SETTLED

    def restore(self, state: RunState, group: int) -> None:
        """Continue a stored run in place of the present one."""
        for track, part in zip(self.tracks, state.parts, strict=True):
            track.restore(part, group)
        self.table.whole[0, k.GROUP] = group
        self.table.restore(0, state)
        self.note()

    def _answer(self, became: list[int]) -> None:
        """Write the answer about the goal, from the codes that `Track.advance` returned."""
        whole, first = self.table.whole[0], self.tracks[0].table.whole[0]
        for place in _SHARED:
            whole[place] = first[place]
        self.table.texts.clear()
        self.has_model = False
        looks = all(one == k.LOOK for one in became)
        if looks:
            looks = self._look()
        else:  # a behavior for which a model can answer still gets its own outlook
            for track, one in zip(self.tracks, became, strict=True):
                if one == k.LOOK:
                    track.look()
        for track in self.tracks:
            track.note()
        if not looks:
            if all(track.whole[k.STATUS] == Status.DONE for track in self.tracks):
                self._close()
            else:
                self._know_nothing(became)

    def _look(self) -> bool:
        """Ask the models about the present step, and store the answer and the alarm.

        Returns False if the answer is unknown.
        """
        contract, table, asked = self._contract, self.table, self._contract.asked
        t, group = int(table.whole[0, k.LAST_T]), self.whole[k.GROUP]
        unknown = asked.joint.unknown(t, group)
        held = table.held(_ONLY) if table.taken else []
        for track, had in zip(self.tracks, self._had, strict=True):
            if unknown:  # then each behavior only gets its own outlook
                track.look()
            else:
                track.ask()
            had[0] = track.table.real[0, k.SNAPPED]
        if self._room is None:
            states = self.tracks[0].features[None, :]
            self._out[:] = asked.said(t, group, states, self._had).numbers[0]
        else:
            asked.step(t, group).join(self._limits, self._had, self._room, self._out)
            if not unknown:
                self._judge_parts(self._room.whole[0])
            elif self._out[0, DECIDED] < 0.0:
                return False
        if np.isnan(self._out[0, P]):
            return False
        self.has_model = not unknown
        table.real[0, :NUMBERS] = self._out[0]
        if contract.own_rule:
            judge_own(contract, table, 0)
        else:
            k.judge_rows((table.whole, table.real), _FIRST, contract.numbers)
            if table.whole[0, k.CODE] == Reason.DECIDED:
                self._say(Status.ALARM, "the goal is out of reach")
        table.hold(held)
        return True

    def _judge_parts(self, numbers: FloatArray) -> None:
        """Store the answer about each behavior by itself, which joining them has computed."""
        for track, own in zip(self.tracks, numbers, strict=True):
            table = track.table
            table.real[0, :NUMBERS] = own[0, 0]
            k.judge_rows((table.whole, table.real), _FIRST, track.part.numbers)

    def _close(self) -> None:
        """Store the last answer about a run, in which p is exactly 0 or 1."""
        ended = [track.table.real[:, k.SO_FAR] for track in self.tracks]
        asked = self._contract.asked
        met = bool(asked.contains(ended)[0])
        self.table.real[0, :NUMBERS] = float(met)
        each = zip(asked.names, ended, strict=True)
        shown = ", ".join(f"{name} = {float(value[0]) + 0.0:.6g}" for name, value in each)
        self._say(Status.DONE, f"ended {'inside' if met else 'outside'} the goal at {shown}")

    def _know_nothing(self, became: list[int]) -> None:
        """Store an answer without numbers, and the reason; a run in alarm stays in alarm."""
        whole = self.table.whole[0]
        self.table.real[0, :NUMBERS] = math.nan
        t, group = whole[[k.LAST_T, k.GROUP]].tolist()
        each = [
            (name, track.part.fitted.unknown(t, group) if one == k.LOOK else track.peek().reason)
            for name, track, one in zip(
                self._contract.asked.names, self.tracks, became, strict=True
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
        self._say(status, unknown[0][1] if shared else said)

    def _say(self, status: Status, text: str) -> None:
        self.table.whole[0, k.STATUS], self.table.whole[0, k.CODE] = status, Reason.TEXT
        self.table.texts[0] = text


def outlook_of(
    contract: Contract | Part, whole: list[int], real: list[float], text: str
) -> Outlook:
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


def words_of_run(contract: Contract | Part, whole: list[int], real: list[float], text: str) -> str:
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


def _said(value: object) -> str:
    """A value that was passed in place of a number, as text for a message; empty for a float."""
    return "" if isinstance(value, float) else shown(value)


class _Missing:
    """Takes the place of a signal that the caller did not pass.

    The reason for the run's status then says "no signal NAME".
    """

    def __init__(self, signal: str) -> None:
        self._signal = signal

    def __repr__(self) -> str:
        return f"no signal {self._signal!r}"


class _Unnamed:
    """Takes the place of values of behaviors that the caller did not pass by name.

    The reason for the run's status then says so.
    """

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"{shown(self._value)}, not {{name: number}}"


def news_of(
    name: str,
    reading: Signal,
    reward: Any,
    behavior: Any,
    *,
    begun: bool,
) -> tuple[Any, Any]:
    """The reward and the behavior so far that the caller passed for the behavior ``name``.

    The second is None if the behavior is to be computed from the first. ``reward`` and ``behavior``
    are the arguments of `Watch.step`. ``reading`` says which signal the behavior is computed
    from. ``begun`` says whether the run has had a step.
    """
    if behavior is not None:
        if not isinstance(behavior, Mapping):
            return 0.0, _Unnamed(behavior)
        if name in behavior:
            return 0.0, behavior[name]
    signal = reading.column or "reward"
    missing = _Missing(signal) if begun else 0.0  # at the first step there is no signal yet
    found: Any = missing
    if isinstance(reward, Mapping):
        found = reward.get(signal, reward.get(name, missing))
    elif reading.column is None:
        found = reward
    if not reading.behavior.told:
        return found, None
    return 0.0, found if begun else None
