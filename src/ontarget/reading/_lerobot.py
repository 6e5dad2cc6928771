"""Reads episodes from the JSON and Parquet files of a LeRobot dataset; no code in it is run.

Versions 2 and 3 of the format differ in how many episodes a file has, not in the columns. Videos
are not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from ontarget.errors import EpisodesFileError
from ontarget.reading._text import regular_file
from ontarget.reading.layout import FrameOptions

_INFO: Final = Path("meta") / "info.json"
_OBSERVED: Final = "observation."
_ROLES: Final = {"episode": "episode_index", "step": "frame_index"}
_LARGEST_INFO: Final = 1 << 26
_MOST_NUMBERS: Final = 2_000  # a reading with more numbers than this is an image


def is_lerobot(path: Path) -> bool:
    """Whether a folder is a LeRobot dataset."""
    return (path / _INFO).exists()


def lerobot_table(path: Path, options: FrameOptions) -> tuple[pl.LazyFrame, FrameOptions]:
    """The rows of a LeRobot dataset, one number per column, and the options for reading them."""
    described = _described(path)
    files = [regular_file(one) for one in sorted((path / "data").glob("*/*.parquet"))]
    if not files:
        raise EpisodesFileError(f"{path.name}: a LeRobot dataset needs data/*/*.parquet files")
    table = pl.scan_parquet(files, glob=False)
    types = table.collect_schema()
    lacking = [name for name in _ROLES.values() if name not in types]
    if lacking:
        raise EpisodesFileError(f"{path.name}: its files have no column {lacking[0]!r}")
    chosen, sizes = [pl.col(name) for name in _ROLES.values()], dict[str, int]()
    for name, kind in types.items():
        if name.startswith(_OBSERVED):
            numbers = _numbers_in(path, name, kind, described.get(name))
            chosen += numbers
            if numbers and kind.is_nested():
                sizes[name] = len(numbers)
    passed = options.get("reward") or options.get("behavior") or options.get("outcome")
    judged: dict[str, Any] = {}
    late = [name for name in ("next.reward", "next.success") if name in types]
    if late:
        judged = {"reward": late[0]} | ({"behavior": "max"} if late == ["next.success"] else {})
        # A reward comes as a list of one number, in some datasets.
        flat = types[late[0]].is_nested()
        sizes |= {late[0]: 1} if flat else {}
        one = pl.col(late[0])
        chosen.append(
            (_elements(types[late[0]], one, 0) if flat else one).cast(pl.Float64).alias(late[0])
        )
    elif not passed:
        raise EpisodesFileError(
            f"{path.name}: it has neither next.reward nor next.success, so the result of a run is "
            f"unknown; add one of these columns, or pass the table with your own outcome to "
            "Episodes.from_frame"
        )
    _check_lengths(path, table, sizes)
    judged |= {"truncated": None, "terminated": None, "group": None}
    merged: Any = {**_ROLES, **judged, **options}
    return table.select(chosen), merged


def _numbers_in(path: Path, name: str, kind: pl.DataType, described: Any) -> list[pl.Expr]:
    """One polars expression for each number in a column of arrays; none for an image."""
    column = pl.col(name)
    if kind.is_numeric() or kind == pl.Boolean:
        return [column]
    if not isinstance(kind, pl.List | pl.Array):
        return []
    shape: Any = described.get("shape") if isinstance(described, dict) else None
    if not isinstance(shape, list) or not all(type(one) is int and one > 0 for one in shape):
        raise EpisodesFileError(f"{path.name}: {_INFO} does not say the shape of {name!r}")
    size = math.prod(shape)
    if len(shape) > 1 or size > _MOST_NUMBERS:
        return []
    names = _names_of(path, name, described.get("names"), size)
    return [_elements(kind, column, i).alias(f"{name}.{names[i]}") for i in range(size)]


def _check_lengths(path: Path, table: pl.LazyFrame, sizes: Mapping[str, int]) -> None:
    """Refuse lists that are longer or shorter than the dataset's description says."""
    types, asked = table.collect_schema(), []
    for name in sizes:
        column, kind = pl.col(name), types[name]
        length = column.list.len() if isinstance(kind, pl.List) else pl.lit(_width(kind))
        asked += [length.min().alias(f"min {name}"), length.max().alias(f"max {name}")]
    found = table.select(asked).collect().row(0, named=True) if asked else {}
    for name, size in sizes.items():
        for length in (found[f"max {name}"], found[f"min {name}"]):
            if length is not None and length != size:
                raise EpisodesFileError(
                    f"{path.name}: {name!r} needs lists of {size:,} number{'s' * (size != 1)}, as "
                    f"{_INFO} says, got one of {length:,}; correct the file or its description"
                )


def _width(kind: pl.DataType) -> int:
    return int(kind.size) if isinstance(kind, pl.Array) else 0


def _elements(kind: pl.DataType, column: pl.Expr, place: int) -> pl.Expr:
    if isinstance(kind, pl.Array):
        return column.arr.get(place, null_on_oob=True)
    return column.list.get(place, null_on_oob=True)


def _names_of(path: Path, column: str, found: Any, size: int) -> list[str]:
    """The names of the numbers in an array, as the dataset lists them; else their positions."""
    if isinstance(found, dict) and len(found) == 1:
        found = next(iter(found.values()))
    if isinstance(found, list) and len(found) > 1 and len(found) != size:
        raise EpisodesFileError(
            f"{path.name}: {column!r} has {size:,} number{'s' * (size != 1)} and {len(found):,} "
            f"names in {_INFO}; give each number a name, or none"
        )
    fits = isinstance(found, list) and len(found) == size and len(set(map(str, found))) == size
    return [str(one) for one in found] if fits else [str(i) for i in range(size)]


def _described(path: Path) -> dict[str, Any]:
    """What the dataset's description says about each column."""
    info = regular_file(path / _INFO)
    if info.stat().st_size > _LARGEST_INFO:
        raise EpisodesFileError(f"{path.name}: {_INFO} is too large to be a description")
    try:
        found = json.loads(info.read_bytes())
        features = dict(found["features"])
    except (LookupError, RecursionError, TypeError, UnicodeError, ValueError) as error:
        raise EpisodesFileError(f"{path.name}: {_INFO} is damaged ({error})") from error
    return features
