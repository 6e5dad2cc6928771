"""Output of commands: prints facts for people, and checks the paths of files to write."""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ontarget._arguments import usable_path
from ontarget._text import plain
from ontarget._whole_file import refuse_unless_file
from ontarget.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

_WIDTHS: Final = range(20, 10_000)  # columns: tables in fewer show nothing, more take memory
# What stands for characters that the output's encoding lacks; others are spelled in ASCII or "?".
_STAND_INS: Final = (
    dict.fromkeys("−–—─━═╌┄", "-")
    | dict.fromkeys("│┃║╎┆", "|")
    | dict.fromkeys("█▉▊▋▌▍▎▏▇▆▅▄▃▂▁▓▒░■●", "#")
    | {
        "≥": ">=",
        "≤": "<=",
        "→": "->",
        "←": "<-",
        "×": "x",
        "±": "+/-",
        "·": ".",
        "∞": "inf",
        "✓": "+",
    }
    | {"‘": "'", "’": "'", "“": '"', "”": '"', "\N{COMBINING CIRCUMFLEX ACCENT}": ""}
)
_LABEL = 11  # "episodes   6,000, each of …": a label, then what it says


def make_printable() -> None:
    """Let every command print on any stream, whatever its encoding and whatever COLUMNS says."""
    codecs.register_error("ontarget", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "ontarget":
            stream.reconfigure(errors="ontarget")
    width = os.environ.get("COLUMNS", "")
    if width and not (width.isdecimal() and len(width) < 9 and int(width) in _WIDTHS):
        del os.environ["COLUMNS"]


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """What to write in place of characters that a stream's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(map(_in_ascii, wrong)), error.end


def _in_ascii(character: str) -> str:
    """A character in ASCII: its stand-in, its letter without an accent, or a question mark."""
    if character in _STAND_INS:
        return _STAND_INS[character]
    if "BOX DRAWINGS" in unicodedata.name(character, ""):
        return "+"
    letters = unicodedata.normalize("NFKD", character).encode("ascii", "ignore")
    return letters.decode() or "?"


def print_facts(text: str, console: Console | None = None, *, style: str = "") -> None:
    """Print lines that have a label and a text; long texts are wrapped beside the label."""
    # Names from data must already be cleaned by `plain`, because a line break in a name could look
    # like a line of output.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Console(highlight=False) if console is None else console
    lines = [plain(line) for line in text.split("\n")]
    if not out.is_terminal:
        out.print("\n".join(lines), style=style, soft_wrap=True, markup=False)
        return
    for line in lines:
        label, rest = line[:_LABEL], line[_LABEL:]
        shown = "yellow" if label.startswith("caution") else style
        if label[-1:] not in ("", " "):
            out.print(Text(line, style=style))
            continue
        row = Table.grid()
        row.add_column(width=_LABEL, no_wrap=True)
        row.add_column()
        row.add_row(Text(label, style=shown), Text(rest, style=shown))
        out.print(row)


def check_output(path: Path, endings: Sequence[str] = ()) -> None:
    """Raise an error if a file cannot be written to this path, or the path has a wrong ending."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the file to write")
    refuse_unless_file(path)
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if endings and path.suffix not in endings:
        raise InputError(f"{path.name} needs to end in {' or '.join(endings)}")


def check_folder(path: Path) -> None:
    """Raise an error if something else is where a folder is to be written."""
    if usable_path(path).exists() and not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder to write")
