"""Reads episodes from Parquet and CSV files and from datasets, and writes Parquet and CSV."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from ontarget import Episodes
from ontarget._arguments import whole_number
from ontarget._typing import AnyArray, FloatArray
from ontarget._whole_file import replacing
from ontarget.episodes.builtin_behaviors import behavior_of
from ontarget.episodes.judged import JudgedBy, readings_of
from ontarget.episodes.recording import RawEpisodes
from ontarget.episodes.schema import Schema
from ontarget.episodes.store import Store
from ontarget.errors import (
    EpisodesError,
    EpisodesFileError,
    EpisodesWarning,
    InputError,
    OntargetError,
)
from ontarget.reading._columns import decoded
from ontarget.reading._lerobot import is_lerobot, lerobot_table
from ontarget.reading._text import TEXT_TABLES, read_text_table, regular_file
from ontarget.reading.frames import KeyedRows, keyed_rows, record_frame
from ontarget.reading.layout import FrameOptions, Layout, layout_of

_KEY = "ontarget"
_VERSION = 1
_PARTS = ("episode", "step", "reward", "truncated", "terminated", "group")
_MOST_STEPS = 2**31 - 1


def record_file(
    path: Path, options: FrameOptions, chosen: Sequence[int] | None = None
) -> tuple[RawEpisodes, Layout]:
    """The episodes in a file or in the folder of a dataset, not checked yet."""
    if path.is_dir() and not is_lerobot(path):
        from ontarget.reading._minari import record_minari

        return record_minari(path, options, chosen)
    with _opened(path, options) as (table, layout, notes):
        return record_frame(table, layout, notes), layout


def read_log(path: Path, options: FrameOptions) -> KeyedRows | None:
    """The rows of a file as they are, each with the id of its episode and its step."""
    if path.is_dir() and not is_lerobot(path):
        return None
    with _opened(path, options) as (table, layout, _):
        return keyed_rows(table, layout)


# A table, how to read it, and remarks on how it was opened.
_Log: TypeAlias = tuple[pl.LazyFrame | pl.DataFrame, Layout, tuple[str, ...]]


@contextmanager
def _opened(path: Path, options: FrameOptions) -> Iterator[_Log]:
    """A context that gives the table in a file and how to read it; errors name the file."""
    if not path.exists():
        raise EpisodesFileError(f"{path}: no such file or folder")
    if path.is_dir():
        with explained(path, "read"):
            table, options = lerobot_table(path, options)
            yield table, layout_of(options), ()
        return
    regular_file(path)
    with explained(path, "read"):
        if path.suffix == ".parquet":
            layout = layout_of(options, layout_in(path, options))
            yield pl.scan_parquet(path, glob=False), layout, ()
        elif path.suffix in TEXT_TABLES:
            layout = layout_of(options)
            found = read_text_table(path)
            yield found.table, layout, found.notes
        else:
            raise EpisodesFileError(
                f"{path.name}: episodes are read from .parquet or .csv files (or .tsv, .txt), or "
                "from folders of Minari or LeRobot datasets"
            )


def write(episodes: Episodes, path: Path) -> None:
    """Write the episodes to a file, completely or not at all."""
    if path.suffix not in (".parquet", ".csv"):
        raise EpisodesFileError(
            f"{path.name} needs a name that ends in .parquet or .csv, to write episodes to it"
        )
    table = frame_of(episodes).lazy()
    with explained(path, "written"), replacing(path) as part:
        if path.suffix == ".parquet":
            # Rows are sorted by step, so a row group contains a few steps. To read a step, only its
            # row groups are read.
            table.sink_parquet(part, metadata={_KEY: _described(episodes)})
        else:
            # Float32 would be printed with few digits, and be read back as another float64.
            table.cast({pl.Float32: pl.Float64}).sink_csv(part)
    if path.suffix == ".csv" and episodes.horizon_declared:
        horizon = episodes.horizon
        warnings.warn(
            f"{path.name} cannot store the declared horizon of {horizon} steps; pass it again when "
            f"you read the file (horizon={horizon}, --horizon {horizon}), or write Parquet",
            EpisodesWarning,
            stacklevel=3,  # the caller of Episodes.write
        )


def _described(episodes: Episodes) -> str:
    """What a file must say besides its columns, as JSON with sorted keys."""
    found: dict[str, Any] = {
        "version": _VERSION,
        "behavior": _judged_spec(episodes),
        "horizon": episodes.horizon,
        "horizon_declared": episodes.horizon_declared,
        "features": episodes.schema.to_json(),
        "roles": asdict(episodes.roles),
    }
    return json.dumps(found, sort_keys=True)


def _judged_spec(episodes: Episodes) -> str | list[list[str]]:
    """The behavior as text; for several, a list of pairs."""
    # Each pair is (name, behavior). It is a list, not an object, because the order matters.
    if not episodes.names:
        return episodes.behavior.spec
    return [[name, reading.spec] for name, reading in episodes.readings.items()]


def layout_in(path: Path, options: FrameOptions) -> Layout | None:
    """How to read the columns of a Parquet file that `write` made; None for other files."""
    text = pl.read_parquet_metadata(path).get(_KEY)
    if text is None:
        return None
    try:
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise EpisodesFileError(
                f"{path.name} was written by another version of ontarget (format "
                f"{found['version']}, this one reads {_VERSION})"
            )
        schema = Schema.from_json(found["features"])
        return Layout(
            features=schema.names,
            schema=schema,
            behavior=_judged(found["behavior"], path, options),
            horizon=whole_number("horizon", found["horizon"], least=1, most=_MOST_STEPS),
            declared=bool(found.get("horizon_declared", False)),
            **_roles_in(found["roles"]),
        )
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, EpisodesError):
            raise
        raise EpisodesFileError(f"{path.name}: its description is damaged ({error})") from error


def _roles_in(found: Any) -> dict[str, Any]:
    """Which column is the step, the reward and so on, as ``found`` in the file says."""
    named = dict(found)
    first_step = named.pop("first_step", None)
    for part, name in named.items():
        if part not in _PARTS or not (name is None or isinstance(name, str)):
            raise ValueError(f"{part!r} needs to be a known role, and {name!r} a column's name")
    if first_step is not None:
        whole_number("first_step", first_step, least=-_MOST_STEPS, most=_MOST_STEPS)
    return named | {"first_step": first_step}


def _judged(spec: Any, path: Path, options: FrameOptions) -> JudgedBy:
    """The behavior or behaviors that the file names, unless the user passes others."""
    if "behavior" in options:
        return options["behavior"]
    like = options.get("like")
    if like is not None:
        return like.readings or like.behavior
    try:
        if isinstance(spec, list):
            return readings_of({str(name): str(one) for name, one in spec})
        return behavior_of(str(spec))
    except EpisodesError as error:
        raise EpisodesFileError(
            f"{path.name}: its episodes are judged by {spec!r}, a class that the file does not "
            f"contain; pass it as behavior="
        ) from error


@contextmanager
def explained(path: Path, done: Literal["read", "written"]) -> Iterator[None]:
    """A context that turns errors of polars and the system into a message that names the file."""
    # ``done`` completes the message "the file cannot be …": read, or written.
    try:
        str(path).encode()  # polars takes no other names
    except UnicodeEncodeError as error:
        raise EpisodesFileError(
            f"{path.name} cannot be {done}: its path is not UTF-8; rename the file or the folder"
        ) from error
    try:
        yield
    except InputError as error:
        if done == "read":
            raise
        raise EpisodesFileError(*error.parts) from error
    except OntargetError:
        raise
    except FileNotFoundError as error:
        raise EpisodesFileError(f"{path}: no such file or folder") from error
    except pl.exceptions.NoDataError as error:
        raise EpisodesFileError(f"{path.name} is empty; it needs a header and rows") from error
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EpisodesFileError(f"{path.name} cannot be {done}: {reason}") from error
    except pl.exceptions.PanicException as error:  # not an Exception: polars itself crashed
        found = "is damaged" if done == "read" else "cannot be written"
        raise EpisodesFileError(f"{path.name} {found}: {error}") from error


def frame_of(episodes: Episodes) -> pl.DataFrame:
    """The episodes as a table, one row per episode and step, sorted by step and then by episode."""
    store, chosen = episodes._store, episodes._index
    rows, index = store.rows_of(chosen)
    time = np.repeat(np.arange(store.offsets.size - 1), np.diff(store.offsets))[rows]
    roles = store.roles
    columns = [
        _label_series(roles.episode, episodes.ids[index]),
        pl.Series(roles.step, time + roles.first_step, dtype=pl.Int64),
    ]
    taken = {roles.episode, roles.step}
    for j, feature in enumerate(store.schema.features):
        if feature.name not in taken:
            columns.append(decoded(store.states[j, rows], feature))
            taken.add(feature.name)
    if roles.reward is not None and store.rewards is not None:
        columns.append(pl.Series(roles.reward, store.rewards[rows]))
    written = {one.name for one in columns}
    for signal in store.several:
        name = signal.reading.column
        if name is not None and name not in written:
            columns.append(pl.Series(name, signal.values[rows]))
            written.add(name)
    if not store.several and store.behavior.column is not None:
        columns.append(pl.Series(store.behavior.column, _after(store)[rows]))
    is_last = time == episodes.lengths[index] - 1
    for name, ends in (
        (roles.truncated, episodes.truncated),
        (roles.terminated, episodes.terminated),
    ):
        if name is not None and ends is not None:
            columns.append(pl.Series(name, is_last & ends[index]))
    if roles.group is not None and roles.group not in taken and episodes.groups is not None:
        columns.append(_label_series(roles.group, episodes.groups[index]))
    return pl.DataFrame(columns)


def _after(store: Store) -> FloatArray:
    """The value of the column that judges an episode after each row, (rows,)."""
    after = np.empty_like(store.before)
    for t in range(store.offsets.size - 1):
        now, alive = store.rows(t, None)
        after[now] = store.outcomes[alive]
        later, still = store.rows(t + 1, None)
        after[np.arange(store.before.size)[now][np.searchsorted(alive, still)]] = store.before[
            later
        ]
    return after


def _label_series(name: str, values: AnyArray) -> pl.Series:
    if values.dtype.kind in "iu":
        return pl.Series(name, values)
    return pl.Series(name, values.tolist(), dtype=pl.String)
