"""How kernels are compiled: on first call, cached where a cache can be written."""

from __future__ import annotations

import ast
import os
import pickle
import re
import shutil
import stat
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from ontarget import _kernel as module
from ontarget._kernel import inner_kernel, kernel, room_kernel
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [kernel(function_without_a_file(k))() for k in (1, 2)] == [1, 2]
    assert len(caught) == 1
    assert "NUMBA_CACHE_DIR" in str(caught[0].message)


def test_an_inner_kernel_called_from_python_is_a_python_function() -> None:
    assert _twice_plus_one(3.0) == 7.0  # compiled, so there is machine code that could be entered
    assert _twice(1.5) == 3.0
    assert _ones(2).tolist() == [1.0, 1.0]


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
        self.own = folder / "cache"
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()
        shutil.copy(PACKAGE / "_kernel.py", self.folder)
        (self.folder / "outer.py").write_text(OUTER)
        self.multiply_by(10)

    def multiply_by(self, factor: int) -> None:
        (self.folder / "inner.py").write_text(INNER.format(factor=factor))

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A new process that calls the kernel, with the folder ``own`` as the user's cache."""
        code = (
            "from tiny.outer import outside\nprint(outside(2))\n"
            "print(sum(outside.stats.cache_misses.values()))"
        )
        usual = {name: one for name, one in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        return subprocess.run(
            [sys.executable, *options, "-c", code],
            cwd=self.folder.parent,
            env={**usual, "XDG_CACHE_HOME": str(self.own), **environment},
            capture_output=True,
            text=True,
        )

    def answer(self, **environment: str) -> tuple[int, int]:
        """What a new process computes, and how many kernels it compiled for that: 1 or 0."""
        done = self.run("-W", "error", **environment)
        assert done.returncode == 0, done.stderr
        answer, compiled = done.stdout.split()
        return int(answer), int(compiled)

    def files(self, folder: Path) -> set[Path]:
        return set(folder.rglob("*.nb[ic]"))


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
    assert tiny.answer(**own) == (21, 1)
    assert tiny.answer(**own) == (21, 0)
    before = tiny.files(home)
    tiny.multiply_by(20)
    assert tiny.answer(**own) == (41, 1)
    assert tiny.answer(**own) == (41, 0)
    after = tiny.files(home)
    assert len(after) == len(before)  # what the old sources gave is removed
    assert not before & after


@pytest.mark.slow
def test_an_unwritable_package_is_kept_in_the_users_own_folder(
    tiny: TinyPackage, tmp_path: Path
) -> None:
    (tiny.folder / "__pycache__").write_text("a file where the folder would be")
    assert [tiny.answer(), tiny.answer()] == [(21, 1), (21, 0)]
    tiny.multiply_by(20)
    assert tiny.answer() == (41, 1)
    assert tiny.files(tiny.own)


unix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of Unix")
by_root = pytest.mark.skipif(
    getattr(os, "getuid", lambda: 1)() != 0, reason="only root can give a file away"
)
NOBODY = 65_534


def folder_of(path: Path, *, mode: int = 0o755, owner: int = -1, group: int = -1) -> Path:
    path.mkdir()
    if (owner, group) != (-1, -1):
        os.chown(path, owner, group)
    path.chmod(mode)
    return path


@pytest.mark.slow
@by_root
@pytest.mark.parametrize("whose", ["anybody's", "another user's", "a group's", "below a group's"])
def test_a_folder_that_others_may_write_to_is_not_used(
    tiny: TinyPackage, tmp_path: Path, whose: str
) -> None:
    shared = folder_of(
        tmp_path / "shared",
        mode={"anybody's": 0o777, "another user's": 0o755}.get(whose, 0o775),
        owner=NOBODY if whose == "another user's" else -1,
        group=NOBODY,
    )
    given = folder_of(shared / "below", mode=0o700) if whose == "below a group's" else shared
    for compiled in (1, 0):  # what is compiled once is kept for this user
        done = tiny.run(NUMBA_CACHE_DIR=str(given))
        assert done.stdout.split() == ["21", str(compiled)]
        assert done.stderr.count("RuntimeWarning") == 1
        assert str(given) in done.stderr
    assert not tiny.files(shared)
    assert tiny.files(tiny.own)
    assert stat.S_IMODE((tiny.own / "ontarget").stat().st_mode) == 0o700


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no other")
@pytest.mark.parametrize("given", ["/proc/x", "{file}/x", "{file}", "/" + "x" * 5_000])
def test_a_cache_folder_that_cannot_be_made_is_one_warning(
    tiny: TinyPackage, tmp_path: Path, given: str
) -> None:
    (tmp_path / "file").touch()
    done = tiny.run(NUMBA_CACHE_DIR=given.format(file=tmp_path / "file"))
    assert (done.returncode, done.stdout.split()) == (0, ["21", "1"])
    assert done.stderr.count("RuntimeWarning") == 1
    assert tiny.files(tiny.own)


@unix
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1755])
def test_a_folder_of_ones_own_is_private(tmp_path: Path, mode: int) -> None:
    assert module._is_private_folder(folder_of(tmp_path / "own", mode=mode))


@unix
@pytest.mark.parametrize(("mode", "private"), [(0o1777, True), (0o777, False)])
def test_a_folder_below_one_open_to_all_is_private_if_that_is_sticky(
    tmp_path: Path, mode: int, private: bool
) -> None:
    above = folder_of(tmp_path / "above", mode=mode)
    assert module._is_private_folder(folder_of(above / "own", mode=0o700)) is private
    assert not module._is_private_folder(above)  # others may put files into it


@by_root
def test_what_another_user_or_group_can_change_is_not_private(tmp_path: Path) -> None:
    alien = folder_of(tmp_path / "alien", owner=NOBODY)
    grouped = folder_of(tmp_path / "grouped", mode=0o770, group=NOBODY)
    sticky = folder_of(tmp_path / "sticky", mode=0o1777)
    theirs = folder_of(sticky / "theirs", owner=NOBODY)
    own = folder_of(tmp_path / "own", mode=0o700)
    for folder in (alien, grouped, theirs):
        (folder / "below").mkdir(mode=0o700)
        (own / f"to {folder.name}").symlink_to(folder / "below")
        (folder / "back").symlink_to(own)
    (sticky / "planted").symlink_to(own)
    os.lchown(sticky / "planted", NOBODY, -1)
    (own / "home").symlink_to("../own")
    assert module._is_private_folder(own / "home")
    for folder in (alien, grouped, theirs):
        assert not module._is_private_folder(folder)
        assert not module._is_private_folder(folder / "below")
        assert not module._is_private_folder(own / f"to {folder.name}")  # through a link, to there
        assert not module._is_private_folder(own / f"to {folder.name}" / ".." / "back")
        assert not module._is_private_folder(folder / "back")  # and from there
    assert not module._is_private_folder(sticky / "planted")


@unix
def test_a_group_is_ones_own_if_nobody_else_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    def own(group: str = "ann", members: tuple[str, ...] = (), others: int = 9) -> bool:
        ann = SimpleNamespace(pw_name="ann", pw_gid=7)
        bob = SimpleNamespace(pw_name="bob", pw_gid=others)
        monkeypatch.setattr(pwd, "getpwuid", lambda _: ann)
        monkeypatch.setattr(pwd, "getpwall", lambda: [ann, bob])
        found = SimpleNamespace(gr_name=group, gr_mem=[*members])
        monkeypatch.setattr(grp, "getgrgid", lambda _: found)
        module._is_own_group.cache_clear()
        return module._is_own_group(7)

    assert own()
    assert own(members=("ann",))
    assert not own(members=("ann", "bob"))
    assert not own(others=7)  # bob's primary group
    assert not own(group="users")  # whose other users a directory service may not list
    assert not module._is_own_group(8)  # not ann's primary group
    module._is_own_group.cache_clear()


@by_root
@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="access lists are written as on Linux")
def test_an_access_list_is_seen(tmp_path: Path) -> None:
    own = folder_of(tmp_path / "own", mode=0o770)
    assert module._is_private_folder(own)
    nobody_in_particular = 2**32 - 1
    entries = [(1, 7), (2, 7, NOBODY), (4, 7), (16, 7), (32, 0)]  # owner, user, group, mask, other
    packed = [struct.pack("<HHI", *(*one, nobody_in_particular)[:3]) for one in entries]
    try:
        os.setxattr(own, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))
    except OSError:
        pytest.skip("this file system has no access lists")
    assert not module._is_private_folder(own)


class Command:
    """A pickle that makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.slow
@by_root
@pytest.mark.parametrize("how", ["another user's", "in a folder that a group may enter"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_planted_file_is_replaced_and_never_opened(
    tiny: TinyPackage, tmp_path: Path, kind: str, how: str
) -> None:
    given = folder_of(tmp_path / "given", mode=0o700)
    assert tiny.answer(NUMBA_CACHE_DIR=str(given)) == (21, 1)
    files = list(given.rglob(f"*.{kind}"))
    ran = tmp_path / "ran"
    for path in files:
        version = pickle.dumps(numba.__version__) if kind == "nbi" else b""
        path.write_bytes(version + pickle.dumps(Command(ran)))
        if how == "another user's":
            os.chown(path, NOBODY, -1)
        else:
            (own,) = given.iterdir()
            os.chown(own, -1, NOBODY)
            own.chmod(0o750)
    assert tiny.answer(NUMBA_CACHE_DIR=str(given)) == (21, 1)
    assert not ran.exists()
    assert tiny.answer(NUMBA_CACHE_DIR=str(given)) == (21, 0)


@pytest.mark.slow
@by_root
def test_kernels_kept_under_a_generous_umask_are_found_again(
    tiny: TinyPackage, tmp_path: Path
) -> None:
    before = os.umask(0o000)
    try:
        given = {"NUMBA_CACHE_DIR": str(tmp_path / "given" / "deep")}
        assert [tiny.answer(**given), tiny.answer(**given)] == [(21, 1), (21, 0)]
        assert tiny.files(tmp_path / "given")
    finally:
        os.umask(before)


def test_kernels_of_others_stay_where_numba_keeps_them(tmp_path: Path) -> None:
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
    with module._kept_in(tmp_path):
        assert str(tmp_path) == numba.config.CACHE_DIR
    assert before == (numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES)


# What the package uses of Numba: all of it is documented, so no version is too new.
OF_NUMBA = {
    "numba.carray",
    "numba.config",
    "numba.extending.intrinsic",
    "numba.extending.register_jitable",
    "numba.njit",
    "numba.types",
}


def names_of_numba(source: str) -> Iterator[str]:
    """What a source takes from Numba, by full names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("numba."))
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "numba":
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "numba":
            yield f"numba.{node.attr}"


def test_nothing_of_numba_is_used_but_what_it_documents() -> None:
    used = {name for path in PACKAGE.rglob("*.py") for name in names_of_numba(path.read_text())}
    assert used == OF_NUMBA
    hidden = "import numba.core.event\nfrom numba.core import caching\nnumba.core.config"
    assert not set(names_of_numba(hidden)) & OF_NUMBA


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
