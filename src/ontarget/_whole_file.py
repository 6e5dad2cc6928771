"""Files that appear whole or not at all, whatever interrupts their writing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_whole"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file replaces `path` in one step and is on the disk by then.

    It is ``.ontarget-<16 hex digits>.part`` in the same folder, a name no two writers share. Any
    failure removes it and leaves `path` as it was. A process that is killed outright may leave it
    behind: it is never read, and may be deleted.
    """
    part = path.with_name(f".ontarget-{secrets.token_hex(8)}.part")
    try:
        yield part
        _sync(part, os.O_RDONLY)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    # Bring the new name itself to the disk, on systems where a folder can be opened for it.
    if hasattr(os, "O_DIRECTORY"):
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def write_whole(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write the chunks to a file that appears whole or not at all; see `replacing`."""
    with replacing(path) as part, part.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
