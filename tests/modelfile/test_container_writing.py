"""A file is the old one or the new one, whatever happens to its writer."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ontarget._whole_file import replacing, write_whole
from ontarget.errors import InputError, ModelFileError
from ontarget.modelfile.container import Container, write_container

from .containers import HEADER, SECTIONS, same

PART = re.compile(r"\.ontarget-[0-9a-f]{16}\.part")


def version(n: int) -> dict[str, dict[str, np.ndarray]]:
    return {"a": {"x": np.full(20_000 + 7 * n, n)}, "b": {"y": np.full(3, n % 128, np.int8)}}


def check_whole(path: Path) -> int:
    """Which version the file holds; it must be one of them and whole."""
    found = Container.open(path)
    n = found.header["version"]
    assert same(found, {"version": n}, version(n))
    return n


WRITER = """
import itertools, sys
import numpy as np
from ontarget.modelfile.container import write_container

def version(n):
    return {"a": {"x": np.full(20_000 + 7 * n, n)}, "b": {"y": np.full(3, n % 128, np.int8)}}

for n in itertools.count(int(sys.argv[2])):
    write_container(sys.argv[1], {"version": n}, version(n))
    print(n, flush=True)
"""


def kill_after(path: Path, first: int, n_looks: int) -> int:
    """Kill a process that writes versions without pause after so many looks at its file."""
    command = [sys.executable, "-c", WRITER, str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(n_looks):
            check_whole(path)
        writer.kill()
        told = [first, *map(int, writer.stdout.read().split())]
    found = check_whole(path)
    # One may have been finished and not told of.
    assert told[-1] <= found <= told[-1] + 1
    return found


@pytest.mark.parametrize("n", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_a_writer_killed_at_any_point_leaves_a_whole_file(n: int, tmp_path: Path) -> None:
    path = tmp_path / "model.ontarget"
    rng = np.random.default_rng(n)
    last = 0
    for _ in range(n):
        last = kill_after(path, last + 1, int(rng.integers(1, 60)))
    strays = {found.name for found in tmp_path.iterdir()} - {path.name}
    assert all(PART.fullmatch(name) for name in strays)
    write_container(path, {"version": 0}, version(0))
    assert check_whole(path) == 0


def failing(error: BaseException) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("os.fsync", OSError(errno.ENOSPC, "No space left on device")),
        ("os.fsync", KeyboardInterrupt()),
        ("pathlib.Path.replace", OSError(errno.EIO, "Input/output error")),
        ("pathlib.Path.replace", MemoryError()),
    ],
)
def test_a_failed_write_keeps_the_old_file_and_removes_its_own(
    where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.ontarget"
    write_container(path, HEADER, SECTIONS)
    monkeypatch.setattr(where, failing(error))
    expected = ModelFileError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as caught:
        write_container(path, {"other": 1}, {})
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path} cannot be written: {error.strerror}"
    monkeypatch.undo()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert same(Container.open(path), HEADER, SECTIONS)


def test_a_write_that_breaks_off_halfway_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "file", chunks())
    assert list(tmp_path.iterdir()) == []


def test_refused_input_does_not_touch_the_disk(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_container(tmp_path / "model.ontarget", {}, {"s": {"a": np.array(["x"])}})
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_on_the_disk_before_it_is_named_and_then_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        done.append("named")
        return replace(self, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("reads names of open files in /proc")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_container(tmp_path / "model.ontarget", HEADER, SECTIONS)
    part, named, folder = done
    assert PART.fullmatch(Path(part).name)
    assert Path(part).parent == tmp_path
    assert (named, folder) == ("named", str(tmp_path))


def test_writers_at_the_same_time_do_not_collide(tmp_path: Path) -> None:
    path = tmp_path / "model.ontarget"
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write_container, path, {"version": n}, version(n)) for n in range(40)]
        for write in writes:
            write.result()
    assert 0 <= check_whole(path) < 40
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664, 0o400])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "model.ontarget"
    write_container(path, {}, {})
    path.chmod(mode)
    write_container(path, HEADER, SECTIONS)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert same(Container.open(path), HEADER, SECTIONS)


def test_nobody_else_reads_what_will_replace_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.touch(0o600)
    with replacing(path) as part:
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        part.write_bytes(b"secret")
    assert path.read_bytes() == b"secret"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_respects_the_umask(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_container(tmp_path / "model.ontarget", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.ontarget").stat().st_mode) == mode


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "a file"), ("none/model", "such folder"), ("folder", "a folder"),
     ("file/model", "such folder"), ("x" * 300, "too long")],
)  # fmt: skip
def test_what_cannot_be_written_says_why(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / name if name else Path()
    with pytest.raises(ModelFileError, match=words):
        write_container(path, HEADER, SECTIONS)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", "folder"]


def occupied(path: Path, kind: str) -> Path:
    """A path at which something is that is no regular file, or that leads to it."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("pipe"))
        path.symlink_to("pipe")
    elif os.getuid() == 0:
        block = stat.S_IFBLK if kind == "disk" else stat.S_IFCHR
        os.mknod(path, 0o600 | block, os.makedev(1, 3) if kind == "device" else os.makedev(7, 99))
    else:
        pytest.skip("only root can make a device")
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files on Windows")
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "link to a pipe", "device", "disk"])
def test_only_a_regular_file_is_replaced(kind: str, tmp_path: Path) -> None:
    path = occupied(tmp_path / "x", kind)
    before, names = path.lstat(), sorted(tmp_path.iterdir())
    with pytest.raises(InputError):
        write_whole(path, [b"new"])
    with pytest.raises(ModelFileError):
        write_container(path, HEADER, SECTIONS)
    after = path.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert sorted(tmp_path.iterdir()) == names


def test_a_link_to_a_regular_file_or_to_nothing_is_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    for target in ("old", "nothing"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(target)
        write_whole(tmp_path / "link", [b"new"])
        assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, "x/" * 3_000 + "y", "\ud800"])
def test_a_name_that_no_file_can_have_is_one_clear_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_whole(tmp_path / name, [b"new"])
    with pytest.raises(ModelFileError) as caught:
        write_container(tmp_path / name, HEADER, SECTIONS)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(ModelFileError):
        Container.open(tmp_path / name)
    assert not list(tmp_path.iterdir())
