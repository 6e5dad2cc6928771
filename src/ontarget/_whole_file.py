"""Writing files that appear complete or not at all, even if writing is interrupted."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ontarget._arguments import usable_path
from ontarget.errors import Argument, InputError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A context that gives a new file to write to; at the end, the file replaces `path` at once.

    The new file is ``.ontarget-<16 hex digits>.part`` in the same folder, a name that no two
    writers share. The new file is synced to the disk before it replaces `path`. After any failure
    the new file is removed, and `path` is unchanged. Only a process that is killed may leave the
    new file behind; nothing ever reads it, and you may delete it. If `path` exists, its permissions
    are kept; a new file gets the usual permissions of the process (its umask).

    Only a regular file is replaced; if anything else is at `path`, an `InputError` is raised. A
    symbolic link to a regular file, or to nothing, is replaced itself.
    """
    refuse_unless_file(path)
    part = path.with_name(f".ontarget-{secrets.token_hex(8)}.part")
    try:
        mode = _permissions(path)
        # Closed to others until it is whole: what it replaces may have been private.
        first = 0o666 if mode is None else 0o600
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, first))
        yield part
        if mode is not None:
            part.chmod(mode)
        _sync(part)
        part.replace(path)
        # Bring the new name itself to the disk, on systems where a folder can be opened for it.
        if hasattr(os, "O_DIRECTORY"):
            _sync(path.parent)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno is None:
            raise
        # The system names the part, or nothing, as when the disk is full.
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_whole(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write the chunks to a file that appears complete or not at all; see `replacing`."""
    with replacing(path) as part, part.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)


def refuse_unless_file(path: Path) -> None:
    """Raise an `InputError` if a file cannot be at `path`, or something else is there."""
    if not path.name:
        raise InputError(Argument("path"), f" needs the name of a file, got {str(path)!r}")
    usable_path(path)
    try:
        mode = path.stat().st_mode
    except OSError:  # nothing is there, or writing will say what is wrong
        return
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a regular file")
        raise InputError(f"{path} cannot be written: it is {kind}; name a regular file")


def _permissions(path: Path) -> int | None:
    """The permissions of the file; None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
