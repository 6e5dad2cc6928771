"""The service's database tables, as numbered migrations that SQLite and PostgreSQL both run."""

from __future__ import annotations

from typing import Final

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
