"""Checks of output paths, made before the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ontarget.errors import InputError

__all__ = ["check_output"]


def check_output(path: Path, endings: Sequence[str] = ()) -> None:
    """Refuse a path that no file can be written to, or that has none of the endings."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if endings and path.suffix not in endings:
        raise InputError(f"{path.name} needs to end in {' or '.join(endings)}")
