"""Small containers to test with, and forgers who know the format but not the code that reads it."""

from __future__ import annotations

import copy
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

CHECKSUM = b'"fingerprint":"'  # comes before the header's checksum

DTYPES = [np.bool_, *(np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8)), np.float32, float]
NAMES = st.text("abcXYZ0189_.-", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**127), 2**127)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
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


# Texts that Python's own writer would not produce, by the word that stands for them in a forgery.
WORDS = {
    "HUGE": "1e999",
    "DEEP": "[" * 40 + "]" * 40,
    "NESTED": "[" * 900 + "]" * 900,
    "DEEPER": "[" * 20_000 + "]" * 20_000,
    "CONSTANT": "NaN",
    "TWICE": '{"k":1,"k":1}',
    "DIGITS": "9" * 5_000,
}


def written(value: object) -> str:
    """Compact JSON, with texts in the place of the words that stand for them."""
    text = json.dumps(value, separators=(",", ":"))
    for word, meaning in WORDS.items():
        text = text.replace(f'"{word}"', meaning)
    return text


def joined(about: object, tensors: dict[str, Any] | str, data: bytes) -> bytes:
    """The reverse of `split`; the tensors may be given as a text."""
    listed = tensors if isinstance(tensors, str) else written(tensors)[1:-1]
    body = '{"__metadata__":{"format":"ontarget-model","version":"2","fingerprint":"' + "0" * 64
    body += '","ontarget":' + json.dumps(written(about)) + "}" + ("," if listed else "")
    body += listed + "}"
    return sealed(body.encode() + b" " * (-len(body.encode()) % 8), data)


def relisted(about: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """What the header says, with the lengths that the lists of tensors have after a change."""
    about = copy.deepcopy(about)
    for section, entry in about["sections"].items():
        own = {n: t for n, t in tensors.items() if n.startswith(section + "/")}
        entry["listed"] = len(written(own)) - 1 if own else 0
    return about


def forged(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    """The small container after a change of its header, its lengths made right, sealed anew."""
    about, tensors, data = split(small())
    before = copy.deepcopy(tensors)
    change(about, tensors)
    return joined(about if tensors == before else relisted(about, tensors), tensors, data)


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
