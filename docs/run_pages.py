"""Runs the code in the documentation pages, and compares its output with what the pages show.

    python docs/run_pages.py             # says where a page and the truth differ
    python docs/run_pages.py --update    # writes the true output into the pages

A page is Markdown. Four kinds of blocks are run, in order, in one empty folder per page:

- ``console``: lines that start with ``$ `` are commands of a shell, the others their output (both
  streams). A command goes on in the next line after a backslash.
- ``python``: run in one namespace per page; a ``text`` block right below is what it prints. An
  error of ontarget's own is printed as its last line would be.
- ``python`` whose first line is ``# file NAME``: not run, but saved under that name.
- ``<!-- run`` … ``-->``: Python that is not shown; the lines right below, up to an empty one, are
  what it prints. It makes tables.

A block right below a comment ``<!-- not run: REASON -->`` is left alone.

Outputs are compared word for word. Only durations (``3.2 s``, ``14 ms``, ``20 µs``) and times
(``2026-01-05T09:00:00Z``, ``1767603600.5``) may differ, and numbers with more than ten decimals
after the ninth digit: processors round the last ones differently.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ontarget import OntargetError

DOCS = Path(__file__).parent
PAGES = (
    "tutorial",
    "guide-rl",
    "guide-research",
    "your-own-logs",
    "goals",
    "environments",
    "guarantees",
    "why",
    "how-many-episodes",
    "live-protocol",
    "service",
    "deployment",
    "domains",
    "skirmish",
    "forest",
    "models",
)
DURATION = re.compile(r"\b\d[\d.,]*(?= (s|ms|µs)\b)")
MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{10}\.\d+")
LONG = re.compile(r"\b\d+\.\d{10,}(e-?\d+)?\b")
FENCE = re.compile(r"```(\w*)$")


@dataclass(frozen=True)
class Shown:
    """A block of code in a page that is run, and the output that the page shows for it."""

    kind: str  # console, python or file
    code: str
    output: str
    start: int  # the shown output is lines[start:stop] of the page
    stop: int
    line: int  # where the code begins, for people

    def true_output(self, folder: Path, names: dict[str, object]) -> str:
        """What the code prints when it is run in this folder, with these Python names defined."""
        if self.kind == "console":
            return _shell(self.code, folder)
        if self.kind == "file":
            name = self.code.split("\n", 1)[0].removeprefix("# file ")
            (folder / name).write_text(self.code.split("\n", 1)[1])
            return ""
        return _python(self.code, names)


def shown_in(page: str) -> list[Shown]:
    """The blocks of code in a page that are run, in order."""
    lines = page.split("\n")
    found: list[Shown] = []
    at = 0
    while at < len(lines):
        if lines[at] == "<!-- run":
            end = lines.index("-->", at)
            stop = _until_empty(lines, end + 1)
            found.append(_piece("python", lines, (at + 1, end), (end + 1, stop)))
            at = stop
        elif match := FENCE.fullmatch(lines[at]):
            end = lines.index("```", at + 1)
            above = lines[at - 1] if at else ""
            found += [] if above.startswith("<!-- not run: ") else _fenced(match[1], lines, at, end)
            at = end + 1
        else:
            at += 1
    return found


def check(page: str, folder: Path) -> list[str]:
    """The places where the page shows another output than its code prints; empty if none."""
    wrong = []
    for piece, true in _run(page, folder):
        if _comparable(true) != _comparable(piece.output):
            wrong.append(
                f"line {piece.line}: {piece.code}\n--- shown\n{piece.output}\n--- true\n{true}"
            )
    return wrong


def updated(page: str, folder: Path) -> str:
    """The page with the outputs that its code really prints."""
    lines = page.split("\n")
    for piece, true in reversed(_run(page, folder)):
        if _comparable(true) == _comparable(piece.output):
            continue
        if piece.kind == "python" and lines[piece.start - 1] not in ("```text", "-->"):
            raise SystemExit(
                f"line {piece.line} prints something, but no text block below shows it:\n{true}"
            )
        lines[piece.start : piece.stop] = true.split("\n") if true else []
    return "\n".join(lines)


def pages() -> list[Path]:
    """The documentation pages whose code is run."""
    return [DOCS / f"{name}.md" for name in PAGES]


def _run(page: str, folder: Path) -> list[tuple[Shown, str]]:
    names: dict[str, object] = {"__name__": "__page__"}
    with contextlib.chdir(folder):
        return [(piece, piece.true_output(folder, names)) for piece in shown_in(page)]


def _fenced(language: str, lines: list[str], at: int, end: int) -> list[Shown]:
    if language == "python":
        first = lines[at + 1]
        if first.startswith("# file "):
            return [_piece("file", lines, (at + 1, end), (end, end))]
        below = end + 2
        if lines[end + 1 : below + 1] == ["", "```text"]:
            return [
                _piece("python", lines, (at + 1, end), (below + 1, lines.index("```", below + 1)))
            ]
        return [_piece("python", lines, (at + 1, end), (end, end))]
    if language != "console":
        return []
    found = []
    row = at + 1
    while row < end:
        first = row
        while lines[row].endswith("\\"):
            row += 1
        stop = next((i for i in range(row + 1, end) if lines[i].startswith("$ ")), end)
        found.append(_piece("console", lines, (first, row + 1), (row + 1, stop)))
        row = stop
    return found


def _piece(kind: str, lines: list[str], code: tuple[int, int], output: tuple[int, int]) -> Shown:
    text = "\n".join(lines[slice(*code)])
    return Shown(
        kind=kind,
        code=text.removeprefix("$ ") if kind == "console" else text,
        output="\n".join(lines[slice(*output)]),
        start=output[0],
        stop=output[1],
        line=code[0] + 1,
    )


def _until_empty(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at]:
        at += 1
    return at


def _shell(command: str, folder: Path) -> str:
    """What a shell command prints on both streams, and its exit code if that is not 0."""
    here = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=here,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shown = _trimmed(done.stdout)
    return f"{shown}\n[exit code {done.returncode}]".lstrip("\n") if done.returncode else shown


def _python(code: str, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, "<page>", "exec"), names)  # a page of our own
        except OntargetError as error:
            printed.write(f"{type(error).__name__}: {error}")
    return _trimmed(printed.getvalue())


def _trimmed(output: str) -> str:
    """The output without blanks at the ends of lines and at its own end."""
    return "\n".join(line.rstrip() for line in output.split("\n")).rstrip("\n")


def _comparable(output: str) -> str:
    shorter = LONG.sub(lambda found: f"{float(found[0]):.9g}", output)
    return MOMENT.sub("#", DURATION.sub("#", shorter))


def main() -> None:
    """Check every page, or the named ones; with --update, write the true outputs into them."""
    update = "--update" in sys.argv
    named = [Path(word).resolve() for word in sys.argv[1:] if word != "--update"]
    wrong = 0
    for path in named or pages():
        page = path.read_text()
        with tempfile.TemporaryDirectory() as folder:
            if update:
                path.write_text(updated(page, Path(folder)))
                sys.stdout.write(f"{path.name}: {len(shown_in(page))} pieces run\n")
            else:
                differences = check(page, Path(folder))
                wrong += len(differences)
                sys.stdout.write(f"{path.name}: {len(differences)} differences\n")
                sys.stdout.writelines(f"{difference}\n\n" for difference in differences)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
