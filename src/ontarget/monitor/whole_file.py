"""Files that appear whole or not at all, whatever interrupts their writing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write the chunks to a file that replaces `path` in one step, and is on the disk by then.

    They go to ``.ontarget-<16 hex digits>.part`` in the same folder first, a name no two writers
    share. Any failure removes it and leaves `path` as it was. A process that is killed outright may
    leave it behind: it is never read, and may be deleted.
    """
    part = path.with_name(f".ontarget-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the new name itself to the disk, on systems where a folder can be opened for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
