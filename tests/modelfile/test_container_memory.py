"""Whoever made a file, reading it takes at most twice its size and 64 MB."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ontarget.modelfile import _header
from ontarget.modelfile.container import container_bytes

from .containers import forged, sealed, small, split
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

# JSON that makes much of few letters or few commas and brackets: its start, what is repeated with
# a number for each #, and its end.
SHAPES = {
    "lists": ("[", "[],", "[]]"),
    "objects in objects": ("[", '{"":{"":0}},', "0]"),
    "keys": ("{", '"#":0,', '"":0}'),
    "keys with objects": ("{", '"#":{"":1.5},', '"":0}'),
    "wide keys": ("{", '"\\ud83d\\ude00#":0,', '"":0}'),
    "wide strings": ("[", '"\\ud83d\\ude00#",', "0]"),
    "a long string": ('["', "aaaaaaaa", '"]'),
    "a long wide string": ('["', "aaaaaaaa", '\\ud83d\\ude00"]'),
    "a long string of escapes": ('["', "\\u00e9", '"]'),
}


def header_of(text: str) -> bytes:
    """A file of nothing but a header, with this JSON in it."""
    about = '{"sections":{},"user":{"x":' + text + "}}"
    start = split_at_metadata()
    body = start + json.dumps(about).encode() + b"}}"
    return sealed(body + b" " * (-len(body) % 8), b"")


def split_at_metadata() -> bytes:
    return small()[8:].split(b'"ontarget":')[0] + b'"ontarget":'


def repeated(shape: str, share: float) -> bytes:
    """A header that would take this share of the memory that a file may take."""
    first, each, last = SHAPES[shape]
    each = each.replace("#", "123456")
    # In the file quotes and backslashes are escaped once more, and its size counts too.
    inner, outer = len(each), len(json.dumps(each)) - 2
    values = sum(map(each.count, ",[{"))
    cost = max(_header._LETTER * inner + _header._VALUE * values, _header._LETTER * outer) - outer
    n = int(share * _header._SPARE_MEMORY / cost)
    return header_of("".join([first, *(each.replace("123456", str(i)) for i in range(n)), last]))


def empty_arrays(share: float) -> bytes:
    n = int(share * _header._SPARE_MEMORY / _header._ARRAY)
    arrays = {f"{i:x}": np.empty((0, 1, 1, 1), np.uint8) for i in range(n)}
    return container_bytes({}, {"s": arrays})


def wide_metadata() -> bytes:
    text = rb'"\ud83d\ude00' + b"a" * 10_000_000 + b'{}"'
    body = split_at_metadata() + text + b"}}"
    return sealed(body + b" " * (-len(body) % 8), b"")


def too_long() -> bytes:
    return (101_000_000).to_bytes(8, "little") + small()[8:].ljust(101_000_000)


def uncounted_arrays() -> bytes:
    """A section that lists far more arrays than it says."""
    about, tensors, _ = split(empty_arrays(0.4))
    about["sections"]["s"]["arrays"] = 1
    text = json.dumps(json.dumps(about, separators=(",", ":"))).encode()
    listed = json.dumps(tensors, separators=(",", ":"))[1:].encode()
    body = split_at_metadata() + text + b"}," + listed
    return sealed(body + b" " * (-len(body) % 8), b"")


def vast_arrays() -> bytes:
    shape = {"dtype": "F64", "shape": [2**50], "data_offsets": [0, 2**53]}
    return forged(lambda about, tensors: tensors.update({"block-0000/leaves": shape}))


def of_shape(shape: str, share: float) -> Callable[[], bytes]:
    return lambda: repeated(shape, share)


# The file, and what comes of it.
FILES: dict[str, tuple[Callable[[], bytes], str]] = (
    {
        "data": (lambda: container_bytes({}, EIGHT_MB), "read"),
        "data copied": (lambda: container_bytes({}, EIGHT_MB), "read"),
        "many sections": (
            lambda: container_bytes({}, {f"s{i:05d}": {"a": np.ones(9)} for i in range(20_000)}),
            "read",
        ),
        "many arrays": (lambda: empty_arrays(0.95), "read"),
        "uncounted arrays": (uncounted_arrays, "refused"),
        "a deep list": (lambda: header_of("[" * 150_000 + "]" * 150_000), "refused"),
        "metadata of wide letters": (wide_metadata, "refused"),
        "a header too long": (too_long, "refused"),
        "arrays beyond the file": (vast_arrays, "refused"),
    }
    | {f"{shape}, nearly too many": (of_shape(shape, 0.95), "read") for shape in SHAPES}
    | {
        f"{shape}, too many": (of_shape(shape, 1.1), "refused")
        for shape in ("lists", "a long string")
    }
)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PEAKS, reason="reads the peak from /proc")
def test_memory_stays_within_twice_the_file_and_64_mb(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        path.write_bytes(FILES[path.name][0]())
    (tmp_path / "warm").write_bytes(small())
    shares = {}
    for path, (used, result) in zip(paths, peaks(READ, tmp_path / "warm", paths), strict=True):
        assert result == FILES[path.name][1], path.name
        shares[path.name] = used / (2 * path.stat().st_size + 64_000_000)
    assert max(shares.values()) <= 1, shares
    # The bound is used: it could fail.
    assert max(shares.values()) > 0.8, shares
