"""No damaged file passes for a whole one, and no forged one gets further than an error."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container, container_bytes

from .containers import (
    CHECKSUM,
    HEADER,
    SECTIONS,
    forged,
    joined,
    mutants,
    same,
    sealed,
    small,
    split,
)

MANY = [pytest.param(400, id="400"), pytest.param(5_000, id="5000", marks=pytest.mark.slow)]


def read(data: bytes) -> Container:
    found = Container.from_bytes(data, name="forged.ontarget")
    found.verify()
    return found


def test_every_bit_of_the_file_is_guarded() -> None:
    data = small()
    for i in range(len(data)):
        for bit in range(8):
            changed = data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :]
            with pytest.raises(ModelFileError):
                read(changed)


def test_every_truncation_is_noticed_at_opening(tmp_path: Path) -> None:
    data = small()
    path = tmp_path / "cut.ontarget"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match=r"cut\.ontarget"):
            Container.open(path)
        with pytest.raises(ModelFileError, match=r"cut\.ontarget"):
            Container.open(path, copy=True)


@pytest.mark.parametrize("tail", [b"\0", b" ", b"x" * 4096, small()])
def test_trailing_bytes_are_noticed(tail: bytes) -> None:
    with pytest.raises(ModelFileError, match="something was added"):
        Container.from_bytes(small() + tail)


def test_damage_to_one_section_leaves_the_others_readable() -> None:
    data = bytearray(small())
    data[-1] ^= 1
    found = Container.from_bytes(bytes(data), name="hurt.ontarget")
    assert found.section("block-0000")["nodes"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for ask in (lambda: found.section("ranks"), found.verify):
        with pytest.raises(ModelFileError, match=r"hurt\.ontarget .*section 'ranks' is damaged"):
            ask()


@pytest.mark.parametrize("n", MANY)
def test_a_mutated_file_answers_identically_or_raises(n: int, tmp_path: Path) -> None:
    path = tmp_path / "mutant.ontarget"
    raised = 0
    for mutant in mutants(small(), n, seed=n):
        path.write_bytes(mutant)
        try:
            assert same(Container.open(path), HEADER, SECTIONS)
        except ModelFileError:
            raised += 1
        else:
            assert mutant == small()
    assert raised > 0.8 * n


def refused(data: bytes) -> bool:
    """Whether a forgery is refused; if it is not, all that it gives must lie within it."""
    try:
        found = read(data)
    except ModelFileError:
        return True
    for name in found.sections:
        for array in found.section(name).values():
            assert array.nbytes <= len(data)
            assert not array.flags.writeable
            array.tobytes()
    return False


@pytest.mark.parametrize("n", MANY)
def test_a_mutated_header_under_a_right_checksum_is_read_safely(n: int) -> None:
    data = small()
    end = 8 + int.from_bytes(data[:8], "little")
    raised = [
        refused(sealed(body, data[end:]))
        for body in mutants(data[8:end], n, seed=n)
        if CHECKSUM in body
    ]
    assert len(raised) > 0.8 * n
    assert sum(raised) > 0.5 * len(raised)


ODD = [None, True, -1, 0, 1, 7, 2**31, 2**63, 2**64, 10**400, 0.5, 1e308, "", "F64", "U8", "~",
       [], {}, [0], [-8, 0], [0, 2**63], [1] * 70, [2**62, 0], [[]], {"a": 1}]  # fmt: skip


def corrupt(value: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The value with one part, anywhere in it, removed, renamed or replaced by something odd."""
    value = copy.deepcopy(value)
    holder: Any = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = keys[rng.integers(len(keys))]
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.2:
            break
        holder = holder[key]
    match rng.integers(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 2 if type(holder[key]) is int:
            holder[key] += int(rng.choice([-8, -1, 1, 8]))
        case _:
            holder[key] = ODD[rng.integers(len(ODD))]
    return value


@pytest.mark.parametrize("n", MANY)
def test_an_odd_header_under_a_right_checksum_is_read_safely(n: int) -> None:
    rng = np.random.default_rng(n)
    about, tensors, data = split(small())
    raised = []
    for _ in range(n):
        if rng.random() < 0.5:
            parts = corrupt(about, rng), tensors
        else:
            parts = about, corrupt(tensors, rng)
        if isinstance(parts[0].get("checksum"), str):
            raised.append(refused(joined(*parts, data)))
    assert len(raised) > 0.8 * n
    assert sum(raised) > 0.5 * len(raised)


def nodes(**change: object) -> Callable[[Any, Any], object]:
    return lambda about, tensors: tensors["block-0000/nodes"].update(change)


def section(**change: object) -> Callable[[Any, Any], object]:
    return lambda about, tensors: about["sections"]["ranks"].update(change)


FORGERIES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "negative offset": (nodes(data_offsets=[-8, -2]), "no two data_offsets"),
    "overlap": (nodes(data_offsets=[0, 6]), r"should take 6 bytes from 16, but .* \[0, 6\]"),
    "beyond the end": (nodes(data_offsets=[16, 2**40], shape=[2**40 - 16]), "up to byte|should"),
    "backwards": (nodes(data_offsets=[22, 16]), "should take 6 bytes"),
    "three offsets": (nodes(data_offsets=[16, 22, 30]), "no two data_offsets"),
    "fractional offset": (nodes(data_offsets=[16.0, 22]), "no two data_offsets"),
    "shape and bytes differ": (nodes(shape=[2, 4]), "should take 8 bytes"),
    "negative shape": (nodes(shape=[-2, -3]), "impossible shape"),
    "bool in shape": (nodes(shape=[True, 6]), "impossible shape"),
    "shape is no list": (nodes(shape="23"), "impossible shape"),
    "overflowing shape": (nodes(shape=[2**62, 2**62]), "should take"),
    "wrapping shape": (nodes(shape=[2**32, 2**32, 6]), "should take"),
    "empty beyond memory": (nodes(shape=[0, 2**62, 2**62], data_offsets=[16, 16]), "should take"),
    "too many dimensions": (nodes(shape=[1] * 65 + [6]), "impossible shape"),
    "unknown dtype": (nodes(dtype="F8_E4M3"), "unknown dtype: 'F8_E4M3'"),
    "dtype is no text": (nodes(dtype=["U8"]), "unknown dtype"),
    "extra key": (nodes(pickle="cos\nsystem"), "exactly dtype, shape and data_offsets"),
    "tensor is no object": (lambda a, t: t.update({"block-0000/nodes": 3}), "exactly dtype"),
    "array is missing": (lambda a, t: t.popitem(), r"lists 1 arrays up to byte|should have 2"),
    "tensor of no section": (lambda a, t: t.update({"x/y": t["ranks/sizes"]}), "'x/y' stands in"),
    "tensor before all": (
        lambda a, t: (old := dict(t), t.clear(), t.update({"a/y": old["ranks/sizes"]} | old)),
        "belong to no section",
    ),
    "section without tensors": (section(arrays=0), "has bytes but no arrays"),
    "section not there": (
        lambda a, t: a["sections"].update(x={"arrays": 1, "bytes": 0, "sha256": "0" * 64}),
        "tensors of section 'x' are missing",
    ),
    "section with a bad name": (
        lambda a, t: a["sections"].update({"x/../y": a["sections"].pop("ranks")}),
        "no name of a section",
    ),
    "section is no object": (lambda a, t: a["sections"].update(ranks=[]), "needs exactly the keys"),
    "no checksum": (lambda a, t: a["sections"]["ranks"].pop("sha256"), "needs exactly the keys"),
    "empty checksum": (section(sha256=""), "section 'ranks' has no checksum"),
    "checksum is no text": (section(sha256=0), "section 'ranks' has no checksum"),
    "wrong checksum": (section(sha256="0" * 64), "section 'ranks' is damaged"),
    "negative bytes": (section(bytes=-8), "bytes is no count: -8"),
    "fractional bytes": (section(bytes=8.0), "bytes is no count"),
    "endless bytes": (section(bytes=10**300), "bytes is no count"),
    "too many bytes": (section(bytes=4096), "where its header says"),
    "sections are a list": (lambda a, t: a.update(sections=[]), "no sorted object"),
    "another version": (lambda a, t: a.update(version=2), "version 2 of the format.*reads 1"),
    "version is a bool": (lambda a, t: a.update(version=True), "version True"),
    "no version": (lambda a, t: a.pop("version"), "version None"),
    "user is a list": (lambda a, t: a.update(user=[]), "user part is no object"),
    "no user": (lambda a, t: a.pop("user"), "needs exactly the keys"),
    "deep version": (lambda a, t: a.update(version="NESTED"), "version"),
    "deep sections": (lambda a, t: a.update(sections="NESTED"), "no sorted object"),
    "deep section": (lambda a, t: a["sections"].update(ranks="NESTED"), "needs exactly"),
    "deep bytes": (section(bytes="NESTED"), "bytes is no count"),
    "deep tensor": (lambda a, t: t.update({"block-0000/nodes": "NESTED"}), "exactly dtype"),
    "deep dtype": (nodes(dtype="NESTED"), "unknown dtype"),
    "deep shape": (nodes(shape="NESTED"), "impossible shape"),
    "deep offsets": (nodes(data_offsets="NESTED"), "no two data_offsets"),
    "long shape": (nodes(shape=[1] * 50_000), "impossible shape"),
    "long name": (lambda a, t: t.update({"x" * 50_000: 0}), "stands in section"),
    "infinite number": (lambda a, t: a["user"].update(x="HUGE"), "inf, which is no number"),
    "deep user": (lambda a, t: a["user"].update(x="DEEP"), "nested more than 32 deep"),
    "deeper user": (lambda a, t: a["user"].update(x="DEEPER"), "nested more than 32 deep"),
    "constant": (lambda a, t: a["user"].update(x="CONSTANT"), "holds NaN, which is no number"),
    "duplicate key": (lambda a, t: a["user"].update(x="TWICE"), "holds the key 'k' twice"),
    "endless number": (lambda a, t: a["user"].update(x="DIGITS"), "limit"),
}  # fmt: skip

# Texts that Python's own writer would not produce, by the word that stands for them above.
WORDS = {
    "HUGE": "1e999",
    "DEEP": "[" * 40 + "]" * 40,
    "NESTED": "[" * 900 + "]" * 900,
    "DEEPER": "[" * 20_000 + "]" * 20_000,
    "CONSTANT": "NaN",
    "TWICE": '{"k":1,"k":1}',
    "DIGITS": "9" * 5_000,
}


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_header_is_refused_with_the_reason(case: str) -> None:
    change, words = FORGERIES[case]
    about, tensors, data = split(small())
    change(about, tensors)
    text = json.dumps(about, separators=(",", ":"), sort_keys=True)
    listed = json.dumps(tensors, separators=(",", ":"))[1:-1]
    for word, meaning in WORDS.items():
        text = text.replace(f'"{word}"', meaning)
        listed = listed.replace(f'"{word}"', meaning)
    with pytest.raises(ModelFileError, match=words) as caught:
        read(joined(text, listed, data))
    assert len(str(caught.value)) < 400
    assert str(caught.value).startswith("forged.ontarget cannot be used: ")


def test_the_forger_can_also_leave_everything_as_it_was() -> None:
    assert forged(lambda about, tensors: None) == small()


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ('"s/a":{"dtype":"F64"},"s/a":{"dtype":"F64"}', "twice"),
        ('"s/a":{"dtype":NaN}', "holds NaN"),
        ('"s/a":' + "[" * 5_000 + "]" * 5_000, "nested more than|exactly dtype"),
        ('"s/a":{', "Expecting|property name"),
        ('"s/a":1}', "Extra data|Expecting"),
    ],
)
def test_a_list_of_tensors_that_is_odd_json_is_refused(tensors: str, words: str) -> None:
    about, _, data = split(container_bytes({}, {"s": {"a": np.zeros(3)}}))
    with pytest.raises(ModelFileError, match=words):
        read(joined(about, tensors, data))


def test_a_bool_that_is_neither_true_nor_false_is_refused() -> None:
    about, tensors, data = split(container_bytes({}, {"s": {"a": np.array([1, 2], np.uint8)}}))
    tensors["s/a"]["dtype"] = "BOOL"
    with pytest.raises(ModelFileError, match="s/a holds a bool that is neither 0 nor 1"):
        read(joined(about, tensors, data))


def test_unaligned_arrays_are_refused() -> None:
    about, tensors, data = split(
        container_bytes({}, {"s": {"a": np.zeros(3, "u1"), "b": np.ones(1)}})
    )
    tensors["s/a"]["data_offsets"] = [0, 8]
    tensors["s/a"]["shape"] = [8]
    del tensors["s/~a"]
    assert read(joined(about, tensors, data)).section("s")["a"].size == 8
    about["sections"]["s"]["arrays"] = 3
    tensors = {
        "s/a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "s/c": {"dtype": "U8", "shape": [5], "data_offsets": [3, 8]},
        "s/b": tensors["s/b"],
    }
    with pytest.raises(ModelFileError, match="'s/c' starts unaligned"):
        read(joined(about, tensors, data))


@pytest.mark.parametrize(
    "length", [0, 1, 7, 100, 2**26, 2**31, 2**63, 2**64 - 1], ids=lambda n: f"{n:#x}"
)
def test_a_header_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(ModelFileError, match=r"no ontarget model file|damaged"):
        Container.from_bytes(length.to_bytes(8, "little") + small()[8:])


@pytest.mark.parametrize(
    "content",
    [b"x", b"\0" * 8, b"\0" * 4096, b"PK\3\4" * 99, b"\x80\x04\x95" + b"." * 999, b"{}" * 99],
)
def test_files_of_other_kinds_are_refused(content: bytes) -> None:
    with pytest.raises(ModelFileError, match=r"too few|ontarget model file"):
        Container.from_bytes(content)


def test_another_programs_safetensors_file_is_refused() -> None:
    from safetensors.numpy import save

    data = save({"s/a": np.zeros(100)}, {"ontarget": "{}" * 99})
    with pytest.raises(ModelFileError, match="it is no ontarget model file"):
        Container.from_bytes(data)


AUDITED = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.modelfile.containers import CHECKSUM, mutants, sealed, small
from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container

path, n, original = Path(sys.argv[2]), int(sys.argv[3]), small()
end = 8 + int.from_bytes(original[:8], "little")

def cases():
    yield from mutants(original, n, seed=1)
    for body in mutants(original[8:end], n, seed=2):
        if CHECKSUM in body:
            yield sealed(body, original[end:])
    yield from (original[:i] for i in range(1, len(original)))

def look():
    try:
        found = Container.open(path)
        found.verify()
        for name in found.sections:
            found.section(name)
    except ModelFileError as error:
        str(error)

for data in (original, original[:-1]):  # what Python itself loads on first use is loaded here
    path.write_bytes(data)
    look()

events = set()
watching = False

def hook(event, args):
    if watching and not (event == "open" and str(args[0]) == str(path) and args[1] in ("r", "rb")):
        events.add(event)

sys.addaudithook(hook)
seen = 0
for data in cases():
    path.write_bytes(data)
    watching = True
    look()
    watching = False
    seen += 1
found = sorted(events)
watching = True
import colorsys  # to see that the hook does see
exec("1")
watching = False
print(json.dumps({"events": found, "seen": seen, "noticed": sorted(events)}))
"""


@pytest.mark.parametrize("n", [200, pytest.param(5_000, marks=pytest.mark.slow)])
def test_nothing_is_executed_imported_or_opened_beside_the_file(n: int, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", AUDITED, str(root), str(tmp_path / "mutant"), str(n)]
    # On one thread: starting a second one is an event of its own.
    alone = os.environ | {"ONTARGET_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seen"] > n + len(small())
    assert set(found["events"]) <= {"mmap.__new__"}
    assert {"import", "exec"} <= set(found["noticed"])
