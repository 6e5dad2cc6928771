"""What lives on between processes, in a small JSON file: guards, and intervals that follow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ontarget._whole_file import write_whole
from ontarget.errors import InputError, ModelFileError
from ontarget.fitted.fitted import Fitted

__all__ = ["KeptFor", "check_ids", "damage_named", "digest_of", "read_kept", "write_kept"]

KEPT_FORMAT: Final = 1


@dataclass(frozen=True)
class KeptFor:
    """What the state is about; it goes on only where all of it is the same.

    ``monitor`` is a hash of what new episodes are compared with, ``target`` is empty unless the
    state is about one target.
    """

    kind: str
    monitor: str
    t: int
    level: str
    group: str
    target: str = ""

    @classmethod
    def of(cls, kind: str, fitted: Fitted, t: int, level: object, group: int) -> KeptFor:
        """What is about a step and a group of this monitor."""
        name = "" if fitted.groups is None else str(fitted.groups[group])
        return cls(kind, digest_of(fitted), t, str(level), name)

    @property
    def noun(self) -> str:
        """What was saved."""
        return "interval" if self.kind == "interval" else "guard"


def digest_of(fitted: Fitted) -> str:
    """A hash of what new episodes are compared with."""
    parts = (fitted.ranks.values.tobytes(), fitted.excess.tobytes(), str(fitted.trained.seed))
    text = b"".join(one.encode() if isinstance(one, str) else one for one in parts)
    return blake2b(text, digest_size=16).hexdigest()


def write_kept(path: str | Path, about: KeptFor, state: Mapping[str, Any]) -> None:
    """Write the state to a file, which appears whole or not at all."""
    kept = {"format": KEPT_FORMAT, "about": asdict(about), **state}
    write_whole(Path(path), [json.dumps(kept, separators=(",", ":")).encode()])


def read_kept(path: str | Path, about: KeptFor) -> dict[str, Any]:
    """The state in a file that `write_kept` wrote about the same."""
    try:
        kept: dict[str, Any] = json.loads(Path(path).read_bytes())
        version, found = kept["format"], dict(kept["about"])
    except OSError as error:
        raise ModelFileError(f"{path}: it cannot be read: {error.strerror}") from error
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: it is no file that a guard or an interval was saved to"
        ) from error
    if version != KEPT_FORMAT:
        raise ModelFileError(
            f"{path}: a file of format {KEPT_FORMAT} is needed, got {version!r}; start anew"
        )
    for name, own in asdict(about).items():
        if found.get(name) != own:
            raise InputError(
                f"{path}: the saved {about.noun} is for another {name}, {found.get(name)!r}, not "
                f"{own!r}; ask for it as it was first asked for, of the same model file"
            )
    return kept


@contextmanager
def damage_named(path: str | Path, noun: str) -> Iterator[None]:
    """A context in which a state that is not what it should be is said to be damaged."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: its {noun} is damaged: {error}") from error


def check_ids(ids: Iterable[object], noun: str) -> None:
    """Refuse ids that JSON would change."""
    strange = [one for one in ids if not isinstance(one, str | int)]
    if strange:
        raise InputError(
            f"a saved {noun} needs ids that are texts or whole numbers, got {strange[0]!r}; name "
            "the episodes by texts"
        )
