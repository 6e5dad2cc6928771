"""The service's database: contracts, runs and their steps, alarms, and messages to send."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, Final

from ontarget.errors import StoreError
from ontarget.service.database import Connection, Database, open_database

_MANY: Final = 400  # keys of one query: SQLite took at most 999 values for long


# {key}: a whole number that counts up to 2**63, {blob} bytes, {real} a double.
# The table of steps is also the log of events: its ids rise in the order of commits. It has no
# index on (run, step), which every batch of a fleet would scatter its writes over; each step
# points to the one before it instead.
_FIRST: Final = (
    "CREATE TABLE counters (name TEXT PRIMARY KEY, next {key} NOT NULL)",
    "INSERT INTO counters VALUES ('id', 1)",
    """CREATE TABLE contracts (
        id {key} PRIMARY KEY, name TEXT NOT NULL, version {key} NOT NULL, spec TEXT NOT NULL,
        created_at {real} NOT NULL, UNIQUE (name, version))""",
    """CREATE TABLE runs (
        number {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, run TEXT NOT NULL,
        contract {key} NOT NULL REFERENCES contracts (id), target TEXT NOT NULL,
        started_at {real} NOT NULL, next {key} NOT NULL, state {blob} NOT NULL,
        last {key} NOT NULL, status TEXT NOT NULL, alarmed {key} NOT NULL,
        marks {blob} NOT NULL, intervened_at {key}, updated_at {real} NOT NULL,
        ended_at {real}, met {key})""",
    "CREATE INDEX runs_by_agent ON runs (agent, number)",
    "CREATE INDEX runs_by_contract ON runs (contract, number)",
    """CREATE TABLE steps (
        id {key} PRIMARY KEY, run {key} NOT NULL, step {key} NOT NULL, previous {key} NOT NULL,
        payload {blob} NOT NULL, answer {blob} NOT NULL, at {real} NOT NULL)""",
    """CREATE TABLE alarms (
        number {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE, run {key} NOT NULL, kind TEXT NOT NULL,
        reason TEXT NOT NULL, raised_at {real} NOT NULL, cleared_at {real},
        acknowledged_at {real}, acknowledged_by TEXT, note TEXT)""",
    "CREATE INDEX alarms_by_run ON alarms (run)",
    "CREATE TABLE silences (agent TEXT PRIMARY KEY, until {real} NOT NULL)",
    """CREATE TABLE outbox (
        id {key} PRIMARY KEY, alarm TEXT NOT NULL, hook TEXT NOT NULL, body {blob} NOT NULL,
        created_at {real} NOT NULL, attempts {key} NOT NULL, due_at {real} NOT NULL,
        state TEXT NOT NULL, error TEXT NOT NULL)""",
    "CREATE INDEX outbox_by_state ON outbox (state, due_at)",
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY, hash TEXT NOT NULL, scopes TEXT NOT NULL, note TEXT NOT NULL,
        created_at {real} NOT NULL)""",
)

# Runs that were cut off, and a way to those that ended first.
_SECOND: Final = (
    "ALTER TABLE runs ADD COLUMN cut_off {key} NOT NULL DEFAULT 0",
    "CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL",
)

# A way to the messages about an alarm, which are shown with it and deleted with its run.
_THIRD: Final = ("CREATE INDEX outbox_by_alarm ON outbox (alarm)",)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_FIRST, _SECOND, _THIRD)


class ConflictError(StoreError):
    """Another process has changed a run meanwhile; the caller reads the run again and repeats."""


@dataclass(slots=True)
class Run:
    """A run: what the database has of it and, while the engine has it, what comes next."""

    number: int
    id: str
    agent: str
    run: str
    contract: int
    target: str
    started_at: float
    next: int
    state: bytes
    last: int
    status: str
    alarmed: int
    marks: bytes
    intervened_at: int | None
    updated_at: float
    ended_at: float | None
    met: int | None
    cut_off: int
    # Of the engine: the next step that the database must still have, -1 for a new run; whether a
    # fleet follows the run; the id of the alarm that it is in; whether nothing has changed that
    # most steps leave alone; and the last step, with those that the next commit will add: the
    # number, the message and the answer of each.
    expected: int = field(default=-1, compare=False)
    resumed: bool = field(default=False, compare=False)
    alarm: str = field(default="", compare=False)
    only_moved: bool = field(default=True, compare=False)
    answered: tuple[int, bytes, bytes] | None = field(default=None, compare=False)
    fresh: list[tuple[int, bytes, bytes]] = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step: the message that an agent sent, and the answer that it got."""

    id: int
    run: int
    step: int
    payload: bytes
    answer: bytes
    at: float


@dataclass(slots=True)
class Batch:
    """Everything that one transaction writes to the database."""

    at: float
    runs: list[Run] = field(default_factory=list)
    raised: list[tuple[str, str, str, str]] = field(default_factory=list)  # run, alarm, kind, why
    cleared: list[str] = field(default_factory=list)
    messages: list[tuple[str, str, bytes]] = field(default_factory=list)  # alarm, hook, body


_NAMES: Final = tuple(
    one.name for one in fields(Run) if one.default is one.default_factory is MISSING
)
_COLUMNS: Final = ", ".join(_NAMES)
_STEP: Final = "id, run, step, payload, answer, at"
# What every step changes of a run, with the type that a column of VALUES needs to be told; and
# what only some steps change, which would make the others take half as long again to write.
_MOVED: Final = {"next": "key", "state": "blob", "last": "key", "updated_at": "real"}
_CHANGED: Final = _MOVED | {
    "status": "text", "alarmed": "key", "marks": "blob", "intervened_at": "key",
    "ended_at": "real", "met": "key", "cut_off": "key",
}  # fmt: skip
_KINDS: Final = _CHANGED | {
    "number": "key", "id": "text", "agent": "text", "run": "text", "contract": "key",
    "target": "text", "started_at": "real",
}  # fmt: skip
_WHOLE: Final = {name: _KINDS[name] for name in _NAMES}
_STEPS: Final = {
    "id": "key", "run": "key", "step": "key", "previous": "key", "payload": "blob",
    "answer": "blob", "at": "real",
}  # fmt: skip
_moved: Final = attrgetter("number", *_MOVED)
_changed: Final = attrgetter("number", *_CHANGED)
_whole: Final = attrgetter(*_NAMES)


def _values(kinds: Iterable[str], types: Mapping[str, str]) -> str:
    return "VALUES (" + ", ".join(f"CAST(? AS {types[kind]})" for kind in kinds) + ")"


def _insert(table: str, columns: Mapping[str, str], types: Mapping[str, str]) -> str:
    """The SQL statement that adds rows with these columns to a table."""
    return f"INSERT INTO {table} ({', '.join(columns)}) {_values(columns.values(), types)}"


def _update(columns: Mapping[str, str], types: Mapping[str, str]) -> str:
    """The SQL statement that changes these columns of runs."""
    values = _values(["key", *columns.values(), "key"], types)
    changes = ", ".join(f"{name} = v.column{i}" for i, name in enumerate(columns, start=2))
    return (
        f"UPDATE runs SET {changes} FROM ({values}) AS v "
        f"WHERE runs.number = v.column1 AND runs.next = v.column{len(columns) + 2}"
    )


class Store:
    """The tables of one service in its database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._begin = _insert("runs", _WHOLE, database.types) + " ON CONFLICT (id) DO NOTHING"
        self._add = _insert("steps", _STEPS, database.types)
        self._move = _update(_MOVED, database.types)
        self._change = _update(_CHANGED, database.types)
        self.failed: tuple[float, str] | None = None  # when and why steps could not be written

    @property
    def shared(self) -> bool:
        """Whether other processes may write to this database too."""
        return self.database.shared

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def probe(self) -> None:
        """Check that the database can be written, by writing one row; raise an error if not."""
        with self.database.write() as at:
            at.run("UPDATE counters SET next = next WHERE name = 'id'")

    def commit(self, batch: Batch) -> None:
        """Write a batch in one transaction; the batch's new runs and steps get their numbers."""
        try:
            self._commit(batch)
        except ConflictError:
            raise
        except StoreError as error:
            self.failed = time.monotonic(), str(error)
            raise
        self.failed = None

    def _commit(self, batch: Batch) -> None:
        new = [one for one in batch.runs if one.expected < 0]
        old = [one for one in batch.runs if one.expected >= 0]
        n = len(new) + sum(len(one.fresh) for one in batch.runs) + len(batch.raised)
        with self.database.write() as at:
            number = reserve(at, n + len(batch.messages))
            for one in new:
                one.number, number = number, number + 1
            steps: list[tuple[object, ...]] = []
            for one in batch.runs:
                for step, payload, answer in one.fresh:
                    steps.append((number, one.number, step, one.last, payload, answer, batch.at))
                    one.last, number = number, number + 1
            moved = [(*_moved(one), one.expected) for one in old if one.only_moved]
            changed = [(*_changed(one), one.expected) for one in old if not one.only_moved]
            written = at.run_rows(self._begin, [_whole(one) for one in new])
            written += at.run_rows(self._move, moved) + at.run_rows(self._change, changed)
            if written != len(batch.runs):
                raise ConflictError("another worker has changed a run")
            at.run_rows(self._add, steps)
            _write_alarms(at, batch, {one.id: one.number for one in batch.runs}, number)

    def commit_alarms(self, batch: Batch, runs: Mapping[str, Run]) -> None:
        """Write alarms that were not raised by a step, such as those for silent agents."""
        with self.database.write() as at:
            number = reserve(at, len(batch.raised) + len(batch.messages))
            _write_alarms(at, batch, {key: run.number for key, run in runs.items()}, number)

    def find_runs(self, ids: Sequence[str]) -> dict[str, Run]:
        """The stored runs with these ids, by id; ids without a run are left out."""
        found: dict[str, Run] = {}
        with self.database.read() as at:
            for first in range(0, len(ids), _MANY):
                some = ids[first : first + _MANY]
                marks = ", ".join("?" * len(some))
                for row in at.rows(f"SELECT {_COLUMNS} FROM runs WHERE id IN ({marks})", some):
                    found[row[1]] = Run(*row)
        return found

    def history(self, run: Run, *, least: int = 0, most: int | None = None) -> list[StoredStep]:
        """The steps of a run from number ``least`` to number ``most``, in order."""
        with self.database.read() as at:
            rows = at.rows(
                "WITH RECURSIVE chain (id, run, step, payload, answer, at, previous) AS ("
                f" SELECT {_STEP}, previous FROM steps WHERE id = ?"
                " UNION ALL SELECT s.id, s.run, s.step, s.payload, s.answer, s.at, s.previous"
                " FROM steps s JOIN chain ON s.id = chain.previous WHERE chain.step > ?)"
                f" SELECT {_STEP} FROM chain WHERE step >= ? AND step <= ? ORDER BY step",
                (run.last, least, least, run.next if most is None else most),
            )
        return [StoredStep(*row) for row in rows]

    def events(self, after: int, limit: int) -> list[StoredStep]:
        """The steps of all runs that were stored after the step with the id ``after``, in order."""
        with self.database.read() as at:
            rows = at.rows(
                f"SELECT {_STEP} FROM steps WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
            )
        return [StoredStep(*row) for row in rows]

    def newest_event(self) -> int:
        """The id of the step that was stored last; 0 if there is none."""
        with self.database.read() as at:
            return int(at.rows("SELECT COALESCE(MAX(id), 0) FROM steps")[0][0])

    def runs(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        agent: str | None = None,
        contract: int | None = None,
        ended: bool | None = None,
    ) -> list[tuple[Run, bytes]]:
        """One page of runs in the order in which they began, each with its last answer as JSON."""
        wanted: dict[str, object] = {"r.number > ?": after}
        if agent is not None:
            wanted["r.agent = ?"] = agent
        if contract is not None:
            wanted["r.contract = ?"] = contract
        if ended is not None:
            wanted[
                "r.ended_at IS NOT NULL AND 1 = ?" if ended else "r.ended_at IS NULL AND 1 = ?"
            ] = 1
        columns = ", ".join(f"r.{name}" for name in _NAMES)
        with self.database.read() as at:
            rows = at.rows(
                f"SELECT {columns}, s.answer FROM runs r JOIN steps s ON s.id = r.last "
                f"WHERE {' AND '.join(wanted)} ORDER BY r.number LIMIT ?",
                (*wanted.values(), limit),
            )
        return [(Run(*row[:-1]), bytes(row[-1])) for row in rows]

    def agents(self, *, after: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """One page of agents in the order of their names, each with how many runs it has."""
        with self.database.read() as at:
            rows = at.rows(
                "SELECT agent, COUNT(*), SUM(CASE WHEN ended_at IS NULL THEN 1 ELSE 0 END), "
                "SUM(alarmed), MAX(updated_at) FROM runs WHERE agent > ? "
                "GROUP BY agent ORDER BY agent LIMIT ?",
                (after, limit),
            )
        names = ("agent", "runs", "open", "in_alarm", "seen_at")
        return [
            dict(zip(names, (one[0], *map(int, one[1:4]), one[4]), strict=True)) for one in rows
        ]

    def forget_runs(self, runs: Sequence[Run]) -> None:
        """Delete runs with their steps, their alarms and the messages about the alarms."""
        ids = [[(step.id,) for step in self.history(run)] for run in runs]
        with self.database.write() as at:
            for run, steps in zip(runs, ids, strict=True):
                at.run_many("DELETE FROM steps WHERE id = ?", steps)
                own = "SELECT id FROM alarms WHERE run = ?"
                at.run(f"DELETE FROM outbox WHERE alarm IN ({own})", (run.number,))
                at.run("DELETE FROM alarms WHERE run = ?", (run.number,))
                at.run("DELETE FROM runs WHERE number = ?", (run.number,))


def open_store(url: str, *, migrate: bool = False) -> Store:
    """Open a database as the service's store, with the tables of this version of ontarget."""
    database = open_database(url)
    try:
        _migrate(database, allowed=migrate)
    except BaseException:
        database.close()
        raise
    return Store(database)


def reserve(at: Connection, n: int) -> int:
    """Reserve n ids for new rows; return the first id.

    The counter's row stays locked until the transaction ends. So ids rise in the order of commits,
    and a client that follows them misses none.
    """
    sql = "UPDATE counters SET next = next + ? WHERE name = 'id' RETURNING next"
    return int(at.rows(sql, (n,))[0][0]) - n


def _write_alarms(at: Connection, batch: Batch, numbers: Mapping[str, int], number: int) -> None:
    at.run_many(
        "INSERT INTO alarms (number, id, run, kind, reason, raised_at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO NOTHING",
        [
            (number + i, alarm, numbers[run], kind, why, batch.at)
            for i, (run, alarm, kind, why) in enumerate(batch.raised)
        ],
    )
    number += len(batch.raised)
    at.run_many(
        "UPDATE alarms SET cleared_at = ? WHERE id = ? AND cleared_at IS NULL",
        [(batch.at, alarm) for alarm in batch.cleared],
    )
    at.run_many(
        "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, 0, ?, 'waiting', '')",
        [
            (number + i, alarm, hook, body, batch.at, batch.at)
            for i, (alarm, hook, body) in enumerate(batch.messages)
        ],
    )


def _migrate(database: Database, *, allowed: bool) -> None:
    newest = len(MIGRATIONS)
    with database.write() as at:
        if database.shared:  # workers that start together
            at.rows("SELECT pg_advisory_xact_lock(1869509729)")
        at.run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        found = at.rows("SELECT MAX(version) FROM schema_version")[0][0]
        version = 0 if found is None else int(found)
        if version > newest:
            raise StoreError(
                f"the database has schema {version}, but this version of ontarget knows only "
                f"{newest}; install a newer version"
            )
        if 0 < version < newest and not allowed:
            raise StoreError(
                f"the database has schema {version}, but this version of ontarget needs {newest}; "
                f"back the database up, then pass --migrate"
            )
        for number in range(version, newest):
            for statement in MIGRATIONS[number]:
                at.run(statement.format_map(database.types))
            at.run("INSERT INTO schema_version VALUES (?)", (number + 1,))
