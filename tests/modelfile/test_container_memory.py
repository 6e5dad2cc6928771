"""Whoever made a file, reading it takes at most twice its size and 16 MB."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ontarget.modelfile.container import container_bytes

from .containers import forged, joined, sealed, small, split
from .peaks import HAS_PEAKS, peaks

READ = """
from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container

def task(path):
    try:
        found = Container.open(path, copy=path.endswith("copied"))
        found.verify()
        arrays = [found.section(name) for name in found.sections]
        return "read"
    except ModelFileError as error:
        return "refused"
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
    return sealed(body + rb"\ud83d\ude00" + b"a" * 11_990_000 + b'}"}}', b"")


def vast_arrays() -> bytes:
    shape = {"dtype": "F64", "shape": [2**50], "data_offsets": [0, 2**53]}
    return forged(lambda about, tensors: tensors.update({"block-0000/leaves": shape}))


# The file, and what comes of it.
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "data": (lambda: container_bytes({}, EIGHT_MB), "read"),
    "data copied": (lambda: container_bytes({}, EIGHT_MB), "read"),
    "many sections": (
        lambda: container_bytes({}, {f"s{i}": {"a": np.ones(9)} for i in range(2_000)}),
        "read",
    ),
    "many arrays": (
        lambda: container_bytes({}, {"s": {f"a{i}": np.ones(9) for i in range(5_000)}}),
        "read",
    ),
    "many small arrays": (
        lambda: container_bytes(
            {}, {f"s{i}": {f"a{j}": np.ones((1,) * 8, "i1") for j in range(40)} for i in range(200)}
        ),
        "read",
    ),
    "the largest list": (lambda: container_bytes({"x": [[]] * 100_000}, EIGHT_MB), "read"),
    "a list too large": (user('{"x":[' + "[]," * 3_990_000 + "0]}"), "refused"),
    "a long string": (user('{"x":"' + "a" * 11_000_000 + '"}'), "read"),
    "a long wide string": (user('{"x":"' + "a" * 11_990_000 + '\\ud83d\\ude00"}'), "refused"),
    "many keys": (user("{" + ",".join(f'"{i}":0' for i in range(500_000)) + "}"), "refused"),
    "a deep list": (user("[" * 2_000_000), "refused"),
    "a tensor of lists": (listed("[" + "[]," * 3_990_000 + "0]"), "refused"),
    "metadata of wide letters": (wide_metadata, "refused"),
    "a tensor of a long name": (listed('"' + "a" * 11_990_000 + '"'), "refused"),
    "a header too long": (user('{"x":"' + "a" * 40_000_000 + '"}'), "refused"),
    "arrays beyond the file": (vast_arrays, "refused"),
}


@pytest.mark.skipif(not HAS_PEAKS, reason="reads the peak from /proc")
def test_memory_stays_within_twice_the_file_and_16_mb(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        path.write_bytes(FILES[path.name][0]())
    (tmp_path / "warm").write_bytes(small())
    for path, (used, result) in zip(paths, peaks(READ, tmp_path / "warm", paths), strict=True):
        assert result == FILES[path.name][1], path.name
        assert used <= 2 * path.stat().st_size + 16_000_000, path.name
