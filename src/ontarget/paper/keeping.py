"""A run as pieces: each is made once, timed, and kept in a file named by what made it."""

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
from ontarget._whole_file import write_whole
from ontarget.paper.arrays import AnyArray
from ontarget.paper.progress import Clock

__all__ = [
    "Keeper",
    "Piece",
    "code_digest",
    "commit",
    "finish",
    "missing_weight",
    "plain",
]

_PACKAGE = Path(ontarget.__file__).parent


class Keeper:
    """A folder of finished pieces; a piece of another plan or of other code is not found.

    Parameters
    ----------
    folder
        Where the pieces are; it is made on first use.
    made_from
        Whatever the pieces depend on beside their own names: the plan, as plain values.
    code
        The modules that they depend on, as paths in the package; all of it by default.
    """

    def __init__(
        self, folder: Path, made_from: Mapping[str, Any], code: tuple[str, ...] = ("",)
    ) -> None:
        self._folder = folder
        text = json.dumps({"code": code_digest(code), **made_from}, sort_keys=True)
        self._key = blake2b(text.encode(), digest_size=6).hexdigest()

    def has(self, name: str, ending: str) -> bool:
        """Whether something is kept under this name; it may still turn out damaged."""
        return self._path(name, ending).exists()

    def arrays(self, name: str) -> dict[str, AnyArray] | None:
        """The arrays kept under this name, or None."""
        path = self._path(name, "npz")
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, BadZipFile):
            return None

    def keep_arrays(self, name: str, arrays: Mapping[str, AnyArray]) -> None:
        """Keep arrays; their file appears whole or not at all."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
        self._write(self._path(name, "npz"), buffer.getvalue())

    def table(self, name: str) -> dict[str, Any] | None:
        """The plain values kept under this name, or None."""
        try:
            found: dict[str, Any] = json.loads(self._path(name, "json").read_text())
        except (OSError, ValueError):
            return None
        return found

    def keep_table(self, name: str, table: Mapping[str, Any]) -> None:
        """Keep plain values in their order; their file appears whole or not at all."""
        self._write(self._path(name, "json"), json.dumps(table).encode())

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{name}-{self._key}.{ending}"

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, [content])


@dataclass(frozen=True)
class Piece:
    """One piece of a run.

    Attributes
    ----------
    file
        The name it is kept under.
    kind
        The kind of work, as the table of times names it.
    text
        What is being done, beside the progress bar.
    weight
        About its processor seconds at full size; it only moves the progress bar.
    needs
        Gives what the piece is made from; the time for that is counted elsewhere.
    make
        Makes the piece from it: arrays, or plain values.
    ticks
        How often `make` will report an advance, by what it is made from.
    arrays
        Whether the piece is arrays.
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
    """The kept piece, or a new one that is kept."""
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
    """The weight of the pieces that are not kept yet."""
    return sum(
        piece.weight
        for piece in pieces
        if not keeper.has(piece.file, "npz" if piece.arrays else "json")
    )


@cache
def code_digest(code: tuple[str, ...] = ("",)) -> str:
    """A digest of this package's source under some paths: pieces of other code are not trusted."""
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
        "charts",
        "checks",
        "distance_run",
        "distance_tables",
        "page",
        "progress",
        "reproduction",
        "tables",
    )
)


def commit() -> str:
    """The commit of a working copy, marked where files differ from it; else the version."""
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


def plain(value: Any) -> Any:
    """Arrays, NumPy numbers and tuples as what JSON knows; NaN and infinities as None."""
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
