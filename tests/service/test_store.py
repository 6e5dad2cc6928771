"""The store keeps its contract on both databases, and knows its own version."""

from __future__ import annotations

import gzip
import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from ontarget import Target
from ontarget.errors import StoreError
from ontarget.service import store as stores
from ontarget.service._records import alarms
from ontarget.service.database import PostgresDatabase, copy_file
from ontarget.service.engine import Engine
from ontarget.service.held import HeldContracts
from ontarget.service.messages import Problem, StepMessage, run_id
from ontarget.service.store import (
    Batch,
    ConflictError,
    Run,
    Store,
    open_store,
    reserve,
)
from tests.service.kept import KEPT, MODEL, path_of

SCHEMAS = range(1, len(stores.MIGRATIONS) + 1)


def a_run(store: Store, *, agent: str = "a", run: str = "1", next_step: int = 1) -> Run:
    """A new run that is not in the database yet; its contract is added if it is missing."""
    with store.database.write() as at:
        found = at.rows("SELECT id FROM contracts WHERE name = 'c'")
        contract = int(found[0][0]) if found else reserve(at, 1)
        if not found:
            at.run("INSERT INTO contracts VALUES (?, 'c', 1, '{}', 0.0)", (contract,))
    return Run(
        number=0, id=f"{agent}/{run}", agent=agent, run=run, contract=contract, target="0:",
        started_at=1.0, next=next_step, state=b"s", last=0, status="OK", alarmed=0, marks=b"m",
        intervened_at=None, updated_at=1.0, ended_at=None, met=None, cut_off=0,
    )  # fmt: skip


def progressed(run: Run, expected: int, steps: list[tuple[int, bytes, bytes]]) -> Run:
    """The run with new steps, which a commit adds if the database still expects ``expected``."""
    run.expected, run.fresh, run.only_moved = expected, steps, False
    return run


def write(store: Store, run: Run, expected: int, *steps: int) -> None:
    """Write the steps of a run from number ``expected`` on to the database."""
    sent = [(step, b"sent %d" % step, b"answer %d" % step) for step in steps]
    run.next = steps[-1] + 1
    store.commit(Batch(at=2.0, runs=[progressed(run, expected, sent)]))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    found = open_store(url)
    yield found
    found.close()


def test_what_was_committed_is_found(store: Store) -> None:
    run = a_run(store)
    write(store, run, -1, 0, 1)
    assert store.find_runs([run.id, "other"]) == {run.id: run}


def test_history_is_in_order_and_can_be_cut(store: Store) -> None:
    run, other = a_run(store), a_run(store, agent="b")
    write(store, run, -1, 0)
    write(store, other, -1, 0)
    write(store, run, 1, 1, 2)
    write(store, run, 3, 3)
    assert [one.step for one in store.history(run)] == [0, 1, 2, 3]
    middle = store.history(run, least=1, most=2)
    assert [(one.step, bytes(one.answer)) for one in middle] == [
        (1, b"answer 1"),
        (2, b"answer 2"),
    ]


def test_a_run_that_moved_on_is_refused_and_nothing_is_written(store: Store) -> None:
    run = a_run(store)
    write(store, run, -1, 0)
    write(store, run, 1, 1)
    before = store.find_runs([run.id]), store.newest_event()
    late, new = store.find_runs([run.id])[run.id], a_run(store, agent="b")
    both = [progressed(new, -1, [(0, b"x", b"y")]), progressed(late, 1, [(1, b"x", b"y")])]
    with pytest.raises(ConflictError):
        store.commit(Batch(at=3.0, runs=both))
    assert (store.find_runs([run.id]), store.newest_event()) == before
    assert store.find_runs([new.id]) == {}


def test_a_run_begins_once(store: Store) -> None:
    write(store, a_run(store), -1, 0)
    with pytest.raises(ConflictError):
        write(store, a_run(store), -1, 0)


def test_events_follow_commits(store: Store) -> None:
    run = a_run(store)
    write(store, run, -1, 0)
    first = store.newest_event()
    write(store, run, 1, 1, 2)
    assert [one.step for one in store.events(first, 10)] == [1, 2]
    assert [one.step for one in store.events(0, 2)] == [0, 1]
    assert store.events(store.newest_event(), 10) == []


def test_runs_are_listed_with_their_last_answer(store: Store) -> None:
    for name in "abc":
        write(store, a_run(store, agent=name), -1, 0, 1)
    page = store.runs(limit=2)
    assert [(run.agent, last) for run, last in page] == [("a", b"answer 1"), ("b", b"answer 1")]
    rest = store.runs(after=page[-1][0].number)
    assert [run.agent for run, _ in rest] == ["c"]
    assert [run.agent for run, _ in store.runs(agent="b")] == ["b"]
    assert store.runs(ended=True) == []
    assert [one["agent"] for one in store.agents(after="a")] == ["b", "c"]


def test_a_forgotten_run_leaves_nothing(store: Store) -> None:
    run, other = a_run(store), a_run(store, agent="b")
    for one in (run, other):
        alarm = f"{one.id}-0"
        store.commit(
            Batch(
                at=2.0,
                runs=[progressed(one, -1, [(0, b"x", b"y")])],
                raised=[(one.id, alarm, "target", "p is low")],
                messages=[(alarm, "ops", b"{}")],
            )
        )
    store.forget_runs([run])
    assert store.find_runs([run.id]) == {}
    assert [one.run for one in store.events(0, 10)] == [other.number]
    with store.database.read() as at:
        assert at.rows("SELECT id FROM alarms") == [(f"{other.id}-0",)]
        assert at.rows("SELECT alarm FROM outbox") == [(f"{other.id}-0",)]


def test_ids_are_never_given_twice(store: Store) -> None:
    run = a_run(store)
    write(store, run, -1, 0)
    last = store.newest_event()
    store.forget_runs([run])
    write(store, a_run(store, agent="b"), -1, 0)
    assert store.newest_event() > last


def test_numbers_may_be_large(store: Store) -> None:
    small, large = a_run(store), a_run(store, agent="b")
    write(store, small, -1, 0)
    with store.database.write() as at:
        at.run("UPDATE counters SET next = ? WHERE name = 'id'", (1 << 40,))
    small.next = 2
    steps = [(1, b"x", b"y")]
    both = [progressed(large, -1, [(0, b"x", b"y")]), progressed(small, 1, steps)]
    store.commit(Batch(at=3.0, runs=both))
    assert store.find_runs([small.id, large.id]) == {small.id: small, large.id: large}
    assert large.number == 1 << 40
    assert [one.step for one in store.history(small)] == [0, 1]


def test_alarms_and_messages_come_with_the_steps(store: Store) -> None:
    run = a_run(store)
    batch = Batch(
        at=2.0,
        runs=[progressed(run, -1, [(0, b"x", b"y")])],
        raised=[(run.id, "alarm-1", "target", "p is low")],
        messages=[("alarm-1", "ops", b"{}")],
    )
    store.commit(batch)
    with store.database.read() as at:
        assert at.rows("SELECT id, run, cleared_at FROM alarms") == [("alarm-1", run.number, None)]
        assert at.rows("SELECT alarm, hook, state FROM outbox") == [("alarm-1", "ops", "waiting")]
    run.next = 2
    end = Batch(at=3.0, runs=[progressed(run, 1, [(1, b"x", b"y")])], cleared=["alarm-1"])
    store.commit(end)
    with store.database.read() as at:
        assert at.rows("SELECT cleared_at FROM alarms") == [(3.0,)]


def test_what_was_committed_is_there_after_opening_again(url: str) -> None:
    first = open_store(url)
    run = a_run(first)
    write(first, run, -1, 0)
    first.close()
    second = open_store(url)
    assert second.find_runs([run.id]) == {run.id: run}
    second.close()


def test_an_older_database_is_moved_only_when_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = open_store(url)
    run = a_run(old)
    write(old, run, -1, 0)
    old.close()
    newer = (*stores.MIGRATIONS, ("CREATE TABLE extra (id {key} PRIMARY KEY)",))
    monkeypatch.setattr(stores, "MIGRATIONS", newer)
    with pytest.raises(
        StoreError, match=r"schema 3.*needs 4; back the database up, then pass --migrate"
    ):
        open_store(url)
    moved = open_store(url, migrate=True)
    assert moved.find_runs([run.id]) == {run.id: run}
    moved.close()
    open_store(url).close()  # it is of this version now
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"schema 4.*knows only 3; install a newer version"):
        open_store(url, migrate=True)


def put_kept(version: int, url: str, folder: Path) -> None:
    """Put a database of a schema, written by the version that had it, where the address says."""
    raw = folder / "kept.db"
    raw.write_bytes(gzip.decompress(path_of(version).read_bytes()))
    if url.startswith("postgresql"):
        import psycopg

        with closing(sqlite3.connect(raw)) as kept, psycopg.connect(url) as server:
            server.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            for statement in chain(*stores.MIGRATIONS[:version]):
                server.execute(statement.format_map(PostgresDatabase.types))  # type: ignore[arg-type]
            server.execute("DELETE FROM counters")
            for (table,) in kept.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                for row in kept.execute(f"SELECT * FROM {table}"):
                    marks = ", ".join(["%s"] * len(row))
                    server.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # type: ignore[arg-type]
    else:
        raw.rename(url)


def test_a_database_of_every_schema_is_kept() -> None:
    assert set(KEPT.glob("*.db.gz")) == {path_of(version) for version in SCHEMAS}


@pytest.mark.parametrize("version", SCHEMAS)
def test_a_kept_database_goes_on_bit_for_bit(version: int, url: str, tmp_path: Path) -> None:
    put_kept(version, url, tmp_path)
    if version < SCHEMAS[-1]:
        with pytest.raises(
            StoreError, match=rf"schema {version}.*needs 3; back the database up, then pass --mi"
        ):
            open_store(url)
    store = open_store(url, migrate=version < SCHEMAS[-1])
    model = gzip.decompress(MODEL.read_bytes())
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / f"{hashlib.sha256(model).hexdigest()}.ontarget").write_bytes(model)
    contracts = HeldContracts(store, folder)
    engine = Engine(store, contracts, clock=lambda: 2_000.0)
    watch = contracts.named("walk").monitor.watch(Target.at_least(0), false_alarm_rate=0.1)
    kept = store.history(store.find_runs([run_id("a", "1")])[run_id("a", "1")])
    assert len(kept) == 3
    for one in kept:
        sent = msgspec.msgpack.decode(one.payload)
        outlook = watch.step(sent["state"], sent.get("reward", 0.0))
        # What is kept was answered with another version of numba, which may round otherwise.
        kept_p = msgspec.json.decode(one.answer)["p"]
        assert kept_p == pytest.approx(outlook.p, rel=1e-14)
    (reply,) = engine.take([StepMessage(agent="a", run="1", step=3, state=[0.3], reward=0.2)])
    assert msgspec.json.decode(reply)["p"] == watch.step([0.3], 0.2).p  # type: ignore[arg-type]
    alarmed = engine.take([StepMessage(agent="b", run="1", step=3, state=[0.3], reward=900.0)])
    assert "alarm" not in msgspec.json.decode(alarmed[0])  # type: ignore[arg-type]
    (alarm,) = alarms(store)
    assert alarm["cleared_at"] == 2_000.0
    assert (alarm["sent"], alarm["waiting"], alarm["dead"]) == (0, 1, 0)
    (over,) = engine.take([StepMessage(agent="c", run="1", step=3, state=[0.3])])
    assert isinstance(over, Problem)
    assert over.title == "ended"
    store.close()


def test_a_second_service_on_one_file_is_refused(tmp_path: Path) -> None:
    first = open_store(str(tmp_path / "one.db"))
    with pytest.raises(StoreError, match="another service is using"):
        open_store(str(tmp_path / "one.db"))
    first.close()
    open_store(str(tmp_path / "one.db")).close()


SECOND = """
import sys
from ontarget.errors import StoreError
from ontarget.service.database import restore_file
from ontarget.service.store import open_store
from pathlib import Path
try:
    if sys.argv[1:2] == ["restore"]:
        restore_file(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        open_store(sys.argv[1]).close()
except StoreError:
    print("refused")
"""


def in_another_process(folder: Path, *arguments: str) -> str:
    """What happens when another process opens or restores a database."""
    command = [sys.executable, "-c", SECOND, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="the locks of Linux are tested")
@pytest.mark.parametrize("first", ["one.db", "link.db", "hard.db", "below/../one.db"])
def test_a_second_service_is_refused_under_any_name(first: str, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    open_store(str(tmp_path / "one.db")).close()
    (tmp_path / "link.db").symlink_to("one.db")
    (tmp_path / "below" / "up").symlink_to("..")
    (tmp_path / "below" / "hard.db").hardlink_to(tmp_path / "one.db")
    (tmp_path / "hard.db").hardlink_to(tmp_path / "one.db")
    names = ["one.db", "link.db", "hard.db", "below/up/one.db", "below/hard.db",
             f"sqlite:///{tmp_path}/hard.db"]  # fmt: skip
    store = open_store(str(tmp_path / first))
    copy_file(tmp_path / first, tmp_path / "copy.db")
    for name in names:
        assert in_another_process(tmp_path, name) == "refused"
        place = str(Path(tmp_path, name.removeprefix("sqlite:///")))
        with pytest.raises(StoreError):
            open_store(place)
    assert in_another_process(tmp_path, "restore", "copy.db", "hard.db") == "refused"
    (tmp_path / "one.db.lock").unlink()
    (tmp_path / "hard.db.lock").unlink(missing_ok=True)
    assert in_another_process(tmp_path, "one.db") == "refused"
    run = a_run(store)
    write(store, run, -1, 0)
    store.close()
    assert in_another_process(tmp_path, "one.db") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be deleted")
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "without its log"])
def test_nothing_is_written_to_a_file_that_nobody_will_find(how: str, tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    store = open_store(str(path))
    run = a_run(store)
    write(store, run, -1, 0)
    gone = path.with_name("one.db-wal") if how == "without its log" else path
    if how == "replaced":
        copy_file(path, tmp_path / "copy.db")
    gone.rename(tmp_path / "away")
    if how == "replaced":
        (tmp_path / "copy.db").rename(path)
    for use in (lambda: write(store, run, 1, 1), store.probe, lambda: store.find_runs([run.id])):
        with pytest.raises(StoreError):
            use()
    (tmp_path / "away").replace(gone)
    write(store, run, 1, 1)
    store.close()
    again = open_store(str(path))
    assert again.find_runs([run.id])[run.id].next == 2
    again.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["pipe", "folder", "a\0b", "x" * 5_000])
def test_what_can_be_no_database_is_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError):
        open_store(str(tmp_path / name))
    assert sorted(found.name for found in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_copy_is_made_while_the_store_is_in_use(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "one.db"))
    run = a_run(store)
    write(store, run, -1, 0)
    copy_file(tmp_path / "one.db", tmp_path / "copy.db")
    write(store, run, 1, 1)
    store.close()
    copy = open_store(str(tmp_path / "copy.db"))
    assert copy.find_runs([run.id])[run.id].next == 1
    copy.close()


@pytest.mark.parametrize("url", ["mysql://host/x", "nowhere/at/all.db"])
def test_an_address_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=r"postgresql://…|no folder nowhere/at"):
        open_store(url)
