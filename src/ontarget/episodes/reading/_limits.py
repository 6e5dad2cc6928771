"""Refuses files that would wait forever or take too much memory, before they are read.

These are pipes, sockets and devices, and text tables with huge fields, lines or headers. A text
table is read once, piece by piece. A separator or a line end between quotes is part of a field: it
has an odd number of quotes before it.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

import numpy as np

from ontarget._typing import AnyArray
from ontarget.errors import EpisodesFileError

_FIELD: Final = 1 << 20  # bytes
_LINE: Final = 1 << 24
_COLUMNS: Final = 30_000
_PIECE: Final = 1 << 18  # less than any limit, so that no huge field fits in one piece
_TAIL: Final = 1 << 12
_QUOTE, _NEWLINE = ord('"'), ord("\n")


def regular_file(path: Path) -> Path:
    """The path, if it leads to a regular file; anything else is refused without opening it.

    A path that leads nowhere passes, because whoever opens it says so.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return path
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise EpisodesFileError(f"{path} is {kind}; put a regular file there, or take it away")
    return path


def check_sizes(path: Path, separator: str, *, bytes_per_letter: int = 1) -> None:
    """Refuse a file with a field, a line or a number of columns beyond the limits of this module.

    ``bytes_per_letter`` is 2 for UTF-16.
    """
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
    """The position of the last of these signs that is not between quotes; -1 if there is none.

    ``before`` and ``own`` are the numbers of quotes before and in the piece.
    """
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
