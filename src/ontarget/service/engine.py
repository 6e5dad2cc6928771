"""The engine: it takes steps of runs, stores them, and then returns the answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import msgspec

from ontarget.errors import OntargetError, StoreError
from ontarget.live import Outlooks, Status
from ontarget.service._answers import News, answers_of
from ontarget.service._moving import (
    QUARTERS,
    Accepted,
    Run,
    change,
    move_on,
    moved,
    resume,
)
from ontarget.service.contracts import ClosedError, Fleet, Held, HeldContracts
from ontarget.service.messages import (
    Answer,
    Problem,
    StepMessage,
    payload_of,
    run_id,
)
from ontarget.service.store import Batch, ConflictError, Progress, Store, StoredRun

Reply: TypeAlias = bytes | Problem  # an answer as JSON, or what is wrong
Notify: TypeAlias = Callable[[Batch, StoredRun, str, str], None]

_ATTEMPTS: Final = 8  # times that other workers may come first, before the agent is asked to wait
_NO_STATE: Final = 'a step needs a "state", or "end": true'
_SIGNALS: Final = 'a goal over several behaviors reads "reward" and "signals", not "behavior"'
_UNMARKED: Final = msgspec.msgpack.encode([None] * QUARTERS)
_encoder: Final = msgspec.json.Encoder()


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
        raise StoreError("other workers kept changing these runs; send the steps again")

    def forget(self, ids: Iterable[str]) -> None:
        """Drop the runs with these ids from memory; they stay in the database."""
        for key in ids:
            run = self._runs.pop(key, None)
            if run is not None:
                run.held.drop(run.stored.target, key)

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
                    if isinstance(found, Accepted):
                        accepted.append(found)
                        touched[ids[place]] = found.run
                    else:
                        replies[place] = found
            self._advance(accepted, batch, replies)
        batch.progress = [
            Progress(run.stored, run.expected, run.fresh, run.only_moved)
            for run in touched.values()
            if run.fresh
        ]
        return [one for one in replies if one is not None], batch

    def _load(self, messages: Sequence[StepMessage], ids: Sequence[str]) -> None:
        """Read into memory the runs that these messages are about, if they are not there yet.

        Runs that another process may have changed are read again.
        """
        wanted: set[str] = set()
        crowded = 2 * len(self._runs) > self._most_runs  # then it matters which were used last
        for key, message in zip(ids, messages, strict=True):
            run = self._runs.get(key)
            if run is None:
                wanted.add(key)
            elif self.store.shared and message.step > run.stored.next:
                self.forget([key])
                wanted.add(key)
            elif crowded:
                self._runs.move_to_end(key)
        for key, stored in self.store.find_runs(sorted(wanted)).items():
            held = self.contracts.held(stored.contract)
            marks = msgspec.msgpack.decode(stored.marks)
            self._runs[key] = Run(stored, held, stored.next, False, marks)

    def _checked(self, message: StepMessage, key: str, place: int, at: float) -> Accepted | Reply:
        """The message with its run, if the message is the run's next step; otherwise a reply.

        The reply repeats the answer to a step that was sent before, or says what is wrong.
        """
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
        stored = run.stored
        if message.step < stored.next:
            return self._again(message, payload, run)
        if stored.ended_at is not None:
            return _problem(message, 409, "ended", "this run is over; begin another")
        if run.held.closed:
            return _problem(message, 409, "closed contract", str(run.held.refusal))
        if message.step > stored.next:
            wrong = f"step {stored.next} has not arrived; send it first"
            return _problem(message, 409, "gap", wrong, expected=stored.next)
        if message.state is None and not message.is_last:
            return _problem(message, 422, "no state", _NO_STATE)
        if message.behavior is not None and run.held.monitor.readings:
            return _problem(message, 422, "several behaviors", _SIGNALS)
        if message.step >= self._longest:
            return _problem(message, 422, "too long", f"a run has at most {self._longest:,} steps")
        return Accepted(place, run, message, payload)

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
        stored = StoredRun(
            number=0, id=key, agent=message.agent, run=message.run, contract=held.id, target=target,
            started_at=at, next=0, state=b"", last=0, status="PENDING", alarmed=0, marks=_UNMARKED,
            intervened_at=None, updated_at=at, ended_at=None, met=None, cut_off=0,
        )  # fmt: skip
        if message.agent not in self._agents:
            self._arriving.add(message.agent)
        return Run(stored, held, -1, True, [None] * QUARTERS)

    def _again(self, message: StepMessage, payload: bytes, run: Run) -> Reply:
        """The reply to a step that was sent again.

        It is the stored answer, or a refusal if the message differs from the first one.
        """
        found = next((one for one in run.fresh if one[0] == message.step), None)
        if found is None and run.last is not None and run.last[0] == message.step:
            found = run.last
        if found is None:
            rows = self.store.history(run.stored, least=message.step, most=message.step)
            if not rows:
                return _problem(message, 409, "unknown", "this step is no longer stored")
            found = rows[0].step, bytes(rows[0].payload), bytes(rows[0].answer)
        if found[1] != payload:
            wrong = "a different message for this agent, run and step was accepted before"
            return _problem(message, 409, "conflict", wrong, expected=run.stored.next)
        answer = msgspec.json.decode(found[2], type=Answer)
        return _encoder.encode(msgspec.structs.replace(answer, duplicate=True))

    def _advance(
        self, accepted: Sequence[Accepted], batch: Batch, replies: list[Reply | None]
    ) -> None:
        """Let each run take its next step; runs of the same contract and target go together."""
        alike: dict[tuple[int, str, bool, bool, bool], list[Accepted]] = {}
        for one in accepted:
            run, message = one.run, one.message
            told = message.behavior is not None
            kind = run.held.id, run.stored.target, told, message.is_last, message.truncated
            alike.setdefault(kind, []).append(one)
        for (_, target, told, ends, cut), some in alike.items():
            fleet = some[0].run.held.fleet(target)
            keys = [one.run.stored.id for one in some]
            resume(fleet, [one.run for one in some if not one.run.resumed])
            outlooks = moved(fleet, some, keys, told=told, ends=ends, cut=cut)
            _intervene(fleet, some, outlooks)
            news = News.of(fleet, keys, outlooks, ends=ends, cut=cut)
            self._note(some, news, fleet, batch, replies)

    def _note(
        self,
        some: Sequence[Accepted],
        news: News,
        fleet: Fleet,
        batch: Batch,
        replies: list[Reply | None],
    ) -> None:
        """Record the new states of runs in ``batch``, and their answers in ``replies``."""
        judged = zip(some, news.alarmed, news.since, news.ended, news.reasons, strict=True)
        for one, alarmed, since, ended, reason in judged:
            if alarmed or one.run.alarm:
                self._judge(one.run, since, batch, reason, stands=alarmed and not ended)
        held = some[0].run.held
        made = answers_of(some, news, fleet, label=held.label, at=batch.at)
        self._strangers += [(held, one.unseen) for one in made if one.unseen]
        answers = [_encoder.encode(one) for one in made]  # infinite numbers and NaN become null
        horizon = held.fitted.horizon
        for one, answer, row, status, state, ended in zip(
            some, answers, news.numbers, news.status, news.packed, news.ended, strict=True
        ):
            move_on(one, answer, state, batch.at)
            change(one, row[0], status, horizon=horizon, ended=ended, at=batch.at)
            replies[one.place] = answer

    def _judge(self, run: Run, since: int, batch: Batch, reason: str, *, stands: bool) -> None:
        """Raise the run's alarm if ``stands`` is true, otherwise clear it."""
        if stands and not run.alarm:
            run.alarm = f"{run.stored.id}-{since}"
            batch.raised.append((run.stored.id, run.alarm, "target", reason))
            if self._notify is not None:
                self._notify(batch, run.stored, run.alarm, "firing")
        elif run.alarm and not stands:
            batch.cleared.append(run.alarm)
            if self._notify is not None:
                self._notify(batch, run.stored, run.alarm, "resolved")
            run.alarm = ""

    def _settle(self, batch: Batch) -> None:
        """After a commit: mark new runs as stored, and drop runs that have ended from memory."""
        self._agents |= self._arriving
        for held, unseen in self._strangers:
            held.strangers.add(unseen)
        for one in batch.progress:
            run = self._runs[one.run.id]
            run.expected, run.last, run.fresh = one.run.next, run.fresh[-1], []
            run.only_moved = True
        self.forget([one.run.id for one in batch.progress if one.run.ended_at is not None])
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


def _intervene(fleet: Fleet, some: Sequence[Accepted], outlooks: Outlooks) -> None:
    """Tell the fleet, which follows these runs, which of them somebody has just taken over."""
    taken = [
        one.run.stored.id
        for one, status in zip(some, outlooks.status.tolist(), strict=True)
        if one.message.intervened and one.run.stored.intervened_at is None and status != Status.DONE
    ]
    if taken:
        fleet.intervene(taken)


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
