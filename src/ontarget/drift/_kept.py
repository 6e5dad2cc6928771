"""Saves the state of tests for drift in JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ontarget._arguments import usable_path
from ontarget._whole_file import write_whole
from ontarget.errors import InputError, ModelFileError
from ontarget.fitted.fitted import Fitted

KEPT_FORMAT: Final = 1


@dataclass(frozen=True)
class KeptFor:
    """Says which drift test (guard) a saved state belongs to.

    Only a guard for which all these fields are the same can continue from the state. ``kind`` is
    "drift" or "harm". ``monitor`` is a hash of what new episodes are compared with. ``target`` is
    empty unless the state is about one target.
    """

    kind: str
    monitor: str
    t: int
    level: str
    group: str
    target: str = ""

    @classmethod
    def of(cls, kind: str, fitted: Fitted, t: int, level: object, group: int) -> KeptFor:
        """The fields for a guard of this monitor, at this step and group."""
        name = "" if fitted.groups is None else str(fitted.groups[group])
        return cls(kind, digest_of(fitted), t, str(level), name)


def digest_of(fitted: Fitted) -> str:
    """A hash that identifies the monitor: of its results on held-out episodes, and its seed."""
    parts = (fitted.ranks.values.tobytes(), fitted.excess.tobytes(), str(fitted.trained.seed))
    text = b"".join(one.encode() if isinstance(one, str) else one for one in parts)
    return blake2b(text, digest_size=16).hexdigest()


def write_kept(path: str | Path, about: KeptFor, state: Mapping[str, Any]) -> None:
    """Write the state of a guard to a file, completely or not at all."""
    kept = {"format": KEPT_FORMAT, "about": asdict(about), **state}
    write_whole(Path(path), [json.dumps(kept, separators=(",", ":")).encode()])


def read_kept(path: str | Path, about: KeptFor) -> dict[str, Any]:
    """The state in a file that `write_kept` wrote.

    It is an error if the state belongs to anything other than ``about``.
    """
    place = usable_path(path, error=ModelFileError)
    if place.exists() and not place.is_file():  # a pipe could keep us waiting forever
        raise ModelFileError(f"{path}: this is not a regular file; pass one that save wrote")
    try:
        kept: dict[str, Any] = json.loads(place.read_bytes())
        version, found = kept["format"], dict(kept["about"])
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read: {error.strerror}") from error
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: this is not a file that the save method of a guard wrote"
        ) from error
    if version != KEPT_FORMAT:
        raise ModelFileError(
            f"{path}: the file needs format {KEPT_FORMAT}, got {version!r}; start again without "
            f"resume="
        )
    for name, own in asdict(about).items():
        if found.get(name) != own:
            raise InputError(
                f"{path}: the saved guard is for another {name}, {found.get(name)!r}, not "
                f"{own!r}; resume it with the same arguments and the same model file"
            )
    return kept
