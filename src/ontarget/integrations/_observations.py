"""The layout of a Gymnasium observation space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ontarget._extras import require
from ontarget.episodes._observations import Leaf, ObservationLayout, Path, name_of
from ontarget.errors import InputError

__all__ = ["layout_of"]


def layout_of(space: Any) -> ObservationLayout:
    """The features that observations of this space hold.

    ``Box`` gives one number per entry; ``Discrete`` and ``MultiDiscrete`` give categories;
    ``Tuple`` and ``Dict`` are walked through.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> layout_of(Dict(arm=Box(-1.0, 1.0, (2,)), mode=Discrete(3))).names
    ('arm_0', 'arm_1', 'mode')
    """
    return ObservationLayout(tuple(_leaves(space, ())))


def _leaves(space: Any, path: Path) -> list[Leaf]:
    spaces = require("gymnasium.spaces", extra="gym")
    if isinstance(space, spaces.Dict):
        return [leaf for key, part in space.items() for leaf in _leaves(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for i, part in enumerate(space.spaces) for leaf in _leaves(part, (*path, i))]
    readers: dict[type, Callable[[Any], tuple[tuple[int, ...], Any, bool]]] = {
        spaces.Box: lambda box: (box.shape, box.dtype, False),
        spaces.Discrete: lambda choice: ((), choice.dtype, True),
        spaces.MultiDiscrete: lambda choices: (choices.shape, choices.dtype, True),
        spaces.MultiBinary: lambda flags: (flags.shape, flags.dtype, False),
    }
    for kind, read in readers.items():
        if isinstance(space, kind):
            shape, dtype, categorical = read(space)
            return [Leaf(path, tuple(shape), np.dtype(dtype).name, categorical=categorical)]
    where = f" at {name_of(path)!r}" if path else ""
    raise InputError(
        f"observations need Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict spaces, got "
        f"{type(space).__name__}{where}; wrap the environment in a "
        "gymnasium.wrappers.TransformObservation that gives one of these"
    )
