"""Columns of dates and times, with a type for times or as text, and features made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import polars as pl

from ontarget._typing import IndexArray
from ontarget.episodes.reading._columns import is_text
from ontarget.episodes.reading._layout import Layout
from ontarget.errors import Argument, EpisodesError

_KINDS: Final = ("elapsed_h", "hour", "weekday")

# Dates need the year first, because a program cannot tell whether 03/04 is in March or in April.
_YEAR_FIRST: Final = re.compile(r"\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]|$)")
_YEAR_LAST: Final = re.compile(r"\s*\d{1,2}[-./]\d{1,2}[-./]\d{2,4}([T ,]|$)")
_DATE_LAST: Final = r"^(\d{1,2})([-./])(\d{1,2})[-./](\d{4})\b"


def is_times(column: pl.Series) -> bool:
    """Whether the column holds dates or times, judged by its type or its first text."""
    if column.dtype.is_temporal():
        return True
    if not is_text(column) or not column.len():
        return False
    first = _first(column)
    return first is not None and _YEAR_FIRST.match(str(first)) is not None


def _first(column: pl.Series) -> Any:
    """The first value that is not missing; None if all are."""
    known = column.drop_nulls()
    return known[0] if known.len() else None


def year_first(column: pl.Series, what: str) -> pl.Series:
    """The column, with dates such as 31/01/2026 rewritten with the year first, as 2026-01-31.

    Dates with dots have the day first. Otherwise some date of the column must show whether the day
    or the month comes first, by a number above 12, which can only be a day. If no date shows it,
    the column is refused. ``what`` is what messages call the column.
    """
    first = _first(column) if is_text(column) else None
    if first is None or not _YEAR_LAST.match(str(first)):
        return column
    text = column.cast(pl.String).str.strip_chars()
    parts = text.str.extract_groups(_DATE_LAST).struct
    one, two = (parts.field(name).cast(pl.Int64, strict=False) for name in ("1", "3"))
    day_first = bool((one > 12).any()) or "." in str(first)
    month_first = bool((two > 12).any())
    if day_first == month_first or not parts.field("4").is_not_null().any():
        raise EpisodesError(
            f"{what} needs dates with the year first (2026-01-31 14:05:00), got {str(first)!r}: "
            "whether the day or the month comes first is unclear; write dates with the year "
            "first, or read the table yourself and pass it to Episodes.from_frame"
        )
    day, month = ("1", "3") if day_first else ("3", "1")
    found = [parts.field(name).str.zfill(2) for name in ("4", month, day)]
    rest = text.str.replace(_DATE_LAST, "").str.replace(r"^,\s*", " ")
    return (found[0] + "-" + found[1] + "-" + found[2] + rest).alias(column.name)


def times_of(column: pl.Series) -> pl.Series:
    """The values of a column as times without a zone (in UTC), or as durations.

    Values that cannot be read become missing.
    """
    if is_text(column):
        text = column.cast(pl.String).str.strip_chars().str.replace(",", ".", literal=True)
        try:
            column = text.str.to_datetime(strict=False)
        except pl.exceptions.PolarsError:  # no pattern that polars knows fits
            # The oldest supported polars knows none with one or two digits after the seconds.
            spaced = text.str.replace("T", " ", literal=True)
            column = spaced.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    if column.dtype == pl.Date:
        return column.cast(pl.Datetime("us"))
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(pl.Datetime("us"))
    return column.cast(pl.Duration("us"))


def time_features(name: str) -> tuple[str, ...]:
    """The names of the features that a column of times is turned into.

    Examples
    --------
    >>> time_features("opened")
    ('opened_elapsed_h', 'opened_hour', 'opened_weekday')
    """
    return tuple(f"{name}_{kind}" for kind in _KINDS)


def checked_times(layout: Layout, columns: Collection[str]) -> tuple[str, ...]:
    """The columns of times to make features of: those passed, or those of ``like``."""
    if isinstance(layout.times, str):
        raise EpisodesError(
            Argument("times"), f" needs a list of columns, got the text {layout.times!r}"
        )
    unknown = [name for name in layout.times if name not in columns]
    if unknown:
        raise EpisodesError(f"no column of times {unknown[0]!r} among {', '.join(columns)}")
    names = () if layout.schema is None else layout.schema.names
    lacking = {name for name in names if name not in columns}
    behind = [name for name in columns if lacking and lacking & set(time_features(name))]
    return tuple(dict.fromkeys([*layout.times, *behind]))


def with_time_features(
    read: Callable[[str], pl.Series], names: Sequence[str], episodes: IndexArray
) -> Callable[[str], pl.Series]:
    """A function that reads a column of a table, or a feature that is made from a column of times.

    ``names`` are the columns of times. The features are the hours since the episode's earliest row,
    the hour of the day with its minutes as a fraction, and the weekday (Monday is 1). Times with a
    zone are taken in UTC.
    """
    sources = {
        feature: (name, kind)
        for name in names
        for feature, kind in zip(time_features(name), _KINDS, strict=True)
    }

    def column(feature: str) -> pl.Series:
        if feature not in sources:
            return read(feature)
        name, kind = sources[feature]
        times = times_of(_checked(read(name)))
        if kind == "elapsed_h":
            rows = pl.DataFrame({"episode": episodes, "time": times})
            since = pl.col("time") - pl.col("time").min().over("episode")
            return rows.select((since.dt.total_microseconds() / 3.6e9).alias(feature)).to_series()
        if kind == "weekday":
            return times.dt.weekday().alias(feature)
        return (times.dt.hour() + times.dt.minute() / 60.0).alias(feature)

    return column


def _checked(column: pl.Series) -> pl.Series:
    """The column; refused unless it has dates or times, at least half of which can be read."""
    column = year_first(column, f"times (column {column.name!r})")
    if column.dtype in (pl.Duration, pl.Time) or not is_times(column):
        raise EpisodesError(
            Argument("times"),
            f" needs columns of dates or times, year first (2026-01-31 14:05:00), got "
            f"{column.name!r} of the type {column.dtype}",
        )
    lost = column.is_not_null() & times_of(column).is_null()
    if 2 * lost.sum() > column.len() - column.null_count():
        raise EpisodesError(
            Argument("times"),
            f" needs dates or times such as 2026-01-31 14:05:00, got "
            f"{str(column[lost.arg_max() or 0])!r} in {column.name!r}",
        )
    return column
