"""The manifest of prepared episodes: a JSON file that lists the contents of their folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ontarget._arguments import whole_number
from ontarget._whole_file import write_whole
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.builtin_behaviors import behavior_of
from ontarget.episodes.schema import Schema, UnknownCategories
from ontarget.episodes.store import Roles
from ontarget.errors import EpisodesError, EpisodesFileError

MANIFEST = "manifest.json"
_KIND, _FORMAT = "ontarget prepared episodes", 1
_PARTS = ("learn", "assure")
_COLUMNS = ("before", "reward", "ahead")  # the columns of rows, besides features
_MOST_STEPS = 2**31 - 1


@dataclass(frozen=True)
class PreparedFile:
    """One Parquet file of prepared episodes: path, number of rows, range of steps, checksum."""

    path: str
    rows: int
    start: int = 0
    stop: int = 0
    checksum: str | None = None


@dataclass(frozen=True)
class PreparedPart:
    """One part of prepared episodes, such as "learn": how many episodes and rows, its files."""

    episodes: int
    rows: int
    table: PreparedFile
    steps: tuple[PreparedFile, ...]


@dataclass(frozen=True)
class Manifest:
    """What a folder of prepared episodes contains; `docs/prepared.md` describes every field."""

    schema: Schema
    behavior: Behavior
    horizon: int
    horizon_declared: bool
    roles: Roles
    columns: tuple[str, ...]
    parts: Mapping[str, PreparedPart]
    split: Mapping[str, Any]
    dropped: int = 0
    censoring: str = ""
    remarks: tuple[str, ...] = ()
    strangers: tuple[UnknownCategories, ...] = ()

    def write(self, folder: Path) -> None:
        """Write this list of contents to the folder."""
        found = {
            "kind": _KIND,
            "format": _FORMAT,
            "features": self.schema.to_json(),
            "behavior": self.behavior.spec,
            "horizon": self.horizon,
            "horizon_declared": self.horizon_declared,
            "roles": asdict(self.roles),
            "columns": list(self.columns),
            "parts": {name: asdict(part) for name, part in self.parts.items()},
            "split": dict(self.split),
            "dropped": self.dropped,
            "censoring": self.censoring,
            "remarks": list(self.remarks),
            "unseen": sum(one.readings for one in self.strangers),
            "strangers": [one.to_json() for one in self.strangers],
        }
        text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_whole(folder / MANIFEST, [text.encode()])

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder of prepared episodes, checked."""
        path = folder / MANIFEST
        try:
            found = json.loads(path.read_bytes())
            if found.get("kind") != _KIND:
                raise ValueError(f"its kind is {found.get('kind')!r}, not {_KIND!r}")
            if found["format"] != _FORMAT:
                raise ValueError(
                    f"its format is {found['format']!r}, but this version of ontarget reads "
                    f"format {_FORMAT}"
                )
            return cls._of(found)
        except FileNotFoundError as error:
            raise EpisodesFileError(
                f"{path}: no such file; pass a folder that `ontarget prepare` has finished"
            ) from error
        except RecursionError as error:
            raise EpisodesFileError(f"{path} cannot be read: it is nested too deeply") from error
        except (
            ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError,
        ) as error:  # fmt: skip
            raise EpisodesFileError(f"{path} cannot be read: {error}") from error

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Manifest:
        parts = {str(name): _part(one) for name, one in found["parts"].items()}
        if not parts or not set(parts) <= set(_PARTS):
            raise ValueError(f"parts needs one or more of {', '.join(_PARTS)}, got {sorted(parts)}")
        if not isinstance(found["features"], list):
            raise ValueError(f"`features` needs a list, got {found['features']!r}")
        horizon = _number(found, "horizon", least=1)
        for part in parts.values():
            if part.steps[-1].stop > horizon:
                raise ValueError(
                    f"horizon needs the {part.steps[-1].stop} steps of the files, got {horizon}"
                )
        return cls(
            schema=Schema.from_json(found["features"]),
            behavior=behavior_of(str(found["behavior"])),
            horizon=horizon,
            horizon_declared=_flag(found, "horizon_declared"),
            roles=_roles(found.get("roles", {})),
            columns=_columns(found["columns"]),
            parts={name: parts[name] for name in _PARTS if name in parts},
            split=dict(found.get("split", {})),
            dropped=_number(found, "dropped", default=0),
            censoring=str(found.get("censoring", "")),
            remarks=tuple(map(str, found.get("remarks", ()))),
            strangers=_strangers(found),
        )


def _strangers(found: Mapping[str, Any]) -> tuple[UnknownCategories, ...]:
    """The unknown categories that a manifest counts; an older one has only their number."""
    if "strangers" in found:
        return tuple(map(UnknownCategories.from_json, found["strangers"]))
    readings = _number(found, "unseen", default=0)
    return (UnknownCategories("all columns", readings, ()),) if readings else ()


def _number(
    found: Mapping[str, Any], name: str, *, least: int = 0, default: int | None = None
) -> int:
    """A whole number of a manifest by its name; ``default`` if it is missing."""
    value = found[name] if default is None else found.get(name, default)
    most = _MOST_STEPS if name in ("horizon", "start", "stop") else None
    return whole_number(name, value, least=least, most=most, error=EpisodesError)


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} needs true or false, got {value!r}")
    return value


def _roles(found: Mapping[str, Any]) -> Roles:
    """Which column of the user's data was the step, the reward and so on."""
    for role, name in found.items():
        if not (isinstance(name, int) if role == "first_step" else isinstance(name, str | None)):
            raise ValueError(f"roles needs the name of a column for {role}, got {name!r}")
    return Roles(**found)


def _columns(found: Any) -> tuple[str, ...]:
    named = tuple(map(str, found))
    known = set(named) <= set(_COLUMNS) and len(set(named)) == len(named)
    if "before" not in named or not known:
        raise ValueError(f"columns needs before, and may have {', '.join(_COLUMNS)}, got {named}")
    return named


def _part(found: Mapping[str, Any]) -> PreparedPart:
    steps = tuple(_file(one) for one in found["steps"])
    if not steps:
        raise ValueError("a part needs at least one file of rows")
    part = PreparedPart(
        _number(found, "episodes", least=1),
        _number(found, "rows", least=1),
        _file(found["table"]),
        steps,
    )
    at = 0
    for one in steps:
        if one.start != at or one.stop <= at:
            raise ValueError(f"{one.path} needs to begin with step {at}, got step {one.start}")
        at = one.stop
    if sum(one.rows for one in steps) != part.rows or part.table.rows != part.episodes:
        raise ValueError("a part needs as many rows as its files have together")
    return part


def _file(found: Mapping[str, Any]) -> PreparedFile:
    path = str(found["path"])
    inside = Path(path)
    if inside.is_absolute() or ".." in inside.parts or not inside.parts or "\0" in path:
        raise ValueError(f"{path!r} needs to be a path below the folder")
    given = found.get("checksum")
    return PreparedFile(
        path=path,
        rows=_number(found, "rows"),
        start=_number(found, "start", default=0),
        stop=_number(found, "stop", default=0),
        checksum=None if given is None else str(given),
    )


def is_prepared(folder: Path) -> bool:
    """Whether the folder contains prepared episodes."""
    return (folder / MANIFEST).is_file()


def checksum(path: Path) -> str:
    """The checksum of a file; for a folder, of all its Parquet files, in order of their names."""
    digest = blake2b(digest_size=16)
    for one in [path] if path.is_file() else sorted(path.glob("*.parquet")):
        with one.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
