from __future__ import annotations

import copy
import gc
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from safetensors import safe_open
from safetensors.numpy import load, load_file

from ontarget._text import plain
from ontarget.errors import InputError, ModelFileError
from ontarget.modelfile.container import Container, container_bytes, write_container
from refusals import refuses

from .containers import (
    HEADER,
    HEADERS,
    SECTIONS,
    Sections,
    all_sections,
    same,
    same_arrays,
    small,
    split,
)

COPIES: dict[str, Callable[[Container], Container]] = {
    "pickled": lambda found: pickle.loads(pickle.dumps(found)),
    "copied": copy.copy,
    "deep-copied": copy.deepcopy,
}

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "small.ontarget"
    write_container(found, HEADER, SECTIONS)
    return found


@same_folder
@given(header=HEADERS, sections=all_sections())
def test_what_is_written_is_read_back_to_the_bit(
    header: dict[str, object], sections: Sections, tmp_path: Path
) -> None:
    path = tmp_path / "any.ontarget"
    write_container(path, header, sections)
    assert same(Container.open(path), header, sections)
    assert same(Container.open(path, copy=True), header, sections)
    assert same(Container.from_bytes(container_bytes(header, sections)), header, sections)


@given(sections=all_sections())
def test_the_safetensors_package_reads_the_same_arrays(sections: Sections) -> None:
    found = load(container_bytes({}, sections))
    arrays = {name: array for name, array in found.items() if "/~" not in name}
    expected = {f"{s}/{name}": a for s, held in sections.items() for name, a in held.items()}
    assert same_arrays(arrays, expected)
    for name in found.keys() - arrays.keys():
        assert not found[name].any(), "what fills up is zero"


def test_the_package_reads_files_and_metadata(path: Path) -> None:
    assert same_arrays(
        {n: a for n, a in load_file(path).items() if "/~" not in n},
        {f"{s}/{n}": a for s, held in SECTIONS.items() for n, a in held.items()},
    )
    with safe_open(path, "numpy") as opened:
        metadata = opened.metadata()
    assert metadata.keys() == {"format", "version", "fingerprint", "ontarget"}
    assert (metadata["format"], metadata["version"]) == ("ontarget-model", "2")
    assert metadata["fingerprint"] == Container.open(path).fingerprint
    about = json.loads(metadata["ontarget"])
    assert metadata["ontarget"] == json.dumps(about, sort_keys=True, separators=(",", ":"))
    assert about["user"] == HEADER
    assert list(about["sections"]) == sorted(SECTIONS)


@given(header=HEADERS, sections=all_sections())
def test_arrays_are_aligned_read_only_and_native(
    header: dict[str, object], sections: Sections
) -> None:
    container = Container.from_bytes(container_bytes(header, sections))
    for name in container.sections:
        for array in container.section(name).values():
            assert array.__array_interface__["data"][0] % 8 == 0
            assert array.flags.c_contiguous
            assert array.flags.aligned
            assert array.dtype.isnative
            assert not array.flags.writeable


@given(header=HEADERS, sections=all_sections())
def test_neither_order_nor_memory_layout_enters_the_bytes(
    header: dict[str, object], sections: Sections
) -> None:
    turned = {
        section: {
            name: np.asfortranarray(array.astype(array.dtype.newbyteorder(">"))).reshape(
                array.shape
            )
            for name, array in reversed(arrays.items())
        }
        for section, arrays in reversed(sections.items())
    }
    expected = container_bytes(header, sections)
    assert container_bytes(dict(reversed(header.items())), turned) == expected


def test_file_and_bytes_are_the_same_and_stay_so(path: Path) -> None:
    assert path.read_bytes() == small()
    assert Container.open(path).fingerprint == Container.from_bytes(small()).fingerprint
    other = container_bytes(HEADER, SECTIONS | {"empty": {"one": np.zeros(1)}})
    assert Container.from_bytes(other).fingerprint != Container.open(path).fingerprint


def test_a_section_is_one_run_of_bytes_in_the_order_of_names() -> None:
    about, tensors, data = split(small())
    assert list(tensors) == sorted(tensors, key=lambda n: n.replace("~", "") + "~" * ("~" in n))
    assert sum(section["bytes"] for section in about["sections"].values()) == len(data)


def test_strided_arrays_and_plain_lists_are_stored_as_their_values() -> None:
    data = container_bytes({}, {"s": {"a": np.arange(10)[::-3], "b": [1.5, 2.5]}})  # type: ignore[dict-item]
    found = Container.from_bytes(data).section("s")
    assert found["a"].tolist() == [9, 6, 3, 0]
    assert found["b"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    "array",
    [np.array(["a"]), np.array([None]), np.zeros(2, np.complex128), np.zeros(2, np.float16),
     np.zeros(2, np.longdouble), np.zeros(1, "M8[s]"), np.zeros(1, [("x", "i4")]), b"bytes"],
    ids=lambda a: str(np.asarray(a).dtype),
)  # fmt: skip
def test_arrays_the_file_cannot_hold_are_refused_by_name(array: np.ndarray) -> None:
    with refuses(InputError, None, "s/bad", np.asarray(array).dtype):
        container_bytes({}, {"s": {"fine": np.zeros(1), "bad": array}})


@pytest.mark.parametrize("name", ["", "a b", "~a", 'a"', "a\n", "größe", "x" * 129, 3])
def test_odd_names_are_refused(name: str) -> None:
    with refuses(InputError, None, "section names", repr(name)):
        container_bytes({}, {name: {}})
    with refuses(InputError, None, "array names", repr(name)):
        container_bytes({}, {"s": {name: np.zeros(1)}})


def test_an_array_name_may_have_parts() -> None:
    data = container_bytes({}, {"s": {"guide/weights": np.ones(1)}, "s-2": {"s/x": np.zeros(1)}})
    found = Container.from_bytes(data)
    assert list(found.section("s")) == ["guide/weights"]
    assert list(found.section("s-2")) == ["s/x"]
    with pytest.raises(InputError):
        container_bytes({}, {"s/x": {}})


def deep(levels: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(levels - 1):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("header", "words"),
    [({"x": math.nan}, "float"), ({"x": [math.inf]}, "float"), ({3: 1}, "key 3"),
     ({"x": {1: 2}}, "key 1"), ({"x": np.zeros(1)}, "ndarray"), ({"x": b""}, "bytes"),
     ({"x": {1, 2}}, "set"),
     (deep(33), "32 deep"), (deep(100_000), "32 deep")],
)  # fmt: skip
def test_a_header_that_is_no_plain_json_is_refused(header: dict[str, object], words: str) -> None:
    with refuses(InputError, None, "header", words):
        container_bytes(header, {})


def test_the_deepest_header_that_may_be_written_is_read() -> None:
    assert Container.from_bytes(container_bytes(deep(32), {})).header == deep(32)


@pytest.mark.parametrize(
    ("header", "sections", "words"),
    [
        ({"x": [[]] * 200_000}, {}, "header"),
        ({"x": 10**41}, {}, "42 digits"),
        ({}, {"s": {"a": np.zeros((0, 10**9))}}, "[0, 1000000000]"),
        ({}, {"s": {"a": np.zeros((1,) * 9)}}, "an array"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    header: dict[str, object], sections: Sections, words: str
) -> None:
    with refuses(InputError, None, "read back", words):
        container_bytes(header, sections)


def test_a_large_header_beside_data_of_some_size_is_fine() -> None:
    data = container_bytes({"x": [[]] * 200_000}, {"s": {"a": np.zeros(8_000_000)}})
    assert len(Container.from_bytes(data).header["x"]) == 200_000


def test_a_dictionary_of_a_hundred_thousand_categories_fits_into_any_file() -> None:
    header = {"features": [{"name": "place", "categories": [f"{i:040d}" for i in range(100_000)]}]}
    assert Container.from_bytes(container_bytes(header, {})).header == header


@pytest.mark.slow
def test_ten_thousand_blocks_fit_into_a_file_of_any_likely_size() -> None:
    names = [f"model.guide_array_{i:02d}" for i in range(30)]
    block = dict.fromkeys(names, np.zeros(30))
    header = {"blocks": [[i, i + 1, i, i + 1] for i in range(10_000)]}
    data = container_bytes(header, {f"block-{i:05d}": block for i in range(10_000)})
    assert len(data) < 110_000_000
    found = Container.from_bytes(data)
    assert len(found.sections) == 10_000
    assert list(found.section("block-09999")) == names


def test_the_header_cannot_be_changed_and_sections_are_fresh_dicts(path: Path) -> None:
    found = Container.open(path)
    with pytest.raises(TypeError):
        found.header["horizon"] = 4  # type: ignore[index]
    found.section("ranks").clear()
    assert same(found, HEADER, SECTIONS)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("verified", [False, True])
def test_a_copy_holds_the_same_read_only(path: Path, way: str, verified: bool) -> None:
    found = Container.open(path)
    if verified:
        found.verify()
    copied = COPIES[way](found)
    assert (copied.name, copied.fingerprint) == (str(path), found.fingerprint)
    assert same(copied, HEADER, SECTIONS)
    array, original = copied.section("ranks")["step-0"], found.section("ranks")["step-0"]
    assert not array.flags.writeable
    assert np.shares_memory(array, original) == (way != "pickled")
    copied.header["features"].append("x")
    assert found.header == HEADER


def test_a_pickle_outlives_the_file_and_is_checked_anew(path: Path) -> None:
    pickled = pickle.dumps(Container.open(path))
    path.unlink()
    assert same(pickle.loads(pickled), HEADER, SECTIONS)
    hurt = pickled.replace(np.linspace(0, 1, 3).tobytes(), bytes(24))
    with refuses(ModelFileError, None, path, "'ranks'"):
        pickle.loads(hurt).verify()


def test_an_absent_section_is_named_with_those_there_are(path: Path) -> None:
    with refuses(ModelFileError, None, "'rank'", "block-0000, empty, ranks"):
        Container.open(path).section("rank")


def test_repr_says_what_it_is(path: Path) -> None:
    assert repr(Container.open(path)) == (
        f"Container(name={str(path)!r}, sections=3, size={path.stat().st_size})"
    )


def test_a_path_may_be_text(tmp_path: Path) -> None:
    write_container(f"{tmp_path}/a.ontarget", HEADER, SECTIONS)
    assert same(Container.open(f"{tmp_path}/a.ontarget"), HEADER, SECTIONS)


def test_what_cannot_be_opened_says_why_and_what_to_do(tmp_path: Path) -> None:
    empty = tmp_path / "empty.ontarget"
    empty.touch()
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "none.ontarget", "no such"),
        (empty / "below.ontarget", "such folder"),
        (tmp_path, "a folder"),
        (empty, "empty"),
        (tmp_path / "pipe", "regular"),
        (Path("/dev/zero"), "regular"),
        (tmp_path / "nul\0", "null"),
    ):
        for whole in (False, True):
            with refuses(ModelFileError, None, plain(path), words) as caught:
                Container.open(path, copy=whole)
            assert isinstance(caught.value, OSError)


def test_a_file_without_permission_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with refuses(ModelFileError, None, path, "permissions"):
        Container.open(path)
    with refuses(ModelFileError, None, path, "permissions"):
        write_container(path, {}, {})


def test_views_outlive_the_container_and_its_file(path: Path) -> None:
    arrays = Container.open(path).section("block-0000")
    path.unlink()
    gc.collect()
    assert same_arrays(arrays, SECTIONS["block-0000"])


def test_a_container_keeps_the_file_it_opened_when_another_replaces_it(path: Path) -> None:
    before = Container.open(path)
    write_container(path, {"horizon": 9}, {})
    assert same(before, HEADER, SECTIONS)
    assert same(Container.open(path), {"horizon": 9}, {})


def test_a_closed_over_container_gives_its_descriptor_back(path: Path) -> None:
    def n_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("counts open files in /proc")
    gc.collect()
    before = n_open()
    for _ in range(20):
        Container.open(path).verify()
    gc.collect()
    assert n_open() == before


def test_a_checked_section_is_not_hashed_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Container.open(path)
    found.verify()
    monkeypatch.setattr("ontarget.modelfile.container.hashlib", None)
    assert same(found, HEADER, SECTIONS)
    found.verify()


FORK = """
import os, sys, numpy as np
from ontarget.modelfile.container import Container
found = Container.open(sys.argv[1])
if sys.argv[2] == "verified":
    found.verify()
child = os.fork()
found.verify()
total = sum(float(a.sum()) for n in found.sections for a in found.section(n).values())
if child == 0:
    os._exit(0 if total == float(sys.argv[3]) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or total != float(sys.argv[3]))
"""


@pytest.mark.parametrize("before", ["verified", "fresh"])
def test_a_fork_and_its_parent_read_the_same_file(path: Path, before: str) -> None:
    total = sum(float(a.sum()) for arrays in SECTIONS.values() for a in arrays.values())
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(path), before, str(total)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
