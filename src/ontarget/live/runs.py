"""The state of watched runs: as rows of a table, and as values to be stored and resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Behavior
from ontarget.errors import InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.kernels import NUMBERS
from ontarget.live import _run_kernel as k
from ontarget.live.outlook import Status
from ontarget.live.reasons import Reason

_MOST_STEPS: Final = 2**53
_GROUPS: Final = (str, int, float, bool, type(None))
RUN_FORMAT: Final = 1
# A packed run: this byte; these columns of its row (eight bytes each, little-endian); what it
# remembers of earlier steps; the last state; and anything else that it has, as JSON.
PACKED: Final = b"\x03"
PACKED_BEFORE: Final = b"\x02"  # by ontarget 0.2: one more number follows the columns
_WHOLE: Final = (
    k.T, k.GROUP, k.STREAK, k.ALARMED, k.SINCE, k.ENDED, k.LOST, k.STATUS, k.LAST_T, k.LAST_N,
    k.CODE,
)  # fmt: skip
_REAL: Final = (
    *range(NUMBERS), k.SO_FAR, k.ONE, k.OTHER, k.LOST_ONE, k.LOST_OTHER,
)  # fmt: skip
_TEXTS: Final = ("group", "target", "text")


@dataclass(frozen=True)
class RunState:
    """The state of a watched run, as a plain value that can be stored, sent and resumed.

    A watch that resumes this state gives exactly the answers, to the last bit, that the first watch
    would have given. ``step`` is that of the next call, ``so_far`` the behavior so far, and ``row``
    the last state with all its columns. NaN is stored as None.
    """

    step: int
    group: Any
    target: str
    behavior: Any  # its internal state: a number, or a nested tuple of numbers
    so_far: float | None
    # Why the behavior so far is unknown: a code (0 if it is known) and two details.
    lost: tuple[int, float | None, float | None]
    streak: int
    alarmed: bool
    since: int
    ended: bool
    row: tuple[float | None, ...] | None
    # The last answer: its step, n, status, the code of the reason, two details, and the numbers.
    outlook: tuple[float | None, ...]
    text: str = ""
    intervened_at: int | None = None
    history: tuple[tuple[float | None, ...], ...] = ()  # what the models read of the run so far
    parts: tuple[RunState, ...] = ()  # for a goal: the state of each of its behaviors
    format: int = RUN_FORMAT

    def reading(self, width: int) -> list[float]:
        """The last state as a list of numbers; before the first state, ``width`` zeros."""
        return [0.0] * width if self.row is None else [_float(one) for one in self.row]

    def to_json(self) -> dict[str, Any]:
        """The state as plain JSON values: lists, numbers, None for NaN."""
        found = {name: _plain(value) for name, value in vars(self).items() if name != "parts"}
        return found | ({"parts": [one.to_json() for one in self.parts]} if self.parts else {})

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RunState:
        """The state of a run, from what `to_json` returned."""
        stored: Any = found  # it may be anything
        given = stored.get("format", "none") if isinstance(stored, Mapping) else f"a {stored!r:.80}"
        if given != RUN_FORMAT:
            raise InputError(
                f"the stored state of a run needs format {RUN_FORMAT}, got {given!s:.80}"
            )
        if found.get("weight", 1.0) != 1.0:  # as ontarget 0.2 wrote it
            raise InputError(
                f"a stored run that has a weight is gone, got {found['weight']!r:.80}; begin the "
                "run again, or use ontarget 0.2"
            )
        try:
            parts = tuple(cls.from_json(one) for one in found.get("parts", ()))
            return cls(
                **{
                    str(name): value if name in _TEXTS else _tuples(value)
                    for name, value in found.items()
                    # ontarget 0.2 also stored a regime and a weight
                    if name not in ("parts", "regime", "weight")
                },
                parts=parts,
            )
        except (RecursionError, TypeError) as error:
            raise InputError(f"the stored state of a run is not valid: {error}") from error


@dataclass(frozen=True)
class Standings:
    """The states of many runs as arrays, one entry per run: what a service stores and shows."""

    packed: list[bytes]
    so_far: FloatArray
    group: IndexArray
    alarmed: BoolArray
    since: IndexArray
    ended: BoolArray
    reasoned: BoolArray


NO_MEMORY: FloatArray = read_only(np.zeros((0, 0)))


class RunTable:
    """A table of watched runs, one row each, as the compiled code in `_run_kernel` reads it."""

    __slots__ = (
        "_blank",
        "_initial",
        "_start",
        "_vectorised",
        "behaviors",
        "memory",
        "real",
        "taken",
        "texts",
        "whole",
    )

    def __init__(self, behavior: Behavior, n: int, blank: FloatArray = NO_MEMORY) -> None:
        self._blank = blank
        self._start, self._initial = behavior.start(), float(behavior.initial)
        self.whole: IndexArray = np.zeros((n, k.N_WHOLE), dtype=np.int64)
        self.real: FloatArray = np.zeros((n, k.N_REAL))
        # The internal state of behaviors that keep more than their value, which is a column.
        self._vectorised = behavior.vectorised
        self.behaviors: list[Any] = [] if self._vectorised else [self._start] * n
        self.texts: dict[int, str] = {}
        self.memory: FloatArray = np.zeros((n, *blank.shape))
        self.taken: dict[int, int] = {}  # the step at which somebody took a run over
        self.begin(slice(None))

    def grow(self, more: int) -> None:
        """Add rows, each at the beginning of a run."""
        n = len(self.whole)
        self.whole = np.concatenate([self.whole, np.zeros((more, k.N_WHOLE), dtype=np.int64)])
        self.real = np.concatenate([self.real, np.zeros((more, k.N_REAL))])
        self.memory = np.concatenate([self.memory, np.zeros((more, *self._blank.shape))])
        if not self._vectorised:
            self.behaviors += [self._start] * more
        self.begin(slice(n, n + more))

    def begin(self, rows: Any) -> None:
        """Begin new runs in these rows; each row keeps its group."""
        groups = self.whole[rows, k.GROUP].copy()
        self.whole[rows] = 0
        self.whole[rows, k.GROUP] = groups
        self.whole[rows, k.STATUS] = Status.PENDING
        self.whole[rows, k.CODE] = Reason.WAITING
        self.real[rows] = 0.0
        self.real[rows, :NUMBERS] = math.nan
        self.real[rows, k.SO_FAR] = self._initial
        self.memory[rows] = self._blank
        for row in range(len(self.whole))[rows] if isinstance(rows, slice) else rows:
            self.texts.pop(int(row), None)
            self.taken.pop(int(row), None)
            if self.behaviors:
                self.behaviors[row] = self._start

    def states_of(
        self, rows: IndexArray, *, groups: list[Any], target: str, readings: FloatArray
    ) -> list[RunState]:
        """The runs in these rows as `RunState` values."""
        whole, real = self.whole[rows].tolist(), numbers_or_none(self.real[rows])
        read, past = numbers_or_none(readings), numbers_or_none(self.memory[rows])
        return [
            RunState(
                step=counts[k.T],
                group=groups[i],
                target=target,
                behavior=self.behaviors[row] if self.behaviors else numbers[k.SO_FAR],
                so_far=numbers[k.SO_FAR],
                lost=(counts[k.LOST], numbers[k.LOST_ONE], numbers[k.LOST_OTHER]),
                streak=counts[k.STREAK],
                alarmed=bool(counts[k.ALARMED]),
                since=counts[k.SINCE],
                ended=bool(counts[k.ENDED]),
                row=tuple(read[i]) if counts[k.T] > 0 else None,
                outlook=(
                    counts[k.LAST_T],
                    counts[k.LAST_N],
                    counts[k.STATUS],
                    counts[k.CODE],
                    numbers[k.ONE],
                    numbers[k.OTHER],
                    *numbers[:NUMBERS],
                ),
                text=self.texts.get(row, ""),
                history=tuple(map(tuple, past[i])),
                intervened_at=self.taken.get(row),
            )
            for i, (row, counts, numbers) in enumerate(zip(rows.tolist(), whole, real, strict=True))
        ]

    def pack(self, rows: IndexArray, readings: FloatArray) -> list[bytes]:
        """The runs in these rows as bytes, which is many times faster than `states_of`."""
        whole = np.ascontiguousarray(self.whole[rows][:, _WHOLE]).view(np.float64)
        past = self.memory[rows].reshape(rows.size, -1)
        numbers = np.concatenate([whole, self.real[rows][:, _REAL], past, readings], axis=1)
        raw, size = numbers.astype("<f8", copy=False).tobytes(), 8 * numbers.shape[1]
        found = [PACKED + raw[i : i + size] for i in range(0, len(raw), size)]
        if self.behaviors or self.texts or self.taken:
            for i, row in enumerate(rows.tolist()):
                text, taken = self.texts.get(row, ""), self.taken.get(row)
                if self.behaviors or text or taken is not None:
                    kept = _plain(self.behaviors[row]) if self.behaviors else None
                    found[i] += json.dumps([kept, text, taken]).encode()
        return found

    def unpack(self, row: int, packed: bytes, fitted: Fitted) -> FloatArray:
        """Put a packed run into this row; returns the run's last state."""
        last, past, width = len(_WHOLE) + len(_REAL), self.memory[row].size, fitted.state_width
        n = last + past + width
        if packed[:1] == PACKED_BEFORE:
            packed = PACKED + packed[1 : 8 * last + 1] + packed[8 * last + 9 :]
        if packed[:1] != PACKED or len(packed) < 8 * n + 1:
            raise InputError(f"these bytes are not a packed run with {width} features")
        numbers = np.frombuffer(packed, dtype="<f8", count=n, offset=1).astype(np.float64)
        counts, real = numbers[: len(_WHOLE)].view(np.int64), numbers[len(_WHOLE) : last]
        details = [*real[:NUMBERS].tolist(), *real[NUMBERS + 1 : NUMBERS + 3].tolist()]
        check_counts(counts.tolist(), details, fitted)
        behavior, text, taken = _unpacked(packed[8 * n + 1 :])
        self.whole[row, _WHOLE], self.real[row, _REAL] = counts, real
        self.memory[row] = numbers[last : last + past].reshape(self.memory[row].shape)
        self.texts.pop(row, None)
        self.taken.pop(row, None)
        if self.behaviors and len(packed) > 8 * n + 1:
            self.behaviors[row] = _tuples(_unplain(behavior))
        if text:
            self.texts[row] = text
        if taken is not None:
            self.taken[row] = taken
        return numbers[n - width :]

    def restore(self, row: int, state: RunState) -> None:
        """Put a stored run into this row; the row already has the run's group."""
        whole, real = self.whole[row], self.real[row]
        last_t, last_n, status, code, one, other, *numbers = state.outlook
        whole[k.T], whole[k.STREAK] = state.step, state.streak
        whole[k.ALARMED], whole[k.SINCE] = state.alarmed, state.since
        whole[k.ENDED], whole[k.LOST] = state.ended, state.lost[0]
        whole[k.STATUS], whole[k.LAST_T] = status, last_t
        whole[k.LAST_N], whole[k.CODE] = last_n, code
        real[:NUMBERS] = [_float(value) for value in numbers]
        real[k.SO_FAR] = _float(state.so_far)
        real[k.ONE], real[k.OTHER] = _float(one), _float(other)
        real[k.LOST_ONE], real[k.LOST_OTHER] = _float(state.lost[1]), _float(state.lost[2])
        for place, seen in enumerate(state.history):
            self.memory[row, place] = [_float(value) for value in seen]
        if self.behaviors:
            self.behaviors[row] = _tuples(_unplain(state.behavior))
        self.texts.pop(row, None)
        self.taken.pop(row, None)
        if state.text:
            self.texts[row] = state.text
        if state.intervened_at is not None:
            self.taken[row] = state.intervened_at

    def take_over(self, rows: IndexArray) -> None:
        """Note that somebody takes these runs over now, unless a run was taken over before."""
        for row, t in zip(rows.tolist(), self.whole[rows, k.LAST_T].tolist(), strict=True):
            self.taken.setdefault(row, t)

    def held(self, rows: Iterable[int]) -> list[int]:
        """Those of the rows whose run was taken over and is in alarm: the alarm must stay on."""
        return [row for row in rows if row in self.taken and self.whole[row, k.ALARMED]]

    def hold(self, rows: list[int]) -> None:
        """Keep the runs in these rows in alarm, whatever p does."""
        for row in rows:
            self.whole[row, [k.ALARMED, k.STATUS]] = 1, Status.ALARM


def admitted(
    state: RunState, fitted: Fitted, target: object, memory: tuple[int, ...] = (0, 0)
) -> int:
    """The group number of a stored run; an error if it was watched for another target."""
    width = fitted.state_width
    check_values(state, fitted)
    if state.target != str(target):
        raise InputError(
            f"the stored run needs the target {target}, as this watch has, got {state.target}"
        )
    if state.row is not None and len(state.row) != width:
        raise InputError(
            f"the stored run needs {width} numbers in its row, one per column of a state, got "
            f"{len(state.row)}"
        )
    remembered = [len(one) for one in state.history]
    if remembered != [memory[1]] * memory[0]:
        raise InputError(
            f"the stored run needs a history of {memory[0]} rows with {memory[1]} numbers each, "
            f"because the monitor has history={fitted.history.to_json()}, "
            f"got rows of {remembered!s:.80}"
        )
    group = fitted.group_of(state.group)
    last_t, last_n, status, code, one, other, *numbers = state.outlook
    whole = (state.step, group, state.streak, state.alarmed, state.since, state.ended)
    counts: Any = (*whole, state.lost[0], status, last_t, last_n, code)
    check_counts(counts, [_float(x) for x in (*numbers, one, other)], fitted)
    return group


def state_of(packed: bytes) -> RunState:
    """The state of a run that was watched for a goal, read from the bytes it was packed into."""
    try:
        found = json.loads(packed)
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"these bytes are not a packed run that was watched for a goal: {error}"
        ) from error
    return RunState.from_json(found)


def _unpacked(rest: bytes) -> tuple[Any, str, int | None]:
    """What follows the numbers of a packed run: its behavior, a reason's text, and a step."""
    if not rest:
        return None, "", None
    try:
        behavior, text, taken = json.loads(rest)
    except (RecursionError, TypeError, ValueError) as error:
        raise InputError(f"these bytes are not a packed run: {error}") from error
    if not isinstance(text, str) or not (taken is None or (type(taken) is int and taken >= 0)):
        raise InputError("these bytes are not a packed run: they need a text, and a step or null")
    return behavior, text, taken


def numbers_or_none(values: FloatArray) -> list[list[Any]]:
    """An array of numbers as nested lists, with None for NaN."""
    found = values.astype(np.object_)
    found[np.isnan(values)] = None
    rows: list[list[Any]] = found.tolist()
    return rows


def _float(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(value: Any) -> Any:
    """The value in a form for JSON: lists for tuples, None for NaN, text for infinities."""
    if isinstance(value, float):
        return None if math.isnan(value) else repr(value) if math.isinf(value) else value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _unplain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_unplain(one) for one in value]
    return math.nan if value is None else value


def _tuples(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_tuples(one) for one in value)
    return float(value) if value in ("inf", "-inf") else value


def stretches(values: IndexArray) -> list[tuple[int, int]]:
    """The start and the end of each stretch of equal neighbouring values, in order.

    The end is the position after the last value of the stretch.

    Examples
    --------
    >>> stretches(np.array([3, 3, 1]))
    [(0, 2), (2, 3)]
    """
    if not values.size:
        return []
    inner = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    return list(pairwise([0, *inner, values.size]))


def check_counts(counts: Sequence[int], details: Sequence[float], fitted: Fitted) -> None:
    """Raise an `InputError` if the whole numbers in a stored run are impossible."""
    # ``counts`` are these numbers, in the order in which a run is packed. ``details`` are the
    # numbers of the run's last answer, then the two details of the reason for its status. The check
    # matters because the compiled code uses the step and the group as indices without checking
    # them.
    t, group, streak, alarmed, since, ended, lost, status, last_t, last_n, code = counts
    *numbers, one, _ = details
    last = fitted.horizon + 1 if fitted.horizon_declared else _MOST_STEPS
    if not 0 <= t <= last:
        raise InputError(f"the stored run needs a step from 0 to {last}, got {t}")
    rules = {
        f"group needs 0 to {fitted.n_groups - 1}, got {group}": 0 <= group < fitted.n_groups,
        f"outlook needs a step up to {t}, got {last_t}": 0 <= last_t <= t,
        "streak, since and n need whole numbers from 0 up": min(streak, since, last_n) >= 0,
        "alarmed and ended need to be true or false": {alarmed, ended} <= {0, 1},
        f"status needs a number from 0 to {len(Status) - 1}, got {status}": status in set(Status),
        "reason needs a known code": {lost, code} <= set(Reason),
        "reason needs the number of a feature": code != Reason.BAD_FEATURE
        or one in range(fitted.state_width),
        "the probabilities of the outlook need to lie between -1 and 1": all(
            -1.0 <= x <= 1.0 or x != x for x in numbers
        ),
    }
    for rule, holds in rules.items():
        if not holds:
            raise InputError(f"the stored run does not belong to this monitor: {rule}")


def check_values(state: Any, fitted: Fitted) -> None:
    """Raise an `InputError` if the fields of a stored state do not have the types of `RunState`."""
    kinds = {
        "target and text need texts": isinstance(state.target, str) and isinstance(state.text, str),
        "group needs a name": isinstance(state.group, _GROUPS),
        "step, streak and since need whole numbers": _whole(state.step, state.streak, state.since),
        "alarmed and ended need to be true or false": {state.alarmed, state.ended} <= {0, 1}
        if _whole(state.alarmed, state.ended)
        else False,
        "lost needs a code and two numbers": _tuple(state.lost, 3)
        and _whole(state.lost[0])
        and _numbers(state.lost[1:]),
        f"outlook needs {6 + NUMBERS} numbers": _tuple(state.outlook, 6 + NUMBERS)
        and _whole(*state.outlook[:4])
        and _numbers(state.outlook[4:]),
        "so_far needs a number or null": _numbers([state.so_far]),
        "row needs numbers or null": state.row is None
        or (isinstance(state.row, tuple) and _numbers(state.row)),
        "history needs rows of numbers": isinstance(state.history, tuple)
        and all(isinstance(one, tuple) and _numbers(one) for one in state.history),
        "intervened_at needs a step or null": state.intervened_at is None
        or (_whole(state.intervened_at) and state.intervened_at >= 0),
    }
    for kind, holds in kinds.items():
        if not holds:
            raise InputError(f"the stored state of a run is not valid: {kind}")


def _tuple(value: Any, size: int) -> bool:
    return isinstance(value, tuple) and len(value) == size


def _whole(*values: Any) -> bool:
    return all(isinstance(one, int) and -(2**63) <= one < 2**63 for one in values)


def _numbers(values: Any) -> bool:
    """Whether every value is None or a number that fits into a float."""
    return all(one is None or isinstance(one, float) or _whole(one) for one in values)
