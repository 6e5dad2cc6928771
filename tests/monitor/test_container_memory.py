"""Whoever made a file, reading it takes at most twice its size and 16 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ontarget.monitor.container import container_bytes

from .containers import forged, joined, sealed, small, split

MEASURED = """
import sys
from pathlib import Path
from ontarget.errors import ModelFileError
from ontarget.monitor.container import Container

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

def look(path):
    try:
        found = Container.open(path, copy=sys.argv[3] == "copy")
        found.verify()
        arrays = [found.section(name) for name in found.sections]
        return found, arrays
    except ModelFileError as error:
        return str(error)

look(sys.argv[1])
before = peak()
found = look(sys.argv[2])
print(peak() - before, isinstance(found, str))
"""

EIGHT_MB = {"s": {"a": np.ones(1_000_000)}}


def user(text: str) -> Callable[[], bytes]:
    def made() -> bytes:
        about, tensors, data = split(small())
        about["user"] = "HERE"
        written = json.dumps(about, separators=(",", ":"), sort_keys=True)
        return joined(written.replace('"HERE"', text), tensors, data)

    return made


def listed(text: str) -> Callable[[], bytes]:
    def made() -> bytes:
        about, _, data = split(small())
        return joined(about, '"block-0000/leaves":' + text + ',"ranks/sizes":0', data)

    return made


def wide_metadata() -> bytes:
    body = small()[8:600].split(b'}"}')[0]
    return sealed(body + rb"\ud83d\ude00" + b"a" * 8_000_000 + b'}"}}', b"")


def vast_arrays() -> bytes:
    shape = {"dtype": "F64", "shape": [2**50], "data_offsets": [0, 2**53]}
    return forged(lambda about, tensors: tensors.update({"block-0000/leaves": shape}))


# The file, and whether it is refused.
FILES: dict[str, tuple[Callable[[], bytes], bool]] = {
    "data": (lambda: container_bytes({}, EIGHT_MB), False),
    "many sections": (
        lambda: container_bytes({}, {f"s{i}": {"a": np.ones(9)} for i in range(2_000)}),
        False,
    ),
    "many arrays": (
        lambda: container_bytes({}, {"s": {f"a{i}": np.ones(9) for i in range(5_000)}}),
        False,
    ),
    "many small arrays": (
        lambda: container_bytes(
            {}, {f"s{i}": {f"a{j}": np.ones((1,) * 8, "i1") for j in range(40)} for i in range(200)}
        ),
        False,
    ),
    "the largest list": (lambda: container_bytes({"x": [[]] * 100_000}, EIGHT_MB), False),
    "a list too large": (user('{"x":[' + "[]," * 2_000_000 + "0]}"), True),
    "a long string": (user('{"x":"' + "a" * 8_000_000 + '"}'), False),
    "a long wide string": (user('{"x":"' + "a" * 8_000_000 + '\\ud83d\\ude00"}'), True),
    "many keys": (user("{" + ",".join(f'"{i}":0' for i in range(500_000)) + "}"), True),
    "a deep list": (user("[" * 2_000_000), True),
    "a tensor of lists": (listed("[" + "[]," * 2_000_000 + "0]"), True),
    "metadata of wide letters": (wide_metadata, True),
    "arrays beyond the file": (vast_arrays, True),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize("case", FILES)
def test_memory_stays_within_twice_the_file_and_16_mb(case: str, tmp_path: Path) -> None:
    make, is_refused = FILES[case]
    (tmp_path / "small").write_bytes(small())
    (tmp_path / "large").write_bytes(make())
    allowed = 2 * (tmp_path / "large").stat().st_size + 16_000_000
    for how in ("map", "copy") if case == "data" else ("map",):
        command = [sys.executable, "-c", MEASURED, str(tmp_path / "small"), str(tmp_path / "large")]
        done = subprocess.run([*command, how], capture_output=True, text=True, check=True)
        used, refused = done.stdout.split()
        assert refused == str(is_refused)
        assert int(used) <= allowed
