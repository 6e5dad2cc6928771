"""The service: a database, an engine and a writing thread; and what it does in the background."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ontarget._arguments import whole_number
from ontarget._whole_file import write_whole
from ontarget.errors import InputError, OntargetError, StoreError
from ontarget.service._writer import Writer
from ontarget.service.contracts import ContractSpec
from ontarget.service.engine import Engine
from ontarget.service.held import HeldContracts
from ontarget.service.recorded import parquet_of
from ontarget.service.store import Batch, Run, open_store
from ontarget.service.tokens import Tokens
from ontarget.service.webhooks import Courier, Hook

_AT_ONCE: Final = 1_000  # runs to delete
_SILENT_AT_ONCE: Final = 500
_EVERY: Final = 5.0  # seconds between two rounds of background work
_log: Final = logging.getLogger("ontarget.service")
_DOUBTED: Final = 10.0  # seconds that a service is not ready after steps could not be written


@dataclass(frozen=True)
class Limits:
    """The limits of a service; it refuses requests that exceed them.

    Attributes
    ----------
    body_bytes
        The largest size of a request, in bytes.
    batch
        The most messages in one request.
    steps_per_second
        The most messages per second from one client, on average. A client may send one second's
        messages at once.
    waiting
        The most steps that may wait to be written to the database.
    agents
        The most agents that may use the service.
    run_steps
        The most steps in one run.
    streams
        The most clients that may follow the stream of answers at once.
    """

    body_bytes: int = 16 << 20
    batch: int = 10_000
    steps_per_second: float = 100_000.0
    waiting: int = 50_000
    agents: int = 100_000
    run_steps: int = 100_000
    streams: int = 100


class Service:
    """The service without HTTP: its database, contracts, engine, writing thread and cleaning up.

    Parameters
    ----------
    database
        The path of a SQLite file, or ``postgresql://…``.
    contracts
        Contracts to add to those that are already in the database.
    hooks
        The receivers of messages about alarms.
    models
        The folder that keeps copies of the model files.
    limits
        The limits of the service.
    keep_seconds, keep_runs
        For how many seconds a run is kept after its end, and how many finished runs are kept; None
        for no limit.
    export
        The folder to which old runs are written before they are deleted.
    migrate
        Whether to convert the tables of an older version of ontarget.
    clock
        A function that returns the time in seconds since 1970.
    """

    def __init__(
        self,
        database: str,
        contracts: Sequence[ContractSpec] = (),
        *,
        models: Path,
        hooks: Sequence[Hook] = (),
        limits: Limits | None = None,
        keep_seconds: float | None = None,
        keep_runs: int | None = None,
        export: Path | None = None,
        migrate: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if keep_seconds is not None and not keep_seconds > 0.0:
            raise InputError(f"`keep_seconds` needs a time above 0, got {keep_seconds!r}")
        if keep_runs is not None:
            whole_number("keep_runs", keep_runs, least=0)
        if export is not None:
            export.mkdir(parents=True, exist_ok=True)
        self.limits = limits or Limits()
        self.clock = clock
        self.keep_seconds, self.keep_runs = keep_seconds, keep_runs
        self.export = export
        self.store = open_store(database, migrate=migrate)
        try:
            self.contracts = HeldContracts(self.store, models)
            for spec in contracts:
                self.contracts.add(spec, at=clock())
            self.tokens = Tokens(self.store)
            self.courier = Courier(
                self.store,
                hooks,
                label=lambda number: self.contracts.held(number).label,
                clock=clock,
            )
            self.engine = Engine(
                self.store,
                self.contracts,
                clock=clock,
                longest_run=self.limits.run_steps,
                most_agents=self.limits.agents,
                notify=self.courier.notify,
            )
            for held in self.contracts.all():
                if held.closed:
                    _log.error("contract %s takes no steps: %s", held.label, held.closed)
                else:
                    held.fleet(held.spec.target)  # compile now, not at the first step
        except BaseException:
            self.store.close()
            raise
        self.listeners: list[Callable[[], None]] = []
        self.writer = Writer(
            self.engine, most_waiting=self.limits.waiting, committed=self._committed
        )
        self._closed = False
        self._ready_lock = threading.Lock()
        self._readied: tuple[float, str] = (float("-inf"), "")

    def close(self) -> None:
        """Write the steps that are waiting, then close the service; closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self.writer.close()
        self.store.close()

    def trouble(self) -> str:
        """Why the service cannot accept steps now, as text; empty if it can.

        Calls within the same second return the same text without checking again.
        """
        failed = self.store.failed
        if failed is not None and time.monotonic() - failed[0] < _DOUBTED:
            return failed[1]  # a disk that is nearly full may still take what a probe writes
        with self._ready_lock:
            if time.monotonic() - self._readied[0] > 1.0:
                try:
                    self.writer.run(self.store.probe).result(timeout=10.0)
                    found = ""
                except TimeoutError:
                    found = "the store does not answer"
                except StoreError as error:
                    found = str(error)
                if found and found != self._readied[1]:
                    _log.error("not ready: %s", found)
                self._readied = time.monotonic(), found
            return self._readied[1]

    def forget(self, ids: Sequence[str]) -> int:
        """Delete the runs with these ids; return how many existed."""
        self.engine.forget(ids)
        found = list(self.store.find_runs(list(ids)).values())
        self.store.forget_runs(found)
        self.engine.count_agents()
        return len(found)

    def retain(
        self,
        *,
        age: float | None = None,
        most: int | None = None,
        export: Callable[[list[Run]], Any] | None = None,
    ) -> int:
        """Delete the runs that ended longest ago, a thousand at most; return how many.

        Runs that ended more than ``age`` seconds ago are deleted. So are all finished runs except
        the ``most`` that ended last. ``export`` is called with the runs before they are deleted.
        """
        with self.store.database.read() as at:
            over = 0
            if most is not None:
                ended = at.rows("SELECT COUNT(*) FROM runs WHERE ended_at IS NOT NULL")[0][0]
                over = max(0, int(ended) - most)
            if age is not None:
                old = "SELECT COUNT(*) FROM runs WHERE ended_at < ?"
                over = max(over, int(at.rows(old, (self.clock() - age,))[0][0]))
            rows = at.rows(
                "SELECT id FROM runs WHERE ended_at IS NOT NULL ORDER BY ended_at, number LIMIT ?",
                (min(over, _AT_ONCE),),
            )
        runs = list(self.store.find_runs([row[0] for row in rows]).values())
        if runs and export is not None:
            export(runs)
        self.store.forget_runs(runs)
        return len(runs)

    def _committed(self) -> None:
        for listener in tuple(self.listeners):
            listener()


async def chores(
    service: Service, in_writer: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> None:
    """Do background work every few seconds for as long as the service runs."""
    while True:
        await asyncio.sleep(_EVERY)
        try:
            await in_writer(lambda: listen_for_silence(service))
            await in_writer(lambda: let_go(service))
        except OntargetError as error:  # it is due again in a moment
            _log.warning("%s", error)


def listen_for_silence(service: Service) -> int:
    """Raise an alarm for each unfinished run whose agent has reported nothing for too long."""
    store, at = service.store, service.clock()
    batch = Batch(at=at)
    with store.database.read() as reading:
        again = reading.rows(
            "SELECT a.id, r.id FROM alarms a JOIN runs r ON r.number = a.run WHERE a.kind = "
            "'silent' AND a.cleared_at IS NULL AND (r.updated_at > a.raised_at "
            "OR r.ended_at IS NOT NULL) LIMIT ?",
            (_SILENT_AT_ONCE,),
        )
        silent = [
            (row[0], held.spec.silent_after)
            for held in service.contracts.all()
            if held.spec.silent_after is not None and not held.closed
            for row in reading.rows(
                "SELECT r.id FROM runs r WHERE r.contract = ? AND r.ended_at IS NULL AND "
                "r.updated_at < ? AND NOT EXISTS (SELECT 1 FROM alarms a WHERE a.run = r.number "
                "AND a.kind = 'silent' AND a.cleared_at IS NULL) LIMIT ?",
                (held.id, at - held.spec.silent_after, _SILENT_AT_ONCE),
            )
        ]
    runs = store.find_runs([key for key, _ in silent] + [key for _, key in again])
    for key, seconds in silent:
        run = runs[key]
        alarm = f"{key}-silent-{run.next}"
        batch.raised.append((key, alarm, "silent", f"nothing for {seconds:g} seconds"))
        service.courier.notify(batch, run, alarm, "firing")
    for alarm, key in again:
        batch.cleared.append(alarm)
        service.courier.notify(batch, runs[key], alarm, "resolved")
    if batch.raised or batch.cleared:
        store.commit_alarms(batch, runs)
    return len(batch.raised)


def let_go(service: Service) -> int:
    """Delete old runs as the settings say, after exporting them; return how many were deleted."""
    if service.keep_seconds is None and service.keep_runs is None:
        return 0
    return service.retain(
        age=service.keep_seconds,
        most=service.keep_runs,
        export=lambda runs: _export(service, runs),
    )


def _export(service: Service, runs: list[Run]) -> None:
    if service.export is None:
        return
    by_contract: dict[int, list[Run]] = {}
    for run in runs:
        by_contract.setdefault(run.contract, []).append(run)
    for number, some in by_contract.items():
        held = service.contracts.held(number)
        first, last = some[0].number, some[-1].number
        path = service.export / f"{held.label}-{first}-{last}.parquet"
        write_whole(path, [parquet_of(service.store, some, held.outline)])
