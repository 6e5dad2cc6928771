"""The engine: it takes steps of runs, stores them, and then returns the answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from ontarget.errors import OntargetError, StoreError
from ontarget.live import FleetWatch, Outlooks, RunState, Status
from ontarget.live.protocol import earned, fields_of, reading
from ontarget.live.runs import PACKED, PACKED_BEFORE
from ontarget.service.held import ClosedError, Held, HeldContracts
from ontarget.service.messages import Answer, Problem, StepMessage, payload_of, run_id
from ontarget.service.store import Batch, ConflictError, Run, Store

Reply: TypeAlias = bytes | Problem  # an answer as JSON, or what is wrong
Notify: TypeAlias = Callable[[Batch, Run, str, str], None]

_ATTEMPTS: Final = 8  # times that other workers may come first, before the agent is asked to wait
_NO_STATE: Final = 'a step needs a "state", or "end": true'
_SIGNALS: Final = 'a goal over several behaviors reads "reward" and "signals", not "behavior"'
_CUT_OFF: Final = "cut off: the outcome is unknown"
QUARTERS: Final = 4  # steps per run whose p is kept, to count how often it came true
_UNMARKED: Final = msgspec.msgpack.encode([None] * QUARTERS)
_encoder: Final = msgspec.json.Encoder()


class _Accepted(NamedTuple):
    """A message that was accepted as the next step of its run, with its position in the request."""

    place: int
    run: Run
    message: StepMessage
    payload: bytes


class Engine:
    """Takes steps of many runs at once, and returns an answer to each.

    Only one thread may use an engine. It keeps up to ``most_runs`` runs in memory, and reads other
    runs from the store when they report. If a write to the store fails, its changes are dropped
    from memory too, so that memory and store agree.

    Parameters
    ----------
    store
        Where runs and steps are kept.
    contracts
        The service's contracts (each a monitor, a target and an alarm rule).
    clock
        A function that returns the time in seconds since 1970.
    most_runs
        How many runs are kept in memory.
    longest_run
        How many steps a run may have at most.
    most_agents
        How many agents may use the service.
    notify
        A function that adds the messages about an alarm to a batch (the data of one transaction).
        It is called with the batch, the run, the alarm's id and ``"firing"`` or ``"resolved"``.
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
        self._strangers: list[tuple[Held, dict[str, str]]] = []  # of steps not stored yet
        self.count_agents()
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def take(self, messages: Sequence[StepMessage]) -> list[Reply]:
        """The reply to each message; all messages are on disk when this returns."""
        for _ in range(_ATTEMPTS):
            self._arriving.clear()
            self._strangers.clear()
            ids = [run_id(one.agent, one.run) for one in messages]
            try:
                replies, batch = self._decided(messages, ids)
                if batch.runs:
                    self.store.commit(batch)
            except ConflictError:
                self.forget(ids)
                continue
            except BaseException:
                self.forget(ids)
                raise
            self._settle(batch)
            return replies
        raise StoreError("other workers kept changing these runs; send the steps again")

    def forget(self, ids: Iterable[str]) -> None:
        """Drop the runs with these ids from memory; they stay in the database."""
        for key in ids:
            run = self._runs.pop(key, None)
            if run is not None:
                self.contracts.held(run.contract).drop(run.target, key)

    def count_agents(self) -> None:
        """Read the names of all known agents from the database."""
        with self.store.database.read() as at:
            self._agents = {row[0] for row in at.rows("SELECT DISTINCT agent FROM runs")}

    def _decided(
        self, messages: Sequence[StepMessage], ids: Sequence[str]
    ) -> tuple[list[Reply], Batch]:
        """The reply to each message, and the data to write to the database before replying."""
        batch = Batch(at=self._clock())
        self._load(messages, ids)
        replies: list[Reply | None] = [None] * len(messages)
        touched: dict[str, Run] = {}
        for wave in _waves(ids):
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
        batch.runs = [run for run in touched.values() if run.fresh]
        return [one for one in replies if one is not None], batch

    def _load(self, messages: Sequence[StepMessage], ids: Sequence[str]) -> None:
        """Read into memory the runs that these messages are about, if they are not there yet."""
        wanted: set[str] = set()
        crowded = 2 * len(self._runs) > self._most_runs  # then it matters which were used last
        for key, message in zip(ids, messages, strict=True):
            run = self._runs.get(key)
            if run is None:
                wanted.add(key)
            elif self.store.shared and message.step > run.next:
                self.forget([key])
                wanted.add(key)
            elif crowded:
                self._runs.move_to_end(key)
        for key, run in self.store.find_runs(sorted(wanted)).items():
            run.expected = run.next
            self._runs[key] = run

    def _checked(self, message: StepMessage, key: str, place: int, at: float) -> _Accepted | Reply:
        """The message with its run, if the message is the run's next step; otherwise a reply."""
        payload = payload_of(message)
        run = self._runs.get(key)
        if run is None:
            if message.step != 0:
                wrong = "this run has not begun; send step 0"
                return _problem(message, 409, "gap", wrong, expected=0)
            if message.state is None and not message.is_last:
                return _problem(message, 422, "no state", _NO_STATE)
            begun = self._begun(message, key, at)
            if isinstance(begun, Problem):
                return begun
            run = self._runs[key] = begun
        if message.step < run.next:
            return self._again(message, payload, run)
        if run.ended_at is not None:
            return _problem(message, 409, "ended", "this run is over; begin another")
        held = self.contracts.held(run.contract)
        if held.closed:
            return _problem(message, 409, "closed contract", str(held.refusal))
        if message.step > run.next:
            wrong = f"step {run.next} has not arrived; send it first"
            return _problem(message, 409, "gap", wrong, expected=run.next)
        if message.state is None and not message.is_last:
            return _problem(message, 422, "no state", _NO_STATE)
        if message.behavior is not None and held.monitor.readings:
            return _problem(message, 422, "several behaviors", _SIGNALS)
        if message.step >= self._longest:
            return _problem(message, 422, "too long", f"a run has at most {self._longest:,} steps")
        return _Accepted(place, run, message, payload)

    def _begun(self, message: StepMessage, key: str, at: float) -> Run | Problem:
        """A new run, which is not in the database yet; or what is wrong with the message."""
        known = message.agent in self._agents or message.agent in self._arriving
        if not known and len(self._agents) + len(self._arriving) >= self._most_agents:
            wrong = (
                f"the service allows {self._most_agents:,} agents; delete some, or raise the limit"
            )
            return _problem(message, 403, "too many agents", wrong)
        try:
            held = self.contracts.named(message.contract)
            target = message.target or held.spec.target
            fleet = held.fleet(target)
            fleet.join([key], groups=message.group)
        except ClosedError as error:
            return _problem(message, 409, "closed contract", str(error))
        except OntargetError as error:
            return _problem(message, 422, "cannot begin", str(error))
        run = Run(
            number=0, id=key, agent=message.agent, run=message.run, contract=held.id, target=target,
            started_at=at, next=0, state=b"", last=0, status="PENDING", alarmed=0, marks=_UNMARKED,
            intervened_at=None, updated_at=at, ended_at=None, met=None, cut_off=0, resumed=True,
        )  # fmt: skip
        if message.agent not in self._agents:
            self._arriving.add(message.agent)
        return run

    def _again(self, message: StepMessage, payload: bytes, run: Run) -> Reply:
        """The reply to a step that was sent again."""
        found = next((one for one in run.fresh if one[0] == message.step), None)
        if found is None and run.answered is not None and run.answered[0] == message.step:
            found = run.answered
        if found is None:
            rows = self.store.history(run, least=message.step, most=message.step)
            if not rows:
                return _problem(message, 409, "unknown", "this step is no longer stored")
            found = rows[0].step, bytes(rows[0].payload), bytes(rows[0].answer)
        if found[1] != payload:
            wrong = "a different message for this agent, run and step was accepted before"
            return _problem(message, 409, "conflict", wrong, expected=run.next)
        answer = msgspec.json.decode(found[2], type=Answer)
        return _encoder.encode(msgspec.structs.replace(answer, duplicate=True))

    def _advance(
        self, accepted: Sequence[_Accepted], batch: Batch, replies: list[Reply | None]
    ) -> None:
        """Let each run take its next step; runs of the same contract and target go together."""
        alike: dict[tuple[int, str, bool, bool, bool], list[_Accepted]] = {}
        for one in accepted:
            run, message = one.run, one.message
            told = message.behavior is not None
            kind = run.contract, run.target, told, message.is_last, message.truncated
            alike.setdefault(kind, []).append(one)
        for (number, target, *_), some in alike.items():
            held = self.contracts.held(number)
            fleet = held.fleet(target)
            resume(fleet, [one.run for one in some if not one.run.resumed])
            outlooks = _moved(held, fleet, some)
            _intervene(fleet, some, outlooks)
            self._note(some, outlooks, held, fleet, batch, replies)

    def _note(
        self,
        some: Sequence[_Accepted],
        outlooks: Outlooks,
        held: Held,
        fleet: FleetWatch,
        batch: Batch,
        replies: list[Reply | None],
    ) -> None:
        """Record the new states of runs in ``batch``, and their answers in ``replies``."""
        keys, last = [one.run.id for one in some], some[0].message.is_last
        stands, thresholds = fleet.standings(keys), [one.threshold for one in fleet.triggers]
        parts = {name: found.p.tolist() for name, found in fleet.parts(keys).items()}
        schema, horizon = held.fitted.schema, held.fitted.horizon
        at = datetime.fromtimestamp(batch.at, UTC).isoformat(timespec="milliseconds")
        shown = at.replace("+00:00", "Z")
        spoken = stands.reasoned | some[0].message.truncated
        for i, (one, outlook, state, so_far, group, alarmed, since, over) in enumerate(
            zip(
                some, outlooks.each(spoken), stands.packed, stands.so_far.tolist(),
                stands.group.tolist(), stands.alarmed.tolist(), stands.since.tolist(),
                stands.ended.tolist(), strict=True,
            )
        ):  # fmt: skip
            run, message, ended = one.run, one.message, last or over
            if alarmed or run.alarm:
                self._judge(run, since, batch, outlook.reason, stands=alarmed and not ended)
            unseen = schema.unseen_in(message.state)
            if unseen:
                self._strangers.append((held, unseen))
            answer = _encoder.encode(  # infinite numbers and NaN become null
                Answer(
                    agent=run.agent, run=run.run, id=run.id, contract=held.label, step=run.next,
                    so_far=so_far, threshold=thresholds[group], at=shown, alarm=run.alarm,
                    end=ended, parts={name: own[i] for name, own in parts.items()}, unseen=unseen,
                    **fields_of(outlook),
                )
            )  # fmt: skip
            run.fresh.append((run.next, one.payload, answer))
            run.next, run.state, run.updated_at = run.next + 1, state, batch.at
            _change(run, message, outlook.p, outlook.status, horizon, ended=ended, at=batch.at)
            replies[one.place] = answer

    def _judge(self, run: Run, since: int, batch: Batch, reason: str, *, stands: bool) -> None:
        """Raise the run's alarm if ``stands`` is true, otherwise clear it."""
        if stands and not run.alarm:
            run.alarm = f"{run.id}-{since}"
            batch.raised.append((run.id, run.alarm, "target", reason))
            if self._notify is not None:
                self._notify(batch, run, run.alarm, "firing")
        elif run.alarm and not stands:
            batch.cleared.append(run.alarm)
            if self._notify is not None:
                self._notify(batch, run, run.alarm, "resolved")
            run.alarm = ""

    def _settle(self, batch: Batch) -> None:
        """After a commit: mark new runs as stored, and drop runs that have ended from memory."""
        self._agents |= self._arriving
        for held, unseen in self._strangers:
            held.strangers.add(unseen)
        for run in batch.runs:
            run.expected, run.answered, run.fresh, run.only_moved = (
                run.next,
                run.fresh[-1],
                [],
                True,
            )
        self.forget([run.id for run in batch.runs if run.ended_at is not None])
        while len(self._runs) > self._most_runs:
            self.forget([next(iter(self._runs))])


def _waves(ids: Sequence[str]) -> Iterable[Iterable[int | None]]:
    """The positions of the messages, divided into rounds with at most one message of each run."""
    if len(set(ids)) == len(ids):
        return [range(len(ids))]
    by_run: dict[str, list[int]] = {}
    for place, key in enumerate(ids):
        by_run.setdefault(key, []).append(place)
    return zip_longest(*by_run.values())


def resume(fleet: FleetWatch, runs: Sequence[Run]) -> None:
    """Put runs read from the database into the fleet that follows them."""
    if not runs:
        return
    packed: dict[Hashable, bytes] = {}
    for run in runs:
        state = bytes(run.state)
        if state[:1] in (b"{", PACKED, PACKED_BEFORE):
            packed[run.id] = state
        else:  # as schema 1 stored it
            fleet.resume(run.id, RunState.from_json(msgspec.msgpack.decode(state)))
    fleet.unpack(packed)
    standings = fleet.standings([run.id for run in runs])
    found = zip(runs, standings.alarmed.tolist(), standings.since.tolist(), strict=True)
    for run, alarmed, since in found:
        run.alarm = f"{run.id}-{since}" if alarmed else ""
        run.resumed = True


def _moved(held: Held, fleet: FleetWatch, some: Sequence[_Accepted]) -> Outlooks:
    """The monitor's answers about runs that have taken a step, have ended or were cut off."""
    messages, keys = [one.message for one in some], [one.run.id for one in some]
    if messages[0].truncated:
        unknown = Outlooks.pending(len(some), lambda _: _CUT_OFF)
        unknown.status[:] = Status.UNKNOWN
        return unknown
    named = bool(held.monitor.readings)
    rewards = [
        earned(one.reward, one.signals if named else None, first=not one.step) for one in messages
    ]
    behavior: Any = None
    if messages[0].behavior is not None:
        behavior = np.array([one.behavior for one in messages], dtype=np.float64)
    if messages[0].is_last:
        return fleet.end(rewards, agents=keys, behavior=behavior)
    states = [reading(one.state) for one in messages]
    return fleet.step(states, rewards, agents=keys, behavior=behavior)


def _intervene(fleet: FleetWatch, some: Sequence[_Accepted], outlooks: Outlooks) -> None:
    """Tell the fleet, which follows these runs, which of them somebody has just taken over."""
    taken = [
        one.run.id
        for one, status in zip(some, outlooks.status.tolist(), strict=True)
        if one.message.intervened and one.run.intervened_at is None and status != Status.DONE
    ]
    if taken:
        fleet.intervene(taken)


def _change(
    run: Run,
    message: StepMessage,
    p: float,
    status: Status,
    horizon: int,
    *,
    ended: bool,
    at: float,
) -> None:
    """Record what changes only at some steps: status, alarm, takeover, end, p at the quarters."""
    name, alarmed = status.name, 1 if run.alarm else 0
    if name != run.status or alarmed != run.alarmed:
        run.status, run.alarmed = name, alarmed
        run.only_moved = False
    if message.intervened and run.intervened_at is None:
        run.intervened_at = message.step
        run.only_moved = False
    if ended:
        run.ended_at, run.cut_off = at, int(message.truncated)
        run.met = int(p) if status is Status.DONE else None
        run.only_moved = False
        return
    quarter, rest = divmod(message.step * QUARTERS, horizon)
    if rest < QUARTERS and quarter < QUARTERS:
        marks = msgspec.msgpack.decode(run.marks)
        marks[quarter] = p if p == p else None
        run.marks = msgspec.msgpack.encode(marks)
        run.only_moved = False


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
