"""The data files that episodes are prepared from: finding them, and reading them in batches."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from os.path import commonpath
from pathlib import Path
from typing import TypeAlias

import polars as pl

from ontarget._arguments import usable_path
from ontarget.errors import EpisodesError, EpisodesFileError
from ontarget.reading._lerobot import is_lerobot
from ontarget.reading._text import (
    TEXT_TABLES,
    check_sizes,
    read_text_table,
    regular_file,
    separator_in,
    with_numbers,
)
from ontarget.reading.files import explained
from ontarget.reading.layout import FrameOptions

Sources: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

_ENDINGS = (".parquet", *TEXT_TABLES)
_IN_FOLDERS = tuple(one for one in _ENDINGS if one != ".txt")  # .txt files may be notes
_BATCH_ROWS = 1_000_000
_NOTHING = "nothing"
_TEXT_ROW_BYTES = 60  # the usual size of a row in a CSV file, roughly
# Larger text files are read in batches: UTF-8, with commas, semicolons, tabs or bars.
_LARGEST_TEXT = 256 << 20


@dataclass(frozen=True)
class Source:
    """One data file, or one dataset, to prepare episodes from."""

    path: Path
    options: FrameOptions
    name: str

    @property
    def is_dataset(self) -> bool:
        """Whether this is the folder of a dataset (such as Minari's), which is read as a whole."""
        return self.path.is_dir()

    @property
    def is_text(self) -> bool:
        """Whether this is a text file, which does not store the types of its columns."""
        return not self.is_dataset and self.path.suffix != ".parquet"

    def stamp(self) -> list[object]:
        """Values that change if somebody changes the file, such as its size."""
        with explained(self.path, "read"):
            seen = self.path.stat()
        return [str(self.path), seen.st_size, seen.st_mtime_ns]

    def n_rows(self) -> int:
        """The number of rows of the file; an estimate for a text file."""
        with explained(self.path, "read"):
            if self.path.suffix == ".parquet":
                return int(pl.scan_parquet(self.path).select(pl.len()).collect().item())
            return self.path.stat().st_size // _TEXT_ROW_BYTES

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows of the file in order, in batches."""
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
    separator = separator_in(path)
    check_sizes(path, separator)
    scanned = pl.scan_csv(path, separator=separator, infer_schema_length=None, glob=False)
    yield from with_numbers(scanned).collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)


def sources_of(given: Sources, options: FrameOptions, output: Path) -> list[Source]:
    """The data files that ``given`` names, sorted by name; those in ``output`` are left out."""
    several = [given] if isinstance(given, str | PathLike) else list(given)
    found: list[Path] = []
    for one in several:
        path = usable_path(one, error=EpisodesFileError)
        if path.is_dir():
            found += _in_folder(path, output)
        elif path.exists():
            found.append(path)
        else:
            # Path.glob takes no absolute pattern.
            matches = sorted(map(Path, glob.glob(str(one), recursive=True)))  # noqa: PTH207
            if not matches:
                raise EpisodesFileError(
                    f"{one}: no such file or folder, and no file matches it as a pattern"
                )
            found += [
                name for name in matches if name.suffix in _ENDINGS and not _within(name, output)
            ]
    pipes = [one for one in found if one.exists() and not (one.is_file() or one.is_dir())]
    if pipes:  # it could keep us waiting forever, and is read only once
        raise EpisodesFileError(f"{pipes[0]} is a pipe or a device; write the rows to a file first")
    stray = [path for path in found if path.is_file() and path.suffix not in _ENDINGS]
    if stray or not found:
        name = stray[0] if stray else several[0] if several else "nothing"
        raise EpisodesFileError(
            f"{name}: episodes are read from .parquet or .csv files (or .tsv, .txt), from folders "
            "of such files, or from folders of Minari or LeRobot datasets"
        )
    paths = [path if path.is_dir() else regular_file(path) for path in dict.fromkeys(found)]
    return [
        Source(path, options, name) for path, name in zip(paths, _told_apart(paths), strict=True)
    ]


def _in_folder(folder: Path, output: Path) -> list[Path]:
    if is_lerobot(folder):
        return [folder]
    # A link that leads nowhere is kept, so that an error names it later.
    files = [
        path
        for path in folder.rglob("*")
        if path.suffix in _IN_FOLDERS
        and not path.is_dir()
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
        and not _within(path, output)
    ]
    return sorted(files) or [folder]


def _within(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """The name of each file, with as many of its folders as needed to make all names different."""
    if len({path.name for path in paths}) == len(paths):
        return [path.name for path in paths]
    whole = [path.absolute() for path in paths]
    top = Path(commonpath([path.parent for path in whole]))
    return [path.relative_to(top).as_posix() for path in whole]


def check_alike(
    first: tuple[str, pl.Schema], other: tuple[str, pl.Schema], names: Collection[str]
) -> None:
    """Refuse a file whose columns, or their types, differ from those of the first file."""
    (one, known), (two, schema) = first, other
    for column in (*known.names(), *schema.names()):
        if column not in schema or column not in known:
            has, lacks = (two, one) if column in schema else (one, two)
            raise EpisodesError(
                f"{lacks} has no column {column!r}, which {has} has; files that are prepared "
                "together need the same columns"
            )
    for column, kind in known.items():
        kinds = [_kind(dtype, column in names) for dtype in (kind, schema[column])]
        if kinds[0] != kinds[1] and _NOTHING not in kinds:
            raise EpisodesError(
                f"column {column!r} has {kinds[0]} in {one} and {kinds[1]} in {two} "
                f"({kind}, {schema[column]}); files that are prepared together need the same types"
            )


def _kind(dtype: pl.DataType, is_name: bool) -> str:
    if is_name and dtype.is_numeric():
        return "whole numbers" if dtype.is_integer() else "fractional numbers"
    if dtype.is_numeric() or dtype == pl.Boolean:
        return "numbers"
    if dtype.is_temporal():
        return "times"
    if dtype.is_nested():
        return "lists"
    return _NOTHING if dtype == pl.Null else "text"
