"""Recognises dates and times in a column, in a table's own type or as text."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from ontarget.episodes.reading._columns import is_text

__all__ = ["is_times", "times_of"]

# Year first: whether 03/04 is in March or in April, no program can tell.
_YEAR_FIRST: Final = re.compile(r"\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]|$)")


def is_times(column: pl.Series) -> bool:
    """Whether the column holds dates or times, judged by its type or its first text."""
    if column.dtype.is_temporal():
        return True
    if not is_text(column) or not column.len():
        return False
    first = column.first(ignore_nulls=True)
    return first is not None and _YEAR_FIRST.match(str(first)) is not None


def times_of(column: pl.Series) -> pl.Series:
    """The column as times without a zone (UTC), or as durations; unreadable ones become missing."""
    if is_text(column):
        try:
            column = column.cast(pl.String).str.strip_chars().str.to_datetime(strict=False)
        except pl.exceptions.PolarsError:  # no pattern fits
            return pl.Series(column.name, [None] * column.len(), dtype=pl.Datetime("us"))
    if column.dtype == pl.Date:
        return column.cast(pl.Datetime("us"))
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(pl.Datetime("us"))
    return column.cast(pl.Duration("us"))
