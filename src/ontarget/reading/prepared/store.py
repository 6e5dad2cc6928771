"""The rows of prepared episodes: they are on disk, but can be indexed like arrays.

A step is read from disk when one of its rows is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import count
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes.schema import Schema, UnknownCategories, joined_unknown
from ontarget.episodes.store import RowValues, Store
from ontarget.errors import EpisodesFileError
from ontarget.reading._columns import encoded, flags, labels, unknown_in
from ontarget.reading.files import explained
from ontarget.reading.prepared.manifest import (
    MANIFEST,
    Manifest,
    PreparedFile,
    PreparedPart,
    checksum,
)

FEATURE = "x_"  # put before each feature's name, so that a feature may have any name
_CACHED_BYTES = 256 << 20  # the most bytes of recently read steps that one process keeps


class _Step(NamedTuple):
    states: FloatArray
    columns: dict[str, FloatArray]


class _Cache:
    """Keeps the steps that were read last from disk in memory, up to a number of bytes."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[int, int], _Step] = OrderedDict()
        self._lock = Lock()
        self._bytes = 0

    def find(self, key: tuple[int, int]) -> _Step | None:
        with self._lock:
            found = self._steps.get(key)
            if found is not None:
                self._steps.move_to_end(key)
            return found

    def keep(self, key: tuple[int, int], step: _Step) -> None:
        with self._lock:
            if key in self._steps:
                return
            self._steps[key] = step
            self._bytes += _size(step)
            while self._bytes > _CACHED_BYTES and len(self._steps) > 1:
                self._bytes -= _size(self._steps.popitem(last=False)[1])


def _size(step: _Step) -> int:
    return step.states.nbytes + sum(one.nbytes for one in step.columns.values())


_CACHE, _NUMBERS = _Cache(), count()


class PartFiles(NamedTuple):
    """The files of one part of prepared episodes, and how many steps each episode has."""

    folder: Path
    steps: tuple[PreparedFile, ...]
    lengths: IndexArray


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows of one or several parts of prepared episodes, which are read from disk.

    Rows are sorted by step; within a step, the rows of one part follow those of another.
    ``columns`` are the columns besides the features, such as ``before``, the value that the run is
    judged by so far.
    """

    parts: tuple[PartFiles, ...]
    schema: Schema
    columns: tuple[str, ...]

    @cached_property
    def offsets(self) -> IndexArray:
        """The number of each step's first row; the last entry is the number of all rows."""
        lengths = np.concatenate([part.lengths for part in self.parts])
        ending = np.bincount(lengths, minlength=int(lengths.max()) + 1)
        alive = lengths.size - np.cumsum(ending)[:-1]
        return np.concatenate([[0], np.cumsum(alive)]).astype(np.intp)

    @cached_property
    def _number(self) -> int:
        """A number that identifies these rows in the cache of steps."""
        return next(_NUMBERS)

    def recoded(self, schema: Schema) -> PreparedRows:
        """The same rows, with text coded by the categories of another schema."""
        return replace(self, schema=schema)

    def unknown_categories(self) -> list[UnknownCategories]:
        """The readings of categories that the schema lacks; only those columns are read."""
        found = []
        for feature in self.schema.features:
            for part in self.parts if feature.codes and feature.unseen == "missing" else ():
                for file in part.steps:
                    path = part.folder / file.path
                    with explained(path, "read"):
                        source = path if path.is_file() else path / "*.parquet"
                        name = f"{FEATURE}{feature.name}"
                        column = pl.scan_parquet(source).select(name).collect().to_series()
                        found.append(unknown_in(column, feature))
        return [one for one in found if one is not None]

    def step(self, t: int) -> _Step:
        """The states and all other columns of one step, read from disk or from the cache."""
        key = (self._number, t)
        found = _CACHE.find(key)
        if found is None:
            pieces = [self._read(part, t) for part in self.parts]
            states = np.concatenate([one.states for one in pieces], axis=1)
            columns = {
                name: np.concatenate([one.columns[name] for one in pieces]) for name in self.columns
            }
            found = _Step(states, columns)
            for array in (states, *columns.values()):
                array.setflags(write=False)
            _CACHE.keep(key, found)
        return found

    def values_of(self, rows: IndexArray) -> RowValues:
        """States, rewards and other values of these rows; each step is read from disk only once."""
        # The numbers of the rows must be sorted by step.
        cuts = np.searchsorted(rows, self.offsets)
        states: list[FloatArray] = []
        columns: dict[str, list[FloatArray]] = {name: [] for name in self.columns}
        for t in np.flatnonzero(np.diff(cuts)).tolist():
            own, step = rows[cuts[t] : cuts[t + 1]] - self.offsets[t], self.step(t)
            states.append(step.states[:, own])
            for name, pieces in columns.items():
                pieces.append(step.columns[name][own])
        found = {name: np.concatenate(pieces) for name, pieces in columns.items()}
        return RowValues(
            states=np.concatenate(states, axis=1),
            rewards=found.get("reward"),
            before=found["before"],
            ahead=found.get("ahead"),
        )

    def _read(self, part: PartFiles, t: int) -> _Step:
        alive = np.flatnonzero(part.lengths > t)
        if not alive.size:
            nothing = {name: np.empty(0) for name in self.columns}
            return _Step(np.empty((len(self.schema), 0)), nothing)
        file = next(one for one in part.steps if one.start <= t < one.stop)
        path = part.folder / file.path
        names = [f"{FEATURE}{name}" for name in self.schema.names]
        with explained(path, "read"):
            source = path if path.is_file() else path / "*.parquet"
            asked = pl.scan_parquet(source).filter(pl.col("step") == t)
            number = pl.col("episode").cast(pl.Int64).fill_null(-1)
            table = asked.select(number, *self.columns, *names).collect()
            own = table.get_column("episode").to_numpy()
            if np.any(own[1:] <= own[:-1]):
                table = table.sort("episode")
                own = table.get_column("episode").to_numpy()
            if not np.array_equal(own, alive):
                raise EpisodesFileError(
                    f"{path} at step {t} needs one row for each of the {alive.size:,} episodes "
                    f"that have this step, got {own.size:,} rows that do not match; prepare the "
                    f"episodes again"
                )

            def where(row: int) -> str:
                return f"{path.name}, episode number {alive[row]}, step {t}"

            states = np.empty((len(self.schema), alive.size))
            for j, feature in enumerate(self.schema.features):
                states[j] = encoded(table.get_column(names[j]), feature, where)
            columns = {name: _floats(table.get_column(name)) for name in self.columns}
        return _Step(states, columns)


def _floats(column: pl.Series) -> FloatArray:
    values: FloatArray = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return values


@dataclass(frozen=True, eq=False)
class ValuesOnDisk:
    """Values of prepared rows, indexed like an array in memory; indexing them reads from disk.

    They are the states, (features, rows), or one number per row: the column with this ``name``.
    """

    rows: PreparedRows
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that these values stand for."""
        n = int(self.rows.offsets[-1])
        return (n,) if self.name else (len(self.rows.schema), n)

    @property
    def size(self) -> int:
        """How many values there are."""
        return prod(self.shape)

    def __getitem__(self, key: Any) -> FloatArray:
        if self.name:
            found: FloatArray = _gathered(self.rows, key, lambda step: step.columns[self.name])
        else:
            which, rows = key
            found = _gathered(self.rows, rows, lambda step: step.states[which])
        return found


def _gathered(rows: PreparedRows, wanted: slice | IndexArray, values: Any) -> AnyArray:
    """The values of the wanted rows, read step by step; those of a whole step are not copied."""
    offsets = rows.offsets
    if isinstance(wanted, slice):
        start, stop, _ = wanted.indices(int(offsets[-1]))
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        if start < stop and offsets[first] == start and offsets[first + 1] == stop:
            found: AnyArray = values(rows.step(first))
            return found
        wanted = np.arange(start, stop)
    if not wanted.size:
        empty: AnyArray = values(rows.step(0))[..., :0]
        return empty
    steps = np.searchsorted(offsets, wanted, side="right") - 1
    pieces = []
    places = []
    for t in np.unique(steps).tolist():
        own = np.flatnonzero(steps == t)
        pieces.append(values(rows.step(t))[..., wanted[own] - offsets[t]])
        places.append(own)
    if len(pieces) == 1:
        piece: AnyArray = pieces[0]
        return piece
    joined = np.concatenate(pieces, axis=-1)
    back = np.empty_like(joined)
    back[..., np.concatenate(places)] = joined
    return back


@dataclass(frozen=True)
class PreparedStore(Store):
    """Episodes episodes whose rows are on disk; unpickling opens the same folder again."""

    origin: tuple[str, tuple[str, ...], str] = ("", (), "")

    def recoded(self, schema: Schema) -> PreparedStore:
        """The same episodes, with text coded by other lists of categories when it is read."""
        rows = cast(ValuesOnDisk, self.states).rows.recoded(schema)
        return _over(replace(self, schema=schema), rows)

    @cached_property
    def unknown_categories(self) -> tuple[UnknownCategories, ...]:
        """The readings of categories that the dictionaries lack, counted in the files."""
        found = cast(ValuesOnDisk, self.states).rows.unknown_categories()
        return joined_unknown([*self.strangers, *found])

    def part(self, episodes: IndexArray) -> Store:
        """The episodes at these positions, read into memory."""
        found = super().part(episodes)
        return Store(**{one.name: getattr(found, one.name) for one in fields(Store)})

    def values_of(self, rows: IndexArray) -> RowValues:
        """States, rewards and other values of these rows; each step is read from disk only once."""
        # The numbers of the rows must be sorted by step.
        return cast(ValuesOnDisk, self.states).rows.values_of(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.origin, self.schema, self.horizon)


def _reopened(origin: tuple[str, tuple[str, ...], str], schema: Schema, horizon: int) -> Store:
    store = _coded_store(origin, schema)
    return store if store.horizon == horizon else replace(store, horizon=horizon)


# One object per schema, so that all tasks of a worker process share the steps read so far.
@lru_cache(maxsize=8)
def _coded_store(origin: tuple[str, tuple[str, ...], str], schema: Schema) -> PreparedStore:
    folder, parts, digest = origin
    store = prepared_store(Path(folder), parts, digest)
    return store if store.schema == schema else store.recoded(schema)


def opened_store(folder: Path, parts: tuple[str, ...] = ()) -> PreparedStore:
    """The prepared episodes in a folder: those of the named parts, or of all parts."""
    own = parts or tuple(Manifest.read(folder).parts)
    return prepared_store(folder.resolve(), own, checksum(folder / MANIFEST))


@lru_cache(maxsize=8)
def prepared_store(folder: Path, parts: tuple[str, ...], digest: str) -> PreparedStore:
    """The prepared episodes of some parts of a folder."""
    # ``digest`` is the checksum that the folder's list of contents (its manifest) must have.
    if checksum(folder / MANIFEST) != digest:
        raise EpisodesFileError(f"{folder} has changed since it was opened; open it again")
    manifest = Manifest.read(folder)
    tables = [_episodes_in(folder, name, manifest) for name in parts]
    for name in parts:
        _check_rows(folder, manifest.parts[name])
    lengths = np.concatenate([one["length"] for one in tables])
    own = [manifest.parts[name].steps for name in parts]
    rows = PreparedRows(
        tuple(
            PartFiles(folder, files, one["length"]) for files, one in zip(own, tables, strict=True)
        ),
        manifest.schema,
        manifest.columns,
    )

    def joined(name: str) -> Any:
        found = [one[name] for one in tables if name in one]
        return np.concatenate(found) if len(found) == len(tables) else None

    plain = PreparedStore(
        schema=manifest.schema,
        behavior=manifest.behavior,
        horizon=manifest.horizon,
        horizon_declared=manifest.horizon_declared,
        roles=manifest.roles,
        ids=joined("id"),
        groups=joined("group"),
        truncated=joined("truncated"),
        terminated=joined("terminated"),
        lengths=lengths,
        offsets=rows.offsets,
        states=np.empty((0, 0)),
        rewards=None,
        before=np.empty(0),
        outcomes=joined("outcome"),
        dropped=manifest.dropped,
        censoring=manifest.censoring,
        remarks=manifest.remarks,
        strangers=manifest.strangers,
        origin=(str(folder), parts, digest),
    )
    return _over(plain, rows)


def _over(store: PreparedStore, rows: PreparedRows) -> PreparedStore:
    """The same store, whose columns are read from these rows on disk."""

    def column(name: str) -> FloatArray | None:
        return cast(FloatArray, ValuesOnDisk(rows, name)) if name in rows.columns else None

    before = column("before")
    assert before is not None
    return replace(
        store,
        states=cast(FloatArray, ValuesOnDisk(rows)),
        before=before,
        rewards=column("reward"),
        ahead=column("ahead"),
    )


def _episodes_in(folder: Path, name: str, manifest: Manifest) -> dict[str, AnyArray]:
    """The checked table of a part's episodes: id, length, outcome and others, as columns."""
    part = manifest.parts[name]
    path = folder / part.table.path
    with explained(path, "read"):
        source = path if path.is_file() else path / "*.parquet"
        table = pl.scan_parquet(source).collect().sort("episode")
        if table.height != part.episodes or not _counts(table.get_column("episode")):
            raise EpisodesFileError(
                f"{path} needs the {part.episodes:,} episodes of {name}, numbered from 0, got "
                f"{table.height:,} rows"
            )
        found: dict[str, AnyArray] = {
            "id": _names(table.get_column("id"), path),
            "length": _whole(table.get_column("length")),
            "outcome": table.get_column("outcome").cast(pl.Float64).fill_null(np.nan).to_numpy(),
        }
        if table.get_column("id").n_unique() < table.height:
            raise EpisodesFileError(f"{path} needs different ids, got the same id for two episodes")
        if "group" in table.columns:
            found["group"] = _names(table.get_column("group"), path)
        for flag in ("truncated", "terminated"):
            if flag in table.columns:
                found[flag] = flags(table.get_column(flag), f"{path}: {flag}")
    longest = min(manifest.horizon, part.steps[-1].stop if part.steps else 0)
    small = np.abs(found["outcome"]) <= LARGEST_OUTCOME  # false for NaN
    bad = ~small | (found["length"] < 1) | (found["length"] > longest)
    if bad.any():
        raise EpisodesFileError(
            f"{path} needs a length of 1 to {longest} steps and a finite outcome for each "
            f"episode; {bad.sum():,} do not have these, the first of them "
            f"{found['id'][np.argmax(bad)]}"
        )
    if int(found["length"].sum()) != part.rows:
        raise EpisodesFileError(
            f"{path} needs lengths that sum to {part.rows:,} steps, as the manifest says, got "
            f"{found['length'].sum():,}"
        )
    return found


def _check_rows(folder: Path, part: PreparedPart) -> None:
    """Refuse a part if a file does not have as many rows as the folder's manifest says."""
    for file in part.steps:
        path = folder / file.path
        with explained(path, "read"):
            source = path if path.is_file() else path / "*.parquet"
            held = pl.scan_parquet(source).select(pl.len()).collect().item()
        if held != file.rows:
            raise EpisodesFileError(f"{path} needs {file.rows:,} rows, got {held:,}")


def _counts(numbers: pl.Series) -> bool:
    return bool(np.array_equal(numbers.to_numpy(), np.arange(len(numbers))))


def _whole(column: pl.Series) -> IndexArray:
    found: IndexArray = column.cast(pl.Int64).fill_null(0).to_numpy().astype(np.intp)
    return found


def _names(column: pl.Series, path: Path) -> AnyArray:
    return labels(column, f"{path}: {column.name}")[np.arange(len(column))]
