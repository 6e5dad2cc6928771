"""Reads and changes alarms, silenced agents, and messages about alarms in the database."""

from __future__ import annotations

from typing import Any, Final

from ontarget.service.database import Connection
from ontarget.service.store import Store

_ALARM: Final = (
    "a.number, a.id, a.kind, a.reason, a.raised_at, a.cleared_at, a.acknowledged_at, "
    "a.acknowledged_by, a.note, r.id, r.agent, r.run, c.name || '@' || c.version, "
    "CASE WHEN r.ended_at IS NULL "
    "THEN 'under way' WHEN r.met IS NULL OR r.intervened_at IS NOT NULL THEN 'unknown' "
    "WHEN r.met = 1 THEN 'met' ELSE 'missed' END, s.until"
)
_ALARM_NAMES: Final = (
    "number", "id", "kind", "reason", "raised_at", "cleared_at", "acknowledged_at",
    "acknowledged_by", "note", "run_id", "agent", "run", "contract", "outcome", "silenced_until",
)  # fmt: skip
_STATES: Final = ("sent", "waiting", "dead")
_MANY: Final = 400  # keys of one query
_NEWEST: Final = 2**63 - 1
_DELIVERY: Final = "id, alarm, hook, created_at, attempts, due_at, state, error"


def alarms(
    store: Store,
    *,
    after: int = 0,
    limit: int = 100,
    is_open: bool | None = None,
    alarm: str | None = None,
    run: str | None = None,
) -> list[dict[str, Any]]:
    """One page of alarms, the newest first."""
    where: list[str] = ["a.number < ?"]
    values: list[Any] = [after or _NEWEST]
    if is_open is not None:
        where.append("a.cleared_at IS NULL" if is_open else "a.cleared_at IS NOT NULL")
    for column, wanted in (("a.id", alarm), ("r.id", run)):
        if wanted is not None:
            where.append(f"{column} = ?")
            values.append(wanted)
    with store.database.read() as at:
        rows = at.rows(
            f"SELECT {_ALARM} FROM alarms a JOIN runs r ON r.number = a.run "
            "JOIN contracts c ON c.id = r.contract LEFT JOIN silences s ON s.agent = r.agent "
            f"WHERE {' AND '.join(where)} ORDER BY a.number DESC LIMIT ?",
            (*values, limit),
        )
        found = [dict(zip(_ALARM_NAMES, row, strict=True)) for row in rows]
        _add_messages(at, found)
    return found


def _add_messages(at: Connection, found: list[dict[str, Any]]) -> None:
    """Add to each alarm who gets its messages, how many arrived, and the last error."""
    by_id = {one["id"]: one for one in found}
    for one in found:
        one.update(dict.fromkeys(_STATES, 0), to=[], error="", told_at=None, told_over_at=None)
    ids = list(by_id)
    for first in range(0, len(ids), _MANY):
        some = ids[first : first + _MANY]
        marks = ", ".join("?" * len(some))
        for alarm, hook, state, created_at, n, error, due_at in at.rows(
            "SELECT alarm, hook, state, created_at, COUNT(*), MAX(error), MAX(due_at) FROM outbox "
            f"WHERE alarm IN ({marks}) GROUP BY alarm, hook, state, created_at "
            "ORDER BY hook, state",
            some,
        ):
            one = by_id[alarm]
            one[state] += int(n)
            if hook not in one["to"]:
                one["to"].append(hook)
            if state == "dead":
                one["error"] = max(one["error"], error)
            if state == "sent":
                told = "told_at" if created_at == one["raised_at"] else "told_over_at"
                one[told] = max(one[told] or 0.0, due_at)


def acknowledge(store: Store, alarm: str, *, by: str, note: str, at: float) -> bool:
    """Note in the database who has seen an alarm, and when; return whether the alarm exists."""
    with store.database.write() as writing:
        changed = writing.run(
            "UPDATE alarms SET acknowledged_at = ?, acknowledged_by = ?, note = ? WHERE id = ?",
            (at, by, note, alarm),
        )
    return changed == 1


def silence(store: Store, agent: str, *, until: float) -> None:
    """Send no messages about this agent's alarms until the time ``until``."""
    with store.database.write() as writing:
        writing.run(
            "INSERT INTO silences VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET "
            "until = excluded.until",
            (agent, until),
        )


def silenced(store: Store, agent: str, *, at: float) -> bool:
    """Whether messages about this agent's alarms are turned off at the time ``at``."""
    with store.database.read() as reading:
        return bool(
            reading.rows("SELECT 1 FROM silences WHERE agent = ? AND until > ?", (agent, at))
        )


def deliveries(
    store: Store, *, after: int = 0, limit: int = 100, state: str | None = None
) -> list[dict[str, Any]]:
    """One page of messages about alarms, the newest first."""
    where = "" if state is None else " AND state = ?"
    values: list[Any] = [after or _NEWEST, *([] if state is None else [state])]
    with store.database.read() as at:
        rows = at.rows(
            f"SELECT {_DELIVERY} FROM outbox WHERE id < ?{where} ORDER BY id DESC LIMIT ?",
            (*values, limit),
        )
    return [dict(zip(_DELIVERY.split(", "), row, strict=True)) for row in rows]


def try_again(store: Store, delivery: int, *, at: float) -> bool:
    """Retry immediately a message that had been given up; return False if there is none."""
    with store.database.write() as writing:
        changed = writing.run(
            "UPDATE outbox SET state = 'waiting', attempts = 0, due_at = ? "
            "WHERE id = ? AND state = 'dead'",
            (at, delivery),
        )
    return changed == 1


def runs_of(store: Store, agent: str) -> list[str]:
    """The ids of an agent's runs."""
    with store.database.read() as at:
        return [row[0] for row in at.rows("SELECT id FROM runs WHERE agent = ?", (agent,))]
