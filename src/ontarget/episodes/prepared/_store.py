"""The arrays of prepared episodes, whose rows are on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes._store import RowValues, Store
from ontarget.episodes.prepared._manifest import MANIFEST, Manifest, PreparedPart, checksum
from ontarget.episodes.prepared._rows import PartFiles, PreparedRows, RowColumn, States
from ontarget.episodes.reading._columns import flags, labels
from ontarget.episodes.reading._files import explained
from ontarget.episodes.schema import Schema, UnknownCategories, joined_unknown
from ontarget.errors import EpisodesFileError


@dataclass(frozen=True)
class PreparedStore(Store):
    """Recorded episodes whose rows are on disk; unpickling opens the same folder again."""

    origin: tuple[str, tuple[str, ...], str] = ("", (), "")

    def recoded(self, schema: Schema) -> PreparedStore:
        """The same episodes, with text coded by other lists of categories when it is read.

        ``schema`` has the features with these lists.
        """
        rows = cast(States, self.states).rows.recoded(schema)
        return _over(replace(self, schema=schema), rows)

    @cached_property
    def unknown_categories(self) -> tuple[UnknownCategories, ...]:
        """The readings of categories that the dictionaries lack, counted in the files."""
        found = cast(States, self.states).rows.unknown_categories()
        return joined_unknown([*self.strangers, *found])

    def part(self, episodes: IndexArray) -> Store:
        """The episodes at these positions, read into memory."""
        found = super().part(episodes)
        return Store(**{one.name: getattr(found, one.name) for one in fields(Store)})

    def values_of(self, rows: IndexArray) -> RowValues:
        """States, rewards and other values of these rows; each step is read from disk only once.

        The numbers of the rows must be sorted by step.
        """
        return cast(States, self.states).rows.values_of(rows)

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
    """The prepared episodes in a folder: those of the named parts, or of all parts.

    The parts are called "learn" and "assure".
    """
    own = parts or tuple(Manifest.read(folder).parts)
    return prepared_store(folder.resolve(), own, checksum(folder / MANIFEST))


@lru_cache(maxsize=8)
def prepared_store(folder: Path, parts: tuple[str, ...], digest: str) -> PreparedStore:
    """The prepared episodes of some parts of a folder.

    The parts are called "learn" and "assure". ``digest`` is the checksum that the folder's list of
    contents (its manifest) must have.
    """
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
        return cast(FloatArray, RowColumn(rows, name)) if name in rows.columns else None

    before = column("before")
    assert before is not None
    return replace(
        store,
        states=cast(FloatArray, States(rows)),
        before=before,
        rewards=column("reward"),
        ahead=column("ahead"),
    )


def _episodes_in(folder: Path, name: str, manifest: Manifest) -> dict[str, AnyArray]:
    """The checked table of a part's episodes: id, length, outcome and others, as columns.

    ``name`` is the name of the part, "learn" or "assure".
    """
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
    """Refuse a part if a file does not have as many rows as the folder's manifest says.

    The manifest is the list of what the folder contains.
    """
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
