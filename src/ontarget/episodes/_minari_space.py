"""The layout of a Minari dataset's observations, from its metadata or from the file itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ontarget.episodes._observations import Leaf, ObservationLayout, Path, name_of
from ontarget.errors import EpisodesFileError

__all__ = ["layout_in_file", "layout_of_json"]

_DEEPEST = 50
_WIDEST = 1_000_000


def layout_of_json(space: Any) -> ObservationLayout:
    """The layout that a dataset's metadata describe.

    Examples
    --------
    >>> layout_of_json({"type": "Tuple", "subspaces": [
    ...     {"type": "Box", "dtype": "float32", "shape": [2], "low": [], "high": []},
    ...     {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3}]}).names
    ('x0_0', 'x0_1', 'x1')
    """
    try:
        return ObservationLayout(tuple(_leaves(space, ())))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, EpisodesFileError):
            raise
        raise EpisodesFileError(f"the observation space is damaged ({error!r})") from error


def _leaves(space: Any, path: Path) -> list[Leaf]:
    if len(path) > _DEEPEST:
        raise EpisodesFileError(f"the observation space is more than {_DEEPEST} levels deep")
    kind = space["type"]
    if kind == "Dict":
        parts: Mapping[str, Any] = space["subspaces"]
        return [leaf for key, part in parts.items() for leaf in _leaves(part, (*path, str(key)))]
    if kind == "Tuple":
        listed: Sequence[Any] = space["subspaces"]
        return [leaf for i, part in enumerate(listed) for leaf in _leaves(part, (*path, i))]
    if kind == "Box":
        return [Leaf(path, _shape(space["shape"]), _type_name(space["dtype"]))]
    if kind == "Discrete":
        return [Leaf(path, (), "int64", categorical=True)]
    if kind == "MultiDiscrete":
        return [Leaf(path, np.shape(space["nvec"]), "int64", categorical=True)]
    if kind == "MultiBinary":
        n = space["n"]
        return [Leaf(path, _shape([n] if isinstance(n, int) else n), "int8")]
    where = f" at {name_of(path)!r}" if path else ""
    raise EpisodesFileError(
        f"observations need Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict spaces, got "
        f"{kind}{where}"
    )


def layout_in_file(observations: Any, h5py: Any) -> ObservationLayout:
    """The layout of an episode's observations as the file stores them, where nothing describes it.

    Categories look like other numbers there.
    """
    return ObservationLayout(tuple(_stored(observations, (), h5py)))


def _stored(node: Any, path: Path, h5py: Any) -> list[Leaf]:
    if len(path) > _DEEPEST:
        raise EpisodesFileError(f"the observations are more than {_DEEPEST} levels deep")
    if isinstance(node, h5py.Group):
        keys = list(node)
        if any(not isinstance(node.get(key, getlink=True), h5py.HardLink) for key in keys):
            raise EpisodesFileError("the observations hold a link to elsewhere")
        spots = {f"_index_{i}": i for i in range(len(keys))}
        if keys and set(keys) == set(spots):
            keys = list(spots)
            return [leaf for k in keys for leaf in _stored(node[k], (*path, spots[k]), h5py)]
        return [leaf for key in keys for leaf in _stored(node[key], (*path, key), h5py)]
    if not isinstance(node, h5py.Dataset) or node.dtype.kind not in "fiub" or not node.shape:
        raise EpisodesFileError(
            f"observations{f' at {name_of(path)!r}' if path else ''} need arrays of numbers"
        )
    return [Leaf(path, tuple(node.shape[1:]), _type_name(node.dtype))]


def _shape(sizes: Any) -> tuple[int, ...]:
    found = tuple(int(size) for size in sizes)
    if any(size < 1 for size in found):
        raise EpisodesFileError(f"the observation space has an empty shape {found}")
    if math.prod(found) > _WIDEST:
        raise EpisodesFileError(f"the observation space claims {math.prod(found):,} numbers a step")
    return found


def _type_name(dtype: Any) -> str:
    found = np.dtype(dtype)
    if found.kind not in "fiub":
        raise EpisodesFileError(f"the observation space needs numbers, got the type {found}")
    return str(found.name)
