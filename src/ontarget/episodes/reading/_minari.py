"""Reads episodes from a Minari dataset folder; nothing in its HDF5 file is executed.

Minari itself can build an environment from a dataset's metadata, which can run code. Here the
metadata are parsed as JSON, the file is opened by h5py, and only plain numbers are read from it:
no links out of the file, no objects, nothing larger than what the file can hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ontarget._extras import require
from ontarget._typing import AnyArray, FloatArray
from ontarget.episodes._building import RawEpisodes
from ontarget.episodes._observations import ObservationLayout
from ontarget.episodes.reading._arrays import record_arrays
from ontarget.episodes.reading._layout import FrameOptions, Layout, layout_of
from ontarget.episodes.reading._minari_space import layout_in_file, layout_of_json
from ontarget.errors import EpisodesError, EpisodesFileError, OntargetError

__all__ = ["record_minari"]

_FILE: Final = "main_data.hdf5"
_METADATA: Final = "metadata.json"
# What a dataset's own layout leaves open.
_OPTIONS: Final = ("behavior", "categorical", "censored", "features", "horizon", "like")
# No filter of HDF5's own shrinks further than deflate's 1032 : 1.
_MOST_SHRUNK: Final = 1100
_SMALL: Final = 1 << 20


class _Episode(NamedTuple):
    states: AnyArray
    rewards: FloatArray
    truncated: bool


def record_minari(path: Path, options: FrameOptions) -> tuple[RawEpisodes, Layout]:
    """The unchecked episodes in a Minari dataset folder, and the layout they were read by."""
    unfit = sorted(set(options) - set(_OPTIONS))
    if unfit:
        raise EpisodesError(
            f"option {unfit[0]!r} does not apply to a Minari dataset, whose columns are fixed; the "
            f"options are {', '.join(_OPTIONS)}"
        )
    layout = layout_of(options)
    h5py = require("h5py", extra="minari")
    folder = _data_folder(path)
    with _explained(path, h5py):
        metadata = _metadata_in(folder)
        with h5py.File(folder / _FILE, "r") as file:
            names = _episode_names(file, metadata)
            seen = _observed(file, names[0], metadata, h5py)
            found = [_episode(file, name, seen, h5py) for name in names]
    recording = _recording(found, [_number(name) for name in names], seen, layout)
    if layout.horizon is None:
        limit = _time_limit(metadata)
        longest = max(one.rewards.size for one in found)
        known = limit if limit and limit >= longest else None
        layout = replace(layout, horizon=known, declared=True)
    return recording, layout


def _recording(
    found: list[_Episode], ids: list[int], seen: ObservationLayout, layout: Layout
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
    """The folder with the HDF5 file: the dataset's ``data`` folder, or the folder itself."""
    for folder in (path / "data", path):
        if (folder / _FILE).is_file():
            return folder
        if (folder / _METADATA).is_file():
            raise EpisodesFileError(
                f"{path.name}: a Minari dataset needs {_FILE}, and {folder.name} has none; "
                "datasets in other formats than HDF5 are not read"
            )
    raise EpisodesFileError(
        f"{path}: a folder needs to be a Minari dataset with data/{_FILE}; files of episodes are "
        ".parquet or .csv"
    )


def _metadata_in(folder: Path) -> Mapping[str, Any]:
    file = folder / _METADATA
    if not file.is_file():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise EpisodesFileError(f"{_METADATA} needs a JSON object, got {type(found).__name__}")
    return found


def _time_limit(metadata: Mapping[str, Any]) -> int | None:
    """The recorded environment's time limit; None if the metadata do not tell it."""
    try:
        limit = json.loads(metadata["env_spec"])["max_episode_steps"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return limit if isinstance(limit, int) and 0 < limit < 2**31 else None


def _episode_names(file: Any, metadata: Mapping[str, Any]) -> list[str]:
    names = sorted((name for name in file if re.fullmatch(r"episode_\d+", name)), key=_number)
    if not names:
        raise EpisodesFileError(f"{_FILE} holds no group episode_0, episode_1, …")
    told = metadata.get("total_episodes", len(names))
    if told != len(names):
        raise EpisodesFileError(f"{_METADATA} tells of {told} episodes, {_FILE} has {len(names)}")
    return names


def _number(name: str) -> int:
    return int(name.removeprefix("episode_"))


def _observed(file: Any, first: str, metadata: Mapping[str, Any], h5py: Any) -> ObservationLayout:
    """The layout of observations, from the metadata or else from the first episode."""
    told = metadata.get("observation_space", file.attrs.get("observation_space"))
    if told is not None:
        return layout_of_json(json.loads(told))
    return layout_in_file(_child(_group(file, first, h5py), "observations", first, h5py), h5py)


def _episode(file: Any, name: str, seen: ObservationLayout, h5py: Any) -> _Episode:
    group = _group(file, name, h5py)
    rewards = _column(group, "rewards", name, h5py).astype(np.float64)
    steps = rewards.size
    terminated, truncated = (
        _flags(_column(group, what, name, h5py), what, name, steps)
        for what in ("terminations", "truncations")
    )
    if not steps:
        raise EpisodesFileError(f"{name} has no step")
    early = np.flatnonzero((terminated | truncated)[:-1])
    if early.size:
        raise EpisodesFileError(
            f"{name} ends at step {early[0]} and goes on to {steps - 1}; make it two episodes"
        )
    parts: dict[Any, AnyArray] = {}
    for leaf in seen.leaves:
        part: Any = _child(group, "observations", name, h5py)
        for key in leaf.path:
            part = _child(part, f"_index_{key}" if isinstance(key, int) else key, name, h5py)
        values = _numbers(part, name, h5py)
        if values.shape[0] != steps + 1 or values[0].size != leaf.size:
            raise EpisodesFileError(
                f"{name}{part.name.removeprefix('/' + name)} needs shape "
                f"{(steps + 1, *leaf.shape)}, one observation more than its {steps} rewards, got "
                f"{values.shape}"
            )
        # The last observation follows the last action: no action was taken in it (M1).
        parts[leaf.path] = values[:-1].reshape(steps, leaf.size)
    states = np.concatenate([parts[leaf.path] for leaf in seen.leaves], axis=1, dtype=seen.dtype)
    return _Episode(states, rewards, truncated=not bool(terminated[-1]))


def _column(group: Any, what: str, name: str, h5py: Any) -> AnyArray:
    values = _numbers(_child(group, what, name, h5py), name, h5py)
    if values.ndim != 1:
        raise EpisodesFileError(f"{name}/{what} needs one number per step, got {values.shape}")
    return values


def _flags(values: AnyArray, what: str, name: str, steps: int) -> AnyArray:
    if values.shape != (steps,) or not np.isin(values, (0, 1)).all():
        raise EpisodesFileError(
            f"{name}/{what} needs true or false for each of {steps} rewards, got {values.shape}"
        )
    return values.astype(np.bool_)


def _group(file: Any, name: str, h5py: Any) -> Any:
    found = _child(file, name, name, h5py)
    if not isinstance(found, h5py.Group):
        raise EpisodesFileError(f"{name} needs to be a group of columns, got a single one")
    return found


def _child(group: Any, key: str, name: str, h5py: Any) -> Any:
    """The object under a key; refused if it is stored in another file."""
    if not isinstance(group, h5py.Group) or key not in group:
        raise EpisodesFileError(f"{name} lacks {key!r}, which its layout asks for")
    if not isinstance(group.get(key, getlink=True), h5py.HardLink):
        raise EpisodesFileError(f"{name}/{key} is a link to elsewhere; links are not followed")
    return group[key]


def _numbers(dataset: Any, name: str, h5py: Any) -> AnyArray:
    """The dataset's numbers; refused unless it holds numbers that are stored in this file."""
    where = getattr(dataset, "name", name)
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiub":
        kind = getattr(dataset, "dtype", "a group")
        raise EpisodesFileError(f"{where} needs an array of numbers, got {kind}")
    if dataset.is_virtual or dataset.external:
        raise EpisodesFileError(f"{where} keeps its numbers in another file, which is not read")
    if not dataset.shape:
        raise EpisodesFileError(f"{where} needs one entry per step, got a single number")
    if dataset.nbytes > _SMALL + _MOST_SHRUNK * dataset.id.get_storage_size():
        raise EpisodesFileError(
            f"{where} claims {dataset.nbytes:,} bytes, more than the file can hold; it is damaged"
        )
    values: AnyArray = dataset[()]
    return values


@contextmanager
def _explained(path: Path, h5py: Any) -> Iterator[None]:
    """Turn errors caused by a damaged dataset into one message that names it."""
    try:
        yield
    except OntargetError as error:
        if isinstance(error, EpisodesFileError):
            raise EpisodesFileError(f"{path.name}: {error}") from error
        raise
    except (OSError, LookupError, RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise EpisodesFileError(f"{path.name} cannot be read: {error}") from error
