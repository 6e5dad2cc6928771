"""Reads episodes from a Minari dataset folder; nothing in its files is executed.

Minari itself can build an environment from a dataset's metadata, which can run code. Here the
metadata are only parsed as JSON. An HDF5 file is opened by h5py, and only plain numbers are read
from it: no links out of the file, no objects, nothing larger than what the file can contain. Arrow
and Parquet files are opened by polars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from ontarget._package import require
from ontarget._typing import AnyArray, FloatArray
from ontarget.episodes.recording import RawEpisodes
from ontarget.errors import EpisodesError, EpisodesFileError, OntargetError
from ontarget.reading._text import regular_file
from ontarget.reading.arrays import record_arrays
from ontarget.reading.layout import FrameOptions, Layout, layout_of
from ontarget.reading.observations import Leaf, ObservationLayout, layout_in_file, layout_of_json

_FILE: Final = "main_data.hdf5"
_METADATA: Final = "metadata.json"
# The options that apply to a Minari dataset; its own layout decides all others.
_OPTIONS: Final = ("behavior", "categorical", "censored", "features", "horizon", "like")
# The largest compression that HDF5's own filters reach is that of deflate, 1032 : 1.
_MOST_SHRUNK: Final = 1100
_SMALL: Final = 1 << 20
ARROW_FORMATS: Final = ("arrow", "parquet")
_COLUMNS: Final = ["observations", "rewards", "terminations", "truncations"]


def record_minari(
    path: Path, options: FrameOptions, chosen: Sequence[int] | None = None
) -> tuple[RawEpisodes, Layout]:
    """The episodes in the folder of a Minari dataset, not checked yet."""
    unfit = sorted(set(options) - set(_OPTIONS))
    if unfit:
        raise EpisodesError(
            f"option {unfit[0]!r} does not apply to a Minari dataset, whose columns are fixed; the "
            f"options are {', '.join(_OPTIONS)}"
        )
    layout = layout_of(options)
    with _explained(path):
        folder = _data_folder(path)
        metadata = _metadata_in(folder)
        read = _read_hdf5 if (folder / _FILE).is_file() else _read_arrow
        found, seen = read(folder, metadata, chosen)
    recording = _recording(list(found.values()), list(found), seen, layout)
    if layout.horizon is None:
        limit = _time_limit(metadata)
        longest = max(one.rewards.size for one in found.values())
        known = limit if limit and limit >= longest else None
        layout = replace(layout, horizon=known, declared=True)
    return recording, layout


def _read_hdf5(folder: Path, metadata: Mapping[str, Any], chosen: Sequence[int] | None) -> _Found:
    h5py = require("h5py", extra="minari")
    with h5py.File(folder / _FILE, "r") as file:
        groups = (name for name in file if re.fullmatch(r"episode_\d+", name))
        numbers = sorted(int(name.removeprefix("episode_")) for name in groups)
        wanted = _wanted(numbers, metadata, chosen)
        seen = _observed(file, f"episode_{wanted[0]}", metadata, h5py)
        return {one: _episode(file, f"episode_{one}", seen, h5py) for one in wanted}, seen


def _read_arrow(folder: Path, metadata: Mapping[str, Any], chosen: Sequence[int] | None) -> _Found:
    wanted = _wanted(arrow_numbers(folder), metadata, chosen)
    if "observation_space" not in metadata:
        raise EpisodesFileError(f"{_METADATA} does not describe the observations")
    seen = layout_of_json(json.loads(metadata["observation_space"]))
    found = arrow_episodes(folder, wanted, str(metadata["data_format"]), seen)
    return dict(zip(wanted, found, strict=True)), seen


def _wanted(
    numbers: list[int], metadata: Mapping[str, Any], chosen: Sequence[int] | None
) -> list[int]:
    """The numbers of the episodes to read (``chosen``, or all), which the dataset must have."""
    if not numbers or (chosen is not None and not len(chosen)):
        raise EpisodesFileError("the dataset has no episodes to read")
    told = metadata.get("total_episodes", len(numbers))
    if told != len(numbers):
        raise EpisodesFileError(
            f"{_METADATA} says that there are {told} episodes, but {len(numbers)} were found"
        )
    if chosen is None:
        return numbers
    missing = sorted(set(chosen) - set(numbers))
    if missing or not chosen:
        raise EpisodesFileError(
            f"it has no episode {missing[0] if missing else 'of those asked for'}"
        )
    return list(chosen)


def _recording(
    found: list[MinariEpisode], ids: list[int], seen: ObservationLayout, layout: Layout
) -> RawEpisodes:
    names = seen.names
    columns = np.arange(len(names))
    if layout.features is not None:
        places = {name: place for place, name in enumerate(names)}
        unknown = [name for name in layout.features if name not in places]
        if unknown:
            raise EpisodesError(
                f"the dataset has no feature {unknown[0]!r}; it has {', '.join(names)}"
            )
        columns = np.array([places[name] for name in layout.features])
        names = tuple(layout.features)
    categorical = {*seen.categorical, *layout.categorical} & {*names, *layout.categorical}
    recording = record_arrays(
        [one.states[:, columns] for one in found],
        [one.rewards for one in found],
        ids=ids,
        truncated=[one.truncated for one in found],
        groups=None,
        behavior=layout.behavior,
        behavior_values=None,
        features=names,
        categorical=sorted(categorical),
    )
    return recording if layout.schema is None else replace(recording, schema=layout.schema)


def _data_folder(path: Path) -> Path:
    """The folder with the episodes: the dataset's ``data`` folder, or the folder itself."""
    for folder in (path / "data", path):
        if regular_file(folder / _FILE).is_file():
            return folder
        if regular_file(folder / _METADATA).is_file():
            told = _metadata_in(folder).get("data_format")
            if told in ARROW_FORMATS:
                return folder
            raise EpisodesFileError(
                f"a Minari dataset needs {_FILE}, or the format arrow or parquet, got the format "
                f"{told!r} and no {_FILE}"
            )
    raise EpisodesFileError(
        f"a folder needs to be a Minari dataset with data/{_FILE} or data/{_METADATA}, or one of "
        "LeRobot; files of episodes are .parquet or .csv"
    )


def _metadata_in(folder: Path) -> Mapping[str, Any]:
    file = regular_file(folder / _METADATA)
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except (RecursionError, UnicodeError, ValueError) as error:
        raise EpisodesFileError(f"{_METADATA} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise EpisodesFileError(f"{_METADATA} needs a JSON object, got {type(found).__name__}")
    return found


def _time_limit(metadata: Mapping[str, Any]) -> int | None:
    """The time limit of the environment that was recorded; None if the metadata do not say."""
    try:
        limit = json.loads(metadata["env_spec"])["max_episode_steps"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return limit if isinstance(limit, int) and 0 < limit < 2**31 else None


def _observed(file: Any, first: str, metadata: Mapping[str, Any], h5py: Any) -> ObservationLayout:
    """Which number of an observation has which name, from the metadata or the first episode."""
    told = metadata.get("observation_space", file.attrs.get("observation_space"))
    if told is not None:
        return layout_of_json(json.loads(told))
    return layout_in_file(_child(_group(file, first, h5py), "observations", first, h5py), h5py)


def _episode(file: Any, name: str, seen: ObservationLayout, h5py: Any) -> MinariEpisode:
    group = _group(file, name, h5py)

    def column(what: str) -> AnyArray:
        values = _numbers(_child(group, what, name, h5py), name, h5py)
        if values.ndim != 1:
            raise EpisodesFileError(f"{name}/{what} needs one number per step, got {values.shape}")
        return values

    def part(leaf: Leaf) -> AnyArray:
        found: Any = _child(group, "observations", name, h5py)
        for key in leaf.path:
            found = _child(found, f"_index_{key}" if isinstance(key, int) else key, name, h5py)
        return _numbers(found, name, h5py)

    return episode_of(name, column, part, seen)


def _group(file: Any, name: str, h5py: Any) -> Any:
    found = _child(file, name, name, h5py)
    if not isinstance(found, h5py.Group):
        raise EpisodesFileError(f"{name} needs to be a group of columns, got a single column")
    return found


def _child(group: Any, key: str, name: str, h5py: Any) -> Any:
    """The object under a key of a group in an HDF5 file; refused if it is in another file."""
    if not isinstance(group, h5py.Group) or key not in group:
        raise EpisodesFileError(f"{name} lacks {key!r}, which its layout needs")
    if not isinstance(group.get(key, getlink=True), h5py.HardLink):
        raise EpisodesFileError(f"{name}/{key} is a link to another place; links are not followed")
    return group[key]


def _numbers(dataset: Any, name: str, h5py: Any) -> AnyArray:
    """The numbers of an HDF5 dataset; refused unless they are numbers stored in this file."""
    where = getattr(dataset, "name", name)
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiub":
        kind = getattr(dataset, "dtype", "a group")
        raise EpisodesFileError(f"{where} needs an array of numbers, got {kind}")
    if dataset.is_virtual or dataset.external:
        raise EpisodesFileError(f"{where} stores its numbers in another file, which is not read")
    if not dataset.shape:
        raise EpisodesFileError(f"{where} needs one entry per step, got a single number")
    if dataset.nbytes > _SMALL + _MOST_SHRUNK * dataset.id.get_storage_size():
        raise EpisodesFileError(
            f"{where} claims to have {dataset.nbytes:,} bytes, more than the file can contain; it "
            "is damaged"
        )
    values: AnyArray = dataset[()]
    return values


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """A context that turns errors from a damaged dataset into a message that names the dataset."""
    try:
        yield
    except OntargetError as error:
        if isinstance(error, EpisodesFileError):
            raise EpisodesFileError(f"{path.name}: {error}") from error
        raise
    except (
        *(OSError, LookupError, RuntimeError, TypeError, ValueError, ArithmeticError),
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ) as error:
        raise EpisodesFileError(f"{path.name} cannot be read: {error}") from error


def arrow_numbers(folder: Path) -> list[int]:
    """The numbers of the episodes in the data folder of a Minari dataset."""
    return sorted(int(one.name) for one in folder.iterdir() if one.is_dir() and one.name.isdigit())


def arrow_episodes(
    folder: Path, numbers: list[int], ending: str, seen: ObservationLayout
) -> Iterator[MinariEpisode]:
    """The episodes with these numbers, in order; ``ending`` is the extension of their files."""
    for number in numbers:
        files = sorted((folder / str(number)).glob(f"*.{ending}"))
        if not files:
            raise EpisodesFileError(f"episode {number} has no .{ending} file")
        yield _arrow_episode(f"episode {number}", [_read(one) for one in files], seen)


def _read(path: Path) -> pl.DataFrame:
    regular_file(path)
    if path.suffix == ".arrow":
        return pl.read_ipc(path, columns=_COLUMNS)
    return pl.read_parquet(path, columns=_COLUMNS, glob=False, hive_partitioning=False)


def _arrow_episode(name: str, parts: list[pl.DataFrame], seen: ObservationLayout) -> MinariEpisode:
    table = pl.concat(parts)
    steps = max(table.height - 1, 0)

    def column(what: str) -> AnyArray:
        kind = table[what].dtype
        if not (kind.is_numeric() or kind == pl.Boolean) or table[what].null_count():
            raise EpisodesFileError(f"{name}/{what} needs one number per step, got {kind}")
        return table[what].head(steps).to_numpy()

    def part(leaf: Leaf) -> AnyArray:
        found = table["observations"]
        for key in leaf.path:
            found = found.struct.field(str(key))
        if leaf.shape:
            # A Parquet file does not store that all lists have the same length.
            inner = getattr(found.dtype, "inner", found.dtype)
            found = found.cast(pl.Array(inner, leaf.size)).arr.to_list().explode()
        if not (found.dtype.is_numeric() or found.dtype == pl.Boolean) or found.null_count():
            raise EpisodesFileError(f"{name}/observations needs numbers, got {found.dtype}")
        return found.to_numpy().reshape(-1, leaf.size)

    return episode_of(name, column, part, seen)


class MinariEpisode(NamedTuple):
    """One episode: the state before each action, the rewards, and whether the run was cut off."""

    states: AnyArray
    rewards: FloatArray
    truncated: bool


# The episodes by number, and the layout of their observations.
_Found: TypeAlias = tuple[dict[int, MinariEpisode], ObservationLayout]


def episode_of(
    name: str,
    column: Callable[[str], AnyArray],
    part: Callable[[Leaf], AnyArray],
    seen: ObservationLayout,
) -> MinariEpisode:
    """An episode of a Minari dataset, checked."""
    rewards = column("rewards").astype(np.float64)
    steps = rewards.size
    terminated, truncated = (
        _flags(column(what), what, name, steps) for what in ("terminations", "truncations")
    )
    if not steps:
        raise EpisodesFileError(f"{name} has no step")
    early = np.flatnonzero((terminated | truncated)[:-1])
    if early.size:
        raise EpisodesFileError(
            f"{name} ends at step {early[0]} but has steps up to {steps - 1}; make it two episodes"
        )
    parts = []
    for leaf in seen.leaves:
        values = part(leaf)
        if values.shape[0] != steps + 1 or values[0].size != leaf.size:
            where = "".join(f"/{key}" for key in ("observations", *leaf.path))
            raise EpisodesFileError(
                f"{name}{where} needs shape {(steps + 1, *leaf.shape)}, one observation more than "
                f"its {steps} rewards, got {values.shape}"
            )
        # The last observation follows the last action, so it is not a state to act in.
        parts.append(values[:-1].reshape(steps, leaf.size))
    states = np.concatenate(parts, axis=1, dtype=seen.dtype)
    return MinariEpisode(states, rewards, truncated=not bool(terminated[-1]))


def _flags(values: AnyArray, what: str, name: str, steps: int) -> AnyArray:
    if values.shape != (steps,) or not np.isin(values, (0, 1)).all():
        raise EpisodesFileError(
            f"{name}/{what} needs true or false for each of {steps} rewards, got {values.shape}"
        )
    return values.astype(np.bool_)
