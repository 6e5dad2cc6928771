"""One small interface to SQLite and PostgreSQL, through which the service stores its data."""

from __future__ import annotations

import errno
import os
import queue
import re
import sqlite3
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from ontarget._arguments import usable_path
from ontarget._package import require
from ontarget.errors import StoreError

_READERS: Final = 4
_WAIT: Final = 30.0  # seconds for a connection or a lock
_SIZES: Final = (256, 64, 16, 4, 1)  # rows of one statement; few sizes, so that each is parsed once
_LOCKED_BYTE: Final = 1 << 62
_CAST: Final = re.compile(r"CAST\(\? AS ([A-Z ]+)\)")
_VALUES: Final = re.compile(r"VALUES (\([^()]*(?:\([^()]*\)[^()]*)*\))")
_Identity: TypeAlias = tuple[int, int]  # the device and the number of a file


class Connection:
    """A connection to a database, SQLite or PostgreSQL."""

    def __init__(self, raw: Any, *, postgres: bool = False) -> None:
        self._raw = raw
        self._postgres = postgres

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query returns."""
        found: list[tuple[Any, ...]] = self._raw.execute(self._said(sql), values).fetchall()
        return found

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self._raw.execute(self._said(sql), values).rowcount)

    def run_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        if rows:
            self._raw.cursor().executemany(self._said(sql), rows)

    def run_rows(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Run a statement with many rows of values for its one ``VALUES (…)``."""
        # Returns how many rows of the table changed. Each value in the statement needs a cast:
        # ``VALUES (CAST(? AS INTEGER), …)``. All rows go in one statement, so that Python's global
        # lock is released only once for all of them.
        if self._postgres:  # sent column by column, which is several times as fast
            columns = [list(column) for column in zip(*rows, strict=True)]
            return int(self._raw.execute(_by_column(sql), columns).rowcount) if rows else 0
        changed = at = 0
        for size in _SIZES:
            while len(rows) - at >= size:
                values = list(chain.from_iterable(rows[at : at + size]))
                changed += self.run(_repeated(sql, size), values)
                at += size
        return changed

    def _said(self, sql: str) -> str:
        return sql.replace("?", "%s") if self._postgres else sql


@lru_cache(maxsize=256)
def _by_column(sql: str) -> str:
    """The SQL statement, changed to take one array per column instead of ``VALUES (…)``."""
    before, values, after = _split(sql)
    kinds = _CAST.findall(values)
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
    names = ", ".join(f"column{i + 1}" for i in range(len(kinds)))
    start = before.removesuffix("VALUES ")
    return f"{start}SELECT * FROM unnest({arrays}) AS given ({names}){after}"


@lru_cache(maxsize=256)
def _repeated(sql: str, size: int) -> str:
    """The SQL statement with its ``VALUES (…)`` written ``size`` times, once for each row."""
    before, values, after = _split(sql)
    return before + ", ".join([values] * size) + after


def _split(sql: str) -> tuple[str, str, str]:
    """The SQL statement in three parts: before ``VALUES (…)``, the values, and the rest."""
    one = _VALUES.search(sql)
    if one is None:
        raise StoreError(f"this statement has no VALUES (…): {sql}")
    return sql[: one.start(1)], one[1], sql[one.end(1) :]


class _Pool:
    """A pool of open database connections; a new one is opened only if none is free."""

    def __init__(self, make: Any, size: int) -> None:
        self._make = make
        self._free: queue.LifoQueue[Any] = queue.LifoQueue()
        self._room = threading.BoundedSemaphore(size)

    @contextmanager
    def taken(self) -> Iterator[Any]:
        if not self._room.acquire(timeout=_WAIT):
            raise StoreError("all reading connections are busy; try again later")
        try:
            try:
                raw = self._free.get_nowait()
            except queue.Empty:
                raw = self._make()
            try:
                yield raw
            except BaseException:
                with suppress(Exception):
                    raw.close()
                raise
            self._free.put(raw)
        finally:
            self._room.release()

    def close(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()


class SqliteDatabase:
    """A SQLite database in a file. One connection writes and checkpoints; the others only read.

    Versions of SQLite before 3.51.3 can damage the write-ahead log of a database if two connections
    write or checkpoint at once, and any version does if they know the file by different names. So a
    second service on the same file is refused, whatever it calls the file.

    SQLite goes on with a file that was deleted or replaced. Nobody would find what it writes there,
    so every transaction checks first that the file is still in its place.
    """

    types: Final = {"key": "INTEGER", "blob": "BLOB", "real": "REAL", "text": "TEXT"}
    shared: Final = False

    def __init__(self, path: Path) -> None:
        self._path = path = path.resolve()
        self._log = path.with_name(path.name + "-wal")
        self._lock = _FileLock(path)
        self._log_seen: _Identity | None = None
        try:
            self._writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("PRAGMA journal_size_limit = 67108864")
            self._writer.execute("PRAGMA wal_autocheckpoint = 4000")
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        self._readers = _Pool(self._reader, _READERS)

    def _reader(self) -> sqlite3.Connection:
        self._check_place()
        found = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=_WAIT
        )
        found.execute("PRAGMA query_only = 1")
        found.execute("PRAGMA wal_autocheckpoint = 0")
        return found

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A context for one transaction. When the context ends, the changes are on disk."""
        self._check_place()
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield Connection(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A context with a connection for reading."""
        try:
            with self._readers.taken() as raw:
                yield Connection(raw)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        self._readers.close()
        self._writer.close()
        self._lock.close()

    def _check_place(self) -> None:
        """Raise an error if the file, or its write-ahead log, was deleted or replaced."""
        log = _identity(self._log)
        if _identity(self._path) != self._lock.identity or self._log_seen not in (None, log):
            raise StoreError(
                f"{self._path}, or its log, was deleted or replaced; put the file back, or restart "
                "the service"
            )
        self._log_seen = log


class PostgresDatabase:
    """A PostgreSQL database, which several processes may use at once."""

    types: Final = {"key": "BIGINT", "blob": "BYTEA", "real": "DOUBLE PRECISION", "text": "TEXT"}
    shared: Final = True

    def __init__(self, url: str) -> None:
        self._psycopg: Any = require("psycopg", extra="service")
        self._url = url
        self._writer: Any = None
        self._readers = _Pool(self._connected, _READERS)
        with self.read():
            pass

    def _connected(self) -> Any:
        return self._psycopg.connect(self._url, autocommit=True, connect_timeout=10)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A context for one transaction. When the context ends, the changes are on disk."""
        try:
            if self._writer is None or self._writer.closed:
                self._writer = self._connected()
            with self._writer.transaction():
                yield Connection(self._writer, postgres=True)
        except self._psycopg.Error as error:
            raise StoreError(f"PostgreSQL refused to write: {error}") from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A context with a connection for reading."""
        try:
            with self._readers.taken() as raw:
                yield Connection(raw, postgres=True)
        except self._psycopg.Error as error:
            raise StoreError(f"PostgreSQL cannot be read: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        self._readers.close()
        if self._writer is not None:
            self._writer.close()


Database: TypeAlias = SqliteDatabase | PostgresDatabase


def open_database(url: str) -> Database:
    """Open the database that ``url`` names: ``postgresql://…``, or the path of a SQLite file."""
    if url.startswith(("postgresql://", "postgres://")):
        return PostgresDatabase(url)
    if "://" in url and not url.startswith("sqlite:///"):
        kind = url.split("://")[0]
        raise StoreError(f"`database` needs a file or postgresql://…, got {kind}://…")
    path = usable_path(url.removeprefix("sqlite:///"), error=StoreError)
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be made: there is no folder {path.parent}")
    return SqliteDatabase(path)


def copy_file(source: Path, path: Path) -> None:
    """Copy the SQLite database ``source`` to ``path``; a service may be writing to it meanwhile."""
    if not source.is_file():
        raise StoreError(f"there is no database {source}")
    if path.exists():
        raise StoreError(f"{path} already exists; choose another name")
    try:
        with closing(sqlite3.connect(source)) as raw, closing(sqlite3.connect(path)) as copy:
            raw.execute("PRAGMA query_only = 1")
            raw.backup(copy)
    except sqlite3.Error as error:
        raise StoreError(f"{source} cannot be copied: {error}") from error


def restore_file(copy: Path, path: Path) -> None:
    """Restore the SQLite database at ``path`` from the backup ``copy``."""
    if not copy.is_file():
        raise StoreError(f"there is no backup file {copy}")
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be made: there is no folder {path.parent}")
    held = _FileLock(path.resolve())
    try:
        # Through SQLite, not by copying the file: its log may hold pages of what was there before.
        with closing(sqlite3.connect(copy)) as raw, closing(sqlite3.connect(path)) as database:
            raw.execute("PRAGMA query_only = 1")
            raw.execute("SELECT MAX(version) FROM schema_version").fetchone()
            said = raw.execute("PRAGMA integrity_check").fetchone()[0]
            if said != "ok":
                raise StoreError(f"{copy} is damaged: {said}")
            raw.backup(database)
    except sqlite3.Error as error:
        raise StoreError(f"{copy} cannot be restored: {error}") from error
    finally:
        held.close()


class _FileLock:
    """Keeps other services from a database file, under any of its names, until it is closed.

    Names that lead to the same place share a lock file beside it. Hard links share the file itself:
    one byte of it is locked, far behind those that SQLite locks.

    Parameters
    ----------
    path
        The file, without symbolic links; it is made if there is none.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is not a regular file; `database` needs one")
        self._files = [_opened(path.with_name(path.name + ".lock"), 0o600)]
        self.identity: _Identity | None = None
        try:
            _hold(self._files[0], path)
            # Closing any descriptor of a file loses all locks that SQLite has on it in this
            # process. So do not open what is in use here, and keep ours open to the end.
            if _identity(path) in _in_use:
                raise _taken(path)
            self._files.append(_opened(path, 0o644))
            _hold_byte(self._files[1], path)
            self.identity = _identity(path)
        except BaseException:
            self.close()
            raise
        if self.identity is not None:
            _in_use.add(self.identity)

    def close(self) -> None:
        """Let other services use the file; SQLite must have closed it."""
        if self.identity is not None:
            _in_use.discard(self.identity)
        while self._files:
            os.close(self._files.pop())


_in_use: Final[set[_Identity]] = set()


def _identity(path: Path) -> _Identity | None:
    """What identifies a file whatever its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path, mode: int) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, mode)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _hold(file: int, path: Path) -> None:
    """Lock the lock file of a database."""
    try:
        import fcntl
    except ImportError:  # Windows: SQLite's own lock refuses a second writer, though later
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise _taken(path) from None


def _hold_byte(file: int, path: Path) -> None:
    """Lock a byte of the database itself, where the system has locks that SQLite cannot lose."""
    try:
        from fcntl import F_OFD_SETLK, F_WRLCK, fcntl
    except ImportError:  # not Linux
        if os.fstat(file).st_nlink > 1:
            raise StoreError(
                f"{path} has several names (hard links), and another service could use another "
                "one; use a file with one name"
            ) from None
        return
    try:
        fcntl(file, F_OFD_SETLK, struct.pack("hhqqi0q", F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise _taken(path) from None  # anything else: the file system has no such locks


def _taken(path: Path) -> StoreError:
    return StoreError(
        f"another service is using {path}; stop it first, or use PostgreSQL for several workers"
    )
