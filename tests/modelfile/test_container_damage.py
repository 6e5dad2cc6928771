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
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container, container_bytes
from refusals import refuses

from .containers import (
    CHECKSUM,
    HEADER,
    HEADERS,
    SECTIONS,
    Sections,
    all_sections,
    forged,
    joined,
    mutants,
    relisted,
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
        with refuses(ModelFileError, None, path):
            Container.open(path)
        with refuses(ModelFileError, None, path):
            Container.open(path, copy=True)


@pytest.mark.parametrize("tail", [b"\0", b" ", b"x" * 4096, small()])
def test_trailing_bytes_are_noticed(tail: bytes) -> None:
    with refuses(ModelFileError, None, f"{len(small() + tail):,} bytes", f"{len(small()):,}"):
        Container.from_bytes(small() + tail)


def test_damage_to_one_section_leaves_the_others_readable() -> None:
    data = bytearray(small())
    data[-1] ^= 1
    found = Container.from_bytes(bytes(data), name="hurt.ontarget")
    assert found.section("block-0000")["nodes"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for ask in (lambda: found.section("ranks"), found.verify):
        with refuses(ModelFileError, None, "hurt.ontarget", "'ranks'"):
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
            changed = corrupt(tensors, rng)
            parts = relisted(about, changed), changed
        raised.append(refused(joined(*parts, data)))
    assert sum(raised) > 0.5 * n


def nodes(**change: object) -> Callable[[Any, Any], object]:
    return lambda about, tensors: tensors["block-0000/nodes"].update(change)


def section(**change: object) -> Callable[[Any, Any], object]:
    return lambda about, tensors: about["sections"]["ranks"].update(change)


OTHERWISE = "section 'block-0000' should list .* from byte \\d+ on, but lists something else"
NO_ARRAY = "section 'block-0000' lists something that is not an array"

FORGERIES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "negative offset": (nodes(data_offsets=[-8, -2]), OTHERWISE),
    "overlap": (nodes(data_offsets=[0, 6]), OTHERWISE),
    "beyond the end": (nodes(data_offsets=[16, 2**40], shape=[2**40 - 16]), "larger than the file"),
    "backwards": (nodes(data_offsets=[22, 16]), OTHERWISE),
    "three offsets": (nodes(data_offsets=[16, 22, 30]), OTHERWISE),
    "fractional offset": (nodes(data_offsets=[16.5, 22]), OTHERWISE),
    "shape and bytes differ": (nodes(shape=[2, 4]), OTHERWISE),
    "negative shape": (nodes(shape=[-2, -3]), NO_ARRAY),
    "bool in shape": (nodes(shape=[True, 6]), NO_ARRAY),
    "shape is no list": (nodes(shape="23"), NO_ARRAY),
    "overflowing shape": (nodes(shape=[2**59, 2**59]), "larger than the file"),
    "longer than 64 bits": (nodes(shape=[2**64 + 6]), NO_ARRAY),
    "wrapping shape": (nodes(shape=[2**32, 2**32, 6]), "larger than the file"),
    "empty but vast": (nodes(shape=[0, 2**40], data_offsets=[16, 16]), "larger than the file"),
    "empty beyond memory": (nodes(shape=[0, 2**59, 2**59]), "larger than the file"),
    "too many dimensions": (nodes(shape=[1] * 8 + [6]), NO_ARRAY),
    "unknown dtype": (nodes(dtype="F16"), "unknown dtype: 'F16'"),
    "odd dtype": (nodes(dtype="F8_E4M3"), NO_ARRAY),
    "dtype is no text": (nodes(dtype=["U8"]), NO_ARRAY),
    "extra key": (nodes(pickle="cos\nsystem"), OTHERWISE),
    "tensor is no object": (lambda a, t: t.update({"block-0000/nodes": 3}), NO_ARRAY),
    "array is missing": (lambda a, t: t.popitem(), "lists 1 arrays up to byte .* have 2 up to"),
    "array is added": (
        lambda a, t: t.update(
            {"ranks/zz": {"dtype": "U8", "shape": [0], "data_offsets": [72, 72]}}
        ),
        "lists 2 arrays up to byte",
    ),
    "arrays in another order": (
        lambda a, t: t.update({"block-0000/nodes": t.pop("block-0000/nodes")}), NO_ARRAY,
    ),
    "array is named twice": (lambda a, t: rename(t, "nodes", "leaves"), OTHERWISE),
    "array comes before its elder": (lambda a, t: rename(t, "nodes", "a"), OTHERWISE),
    "padding is named as an array": (
        lambda a, t: t.update({"block-0000/padding": t.pop("block-0000/~nodes")}), OTHERWISE,
    ),
    "tensor of another section": (lambda a, t: rename(t, "leaves", "a", "ranks"), "should list"),
    "tensor of no section": (lambda a, t: t.update({"x/y": t["ranks/sizes"]}), "have the length"),
    "section without tensors": (section(arrays=0), "lists 0 arrays .* should have 0 up to"),
    "section with more arrays": (section(arrays=3), "lists 2 arrays .* should have 3"),
    "section not there": (
        lambda a, t: a["sections"].update(
            x={"arrays": 1, "bytes": 0, "listed": 0, "sha256": "0" * 64}
        ),
        "section 'x': impossible arrays: 1",
    ),
    "section with a bad name": (
        lambda a, t: a["sections"].update({"x/../y": a["sections"].pop("ranks")}),
        "cannot be the name of a section",
    ),
    "sections not sorted": (
        lambda a, t: a["sections"].update(empty=a["sections"].pop("empty")), "not a sorted",
    ),
    "section is no object": (lambda a, t: a["sections"].update(ranks=[]), "needs exactly the keys"),
    "no checksum": (lambda a, t: a["sections"]["ranks"].pop("sha256"), "needs exactly the keys"),
    "empty checksum": (section(sha256=""), "section 'ranks' has no checksum"),
    "checksum is no text": (section(sha256=0), "section 'ranks' has no checksum"),
    "wrong checksum": (section(sha256="0" * 64), "section 'ranks' is damaged"),
    "negative bytes": (section(bytes=-8), "impossible bytes: -8"),
    "fractional bytes": (section(bytes=8.0), "impossible bytes"),
    "endless bytes": (section(bytes=10**30), "impossible bytes"),
    "too many bytes": (section(bytes=900), "where its header says"),
    "negative list": (section(listed=-8), "impossible listed: -8"),
    "list is no number": (section(listed="8"), "impossible listed"),
    "short list": (section(listed=8), "does not have the length that its sections state"),
    "list beyond the header": (section(listed=2**40), "impossible listed"),
    "arrays are no number": (section(arrays=True), "impossible arrays"),
    "sections are a list": (lambda a, t: a.update(sections=[]), "not a sorted JSON object"),
    "user is a list": (lambda a, t: a.update(user=[]), "user part is not a JSON object"),
    "no user": (lambda a, t: a.pop("user"), "needs exactly the keys"),
    "something added": (lambda a, t: a.update(x=1), "needs exactly the keys"),
    "deep sections": (lambda a, t: a.update(sections="NESTED"), "not a sorted JSON object"),
    "deep section": (lambda a, t: a["sections"].update(ranks="NESTED"), "needs exactly"),
    "deep bytes": (section(bytes="NESTED"), "impossible bytes"),
    "deep tensor": (lambda a, t: t.update({"block-0000/nodes": "NESTED"}), NO_ARRAY),
    "deep shape": (nodes(shape="NESTED"), NO_ARRAY),
    "deep offsets": (nodes(data_offsets="NESTED"), OTHERWISE),
    "long shape": (nodes(shape=[1] * 50_000), NO_ARRAY),
    "long name": (lambda a, t: t.update({"ranks/" + "x" * 50_000: 0}), "lists 2 arrays"),
    "infinite number": (lambda a, t: a["user"].update(x="HUGE"), "1e999, which is not a finite"),
    "deep user": (lambda a, t: a["user"].update(x="DEEP"), "nested more than 32 deep"),
    "deeper user": (lambda a, t: a["user"].update(x="DEEPER"), "nested more than 32 deep"),
    "constant": (lambda a, t: a["user"].update(x="CONSTANT"), "has NaN, which is not a finite"),
    "duplicate key": (lambda a, t: a["user"].update(x="TWICE"), "has the key 'k' twice"),
    "endless number": (lambda a, t: a["user"].update(x="DIGITS"), "whole number of 5000 digits"),
}  # fmt: skip


def rename(tensors: dict[str, Any], old: str, new: str, section: str = "block-0000") -> None:
    """Give an array, and what fills it up, another name in the same place."""
    names = {f"block-0000/{old}": f"{section}/{new}", f"block-0000/~{old}": f"{section}/~{new}"}
    renamed = [(names.get(name, name), entry) for name, entry in tensors.items()]
    tensors.clear()
    tensors.update(renamed)


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_header_is_refused_with_the_reason(case: str) -> None:
    change, words = FORGERIES[case]
    with pytest.raises(ModelFileError, match=words) as caught:
        read(forged(change))
    assert len(str(caught.value)) < 500
    assert str(caught.value).startswith("forged.ontarget cannot be used: ")


def test_the_forger_can_also_leave_everything_as_it_was() -> None:
    assert forged(lambda about, tensors: None) == small()


def test_a_bool_that_is_neither_true_nor_false_is_refused() -> None:
    about, tensors, data = split(container_bytes({}, {"s": {"a": np.array([1, 2], np.uint8)}}))
    tensors["s/a"]["dtype"] = "BOOL"
    with refuses(ModelFileError, None, "s/a", "bool"):
        read(joined(relisted(about, tensors), tensors, data))


def test_unaligned_arrays_are_refused() -> None:
    about, tensors, data = split(
        container_bytes({}, {"s": {"a": np.zeros(3, "u1"), "b": np.ones(1)}})
    )
    tensors["s/a"] = {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}
    del tensors["s/~a"]
    whole = joined(relisted(about, tensors), tensors, data)
    assert read(whole).section("s")["a"].size == 8
    about["sections"]["s"]["arrays"] = 3
    tensors = {
        "s/a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "s/aa": {"dtype": "U8", "shape": [5], "data_offsets": [3, 8]},
        "s/b": tensors["s/b"],
    }
    with refuses(ModelFileError, None, '"s/~a"'):
        read(joined(relisted(about, tensors), tensors, data))


@pytest.mark.parametrize(("version", "words"), [
    (b"3", "version 3 "), (b"10", "version 10 "), (b"02", "version 02 "), (b"", "version  "),
])  # fmt: skip
def test_another_version_is_named_before_anything_else_is_read(version: bytes, words: str) -> None:
    data = small().replace(b'"version":"2"', b'"version":"' + version + b'"')
    with pytest.raises(ModelFileError, match=words):
        read(data)


def test_a_file_of_the_layout_of_0_2_is_read_as_one_of_today() -> None:
    data = small()
    end = 8 + int.from_bytes(data[:8], "little")
    old = sealed(data[8:end].replace(b'"version":"2"', b'"version":"1"'), data[end:])
    assert same(read(old), HEADER, SECTIONS)


@pytest.mark.parametrize(
    "metadata",
    [b"1", b"{}", b'"a"', b'"[1]"', rb'"\ud83d\ude00{}"', b'"{}', b'"' + b"\xff" * 9 + b'{}"'],
)  # fmt: skip
def test_metadata_that_is_no_object_in_a_string_is_refused(metadata: bytes) -> None:
    start, end = small().split(b'"ontarget":')[0], b"} "
    body = start[8:] + b'"ontarget":' + metadata + b"}" + end
    with refuses(ModelFileError, None, "forged.ontarget"):
        read(sealed(body + b" " * (-len(body) % 8), b""))


@given(data=st.data(), header=HEADERS, sections=all_sections())
def test_any_part_of_any_file_replaced_answers_identically_or_raises(
    data: st.DataObject, header: dict[str, object], sections: Sections
) -> None:
    whole = container_bytes(header, sections)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 80)))
    changed = whole[:start] + data.draw(st.binary(max_size=80)) + whole[stop:]
    try:
        found = read(changed)
    except ModelFileError:
        assert changed != whole
    else:
        assert same(found, header, sections)


@given(data=st.data(), header=HEADERS, sections=all_sections())
def test_a_header_changed_by_a_forger_gives_what_it_says_or_raises(
    data: st.DataObject, header: dict[str, object], sections: Sections
) -> None:
    about, tensors, content = split(container_bytes(header, sections))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    if tensors and data.draw(st.booleans()):
        tensors = corrupt(tensors, rng)
    else:
        about = {"user": about["user"], "sections": corrupt(about["sections"] or {"": 0}, rng)}
    if not refused(joined(about, tensors, content)):
        assert Container.from_bytes(joined(about, tensors, content)).header == header


@pytest.mark.parametrize(
    "length", [0, 1, 7, 100, 2**26, 2**31, 2**63, 2**64 - 1], ids=lambda n: f"{n:#x}"
)
def test_a_header_length_out_of_bounds_is_refused(length: int) -> None:
    with refuses(ModelFileError, None, "model"):
        Container.from_bytes(length.to_bytes(8, "little") + small()[8:])


@pytest.mark.parametrize(
    "content",
    [b"x", b"\0" * 8, b"\0" * 4096, b"PK\3\4" * 99, b"\x80\x04\x95" + b"." * 999, b"{}" * 99],
)
def test_files_of_other_kinds_are_refused(content: bytes) -> None:
    with pytest.raises(ModelFileError, match=r"too few|model file"):
        Container.from_bytes(content)


def test_another_programs_safetensors_file_is_refused() -> None:
    from safetensors.numpy import save

    data = save({"s/a": np.zeros(100)}, {"ontarget": "{}" * 99})
    with refuses(ModelFileError, None, "first bytes"):
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
