"""Small containers to test with, and forgers who know the format but not the code that reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ontarget._typing import AnyArray
from ontarget.modelfile.container import Container, container_bytes

Sections = dict[str, dict[str, AnyArray]]

CHECKSUM = rb"\"checksum\":\""  # comes before the header's checksum

DTYPES = [np.bool_, *(np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8)), np.float32, float]
NAMES = st.text("abcXYZ0189_.-", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip
HEADERS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)


def arrays() -> st.SearchStrategy[AnyArray]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    return hnp.arrays(st.sampled_from(DTYPES), shapes)


def all_sections() -> st.SearchStrategy[Sections]:
    return st.dictionaries(NAMES, st.dictionaries(NAMES, arrays(), max_size=4), max_size=4)


HEADER = {"horizon": 3, "features": ["speed", "größe"], "grid": 1e-7}
SECTIONS: Sections = {
    "ranks": {"step-0": np.linspace(0, 1, 3), "sizes": np.array([3, 0], np.int32)},
    "block-0000": {
        "leaves": np.arange(5, dtype=np.uint16),
        "nodes": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "smooth": np.array([True, False, True]),
    },
    "empty": {},
}


def small() -> bytes:
    return container_bytes(HEADER, SECTIONS)


def same(container: Container, header: dict[str, Any], sections: Sections) -> bool:
    """Whether the container holds exactly this, to the bit."""
    return (
        container.header == header
        and container.sections == tuple(sorted(sections))
        and all(same_arrays(container.section(name), sections[name]) for name in sections)
    )


def same_arrays(found: dict[str, AnyArray], expected: dict[str, AnyArray]) -> bool:
    return found.keys() == expected.keys() and all(
        found[name].dtype == array.dtype
        and found[name].shape == array.shape
        and found[name].tobytes() == array.tobytes()
        for name, array in expected.items()
    )


def split(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """What the header says of itself, its tensors, and the data."""
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:end])
    return json.loads(tensors.pop("__metadata__")["ontarget"]), tensors, data[end:]


def sealed(body: bytes, data: bytes) -> bytes:
    """A file with this header, whatever it is, under a checksum that is right."""
    raw = len(body).to_bytes(8, "little") + body
    start = raw.index(CHECKSUM) + len(CHECKSUM)
    digest = hashlib.sha256(raw[:start] + raw[start + 64 :]).hexdigest()
    return raw[:start] + digest.encode() + raw[start + 64 :] + data


def joined(about: dict[str, Any] | str, tensors: dict[str, Any] | str, data: bytes) -> bytes:
    """The reverse of `split`; either part may be given as a text."""
    if not isinstance(about, str):
        about = json.dumps(about, separators=(",", ":"), sort_keys=True)
    if not isinstance(tensors, str):
        tensors = json.dumps(tensors, separators=(",", ":"))[1:-1]
    body = '{"__metadata__":{"ontarget":' + json.dumps(about) + "}"
    body += ("," if tensors else "") + tensors + "}"
    return sealed(body.encode() + b" " * (-len(body.encode()) % 8), data)


def forged(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    """The small container after a change of its header, sealed anew."""
    about, tensors, data = split(small())
    change(about, tensors)
    return joined(about, tensors, data)


def mutants(data: bytes, n: int, seed: int) -> Iterator[bytes]:
    """The data with bits flipped, parts overwritten, removed, doubled, zeroed or exchanged."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        a, b = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        b = min(b, a + int(rng.integers(1, 65)))
        part = data[a:b]
        match rng.integers(7):
            case 0:
                part = bytes([x ^ (1 << int(rng.integers(8))) for x in part[:1]]) + part[1:]
            case 1:
                part = rng.bytes(len(part))
            case 2:
                part = b""
            case 3:
                part = part + part
            case 4:
                part = bytes(len(part))
            case 5:
                part = part[::-1]
            case _:
                part = (
                    rng.choice(list(b'0123456789[]{}",:-.eE ~/'), len(part)).astype("u1").tobytes()
                )
        yield data[:a] + part + data[b:]
