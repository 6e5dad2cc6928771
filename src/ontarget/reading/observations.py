"""Turns the observations of an environment into rows of named numbers.

A layout says which number gets which name. The layout is the same whether it was read from a
Gymnasium space or from the metadata of a dataset. So a monitor that was fitted on a dataset can
watch the environment itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ontarget._typing import AnyArray
from ontarget.errors import EpisodesError, EpisodesFileError

# The keys and positions that lead from the whole observation to one of its parts.
Path: TypeAlias = tuple[str | int, ...]

# The spaces that can be read, for messages.
SPACES: Final = "observations need Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict spaces"
_DEEPEST: Final = 50
# The most numbers that one array of an observation may hold: a robot's joints, but no pixels.
_MOST_IN_IMAGE: Final = 300
_MOST_IN_ROW: Final = 2_000
_WIDEST = 1_000_000


@dataclass(frozen=True)
class Leaf:
    """One array, or one single number, inside an observation."""

    path: Path
    shape: tuple[int, ...]
    dtype: str = "float64"
    categorical: bool = False

    @property
    def size(self) -> int:
        """How many numbers this array has."""
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each number: ``x0, x1``, or ``arm_0, arm_1`` for an array with key "arm"."""
        stem = _name_of(self.path)
        if self.size == 1:
            return (stem or "x0",)
        spots = ["_".join(map(str, spot)) for spot in np.ndindex(self.shape)]
        return tuple(f"{stem}_{spot}" if stem else f"x{spot}" for spot in spots)

    def of(self, observation: Any) -> Any:
        """The array itself, taken out of an observation or of a batch of observations."""
        for key in self.path:
            observation = observation[key]
        return observation


@dataclass(frozen=True)
class ObservationLayout:
    """Turns observations into rows of named numbers: which number has which name and place.

    Examples
    --------
    >>> mode = Leaf(("mode",), (), "int64", categorical=True)
    >>> layout = ObservationLayout((Leaf(("arm",), (2,)), mode))
    >>> layout.names, layout.categorical
    (('arm_0', 'arm_1', 'mode'), ('mode',))
    >>> print(layout.row({"arm": np.array([0.5, 1.5]), "mode": 2}))
    [0.5 1.5 2. ]
    """

    leaves: tuple[Leaf, ...]

    def __post_init__(self) -> None:
        if not sum(leaf.size for leaf in self.leaves):
            raise EpisodesError("an observation needs at least one number; this one has none")
        self._refuse_images()
        found: set[str] = set()
        for name in self.names:
            if name in found:
                raise EpisodesError(
                    f"two parts of the observation are both called {name!r}; rename a key"
                )
            found.add(name)

    def _refuse_images(self) -> None:
        """Refuse images. Each pixel would become a feature, from which a monitor learns nothing."""
        for leaf in self.leaves:
            if leaf.size > (_MOST_IN_IMAGE if len(leaf.shape) > 1 else _MOST_IN_ROW):
                name = _name_of(leaf.path)
                raise EpisodesError(
                    f"the observation{f' {name!r}' * bool(name)} of shape {leaf.shape} would "
                    f"become {leaf.size:,} features, like an image; encode it into at most some "
                    "hundred numbers first, for example with gymnasium.wrappers."
                    "TransformObservation and the encoder of your policy"
                )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers in a row, in order."""
        return tuple(name for leaf in self.leaves for name in leaf.names)

    @cached_property
    def categorical(self) -> tuple[str, ...]:
        """The names of the numbers that stand for categories."""
        return tuple(name for leaf in self.leaves if leaf.categorical for name in leaf.names)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that can hold every number of a row."""
        found = np.result_type(*(np.dtype(leaf.dtype) for leaf in self.leaves))
        return np.dtype(np.float32) if found == np.float16 else found

    def __len__(self) -> int:
        return len(self.names)

    def row(self, observation: Any) -> AnyArray:
        """The numbers of one observation, in a new array."""
        return self._join(observation, ())

    def rows(self, observations: Any, n: int) -> AnyArray:
        """The numbers of n observations, one row each, (n, features)."""
        return self._join(observations, (n,))

    def _join(self, observation: Any, batch: tuple[int, ...]) -> AnyArray:
        parts = []
        for leaf in self.leaves:
            try:
                part = np.asarray(leaf.of(observation))
            except (KeyError, IndexError, TypeError) as error:
                raise EpisodesError(
                    f"the observation lacks {_name_of(leaf.path)!r}, got {_shown(observation)}"
                ) from error
            # A single number often comes as an array of one.
            if part.shape != (*batch, *leaf.shape) and part.size != math.prod(batch) * leaf.size:
                raise EpisodesError(
                    f"{_name_of(leaf.path) or 'the observation'} needs shape "
                    f"{(*batch, *leaf.shape)}, got {part.shape}"
                )
            parts.append(part.reshape(*batch, leaf.size))
        if len(parts) == 1:
            return np.array(parts[0], dtype=self.dtype)
        return np.concatenate(parts, axis=-1, dtype=self.dtype)


class Numbers(NamedTuple):
    """Describes an array inside an observation: shape, type, and whether it has categories."""

    shape: tuple[int, ...]
    dtype: str
    categorical: bool = False


# A function from one place in a space to the numbers there, or to its parts by key or position. The
# text argument says where the place is, for error messages.
ReadPlace: TypeAlias = Callable[[Any, str], Numbers | Mapping[Any, Any]]


def read_layout(space: Any, read: ReadPlace) -> ObservationLayout:
    """Which number of an observation gets which name, for the observations of a space.

    The space may be of any kind, because ``read`` is called for each place in it. ``read`` returns
    the parts of this place by their keys, or `Numbers` if the place is an array.

    Examples
    --------
    >>> def read(place, where):
    ...     return place if isinstance(place, dict) else Numbers((place,), "float64")
    >>> read_layout({"arm": 2, "leg": {"left": 1}}, read).names
    ('arm_0', 'arm_1', 'leg.left')
    """
    return ObservationLayout(tuple(_leaves(space, (), read)))


def _leaves(space: Any, path: Path, read: ReadPlace) -> list[Leaf]:
    if len(path) > _DEEPEST:
        raise EpisodesError(f"observations are more than {_DEEPEST} levels deep")
    found = read(space, f" at {_name_of(path)!r}" if path else "")
    if isinstance(found, Numbers):
        return [Leaf(path, *found)]
    return [leaf for key, part in found.items() for leaf in _leaves(part, (*path, key), read)]


def _name_of(path: Path) -> str:
    """The name of a place in an observation: keys joined by dots; positions are ``x0, x1``."""
    return ".".join(f"x{key}" if isinstance(key, int) else str(key) for key in path)


def _shown(observation: Any) -> str:
    if isinstance(observation, Mapping):
        return f"the keys {', '.join(map(str, observation))}"
    if isinstance(observation, Sequence) and not isinstance(observation, str):
        return f"{len(observation)} parts"
    return type(observation).__name__


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
    """What the metadata say about one part of an observation: an array, or further parts."""
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
    """Which number of an observation has which name, taken from how the file stores an episode."""

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
