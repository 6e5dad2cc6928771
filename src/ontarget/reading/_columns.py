"""Converts columns of a user's table into numbers and back; error messages say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.recording import Arrangement
from ontarget.episodes.schema import Feature, UnknownCategories
from ontarget.errors import Argument, CategoryError, EpisodesError
from ontarget.reading.layout import Layout

Where: TypeAlias = Callable[[int], str]  # from a row's number to words: "episode 7, step 3"

_TEXT = (pl.String, pl.Categorical, pl.Enum)
_EXACT_INTEGERS = 2**53
_WIDER_THAN_NUMPY = (pl.Int128, pl.UInt128) if hasattr(pl, "UInt128") else (pl.Int128,)
_MAYBE_INEXACT = (pl.Int64, pl.UInt64, *_WIDER_THAN_NUMPY)


# Words for a missing value, in lower case; among numbers they are missing values (see `_csv`).
NO_VALUE: Final = ("", "nan", "-nan", "na", "n/a", "#n/a", "<na>", "null", "none")
_TYPES: dict[str, pl.DataType] = {
    "float64": pl.Float64(),
    "float32": pl.Float32(),
    "bool": pl.Boolean(),
    **{f"int{bits}": getattr(pl, f"Int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(pl, f"UInt{bits}")() for bits in (8, 16, 32, 64)},
}
_KINDS: Final = ("elapsed_h", "hour", "weekday")
# Dates need the year first, because a program cannot tell whether 03/04 is in March or in April.
_YEAR_FIRST: Final = re.compile(r"\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]|$)")
_YEAR_LAST: Final = re.compile(r"\s*\d{1,2}[-./]\d{1,2}[-./]\d{2,4}([T ,]|$)")
_DATE_LAST: Final = r"^(\d{1,2})([-./])(\d{1,2})[-./](\d{4})\b"


def is_text(column: pl.Series) -> bool:
    """Whether the column holds text."""
    return isinstance(column.dtype, _TEXT)


def numbers(column: pl.Series, what: str, where: Where) -> FloatArray:
    """The values of a column as float64; missing values become NaN."""
    if is_text(column) and says_nothing(column).all():
        return np.full(len(column), np.nan)
    if is_text(column):
        text = column.cast(pl.String)
        parsed = text.cast(pl.Float64, strict=False)
        row = _first(text.is_not_null() & parsed.is_null())
        row = 0 if row is None else row
        raise EpisodesError(
            f"{what} needs numbers, got the text {text[row]!r} at {where(row)}; correct the value, "
            "or give the column a number type"
        )
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise EpisodesError(
            f"{what} needs numbers, got the type {column.dtype}; make it a number, or pass ",
            Argument("drop", [column.name]),
            " to leave it out",
        )
    _refuse_inexact(column, what, where)
    values: FloatArray = column.cast(pl.Float64).to_numpy()
    return values


def whole_numbers(column: pl.Series, what: str) -> IndexArray:
    """The values of a column as integers; floats must be whole."""
    _refuse_missing(column, what)
    if column.dtype.is_integer():
        _refuse_inexact(column, what, lambda row: f"row {row}")
        return column.cast(pl.Int64).to_numpy().astype(np.intp, copy=False)
    values = numbers(column, what, lambda row: f"row {row}")
    odd = ~np.isfinite(values) | (values != np.rint(values)) | (np.abs(values) > _EXACT_INTEGERS)
    if odd.any():
        row = int(np.argmax(odd))
        raise EpisodesError(
            f"{what} needs whole numbers, got {values[row]} in row {row}; if the column only sorts "
            "the rows, pass ",
            Argument("step", [column.name]),
        )
    return values.astype(np.intp)


@dataclass(frozen=True)
class Labels:
    """A column of names, such as episode ids; each name is coded as an integer, for speed."""

    codes: IndexArray
    dictionary: AnyArray | None  # None: the codes are the names

    def __getitem__(self, rows: IndexArray) -> AnyArray:
        """The names in these rows."""
        codes: AnyArray = self.codes[rows]
        return codes if self.dictionary is None else self.dictionary[codes]

    def place(self, arrangement: Arrangement) -> IndexArray:
        """The codes of the names, one per row, sorted by step and then by episode."""
        return arrangement.place(self.codes)


def labels(column: pl.Series, what: str) -> Labels:
    """The values of a column as names; whole numbers stay numbers and text stays text."""
    _refuse_missing(column, what)
    if column.dtype.is_integer() and column.dtype not in _WIDER_THAN_NUMPY:
        return Labels(column.to_numpy(), None)
    if not is_text(column):
        raise EpisodesError(
            f"{what} needs whole numbers or text as names, got the type {column.dtype}"
        )
    text = column.cast(pl.String)
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.intp)
    return Labels(codes, np.array(names.to_list(), dtype=np.dtypes.StringDType()))


def joined_labels(columns: Sequence[pl.Series], what: str) -> Labels:
    """The names that several columns make together, such as ``Leeds/2026``."""
    parts = [labels(column, f"{what} (column {column.name!r})") for column in columns]
    if len(parts) == 1:
        _refuse_nameless(columns[0], what)
        return parts[0]
    codes = np.zeros(len(columns[0]), dtype=np.intp)
    for part in parts:
        own, place = np.unique(part.codes, return_inverse=True)
        codes = np.unique(codes * own.size + place, return_inverse=True)[1]
    rows = np.unique(codes, return_index=True)[1]
    named = zip(*(part[rows] for part in parts), strict=True)
    names = ["/".join(map(_part_of_name, own)) for own in named]
    return Labels(codes, np.array(names, dtype=np.dtypes.StringDType()))


def _part_of_name(value: object) -> str:
    """A value as a part of a name such as ``Leeds/2026``, with its own slashes escaped."""
    return str(value).replace("\\", "\\\\").replace("/", "\\/")


def flags(column: pl.Series, what: str) -> BoolArray:
    """The values of a column as booleans; numbers must be 0 or 1."""
    _refuse_missing(column, what)
    if column.dtype == pl.Boolean:
        truth: BoolArray = column.to_numpy()
        return truth
    values = numbers(column, what, lambda row: f"row {row}")
    odd = (values != 0.0) & (values != 1.0)
    if odd.any():
        row = int(np.argmax(odd))
        raise EpisodesError(f"{what} needs true or false, got {values[row]} in row {row}")
    raised: BoolArray = values == 1.0
    return raised


def number_feature(column: pl.Series, *, categorical: bool) -> Feature:
    """The feature (name and type) for a column of numbers."""
    return Feature(column.name, _name_of(column.dtype), categorical=categorical)


def feature_of(column: pl.Series, *, categorical: bool, where: Where) -> Feature:
    """The feature (name, type, categories of text) for a column of numbers or text."""
    if not is_text(column):
        return number_feature(column, categorical=categorical)
    text = column.cast(pl.String)
    if not categorical:
        _refuse_mixed(text, where)
    categories = tuple(text.drop_nulls().unique().sort().to_list())
    return Feature(column.name, "text", categories)


def encoded(column: pl.Series, feature: Feature, where: Where) -> FloatArray:
    """The values of a column as the numbers that models read; text becomes codes."""
    what = f"feature {feature.name!r}"
    if feature.categories is None:
        codes_given = numbers(column, what, where)
        strange = feature.strange(codes_given)
        if not strange.any():
            return codes_given
        if feature.unseen == "error":
            first = int(np.argmax(strange))
            raise CategoryError(f"{feature.refusal(codes_given[first])} (at {where(first)})")
        return np.where(strange, np.nan, codes_given)
    text = column.cast(pl.String)
    codes = text.cast(pl.Enum(list(feature.categories)), strict=False)
    row = _first(text.is_not_null() & codes.is_null())
    if row is not None and feature.unseen == "error":
        try:
            feature.code(text[row])
        except CategoryError as error:
            raise CategoryError(f"{error} (at {where(row)})") from None
    values: FloatArray = codes.to_physical().cast(pl.Float64).to_numpy()
    return values


def unknown_in(column: pl.Series, feature: Feature) -> UnknownCategories | None:
    """The values of a column that are no known category of the feature; None if there are none."""
    if feature.categories is None:
        given = column.cast(pl.Float64).drop_nulls().drop_nans()
        strange = given.filter(pl.Series(feature.strange(given.to_numpy())))
    else:
        given = column.cast(pl.String).drop_nulls()
        strange = given.filter(~given.is_in(list(feature.categories)))
    if not strange.len():
        return None
    counts = strange.alias("value").value_counts(name="n")
    return UnknownCategories.of(feature.name, counts.iter_rows())


def decoded(values: FloatArray, feature: Feature) -> pl.Series:
    """The original column, made from the numbers that `encoded` returned."""
    column = pl.Series(feature.name, values)
    if feature.categories is None:
        kind = _TYPES.get(feature.dtype, pl.Float64())
        present = column if kind.is_float() else column.fill_nan(None)
        kept = present.cast(kind, strict=False)
        return kept if kept.cast(pl.Float64).equals(present) else column
    if not feature.categories:
        return pl.Series(feature.name, [None] * len(column), dtype=pl.String)
    dictionary = pl.Series(feature.name, list(feature.categories), dtype=pl.String)
    return dictionary.gather(column.fill_nan(None).cast(pl.UInt32))


def _name_of(dtype: pl.DataType) -> str:
    return next((name for name, known in _TYPES.items() if known == dtype), "float64")


def _first(mask: pl.Series) -> int | None:
    return mask.arg_max() if mask.any() else None


def _refuse_inexact(column: pl.Series, what: str, where: Where) -> None:
    if column.dtype not in _MAYBE_INEXACT:
        return
    large = column > _EXACT_INTEGERS
    if column.dtype.is_signed_integer():  # polars compares no unsigned integer with a negative
        large |= column < -_EXACT_INTEGERS
    row = _first(large)
    if row is not None:
        raise EpisodesError(
            f"{what} needs integers up to 2**53: float64 cannot hold {column[row]} at {where(row)} "
            "exactly; make it text if it is a name"
        )


def _refuse_missing(column: pl.Series, what: str) -> None:
    row = _first(column.is_null())
    if row is not None:
        raise EpisodesError(
            f"{what} needs a value in every row, got none in row {row}; write it, or leave the row "
            "out"
        )


def says_nothing(column: pl.Series) -> pl.Series:
    """Where a column of text has no value, or a word that says so."""
    text = column.cast(pl.String).str.strip_chars(" \t").str.to_lowercase()
    return text.is_null() | text.is_in(NO_VALUE)


def _refuse_nameless(column: pl.Series, what: str) -> None:
    """Refuse a word for a missing value in a column of names, such as the ids of episodes."""
    row = _first(says_nothing(column)) if is_text(column) else None
    if row is not None:
        raise EpisodesError(
            f"{what} (column {column.name!r}) needs a name in every row, got {column[row]!r} in "
            f"row {row}; name the {what}, or leave the row out"
        )


def _refuse_mixed(text: pl.Series, where: Where) -> None:
    """Refuse a column of numbers and other text, which is usually damaged."""
    parsed = text.cast(pl.Float64, strict=False).is_not_null()
    spoilt = text.is_not_null() & ~parsed
    row = _first(spoilt)
    if row is not None and parsed.any():
        raise EpisodesError(
            f"feature {text.name!r} mixes numbers and text: got {text[row]!r} at {where(row)}; "
            "correct the value, or pass ",
            Argument("categorical", [text.name]),
            " if all of them are names",
        )


def is_times(column: pl.Series) -> bool:
    """Whether the column holds dates or times, judged by its type or its first text."""
    if column.dtype.is_temporal():
        return True
    if not is_text(column) or not column.len():
        return False
    first = _first_known(column)
    return first is not None and _YEAR_FIRST.match(str(first)) is not None


def _first_known(column: pl.Series) -> Any:
    """The first value that is not missing; None if all are."""
    known = column.drop_nulls()
    return known[0] if known.len() else None


def year_first(column: pl.Series, what: str) -> pl.Series:
    """The column, with dates such as 31/01/2026 rewritten with the year first, as 2026-01-31."""
    # Dates with dots have the day first. Otherwise some date of the column must show whether the
    # day or the month comes first, by a number above 12, which can only be a day. If no date shows
    # it, the column is refused. ``what`` is what messages call the column.
    first = _first_known(column) if is_text(column) else None
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
    """The values of a column as times without a zone (in UTC), or as durations."""
    # Values that cannot be read become missing.
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
    """A function that reads a column of a table, or a feature made from a column of times."""
    # ``names`` are the columns of times. The features are the hours since the episode's earliest
    # row, the hour of the day with its minutes as a fraction, and the weekday (Monday is 1). Times
    # with a zone are taken in UTC.
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
