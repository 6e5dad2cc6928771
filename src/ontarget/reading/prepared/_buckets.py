"""The first half of preparing: finds the files, and divides their rows into buckets.

A bucket is a set of files with all rows of some episodes. A bucket fits in memory, however many
rows there are in all, and is read like any other table. A file gets its final name only when it is
finished, so after an interruption the same call continues with the files that are missing.
"""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from os import PathLike
from os.path import commonpath
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from ontarget._arguments import usable_path
from ontarget._whole_file import write_whole
from ontarget.episodes.episodes import Episodes
from ontarget.errors import Argument, EpisodesError, EpisodesFileError, Placeholder
from ontarget.reading._columns import is_times, says_nothing
from ontarget.reading._lerobot import is_lerobot
from ontarget.reading._parts import Parts
from ontarget.reading._text import (
    TEXT_TABLES,
    check_sizes,
    read_text_table,
    regular_file,
    separator_in,
    with_numbers,
)
from ontarget.reading.files import explained, layout_in
from ontarget.reading.frames import found_parts, record_frame
from ontarget.reading.layout import FrameOptions, Layout, layout_of

ROW, FILE, _BUCKET = "ontarget:row", "ontarget:file", "ontarget:bucket"
_BUCKET_ROWS, _BUCKET_VALUES = 4_000_000, 24_000_000  # roughly the most that a bucket may have
_ROWS_A_FILE = 1 << 40  # more rows than any file has, so that row numbers of all files differ
_BY_FILE = (
    Argument("file_column", "file"),
    " and ",
    Argument("episode", ("file", Placeholder("NAME"))),
)
Sources: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

_ENDINGS = (".parquet", *TEXT_TABLES)
_IN_FOLDERS = tuple(one for one in _ENDINGS if one != ".txt")  # .txt files may be notes
_BATCH_ROWS = 1_000_000
_NOTHING = "nothing"
_TEXT_ROW_BYTES = 60  # the usual size of a row in a CSV file, roughly
# Larger text files are read in batches: UTF-8, with commas, semicolons, tabs or bars.
_LARGEST_TEXT = 256 << 20


class _First(NamedTuple):
    """What the first file with rows shows: its columns, what each column is, how to read them."""

    name: str
    types: pl.Schema
    parts: Parts
    layout: Layout


@dataclass(frozen=True)
class Buckets:
    """The rows of all source files, divided into buckets that fit in memory.

    A hash of the episode's id decides which bucket a row goes to, so a bucket has whole episodes.
    ``file_column`` is the name of a column to add, with the name of each row's file. It is for
    files that use the same episode numbers.
    """

    folder: Path
    sources: Sequence[Source]
    file_column: str | None = None

    @cached_property
    def n(self) -> int:
        """How many buckets there are."""
        rows = 0
        for source in self.sources:
            rows += 0 if source.is_dataset else source.n_rows()
        most = max(1, min(_BUCKET_ROWS, _BUCKET_VALUES // len(self._first.types)))
        return min(1024, max(1, -(-rows // most)))

    @cached_property
    def _first(self) -> _First:
        """The first file with rows: its name and columns, what each column is, how to read them."""
        for source in self.sources:
            head = self._named(next(source.batches(), pl.DataFrame()), source)
            if head.height:
                with explained(source.path, "read"):
                    written = source.path.suffix == ".parquet"
                    known = layout_in(source.path, source.options) if written else None
                    layout = layout_of(source.options, known)
                    return _First(source.name, head.schema, found_parts(head, layout), layout)
        raise EpisodesError("the files have no rows; record at least one episode")

    @property
    def parts(self) -> Parts:
        """Which column is the episode, the step, the reward and so on, as in the first file."""
        return self._first.parts

    def scatter(self, number: int) -> None:
        """Write the rows of one source file to the buckets, unless that is done already."""
        done = self.folder / f"rows-{number:05d}"
        if done.exists():
            return
        source, part = self.sources[number], self.folder / f"rows-{number:05d}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        columns, texts, least, at = self.parts, dict[str, set[str]](), None, 0
        first = self._first
        for place, batch in enumerate(source.batches()):
            if not batch.height:
                continue
            own = self._named(batch, source)
            if source.is_text:
                own = _without_words(own, first.types)
            check_alike((first.name, first.types), (source.name, own.schema), self._names)
            own = own.select(first.types.names())
            self._refuse_nameless(own, source, at)
            least = self._least_step(own, least)
            for name, kind in own.schema.items():
                if kind in (pl.String, pl.Categorical, pl.Enum) and name not in self._keys:
                    texts.setdefault(name, set()).update(
                        own.get_column(name).cast(pl.String).drop_nulls().unique().to_list()
                    )
            rows = pl.int_range(number * _ROWS_A_FILE + at, number * _ROWS_A_FILE + at + own.height)
            at += own.height
            hashed = pl.concat_str(
                [pl.col(name).cast(pl.String) for name in columns.episode_columns],
                separator="\x1f",
                ignore_nulls=True,
            ).hash(seed=0)
            marked = own.with_columns(
                rows.alias(ROW), pl.lit(number).alias(FILE), (hashed % self.n).alias(_BUCKET)
            )
            for (bucket,), some in marked.partition_by(
                _BUCKET, as_dict=True, include_key=False
            ).items():
                path = part / f"{bucket:04d}-{place:05d}.parquet"
                with explained(path, "written"):
                    some.write_parquet(path, compression="lz4", statistics=False)
        facts = {"texts": {name: sorted(own) for name, own in texts.items()}, "least": least}
        write_whole(part / "facts.json", [json.dumps(facts).encode()])
        part.rename(done)

    def rows(self, bucket: int) -> pl.DataFrame:
        """All rows of a bucket, in the order of the source files."""
        paths = self._pieces.get(bucket, [])
        if not paths:
            return pl.DataFrame()
        frames = []
        for path in paths:
            with explained(path, "read"):
                own = pl.read_parquet(path)
            frames.append(own if own.schema == self._types else own.cast(dict(self._types)))  # type: ignore[arg-type]
        return pl.concat(frames)

    @cached_property
    def _pieces(self) -> dict[int, list[Path]]:
        """For each bucket that has rows, its files, in the order of the source files."""
        found: dict[int, list[Path]] = {}
        for path in sorted(self.folder.glob("rows-*/*.parquet")):
            found.setdefault(int(path.name[:4]), []).append(path)
        return found

    @cached_property
    def _types(self) -> pl.Schema:
        """For each column, a type that can represent its values in every source file."""
        schemas: dict[tuple[tuple[str, pl.DataType], ...], str] = {}
        for path in sorted(path for paths in self._pieces.values() for path in paths):
            name = self.sources[int(path.parent.name.removeprefix("rows-"))].name
            schemas.setdefault(tuple(pl.read_parquet_schema(path).items()), name)
        # Every file was compared with the first, but the first may have columns without any value.
        for (one, name), (other, second) in combinations(schemas.items(), 2):
            check_alike((name, pl.Schema(one)), (second, pl.Schema(other)), self._names)
        signed = {name for one in schemas for name, kind in one if kind.is_signed_integer()}
        plain: dict[pl.DataType, pl.DataType] = {pl.Int128(): pl.Int64()}  # NumPy has no int128
        # Polars would turn a mixture of signed and unsigned numbers into floats.
        whole: dict[tuple[str, pl.DataType], pl.DataType] = {
            (name, pl.UInt64()): pl.Int64() for name in signed
        }
        frames = [
            pl.DataFrame(schema={name: whole.get((name, kind), kind) for name, kind in one})
            for one in sorted(schemas, key=str)
        ]
        found = pl.concat(frames, how="vertical_relaxed").schema
        if any(source.is_text for source in self.sources):
            plain[pl.Null()] = pl.String()  # as a single text file would be read
        return pl.Schema({name: plain.get(kind, kind) for name, kind in found.items()})

    @cached_property
    def layout(self) -> Layout:
        """The options with which every bucket is read as a table."""
        parts, asked = self.parts, self._first.layout
        episode = parts.episode_columns
        step: Any = list(parts.step_columns) if parts.sorts else parts.step
        layout = replace(
            asked,
            episode=episode[0] if len(episode) == 1 else list(episode),
            step=step,
            reward=parts.reward,
            truncated=parts.truncated,
            terminated=parts.terminated,
            group=parts.group,
            first_step=self._first_step(asked),
        )
        if layout.horizon is None:
            longest = max(self._longest(bucket) for bucket in range(self.n))
            layout = replace(layout, horizon=longest, declared=False)
        return layout

    @cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """For each column of text, all values that occur in any file, sorted."""
        found: dict[str, set[str]] = {}
        for facts in self._facts():
            for name, own in facts["texts"].items():
                found.setdefault(name, set()).update(own)
        return {name: tuple(sorted(own)) for name, own in found.items()}

    def _facts(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.folder.glob("rows-*/facts.json")):
            yield json.loads(path.read_bytes())

    def _first_step(self, asked: Layout) -> int | None:
        if asked.first_step is not None or self.parts.step is None:
            return asked.first_step
        found = [facts["least"] for facts in self._facts() if facts["least"] is not None]
        return int(min(found)) if found else None

    def _least_step(self, rows: pl.DataFrame, least: float | None) -> float | None:
        parts = self.parts
        if parts.step is None or parts.sorts or not rows.height:
            return least
        column = rows.get_column(parts.step)
        if is_times(column) or not column.dtype.is_numeric():
            return None
        here = column.min()
        known = [float(one) for one in (least, here) if isinstance(one, int | float)]
        return min(known) if known else None

    def _longest(self, bucket: int) -> int:
        """How many rows, and so steps, the longest episode in a bucket has."""
        layout = self._first.layout
        if layout.every is not None:
            raise EpisodesError(
                "prepare() with ",
                Argument("every"),
                " needs a declared horizon, because the number of steps of the longest run is not "
                "known before all files are read; pass ",
                Argument("horizon", Placeholder("N")),
            )
        paths = self._pieces.get(bucket, [])
        if not paths:
            return 0
        keys = list(self.parts.episode_columns)
        counted = pl.concat(
            [pl.scan_parquet(path).select(keys) for path in paths], how="vertical_relaxed"
        )
        return int(counted.group_by(keys).len().select(pl.col("len").max()).collect().item())

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns that name a row's episode, and the column of groups if there is one."""
        return (*self.parts.episode_columns, *filter(None, (self.parts.group,)))

    def _refuse_nameless(self, rows: pl.DataFrame, source: Source, at: int) -> None:
        """Refuse a row without the id of its episode."""
        for name in self.parts.episode_columns:
            missing = rows.get_column(name).is_null()
            if missing.any():
                row = at + int(missing.arg_max() or 0)
                raise EpisodesError(
                    f"episode (column {name!r}) needs a value in every row, got none in row "
                    f"{row:,} of {source.name}"
                )

    @property
    def _keys(self) -> tuple[str, ...]:
        """The columns of text that are never features, such as those that name episodes."""
        parts = self.parts
        return (*parts.episode_columns, *parts.step_columns, *filter(None, (parts.group,)))

    def _named(self, rows: pl.DataFrame, source: Source) -> pl.DataFrame:
        if source.is_text:
            # A column without any value is read as text, although other files may have numbers.
            texts = rows.select(pl.col(pl.String)).columns
            empty = [name for name in texts if rows.get_column(name).null_count() == rows.height]
            rows = rows.with_columns(pl.lit(None).alias(name) for name in empty)
        if self.file_column is None or not rows.width:
            return rows
        if self.file_column in rows.columns:
            raise EpisodesError(
                Argument("file_column", self.file_column),
                f" is already a column of {source.name}; choose another name",
            )
        return rows.with_columns(pl.lit(source.name).alias(self.file_column))


def _without_words(rows: pl.DataFrame, types: pl.Schema) -> pl.DataFrame:
    """The rows of a text file; columns with only words for missing values are empty."""
    numeric = [name for name, kind in types.items() if kind.is_numeric() or kind == pl.Boolean]
    texts = {name for name, kind in rows.schema.items() if kind == pl.String}
    empty = [name for name in numeric if name in texts and says_nothing(rows[name]).all()]
    return rows.with_columns(pl.lit(None).alias(name) for name in empty)


def refuse_spread(rows: pl.DataFrame, layout: Layout, buckets: Buckets) -> None:
    """Refuse an episode that has rows in several files, if no column says in which order."""
    if layout.step is not None:
        return
    keys = list(buckets.parts.episode_columns)
    spread = rows.group_by(keys).agg(pl.col(FILE).unique()).filter(pl.col(FILE).list.len() > 1)
    if spread.height:
        episode, files = spread.row(0)[0], sorted(spread.row(0)[-1])
        names = " and ".join(buckets.sources[number].name for number in files[:2])
        raise EpisodesError(
            f"episode {episode} has rows in {names}, and no column gives their order; name a "
            f"column for the steps, or, if each file numbers its own episodes, pass ",
            *_BY_FILE,
        )


def blamed(
    error: EpisodesError, rows: pl.DataFrame, layout: Layout, buckets: Buckets
) -> EpisodesError:
    """The same error, with a message that names the files whose rows cause it."""
    twice = _twice(rows, buckets)
    if twice is not None:
        return twice
    numbers = rows.get_column(FILE).unique(maintain_order=True).to_list()
    for number in numbers if len(numbers) > 1 else ():
        own = rows.filter(pl.col(FILE) == number)
        try:
            Episodes._built(record_frame(own.drop(ROW, FILE), layout), layout)
        except EpisodesError as found:
            if _first_words(found) == _first_words(error):
                numbers = [number]
                break
    names = [buckets.sources[number].name for number in numbers]
    told = f"{', '.join(names[:3])}{' …' * (len(names) > 3)}"
    kind: Any = type(error)
    told_of: EpisodesError = kind(*error.parts, f" (in {told})")
    return told_of


def _first_words(error: EpisodesError) -> str:
    """The error's message, without the words about further bad rows."""
    return str(error).partition(" and in ")[0]


def _twice(rows: pl.DataFrame, buckets: Buckets) -> EpisodesError | None:
    """An error if two files both contain the same step of the same episode; else None."""
    parts = buckets.parts
    keys = [*parts.episode_columns, *parts.step_columns]
    if parts.step is None:
        return None
    files = rows.group_by(keys, maintain_order=True).agg(pl.col(FILE))
    twice = files.filter(pl.col(FILE).list.n_unique() > 1)
    if not twice.height:
        return None
    *named, numbers = twice.row(0)
    episode = "/".join(map(str, named[: len(parts.episode_columns)]))
    step = ", ".join(map(str, named[len(parts.episode_columns) :]))
    one, other = (buckets.sources[number].name for number in sorted(set(numbers))[:2])
    more = f" (and {twice.height - 1:,} more such steps)" if twice.height > 1 else ""
    return EpisodesError(
        f"episode {episode} has step {step} both in {one} and in {other}{more}; keep one of them, "
        "or, if each file numbers its own episodes, pass ",
        *_BY_FILE,
    )


@dataclass(frozen=True)
class Source:
    """One data file, or one dataset, to prepare episodes from.

    ``name`` identifies the file in messages and in ``file_column``: the name of the file, with its
    folders if two files have the same name.
    """

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
