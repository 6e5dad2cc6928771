"""Refuses files that would wait forever or take too much memory, before they are read.

These are pipes, sockets and devices, and text tables with huge fields, lines or headers. A text
table is read once, piece by piece. A separator or a line end between quotes is part of a field: it
has an odd number of quotes before it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from ontarget._typing import AnyArray
from ontarget.errors import EpisodesFileError
from ontarget.reading._columns import NO_VALUE

_FIELD: Final = 1 << 20  # bytes
_LINE: Final = 1 << 24
_COLUMNS: Final = 30_000
_PIECE: Final = 1 << 18  # less than any limit, so that no huge field fits in one piece
_TAIL: Final = 1 << 12
_QUOTE, _NEWLINE = ord('"'), ord("\n")
TEXT_TABLES: Final = (".csv", ".tsv", ".txt")
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_HEAD: Final = 1 << 16
_FIRST_ROWS: Final = 1_000
_NUMBERS: Final = (pl.Int64, pl.Float64)
_LONG_NUMBER: Final = r"^[-+]?\d{16,}$"
_QUOTED: Final = re.compile(r'"[^"]*"')
_DECIMAL_COMMA: Final = re.compile(r'(?m)(?:^|;)\s*"?[-+]?\d+,\d+"?\s*(?=;|$)')
_LATIN: Final = "the file is not UTF-8 and is read as Latin-1 (Windows-1252)"
# Control characters that text never has; a file with any of them is not a table.
_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def regular_file(path: Path) -> Path:
    """The path, if it leads to a regular file; anything else is refused without opening it."""
    # A path that leads nowhere passes, because whoever opens it says so.
    try:
        mode = path.stat().st_mode
    except OSError:
        return path
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise EpisodesFileError(f"{path} is {kind}; put a regular file there, or take it away")
    return path


def check_sizes(path: Path, separator: str, *, bytes_per_letter: int = 1) -> None:
    """Refuse a file with a field, a line or a number of columns beyond the limits."""
    ends = {ord(separator), _NEWLINE} | ({ord("\t")} if separator == " " else set())
    longest = {"field": (_FIELD, tuple(ends)), "line": (_LINE, (_NEWLINE,))}
    begins, columns = dict.fromkeys(longest, 0), 1
    at, quotes, in_header = 0, 0, True
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            piece, quoted = np.frombuffer(data, dtype=np.uint8), quotes % 2
            if in_header:
                plain = _outside(piece, quoted)
                header_ends = plain[piece[plain] == _NEWLINE][:1]
                own = plain if not header_ends.size else plain[plain < header_ends[0]]
                columns += int(np.count_nonzero(piece[own] == ord(separator)))
                in_header = not header_ends.size
                if columns > _COLUMNS:
                    raise _too_much(path, 1, f"at least {columns:,} columns", f"{_COLUMNS:,}")
            own_quotes = int(np.count_nonzero(piece == _QUOTE)) if b'"' in data else 0
            for what, (most, signs) in longest.items():
                if at + piece.size - begins[what] > most * bytes_per_letter:
                    inside = _outside(piece, quoted)
                    first = inside[np.isin(piece[inside], signs)][:1]
                    end = at + int(first[0]) if first.size else at + piece.size
                    if end - begins[what] > most * bytes_per_letter:
                        line = _lines_before(path, begins[what])
                        size = f"a {what} of more than {most >> 20} MB"
                        raise _too_much(path, line, size, f"{most >> 20} MB")
                last = _last(piece, quotes, own_quotes, signs)
                begins[what] = begins[what] if last < 0 else at + last + 1
            at, quotes = at + piece.size, quotes + own_quotes


def _outside(piece: AnyArray, quoted: int) -> AnyArray:
    """The positions of all bytes that are not between quotes; ``quoted`` is 1 if it begins so."""
    inside = np.cumsum(piece == _QUOTE, dtype=np.uint8) + np.uint8(quoted)
    found: AnyArray = np.flatnonzero(inside % 2 == 0)
    return found


def _last(piece: AnyArray, before: int, own: int, signs: tuple[int, ...]) -> int:
    """The position of the last of these signs that is not between quotes; -1 if there is none."""
    tail = piece[-_TAIL:]
    early = before + own - int(np.count_nonzero(tail == _QUOTE))
    for start, quotes in ((piece.size - tail.size, early), (0, before)):
        plain = _outside(piece[start:], quotes % 2)
        places = plain[np.isin(piece[start:][plain], signs)]
        if places.size:
            return start + int(places[-1])
    return -1


def _lines_before(path: Path, place: int) -> int:
    """The number of the line that has the byte at this place, counted from 1."""
    found = 1
    with path.open("rb") as file:
        while place > 0 and (data := file.read(min(_PIECE, place))):
            found, place = found + data.count(b"\n"), place - len(data)
    return found


def _too_much(path: Path, line: int, what: str, most: str) -> EpisodesFileError:
    return EpisodesFileError(
        f"{path.name}, line {line:,} has {what}, and {most} is the most that is read; check that "
        'every quote (") is closed and that the file is a table, or shorten it'
    )


@dataclass(frozen=True)
class TextTable:
    """A table read from text, and remarks on how the text was read, if that was unusual."""

    table: pl.DataFrame
    notes: tuple[str, ...]
    separator: str = ","


def read_text_table(path: Path, *, as_text: bool = False) -> TextTable:
    """The table in a text file; types are inferred from all rows."""
    # A line with more or fewer fields than the first is refused. The file is UTF-8, or UTF-16 if it
    # says so in its first bytes; otherwise it is read as Windows-1252, which includes Latin-1, and
    # a remark says so. A column of numbers may have words for missing values, such as ``NA``: see
    # `with_numbers`. ``as_text`` leaves every value as it is written.
    with path.open("rb") as file:
        head = file.read(_HEAD)
    notes: list[str] = []
    source: Path | bytes = path
    wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if wide:
        head = head.decode("utf-16", "ignore").encode()
    separator = _separator_of(head)
    check_sizes(path, separator, bytes_per_letter=2 if wide else 1)
    if wide:
        source = _recoded(path, "utf-16")
        notes.append("the file is UTF-16 text")
    elif not _is_utf8(head, whole=False):
        source = _recoded(path, "cp1252")
        notes.append(_LATIN)
    head = source[:_HEAD] if isinstance(source, bytes) else head
    if separator != ",":
        notes.append(f"columns are separated by {_SEPARATORS[separator]}")
    if separator == " ":  # any number of them
        source = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t]+\r?$", b"", _bytes(source)))
    decimal_comma = separator == ";" and _DECIMAL_COMMA.search(_first_rows(head)) is not None
    if decimal_comma:
        notes.append("numbers have decimal commas")
    try:
        table = _table_in(source, separator, decimal_comma=decimal_comma, as_text=as_text)
    except pl.exceptions.ComputeError:
        if _is_utf8(_bytes(source)):
            _refuse_bad_lines(path, _bytes(source), separator)
            raise
        source = _recoded(path, "cp1252")
        notes.append(_LATIN)
        table = _table_in(source, separator, decimal_comma=decimal_comma, as_text=as_text)
    _check_header(path, table.columns)
    # Polars fills short lines with nulls, so each of them leaves the last column empty.
    if table.width and table[:, -1].has_nulls():
        _refuse_bad_lines(path, _bytes(source), separator)
    if not as_text:
        table = with_numbers(table.lazy(), decimal_comma=decimal_comma).collect()
    texts = {name for name, kind in table.schema.items() if kind == pl.String}
    notes += _carriage_returns(head, separator, path.name, texts)
    return TextTable(table, tuple(notes), separator)


def _table_in(
    source: Path | bytes, separator: str, *, decimal_comma: bool, as_text: bool
) -> pl.DataFrame:
    # All columns are read, because a reader of one column does not notice fields beyond the header.
    return pl.scan_csv(
        source,
        separator=separator,
        decimal_comma=decimal_comma,
        infer_schema=not as_text,
        infer_schema_length=None,
        glob=False,
    ).collect()


def with_numbers(table: pl.LazyFrame, *, decimal_comma: bool = False) -> pl.LazyFrame:
    """The table, in which numbers stay numbers although words for missing values are among them."""
    # A column of text becomes one of numbers if each of its values is a number or one of
    # `NO_VALUE`, and at least one is a number; likewise one of true and false. In any other column
    # of text such a word is a category like any other: nobody but the user knows whether ``NA`` is
    # a country.
    names = [name for name, kind in table.collect_schema().items() if kind == pl.String]
    # Of most columns, the first rows show that they have words.
    names = list(_kinds(table.head(_FIRST_ROWS), names, decimal_comma)) if names else []
    found = _kinds(table, names, decimal_comma) if names else {}
    given = {name: _number_in(name, decimal_comma) for name in found}
    return table.with_columns(
        pl.when(_is_gap(name))
        .then(None)
        .otherwise(given[name].str.to_lowercase() == "true" if kind == pl.Boolean else given[name])
        .cast(kind)
        .alias(name)
        for name, kind in found.items()
        if kind != pl.String
    )


def _kinds(table: pl.LazyFrame, names: list[str], decimal_comma: bool) -> dict[str, pl.DataType]:
    """The columns of text without words: Int64, Float64, Boolean, or String if all is missing."""
    asked = []
    for name in names:
        text, gap = _number_in(name, decimal_comma), _is_gap(name)
        whole, number = (text.cast(kind, strict=False).is_not_null() for kind in _NUMBERS)
        # A float would round these: they are names.
        long = text.str.contains(_LONG_NUMBER) & ~whole
        truth = text.str.to_lowercase().is_in(["true", "false"])
        all_of = {"whole": whole, "number": number & ~long, "truth": truth}
        asked += [(one | gap).all().alias(f"{what}:{name}") for what, one in all_of.items()]
        asked.append((~gap).any().alias(f"any:{name}"))
    told = table.select(asked).collect().row(0, named=True)
    found: dict[str, pl.DataType] = {}
    for name in names:
        if not told[f"any:{name}"]:
            found[name] = pl.String()
        elif told[f"number:{name}"]:
            found[name] = pl.Int64() if told[f"whole:{name}"] else pl.Float64()
        elif told[f"truth:{name}"]:
            found[name] = pl.Boolean()
    return found


def _number_in(name: str, decimal_comma: bool) -> pl.Expr:
    """The values of a column of text, without spaces around them and with decimal points."""
    text = pl.col(name).str.strip_chars(" \t")
    return text.str.replace(",", ".", literal=True) if decimal_comma else text


def _is_gap(name: str) -> pl.Expr:
    """Where a column of text has no value, or a word that says so."""
    text = pl.col(name).str.strip_chars(" \t")
    return text.is_null() | text.str.to_lowercase().is_in(NO_VALUE)


def separator_in(path: Path) -> str:
    """The character between columns of a text file."""
    with path.open("rb") as file:
        return _separator_of(file.read(_HEAD))


def _separator_of(head: bytes) -> str:
    r"""The character between columns: comma, semicolon, tab, ``|`` or space.

    It is the first of these, in this order, that the first line contains; a space only if all lines
    then have the same number of columns. Otherwise it is a comma. ``head`` is the beginning of the
    file.

    Examples
    --------
    >>> _separator_of(b"run;step;reward\n1;0;0,5\n"), _separator_of(b"run,note\n1,a;b\n")
    (';', ',')
    """
    lines = [_QUOTED.sub("", line) for line in _first_rows(head).split("\n") if line.strip()]
    if not lines or "," in lines[0]:
        return ","
    for separator in (";", "\t", "|"):
        if lines[0].count(separator):
            return separator
    widths = {len(line.split()) for line in lines[1:] or lines}
    return " " if len(widths) == 1 and widths != {1} else ","


def _first_rows(head: bytes, most: int = 20) -> str:
    """The first lines of a file as text, without an incomplete last line."""
    lines = head.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")
    return "\n".join((lines[:-1] or lines)[:most])


def _carriage_returns(head: bytes, separator: str, name: str, texts: Collection[str]) -> list[str]:
    r"""A remark on columns of text whose values end in a carriage return; empty if there are none.

    ``head`` is the beginning of the file, ``name`` the name of the file, ``texts`` the columns of
    text.

    Examples
    --------
    >>> _carriage_returns(b"run,hours,team\n1,0\r,a\n", ",", "log.csv", ["hours"])[0][:60]
    "'hours' has values that end in \\r (a carriage return, left o"
    """
    header, *rows = [line.split(separator) for line in _first_rows(head).split("\n")]
    places = {j for row in rows for j, value in enumerate(row) if value.endswith("\r")}
    named = [header[j].strip() for j in sorted(places) if j < len(header)]
    names = [one for one in named if one in texts]
    if not names:
        return []
    return [
        f"{', '.join(map(repr, names))} {'have' if len(names) > 1 else 'has'} values that end in "
        r"\r (a carriage return, left over from Windows line ends), so numbers there are text; "
        rf"remove them first: tr -d '\r' < {name} > clean.csv"
    ]


def _recoded(path: Path, encoding: str) -> bytes:
    """The file's text as UTF-8."""
    try:
        text = path.read_bytes().decode(encoding)
        if _NO_TEXT.search(text) is None:
            return text.encode("utf-8")
    except UnicodeError:  # also a surrogate without its pair
        pass
    raise _no_text(path)


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def _is_utf8(data: bytes, *, whole: bool = True) -> bool:
    """Whether the bytes are UTF-8. If not ``whole``, the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _check_header(path: Path, columns: list[str]) -> None:
    """Refuse a table that has only one column, or numbers instead of column names."""
    if len(columns) == 1:
        raise EpisodesFileError(
            f"{path.name} has one column, {columns[0][:80]!r}; separate columns by commas"
        )
    # Polars renames a value that appears twice in the header.
    values = [name.partition("_duplicated_")[0] for name in columns]
    numbers = [value for value in values if _is_number(value)]
    if len(numbers) == len(values) or any("." in value for value in numbers):
        raise EpisodesFileError(
            f"{path.name} needs the names of the columns in its first line, got the numbers "
            f"{', '.join(numbers)[:80]}; add a header"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_bad_lines(path: Path, data: bytes, separator: str) -> None:
    """Refuse a file if a line has more or fewer fields than the first line."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=separator)
    usual = csv.field_size_limit(max(csv.field_size_limit(), len(data)))  # sizes were checked
    try:
        width = len(next(reader, ()))
        for row in reader:
            if row and len(row) != width:
                raise EpisodesFileError(
                    f"{path.name}, line {reader.line_num}: {len(row)} fields where the header "
                    f"has {width}: {separator.join(row)[:80]!r}; correct or remove the line"
                )
    except csv.Error as error:
        raise EpisodesFileError(f"{path.name}, line {reader.line_num + 1}: {error}") from error
    finally:
        csv.field_size_limit(usual)


def _no_text(path: Path) -> EpisodesFileError:
    return EpisodesFileError(
        f"{path.name} is not UTF-8 text, nor UTF-16 or Latin-1; save it as UTF-8, or read it with "
        "its encoding and pass the table: Episodes.from_frame(pandas.read_csv(…, encoding=…))"
    )
