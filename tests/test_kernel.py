"""How kernels are compiled: on first call, cached where a cache can be written."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ontarget import _kernel as module
from ontarget._kernel import inner_kernel, kernel, room_kernel
from ontarget._progress import announce_compiling
from ontarget._typing import FloatArray

PACKAGE = Path(module.__file__).parent


@inner_kernel
def _twice(x: float) -> float:
    return 2.0 * x


@room_kernel
def _ones(n: int) -> FloatArray:
    return np.ones(n)


@kernel
def _twice_plus_one(x: float) -> float:
    return _twice(x) + _ones(1)[0]


def test_nothing_is_compiled_before_the_first_call() -> None:
    assert _twice_plus_one.signatures == []  # type: ignore[attr-defined]
    assert _twice_plus_one(3.0) == 7.0
    assert len(_twice_plus_one.signatures) == 1  # type: ignore[attr-defined]


def function_without_a_file(number: int) -> Callable[[], int]:
    """Numba finds no folder to cache a function in whose file does not exist."""
    names: dict[str, Callable[[], int]] = {}
    exec(compile(f"def f():\n    return {number}", "/nowhere/module.py", "exec"), names)
    return names["f"]


def test_without_a_cache_there_is_one_warning_and_kernels_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_warned", False)
    announce_compiling()  # which must cope with a function of no module
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [kernel(function_without_a_file(k))() for k in (1, 2)] == [1, 2]
    assert len(caught) == 1
    assert "NUMBA_CACHE_DIR to a private, writable folder" in str(caught[0].message)


@pytest.mark.parametrize(("inner", "argument"), [(_twice, 1.0), (_ones, 1)])
def test_an_inner_kernel_called_from_python_is_a_type_error(
    inner: Callable[[object], object], argument: object
) -> None:
    assert _twice_plus_one(3.0) == 7.0  # compiled, so there is machine code that could be entered
    with pytest.raises(TypeError, match="cannot be called from Python"):
        inner(argument)


OUTER = """
from tiny._kernel import kernel
from tiny.inner import inside

@kernel
def outside(x):
    return inside(x) + 1
"""
INNER = """
from tiny._kernel import inner_kernel

@inner_kernel
def inside(x):
    return {factor} * x
"""
PLAIN_NUMBA = """
import functools, numba
kernel = inner_kernel = functools.partial(numba.njit, cache=True)
"""


class TinyPackage:
    """A package of two kernel files, one calling the other, and our way to compile them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tiny"
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()
        shutil.copy(PACKAGE / "_kernel.py", self.folder)
        (self.folder / "outer.py").write_text(OUTER)
        self.multiply_by(10)

    def multiply_by(self, factor: int) -> None:
        (self.folder / "inner.py").write_text(INNER.format(factor=factor))

    def answer(self, **environment: str) -> tuple[int, int]:
        """What a new process computes, and how many kernels it compiled for that."""
        code = (
            "from tiny.outer import outside, inside\nprint(outside(2))\n"
            "print(sum(sum(one.stats.cache_misses.values()) for one in (outside, inside)))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=self.folder.parent,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answer, compiled = done.stdout.split()
        return int(answer), int(compiled)

    def files(self, folder: Path) -> set[str]:
        return {path.name for path in folder.rglob("*.nb[ic]")}


@pytest.fixture
def tiny(tmp_path: Path) -> TinyPackage:
    return TinyPackage(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["beside the sources", "in NUMBA_CACHE_DIR"])
def test_a_change_in_an_inner_kernel_of_another_file_is_compiled(
    tiny: TinyPackage, tmp_path: Path, place: str
) -> None:
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "own")} if "DIR" in place else {}
    home = tmp_path / "own" if own else tiny.folder
    assert tiny.answer(**own) == (21, 2)
    assert tiny.answer(**own) == (21, 0)
    before = tiny.files(home)
    tiny.multiply_by(20)
    assert tiny.answer(**own) == (41, 2)
    assert tiny.answer(**own) == (41, 0)
    after = tiny.files(home)
    assert len(after) == len(before)  # what the old sources gave is removed
    assert not before & after


@pytest.mark.slow
def test_plain_numba_would_keep_the_old_answer(tiny: TinyPackage) -> None:
    """The fault that the digest is for: should this fail one day, Numba has learnt it itself."""
    (tiny.folder / "_kernel.py").write_text(PLAIN_NUMBA)
    assert tiny.answer()[0] == 21
    tiny.multiply_by(20)
    assert tiny.answer()[0] == 21


@pytest.mark.slow
def test_an_unwritable_package_is_kept_in_the_users_own_folder(
    tiny: TinyPackage, tmp_path: Path
) -> None:
    (tiny.folder / "__pycache__").write_text("a file where the folder would be")
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert [tiny.answer(**home), tiny.answer(**home)] == [(21, 2), (21, 0)]
    tiny.multiply_by(20)
    assert tiny.answer(**home) == (41, 2)
    assert tiny.files(tmp_path / "cache")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of Unix")
@pytest.mark.parametrize("whose", ["anybody's", "another user's"])
def test_a_folder_that_others_may_write_to_is_not_used(
    tiny: TinyPackage, tmp_path: Path, whose: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    if whose == "anybody's":
        shared.chmod(0o777)
    elif os.getuid() == 0:
        os.chown(shared, 12_345, -1)
    else:
        pytest.skip("only root can give a folder away")
    done = subprocess.run(
        [sys.executable, "-c", "from tiny.outer import outside\nprint(outside(2))"],
        cwd=tiny.folder.parent,
        env={**os.environ, "NUMBA_CACHE_DIR": str(shared)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "21\n"
    assert done.stderr.count("other users can write to the cache folder of compiled kernels") == 1
    assert str(shared) in done.stderr
    assert not tiny.files(shared)


def kernels_of(path: Path) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(one).endswith("kernel") for one in node.decorator_list)
    ]


def test_kernels_take_code_and_constants_from_kernel_files_alone() -> None:
    """The digest covers the files that import `_kernel`; a constant elsewhere would escape it."""
    sources = {p: p.read_bytes() for p in PACKAGE.rglob("*.py")}
    covered = {
        ".".join(("ontarget", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path, source in sources.items()
        if module._MARK in source
    }
    found = 0
    for path in sources:
        imported = {
            alias.asname or alias.name: node.module
            for node in ast.parse(sources[path]).body
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ontarget")
            for alias in node.names
        }
        for function in kernels_of(path):
            found += 1
            body = [node for statement in function.body for node in ast.walk(statement)]
            used = {node.id for node in body if isinstance(node, ast.Name)} & imported.keys()
            for name in used:
                assert imported[name] in covered, f"{path.name}: {function.name} uses {name}"
    assert found > 80


def test_inner_kernels_return_numbers_only() -> None:
    """They do not count who holds an array, so one they returned would be freed too early."""
    numbers = {"None", "bool", "int", "float", "np.uint64", "Split", "_Split", "Lines", "tuple"}
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for node in kernels_of(path):
            if "inner_kernel" in [ast.unparse(d) for d in node.decorator_list]:
                assert node.returns is not None
                parts = set(re.findall(r"[\w.]+", ast.unparse(node.returns)))
                assert parts <= numbers, f"{path.name}: {node.name}"
                found += 1
    assert found > 20
