"""Divides a log into two: the rows of earlier runs and of later runs. No row is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ontarget._keyed import keyed_hash, keys_of
from ontarget._typing import AnyArray, BoolArray, IndexArray
from ontarget._whole_file import replacing
from ontarget.episodes.judged import Judged
from ontarget.errors import Argument, EpisodesError, EpisodesFileError
from ontarget.reading._columns import is_times, joined_labels, times_of, year_first
from ontarget.reading._parts import Table, episode_columns
from ontarget.reading._text import TEXT_TABLES, read_text_table
from ontarget.reading.files import explained, layout_in
from ontarget.reading.layout import Layout, layout_of


@dataclass(frozen=True, eq=False)
class LogPart:
    """The rows of the earlier or of the later runs, as they are in the file.

    All values of a text file are texts. ``starts`` has each run's first value of the column by
    which runs are divided; None if they are divided at random.
    """

    table: pl.DataFrame
    runs: int
    starts: pl.Series | None
    separator: str
    metadata: dict[str, str] | None

    def write(self, path: Path) -> None:
        """Write the rows to a file."""
        with explained(path, "written"), replacing(path) as file:
            if path.suffix == ".parquet":
                self.table.lazy().sink_parquet(file, metadata=self.metadata)
            else:
                self.table.lazy().sink_csv(file, separator=self.separator)


def divided_log(
    path: Path,
    *,
    episode: str | None = None,
    by: str | None = None,
    at: str | None = None,
    share: float = 0.8,
    seed: int = 0,
) -> tuple[LogPart, LogPart]:
    """The earlier and the later runs of a file.

    They are divided at the value ``at`` of the column ``by``, or so that ``share`` of them are
    earlier; a run starts at the smallest value in its rows, and runs that start at the same value
    stay together. Without ``by``, runs are divided at random. ``episode`` is the column of episode
    ids, or several joined by commas; by default it is found by its name.
    """
    with explained(path, "read"):
        found = _opened(path)
        layout = layout_of({} if episode is None else {"episode": episode}, found.layout)
        typed = found.typed
        judged = Judged.of("sum", ())
        names = episode_columns(Table(tuple(typed.columns), typed.get_column, layout, judged))
        ids = joined_labels([typed[name] for name in names], "episode")
        _, first, which = np.unique(ids.codes, return_index=True, return_inverse=True)
        rows, runs = which.reshape(-1), ids[first]
        starts = None if by is None else _starts(typed, by, rows, runs)
        later = _divided(starts, runs, at, share, seed)

    def part(own: BoolArray) -> LogPart:
        return LogPart(
            found.table.filter(pl.Series(own[rows])),
            int(np.count_nonzero(own)),
            None if starts is None else starts.filter(pl.Series(own)),
            found.separator,
            found.metadata,
        )

    return part(~later), part(later)


class _Opened(NamedTuple):
    """The contents of a file: rows as they are written, rows with types, and its metadata."""

    table: pl.DataFrame
    typed: pl.DataFrame
    separator: str = ","
    layout: Layout | None = None
    metadata: dict[str, str] | None = None  # such as the steps of a run


def _opened(path: Path) -> _Opened:
    if path.is_dir():
        raise EpisodesFileError(f"{path} is a folder; divide a .parquet or .csv file")
    if path.suffix == ".parquet":
        table = pl.read_parquet(path, glob=False)
        told = pl.read_parquet_metadata(path)
        told = {name: text for name, text in told.items() if name != "ARROW:schema"}
        return _Opened(table, table, layout=layout_in(path, {}), metadata=told or None)
    if path.suffix not in TEXT_TABLES:
        raise EpisodesFileError(
            f"{path.name} needs to be a .parquet or .csv file, whose runs can be divided"
        )
    typed = read_text_table(path)
    return _Opened(read_text_table(path, as_text=True).table, typed.table, typed.separator)


def _divided(
    starts: pl.Series | None, runs: AnyArray, at: str | None, share: float, seed: int
) -> BoolArray:
    """Which runs are later ones: by their starts, or at random; at least one, and not all."""
    if runs.size < 2:
        raise EpisodesError(f"dividing a log needs at least two runs, got {runs.size}")
    if starts is None:
        return _by_lot(runs, share, seed)
    if starts.n_unique() < 2:
        raise EpisodesError(
            f"all {runs.size:,} runs start at {starts[0]}, so ",
            Argument("by"),
            " cannot divide them",
        )
    if at is None:
        return _last(starts, share)
    later = _from(starts, at)
    if later.all() or not later.any():
        when = "before" if later.all() else "at or after"
        raise EpisodesError(
            f"none of these {runs.size:,} runs starts {when} {at}; choose another ", Argument("at")
        )
    return later


def _by_lot(ids: AnyArray, share: float, seed: int) -> BoolArray:
    """A random choice of later runs, which depends on the seed and the ids, not on their order."""
    order = np.lexsort((ids, keyed_hash(keys_of(ids), seed, "old and new")))
    later = np.ones(ids.size, dtype=np.bool_)
    later[order[: _cut(share, ids.size)]] = False
    return later


def _starts(table: pl.DataFrame, by: str, rows: IndexArray, ids: AnyArray) -> pl.Series:
    """For each run, the smallest value of the column ``by``: a time, a number or a text."""
    if by not in table.columns:
        listed = ", ".join(table.columns)
        raise EpisodesError(
            Argument("by"), f" needs a column of the log, got {by!r}; it has {listed}"
        )
    column = year_first(table[by], f"by (column {by!r})")
    if is_times(column):
        column = times_of(column)
    elif not column.dtype.is_numeric():
        column = column.cast(pl.String)
    each = pl.DataFrame({"run": rows, "start": column}).group_by("run").agg(pl.col("start").min())
    starts = each.sort("run")["start"]
    lost = starts.is_null() | (starts.is_nan() if starts.dtype.is_float() else False)
    if lost.any():
        run = ids[int(lost.arg_max() or 0)]
        raise EpisodesError(
            Argument("by"),
            f" needs a value for every run, and {by!r} has none that can be read for {run!s}",
        )
    return starts


def _from(starts: pl.Series, at: str) -> BoolArray:
    """Which runs start at the value ``at`` or later."""
    value: Any = at
    if starts.dtype.is_temporal():
        value = times_of(pl.Series([at]))[0] if is_times(pl.Series([at])) else None
        needed = "a date or time such as 2026-01-31 or '2026-01-31 14:05'"
    elif starts.dtype.is_numeric():
        needed = "a number"
        try:
            value = float(at)
        except ValueError:
            value = None
    if value is None:
        raise EpisodesError(
            Argument("at"), f" needs {needed}, like the values of the column, got {at!r}"
        )
    found: BoolArray = (starts >= value).to_numpy()
    return found


def _last(starts: pl.Series, share: float) -> BoolArray:
    """Which runs are the later ones, so that about ``share`` of the runs are earlier."""
    first: Any = starts.sort()[_cut(share, starts.len())]
    if first == starts.min():  # most runs start at the same value: these are the earlier ones
        first = starts.filter(starts > first).min()
    found: BoolArray = (starts >= first).to_numpy()
    return found


def _cut(share: float, n: int) -> int:
    """How many of n runs are the earlier ones: the given share, but at least one and not all."""
    return max(1, min(round(share * n), n - 1))
