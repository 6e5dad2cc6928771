"""The files that episodes are prepared from: finding them, and reading them batch by batch."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import polars as pl

from ontarget.episodes.reading._csv import TEXT_TABLES, read_text_table
from ontarget.episodes.reading._files import explained
from ontarget.episodes.reading._layout import FrameOptions
from ontarget.errors import EpisodesError, EpisodesFileError

__all__ = ["Source", "Sources", "check_alike", "sources_of"]

Sources: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

_ENDINGS = (".parquet", *TEXT_TABLES)
_IN_FOLDERS = tuple(one for one in _ENDINGS if one != ".txt")  # a folder may hold notes
_BATCH_ROWS = 1_000_000
_TEXT_ROW_BYTES = 60  # of a row in a CSV file, roughly
# Larger text files are read by the batch: UTF-8, with commas, semicolons, tabs or bars.
_LARGEST_TEXT = 256 << 20


@dataclass(frozen=True)
class Source:
    """One file or dataset to prepare episodes from."""

    path: Path
    options: FrameOptions

    @property
    def is_dataset(self) -> bool:
        """Whether it is the folder of a dataset, which is read whole."""
        return self.path.is_dir()

    def stamp(self) -> list[object]:
        """What tells that it is still the same file."""
        with explained(self.path, "read"):
            seen = self.path.stat()
        return [str(self.path), seen.st_size, seen.st_mtime_ns]

    def n_rows(self) -> int:
        """How many rows it has, roughly if it is text."""
        with explained(self.path, "read"):
            if self.path.suffix == ".parquet":
                return int(pl.scan_parquet(self.path).select(pl.len()).collect().item())
            return self.path.stat().st_size // _TEXT_ROW_BYTES

    def batches(self) -> Iterator[pl.DataFrame]:
        """Its rows in order, some at a time."""
        with explained(self.path, "read"):
            if self.is_dataset:
                from ontarget.episodes.episodes import Episodes

                yield Episodes.read(self.path, **self.options).to_frame()
            elif self.path.suffix == ".parquet":
                scanned = pl.scan_parquet(self.path, glob=False)
                total, at = self.n_rows(), 0
                while at < total:
                    yield scanned.slice(at, _BATCH_ROWS).collect()
                    at += _BATCH_ROWS
            elif self.path.stat().st_size <= _LARGEST_TEXT:
                yield read_text_table(self.path).table
            else:
                yield from _large_text(self.path)


def _large_text(path: Path) -> Iterator[pl.DataFrame]:
    with path.open("rb") as file:
        line = file.readline().decode("utf-8-sig")
    separator = next((sign for sign in (",", ";", "\t", "|") if sign in line), ",")
    scanned = pl.scan_csv(path, separator=separator, infer_schema_length=None, glob=False)
    yield from scanned.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)


def sources_of(given: Sources, options: FrameOptions) -> list[Source]:
    """The files in a folder, of a pattern, or of a list of these, in the order of their names."""
    several = [given] if isinstance(given, str | PathLike) else list(given)
    found: list[Path] = []
    for one in several:
        path = Path(one)
        if path.is_dir():
            found += _in_folder(path)
        elif path.exists():
            found.append(path)
        else:
            # Path.glob takes no absolute pattern.
            matches = sorted(map(Path, glob.glob(str(one), recursive=True)))  # noqa: PTH207
            if not matches:
                raise EpisodesFileError(f"{one}: no such file or folder, and no file fits it")
            found += [name for name in matches if name.suffix in _ENDINGS]
    stray = [path for path in found if path.is_file() and path.suffix not in _ENDINGS]
    if stray or not found:
        name = stray[0] if stray else several[0] if several else "nothing"
        raise EpisodesFileError(
            f"{name}: episodes come as .parquet or .csv files (or .tsv, .txt), or folders of them "
            "or of Minari or LeRobot datasets"
        )
    return [Source(path, options) for path in dict.fromkeys(found)]


def _in_folder(folder: Path) -> list[Path]:
    if (folder / "meta" / "info.json").is_file():  # a LeRobot dataset
        return [folder]
    files = [path for path in folder.rglob("*") if path.suffix in _IN_FOLDERS and path.is_file()]
    hidden = ("_", ".")
    files = [one for one in files if not one.name.startswith(hidden)]
    return sorted(files) or [folder]


def check_alike(first: tuple[Path, pl.Schema], path: Path, schema: pl.Schema) -> None:
    """Refuse a file whose columns, or what they hold, differ from those of the first file."""
    known, names = first[1], schema.names()
    for name in (*known.names(), *names):
        if name not in names or name not in known:
            has, lacks = (path, first[0]) if name in names else (first[0], path)
            raise EpisodesError(
                f"{lacks.name} has no column {name!r}, which {has.name} has; files that are "
                "prepared together need the same columns"
            )
    for name, kind in known.items():
        one, other = _kind(kind), _kind(schema[name])
        if one != other:
            raise EpisodesError(
                f"column {name!r} holds {one} in {first[0].name} and {other} in {path.name} "
                f"({kind}, {schema[name]}); files that are prepared together need the same types"
            )


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_numeric() or dtype == pl.Boolean:
        return "numbers"
    if dtype.is_temporal():
        return "times"
    return "nothing" if dtype == pl.Null else "text"
