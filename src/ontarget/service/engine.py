"""The engine: steps in, answers out, each of them on disk before it is given."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from ontarget.errors import OntargetError, StoreError
from ontarget.live import FleetWatch, Outlooks, RunState, Status
from ontarget.live.runs import numbers_or_none
from ontarget.service.contracts import Held, HeldContracts
from ontarget.service.messages import (
    Answer,
    Problem,
    StepMessage,
    payload_of,
    run_id,
)
from ontarget.service.store import Batch, ConflictError, Progress, Store, StoredRun

__all__ = ["QUARTERS", "Engine", "Reply"]

Reply: TypeAlias = bytes | Problem  # an answer as JSON, or what is wrong
Notify: TypeAlias = Callable[[Batch, StoredRun, str, str], None]

_ATTEMPTS: Final = 8  # times that other workers may come first, before the agent is asked to wait
_NO_STATE: Final = 'a step needs a "state", or "end": true'
QUARTERS: Final = 4  # steps per run whose p is kept, to count how often it came true
_UNMARKED: Final = msgspec.msgpack.encode([None] * QUARTERS)
_encoder: Final = msgspec.json.Encoder()
_NAMES: Final = tuple(status.name for status in Status)


@dataclass(slots=True)
class _Run:
    """A run in memory: as stored, and what this transaction adds to it."""

    stored: StoredRun
    held: Held
    expected: int  # the next step in the database; −1 before the run is there
    resumed: bool  # whether the fleet has it
    marks: list[float | None]
    alarm: str = ""  # the id of the alarm it is in
    group: Any = None
    last: tuple[int, bytes, bytes] | None = None
    fresh: list[tuple[int, bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class _Accepted:
    place: int
    run: _Run
    message: StepMessage
    payload: bytes


class Engine:
    """Takes steps of many runs at once, and answers each.

    For one thread. Runs are kept in memory as long as there is room, and read from the store again
    when they are not there. Whatever fails to be written is forgotten, so memory never runs ahead
    of the store.

    Parameters
    ----------
    store
        Where runs and steps are kept.
    contracts
        What runs are held to.
    clock
        What tells the time, in seconds since 1970.
    most_runs
        How many runs are kept in memory.
    longest_run
        How many steps a run may have.
    most_agents
        How many agents there may be.
    notify
        Adds the messages about an alarm to a batch: called with the batch, the run, the alarm's id
        and ``"firing"`` or ``"resolved"``.
    """

    def __init__(
        self,
        store: Store,
        contracts: HeldContracts,
        *,
        clock: Callable[[], float],
        most_runs: int = 100_000,
        longest_run: int = 1_000_000,
        most_agents: int = 1_000_000,
        notify: Notify | None = None,
    ) -> None:
        self.store = store
        self.contracts = contracts
        self._clock = clock
        self._most_runs = most_runs
        self._longest = longest_run
        self._most_agents = most_agents
        self._notify = notify
        self._arriving: set[str] = set()  # agents of runs that are not stored yet
        self.count_agents()
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def take(self, messages: Sequence[StepMessage]) -> list[Reply]:
        """The reply to each message, once all that they bring is on disk."""
        for _ in range(_ATTEMPTS):
            self._arriving.clear()
            ids = [run_id(one.agent, one.run) for one in messages]
            try:
                replies, batch = self._decided(messages, ids)
                if batch.progress:
                    self.store.commit(batch)
            except ConflictError:
                self.forget(ids)
                continue
            except BaseException:
                self.forget(ids)
                raise
            self._settle(batch)
            return replies
        raise StoreError("other workers kept moving these runs on; send the steps again")

    def forget(self, ids: Iterable[str]) -> None:
        """Drop runs from memory; the store knows them."""
        for key in ids:
            run = self._runs.pop(key, None)
            if run is not None:
                run.held.drop(run.stored.target, key)

    def count_agents(self) -> None:
        """Read from the store which agents there are."""
        with self.store.database.read() as at:
            self._agents = {row[0] for row in at.rows("SELECT DISTINCT agent FROM runs")}

    def _decided(
        self, messages: Sequence[StepMessage], ids: Sequence[str]
    ) -> tuple[list[Reply], Batch]:
        """The replies, and what has to be written before they may be given."""
        batch = Batch(at=self._clock())
        self._load(messages, ids)
        replies: list[Reply | None] = [None] * len(messages)
        by_run: dict[str, list[int]] = {}
        for place, key in enumerate(ids):
            by_run.setdefault(key, []).append(place)
        touched: dict[str, _Run] = {}
        for wave in zip_longest(*by_run.values()):
            accepted = []
            for place in wave:
                if place is not None:
                    found = self._checked(messages[place], ids[place], place, batch.at)
                    if isinstance(found, _Accepted):
                        accepted.append(found)
                        touched[ids[place]] = found.run
                    else:
                        replies[place] = found
            self._advance(accepted, batch, replies)
        batch.progress = [
            Progress(run.stored, run.expected, run.fresh) for run in touched.values() if run.fresh
        ]
        return [one for one in replies if one is not None], batch

    def _load(self, messages: Sequence[StepMessage], ids: Sequence[str]) -> None:
        """Read the runs that are not in memory, or that another worker may have moved on."""
        wanted: set[str] = set()
        for key, message in zip(ids, messages, strict=True):
            run = self._runs.get(key)
            if run is None:
                wanted.add(key)
            elif self.store.shared and message.step > run.stored.next:
                self.forget([key])
                wanted.add(key)
            else:
                self._runs.move_to_end(key)
        for key, stored in self.store.find_runs(sorted(wanted)).items():
            held = self.contracts.held(stored.contract)
            marks = msgspec.msgpack.decode(stored.marks)
            self._runs[key] = _Run(stored, held, stored.next, False, marks)

    def _checked(self, message: StepMessage, key: str, place: int, at: float) -> _Accepted | Reply:
        """The message with its run if it is the next one; otherwise the reply to it."""
        payload = payload_of(message)
        run = self._runs.get(key)
        if run is None:
            if message.step != 0:
                return _problem(message, 409, "gap", "this run has not begun", expected=0)
            if message.state is None and not message.end:
                return _problem(message, 422, "no state", _NO_STATE)
            begun = self._begun(message, key, at)
            if isinstance(begun, Problem):
                return begun
            run = self._runs[key] = begun
        stored = run.stored
        if message.step < stored.next:
            return self._again(message, payload, run)
        if stored.ended_at is not None:
            return _problem(message, 409, "ended", "this run is over; begin another")
        if message.step > stored.next:
            wrong = f"step {stored.next} has not arrived"
            return _problem(message, 409, "gap", wrong, expected=stored.next)
        if message.state is None and not message.end:
            return _problem(message, 422, "no state", _NO_STATE)
        if message.step >= self._longest:
            return _problem(message, 422, "too long", f"a run has at most {self._longest:,} steps")
        return _Accepted(place, run, message, payload)

    def _begun(self, message: StepMessage, key: str, at: float) -> _Run | Problem:
        """A new run, in memory alone."""
        known = message.agent in self._agents or message.agent in self._arriving
        if not known and len(self._agents) + len(self._arriving) >= self._most_agents:
            wrong = (
                f"the service takes {self._most_agents:,} agents; delete some, or raise the limit"
            )
            return _problem(message, 403, "too many agents", wrong)
        try:
            held = self.contracts.named(message.contract)
            target = message.target or held.spec.target
            fleet = held.fleet(target)
            fleet.join([key], groups=message.group)
        except OntargetError as error:
            return _problem(message, 422, "cannot begin", str(error))
        stored = StoredRun(
            number=0, id=key, agent=message.agent, run=message.run, contract=held.id, target=target,
            started_at=at, next=0, state=b"", last=0, status="PENDING", alarmed=0, marks=_UNMARKED,
            intervened_at=None, updated_at=at, ended_at=None, met=None,
        )  # fmt: skip
        if message.agent not in self._agents:
            self._arriving.add(message.agent)
        return _Run(stored, held, -1, True, [None] * QUARTERS, group=message.group)

    def _again(self, message: StepMessage, payload: bytes, run: _Run) -> Reply:
        """The reply to a step that was taken already: the same answer, or a refusal."""
        found = next((one for one in run.fresh if one[0] == message.step), None)
        if found is None and run.last is not None and run.last[0] == message.step:
            found = run.last
        if found is None:
            rows = self.store.history(run.stored, least=message.step, most=message.step)
            if not rows:
                return _problem(message, 409, "unknown", "this step is no longer stored")
            found = rows[0].step, bytes(rows[0].payload), bytes(rows[0].answer)
        if found[1] != payload:
            wrong = "another message with this agent, run and step was taken before"
            return _problem(message, 409, "conflict", wrong, expected=run.stored.next)
        answer = msgspec.json.decode(found[2], type=Answer)
        return _encoder.encode(msgspec.structs.replace(answer, duplicate=True))

    def _advance(
        self, accepted: Sequence[_Accepted], batch: Batch, replies: list[Reply | None]
    ) -> None:
        """Move runs one step on, those alike in one call."""
        alike: dict[tuple[int, str, bool, bool], list[_Accepted]] = {}
        for one in accepted:
            told = one.message.behavior is not None
            run = one.run
            kind = run.held.id, run.stored.target, told, one.message.end
            alike.setdefault(kind, []).append(one)
        for (_, target, told, ends), some in alike.items():
            fleet = some[0].run.held.fleet(target)
            keys = [one.run.stored.id for one in some]
            for one in some:
                if not one.run.resumed:
                    _resume(fleet, one.run)
            outlooks = _stepped(fleet, some, keys, told=told, ends=ends)
            self._note(some, outlooks, fleet, keys, batch, replies)

    def _note(
        self,
        some: Sequence[_Accepted],
        outlooks: Outlooks,
        fleet: FleetWatch,
        keys: Sequence[str],
        batch: Batch,
        replies: list[Reply | None],
    ) -> None:
        """Write down where runs are now, and the answers."""
        states = fleet.run_states(keys)
        numbers = np.column_stack(
            [
                outlooks.p,
                outlooks.spread,
                outlooks.low,
                outlooks.high,
                outlooks.plausibility,
                outlooks.assurance,
            ]
        )
        rows = numbers_or_none(numbers)
        counts, statuses = outlooks.n.tolist(), outlooks.status.tolist()
        said = datetime.fromtimestamp(batch.at, UTC).isoformat(timespec="milliseconds")
        shown = said.replace("+00:00", "Z")
        thresholds = [_finite(trigger.threshold) for trigger in fleet.triggers]
        horizon = some[0].run.held.monitor.fitted.horizon
        groups = some[0].run.held.monitor.fitted.groups
        for i, (one, state) in enumerate(zip(some, states, strict=True)):
            run, stored = one.run, one.run.stored
            status, row, reason = _NAMES[statuses[i]], rows[i], outlooks.words(i)
            ended = state.ended or one.message.end
            self._judge(run, state, ended, reason, batch)
            place = 0 if groups is None or len(thresholds) == 1 else groups.index(state.group)
            answer = Answer(
                agent=stored.agent,
                run=stored.run,
                id=stored.id,
                contract=run.held.label,
                step=stored.next,
                p=row[0],
                spread=None if row[1] is None else (row[1], row[2]),
                low=row[3],
                high=row[4],
                plausibility=row[5],
                assurance=row[6],
                n=counts[i],
                so_far=state.so_far if state.so_far is None else _finite(state.so_far),
                threshold=thresholds[place],
                status=status,
                at=shown,
                reason=reason,
                alarm=run.alarm,
                end=ended,
            )
            said_bytes = _encoder.encode(answer)
            run.fresh.append((stored.next, one.payload, said_bytes))
            quarter, rest = divmod(stored.next * QUARTERS, horizon)
            if rest < QUARTERS and quarter < QUARTERS and not ended:
                run.marks[quarter] = row[0]
                stored.marks = msgspec.msgpack.encode(run.marks)
            if one.message.intervened and stored.intervened_at is None:
                stored.intervened_at = stored.next
            stored.next += 1
            stored.state = msgspec.msgpack.encode(vars(state))
            stored.status, stored.alarmed = status, int(bool(run.alarm))
            stored.updated_at = batch.at
            if ended:
                stored.ended_at = batch.at
                stored.met = int(row[0]) if status == "DONE" else None
            replies[one.place] = said_bytes

    def _judge(self, run: _Run, state: RunState, ended: bool, reason: str, batch: Batch) -> None:
        """Raise the run's alarm, or clear it."""
        stands = state.alarmed and not ended
        if stands and not run.alarm:
            run.alarm = f"{run.stored.id}-{state.since}"
            batch.raised.append((run.stored.id, run.alarm, "target", reason))
            if self._notify is not None:
                self._notify(batch, run.stored, run.alarm, "firing")
        elif run.alarm and not stands:
            batch.cleared.append(run.alarm)
            if self._notify is not None:
                self._notify(batch, run.stored, run.alarm, "resolved")
            run.alarm = ""

    def _settle(self, batch: Batch) -> None:
        """After a commit: what was new is stored, and runs that ended may go."""
        self._agents |= self._arriving
        for one in batch.progress:
            run = self._runs[one.run.id]
            run.expected, run.last, run.fresh = one.run.next, run.fresh[-1], []
        self.forget([one.run.id for one in batch.progress if one.run.ended_at is not None])
        while len(self._runs) > self._most_runs:
            self.forget([next(iter(self._runs))])


def _resume(fleet: FleetWatch, run: _Run) -> None:
    """Put a stored run into its fleet."""
    state = RunState.from_json(msgspec.msgpack.decode(run.stored.state))
    fleet.resume(run.stored.id, state)
    run.alarm = f"{run.stored.id}-{state.since}" if state.alarmed else ""
    run.resumed = True


def _stepped(
    fleet: FleetWatch, some: Sequence[_Accepted], keys: Sequence[str], *, told: bool, ends: bool
) -> Outlooks:
    """The outlooks of runs after their next step, or after their end."""
    messages = [one.message for one in some]
    # Before the first step nothing is earned; later null says that nobody knows.
    rewards = [
        (math.nan if one.step else 0.0) if one.reward is None else one.reward for one in messages
    ]
    behavior = np.array([one.behavior for one in messages], dtype=np.float64) if told else None
    if ends:
        return fleet.end(rewards, agents=keys, behavior=behavior)
    states = [_reading(one.state) for one in messages]
    return fleet.step(states, rewards, agents=keys, behavior=behavior)


def _reading(state: Any) -> Any:
    """A state with NaN for what is missing."""
    if isinstance(state, dict):
        if None not in state.values():
            return state
        return {name: math.nan if one is None else one for name, one in state.items()}
    return [math.nan if one is None else one for one in state]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _problem(
    message: StepMessage, status: int, title: str, detail: str, *, expected: int | None = None
) -> Problem:
    return Problem(
        status=status,
        title=title,
        detail=detail,
        type=f"urn:ontarget:{title.replace(' ', '-')}",
        expected=expected,
        agent=message.agent,
        run=message.run,
        step=message.step,
    )
