"""Which number of a Minari dataset's observations has which name, from its metadata or its file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ontarget.episodes._observations import (
    SPACES,
    Numbers,
    ObservationLayout,
    ReadPlace,
    read_layout,
)
from ontarget.errors import EpisodesError, EpisodesFileError

_WIDEST = 1_000_000


def layout_of_json(space: Any) -> ObservationLayout:
    """Which number of an observation has which name, as the metadata of a dataset describe it.

    Examples
    --------
    >>> layout_of_json({"type": "Tuple", "subspaces": [
    ...     {"type": "Box", "dtype": "float32", "shape": [2], "low": [], "high": []},
    ...     {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3}]}).names
    ('x0_0', 'x0_1', 'x1')
    """
    try:
        return _read(space, _described)
    except EpisodesFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EpisodesFileError(f"the observation space is damaged ({error!r})") from error


def _described(space: Any, where: str) -> Numbers | Mapping[Any, Any]:
    """What the metadata say about one part of an observation: an array, or further parts.

    ``where`` names the part in messages.
    """
    kind = space["type"]
    if kind == "Dict":
        return {str(key): part for key, part in space["subspaces"].items()}
    if kind == "Tuple":
        return dict(enumerate(space["subspaces"]))
    if kind == "Box":
        return Numbers(_shape(space["shape"]), _type_name(space["dtype"]))
    if kind == "Discrete":
        return Numbers((), "int64", categorical=True)
    if kind == "MultiDiscrete":
        return Numbers(np.shape(space["nvec"]), "int64", categorical=True)
    if kind == "MultiBinary":
        n = space["n"]
        return Numbers(_shape([n] if isinstance(n, int) else n), "int8")
    raise EpisodesFileError(f"{SPACES}, got {kind}{where}")


def layout_in_file(observations: Any, h5py: Any) -> ObservationLayout:
    """Which number of an observation has which name, taken from how the file stores an episode.

    This is used if no metadata describe the observations. Categories are then plain numbers.
    """

    def stored(node: Any, where: str) -> Numbers | Mapping[Any, Any]:
        if isinstance(node, h5py.Group):
            keys = list(node)
            if any(not isinstance(node.get(key, getlink=True), h5py.HardLink) for key in keys):
                raise EpisodesFileError("the observations contain a link to another place")
            listed = [f"_index_{i}" for i in range(len(keys))]
            if keys and set(keys) == set(listed):
                return {i: node[key] for i, key in enumerate(listed)}
            return {key: node[key] for key in keys}
        if not isinstance(node, h5py.Dataset) or node.dtype.kind not in "fiub" or not node.shape:
            raise EpisodesFileError(f"observations{where} need arrays of numbers")
        return Numbers(tuple(node.shape[1:]), _type_name(node.dtype))

    return _read(observations, stored)


def _read(space: Any, read: ReadPlace) -> ObservationLayout:
    """Which number of an observation has which name; any problem is an `EpisodesFileError`."""
    try:
        return read_layout(space, read)
    except EpisodesFileError:
        raise
    except EpisodesError as error:
        raise EpisodesFileError(str(error)) from error


def _shape(sizes: Any) -> tuple[int, ...]:
    found = tuple(int(size) for size in sizes)
    if any(size < 1 for size in found):
        raise EpisodesFileError(f"the observation space has an empty shape {found}")
    if math.prod(found) > _WIDEST:
        raise EpisodesFileError(
            f"the observation space claims to have {math.prod(found):,} numbers per step"
        )
    return found


def _type_name(dtype: Any) -> str:
    found = np.dtype(dtype)
    if found.kind not in "fiub":
        raise EpisodesFileError(f"the observation space needs numbers, got the type {found}")
    return str(found.name)
