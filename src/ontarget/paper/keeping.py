"""Stores the pieces of a long run in files, so that each piece is computed only once."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import ontarget
from ontarget.paper.arrays import AnyArray
from ontarget.paper.progress import Clock
from ontarget.report import write_whole

__all__ = [
    "Keeper",
    "Piece",
    "code_digest",
    "commit",
    "finish",
    "missing_weight",
    "plain",
    "write_json",
]

_PACKAGE = Path(ontarget.__file__).parent


class Keeper:
    """A folder of finished pieces of work. It finds only pieces of the same plan and the same code.

    Parameters
    ----------
    folder
        Where the pieces are; the folder is made on first use.
    made_from
        What the pieces depend on besides their names: the plan, as plain values.
    code
        The modules that the pieces depend on, as paths in the package; the whole package by
        default.
    """

    def __init__(
        self, folder: Path, made_from: Mapping[str, Any], code: tuple[str, ...] = ("",)
    ) -> None:
        self._folder = folder
        text = json.dumps({"code": code_digest(code), **made_from}, sort_keys=True)
        self._key = blake2b(text.encode(), digest_size=6).hexdigest()

    def has(self, name: str, ending: str) -> bool:
        """Whether a file of this name exists; it may still be damaged."""
        return self._path(name, ending).exists()

    def arrays(self, name: str) -> dict[str, AnyArray] | None:
        """The arrays stored under this name; None if there are none."""
        path = self._path(name, "npz")
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, BadZipFile):
            return None

    def keep_arrays(self, name: str, arrays: Mapping[str, AnyArray]) -> None:
        """Store arrays; the file appears complete or not at all."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
        self._write(self._path(name, "npz"), buffer.getvalue())

    def table(self, name: str) -> dict[str, Any] | None:
        """The plain values stored under this name; None if there are none."""
        try:
            found: dict[str, Any] = json.loads(self._path(name, "json").read_text())
        except (OSError, ValueError):
            return None
        return found

    def keep_table(self, name: str, table: Mapping[str, Any]) -> None:
        """Store plain values in their order; the file appears complete or not at all."""
        self._write(self._path(name, "json"), json.dumps(table).encode())

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{name}-{self._key}.{ending}"

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, [content])


@dataclass(frozen=True)
class Piece:
    """One piece of a long run, and how to compute it.

    Attributes
    ----------
    file
        The name of the file in which the result is stored.
    kind
        The kind of work, for the table of times.
    text
        The text beside the progress bar.
    weight
        About how many processor seconds the piece takes at full size, for the progress bar.
    needs
        A function that returns what the piece is computed from; its time does not count for the
        piece.
    make
        A function that computes the piece from what ``needs`` returned: arrays, or plain values.
    ticks
        How often ``make`` will report progress, given what it is computed from.
    arrays
        Whether the piece consists of arrays.
    """

    file: str
    kind: str
    text: str
    weight: float
    needs: Callable[[], Any]
    make: Callable[[Any], Mapping[str, Any]]
    ticks: Callable[[Any], int] = lambda _: 1
    arrays: bool = False


def finish(piece: Piece, keeper: Keeper, clock: Clock) -> dict[str, Any]:
    """The stored result of a piece; if there is none, the piece is computed and stored."""
    kept = keeper.arrays(piece.file) if piece.arrays else keeper.table(piece.file)
    if kept is not None:
        return kept
    given = piece.needs()
    with clock.timed(piece.kind, piece.text, weight=piece.weight, ticks=piece.ticks(given)):
        made = piece.make(given)
    if piece.arrays:
        keeper.keep_arrays(piece.file, made)
        return dict(made)
    found: dict[str, Any] = plain(made)
    keeper.keep_table(piece.file, found)
    return found


def missing_weight(pieces: Iterable[Piece], keeper: Keeper) -> float:
    """The total weight (expected work) of the pieces that are not stored yet."""
    return sum(
        piece.weight
        for piece in pieces
        if not keeper.has(piece.file, "npz" if piece.arrays else "json")
    )


@cache
def code_digest(code: tuple[str, ...] = ("",)) -> str:
    """A digest of the source code under some paths.

    Pieces stored by other code are computed again.
    """
    digest = blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        # How results are collected and shown does not change them.
        if name.startswith(code) and not name.startswith("cli/") and name not in _SHOWING:
            digest.update(name.encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


_SHOWING = frozenset(
    f"paper/{name}.py"
    for name in (
        "battles/page",
        "battles/study",
        "charts",
        "checks",
        "distance_run",
        "distance_tables",
        "models/page",
        "models/running",
        "page",
        "progress",
        "reproduction",
        "tables",
    )
)


def commit() -> str:
    """The Git commit of this working copy, marked if files have changed; else the version."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"],
            cwd=_PACKAGE,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return f"version {ontarget.__version__}"
    return found.stdout.strip()


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values as JSON with sorted keys. The file appears complete or not at all."""
    text = json.dumps(plain(values), sort_keys=True, indent=1, allow_nan=False)
    write_whole(path, [text.encode(), b"\n"])


def plain(value: Any) -> Any:
    """The value in a form for JSON: arrays and tuples as lists, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.10g}") if np.isfinite(value) else None
    return value
