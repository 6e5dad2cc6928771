"""Background work of the service: alarms for silent agents, and deletion of old runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ontarget._whole_file import write_whole
from ontarget.errors import OntargetError
from ontarget.service._export import parquet_of
from ontarget.service.service import Service
from ontarget.service.store import Batch, Run

_EVERY: Final = 5.0  # seconds
_AT_ONCE: Final = 500
_log: Final = logging.getLogger("ontarget.service")


async def chores(
    service: Service, in_writer: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> None:
    """Do background work every few seconds for as long as the service runs.

    The work: raise alarms for silent agents, and delete old runs. ``in_writer`` runs a function in
    the thread that writes to the database.
    """
    while True:
        await asyncio.sleep(_EVERY)
        try:
            await in_writer(lambda: listen_for_silence(service))
            await in_writer(lambda: let_go(service))
        except OntargetError as error:  # it is due again in a moment
            _log.warning("%s", error)


def listen_for_silence(service: Service) -> int:
    """Raise an alarm for each unfinished run whose agent has reported nothing for too long.

    Such an alarm is cleared when the agent reports again or its run ends. Returns how many alarms
    were raised.
    """
    store, at = service.store, service.clock()
    batch = Batch(at=at)
    with store.database.read() as reading:
        again = reading.rows(
            "SELECT a.id, r.id FROM alarms a JOIN runs r ON r.number = a.run WHERE a.kind = "
            "'silent' AND a.cleared_at IS NULL AND (r.updated_at > a.raised_at "
            "OR r.ended_at IS NOT NULL) LIMIT ?",
            (_AT_ONCE,),
        )
        silent = [
            (row[0], held.spec.silent_after)
            for held in service.contracts.all()
            if held.spec.silent_after is not None and not held.closed
            for row in reading.rows(
                "SELECT r.id FROM runs r WHERE r.contract = ? AND r.ended_at IS NULL AND "
                "r.updated_at < ? AND NOT EXISTS (SELECT 1 FROM alarms a WHERE a.run = r.number "
                "AND a.kind = 'silent' AND a.cleared_at IS NULL) LIMIT ?",
                (held.id, at - held.spec.silent_after, _AT_ONCE),
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
