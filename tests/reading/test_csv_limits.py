"""Huge fields, lines and headers are refused while the file is read piece by piece."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ontarget import Episodes
from ontarget.errors import EpisodesFileError
from ontarget.reading import _text, prepare
from ontarget.reading.prepared import _buckets

HEADER = "episode,step,note,reward\n"
SMALL = {"_FIELD": 6, "_LINE": 12, "_COLUMNS": 4}


def sizes(text: str) -> tuple[int, int, int]:
    """The longest field and line, and the number of columns, letter by letter."""
    quoted, field, line, columns = False, 0, 0, 1
    fields, lines, header = [0], [0], True
    for letter in text:
        quoted ^= letter == '"'
        ends = not quoted and letter in ",\n"
        field, line = (
            (0, 0 if letter == "\n" and not quoted else line + 1) if ends else (field + 1, line + 1)
        )
        fields.append(field)
        lines.append(line)
        if not quoted and header:
            columns, header = columns + (letter == ","), letter != "\n"
    return max(fields), max(lines), columns


@given(
    text=st.text('ab,"\n', max_size=60),
    piece=st.integers(1, 6),  # no longer than a field may be
    tail=st.integers(1, 9),
)
@example(text='"a\n,b,a,a\n', piece=3, tail=2)
@example(text='a"b,a"b\naaaaaaa', piece=4, tail=1)
def test_sizes_are_those_counted_letter_by_letter(
    tmp_path_factory, text: str, piece: int, tail: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "runs.csv"
    path.write_bytes(text.encode())
    field, line, columns = sizes(text)
    beyond = field > SMALL["_FIELD"] or line > SMALL["_LINE"] or columns > SMALL["_COLUMNS"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SMALL, "_PIECE": piece, "_TAIL": tail}.items():
            patch.setattr(_text, name, value)
        if not beyond:
            return _text.check_sizes(path, ",")
        with pytest.raises(EpisodesFileError):
            _text.check_sizes(path, ",")
    return None


def rows(note: str) -> str:
    return HEADER + f"1,0,{note},1.0\n1,1,b,1.0\n2,0,c,1.0\n2,1,d,1.0\n"


LARGE = {
    "a field": rows("x" * (3 << 20)),
    "a quoted field": rows('"' + "x" * (3 << 20) + '"'),
    "a field of commas": rows('"' + "," * (3 << 20) + '"'),
    "a field of lines": rows('"' + "a,b\n" * (1 << 20) + '"'),
    "an open quote": rows('"' + "a,b\n" * (1 << 20)),
    "a line": rows(",".join(["x" * (1 << 19)] * 40)),
    "columns": ",".join(f"c{i}" for i in range(30_001)) + "\n",
    "a header": "x" * (3 << 20),
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_what_is_beyond_a_limit_is_refused(tmp_path: Path, kind: str, encoding: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes((LARGE[kind] + "é" * (encoding == "cp1252")).encode(encoding))
    with pytest.raises(EpisodesFileError):
        Episodes.read(path)


@pytest.mark.parametrize("kind", LARGE)
def test_large_files_are_prepared_with_the_same_limits(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_buckets, "_LARGEST_TEXT", 0)
    path = tmp_path / "runs.csv"
    path.write_text(LARGE[kind])
    with pytest.raises(EpisodesFileError):
        prepare(path, tmp_path / "out", progress=False)


def test_fields_below_the_limit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    long = "x" * 900_000
    # An empty last field sends the file through the check of every line too.
    path.write_text(
        f'episode,step,reward,note\n1,0,1.0,"{long}"\n1,1,1.0,\n2,0,1.0,b\n2,1,1.0,"a,""b\n"\n'
    )
    categories = Episodes.read(path).schema.features[0].categories
    assert categories == ('a,"b\n', "b", long)
    wide = tmp_path / "wide.csv"
    wide.write_text(
        ",".join(["episode", "step", "reward", *(f"x{i}" for i in range(9_000))])
        + "\n"
        + "".join(",".join([f"{i}", "0", "1", *["1"] * 9_000]) + "\n" for i in range(3))
    )
    assert len(Episodes.read(wide).schema) == 9_000


def test_a_huge_field_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with path.open("wb") as file:
        file.write(HEADER.encode() + b'1,0,"')
        for _ in range(300):
            file.write(b"x,\n" * (1 << 18))
        file.write(b'",1.0\n')
    program = (
        "import resource, sys\n"
        "from ontarget import Episodes\n"
        "from ontarget.errors import EpisodesFileError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    Episodes.read(sys.argv[1])\nexcept EpisodesFileError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100_000  # kilobytes; the file has 235,000
