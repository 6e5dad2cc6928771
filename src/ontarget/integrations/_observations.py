"""How observations of a Gymnasium space become rows of named numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ontarget._package import require
from ontarget.errors import InputError
from ontarget.reading.observations import SPACES, Numbers, ObservationLayout, read_layout


def layout_of(space: Any) -> ObservationLayout:
    """How an observation of this Gymnasium space becomes a row of named numbers.

    A ``Box`` gives one number per entry, ``Discrete`` and ``MultiDiscrete`` give categories, and
    the parts of a ``Tuple`` or ``Dict`` follow one another.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> layout_of(Dict(arm=Box(-1.0, 1.0, (2,)), mode=Discrete(3))).names
    ('arm_0', 'arm_1', 'mode')
    """
    return read_layout(space, _opened)


def _opened(space: Any, where: str) -> Numbers | Mapping[Any, Any]:
    """The parts of a ``Dict`` or ``Tuple`` space by key; for other spaces, shape and type.

    ``where`` says, in an error message, where the space was found.
    """
    spaces = require("gymnasium.spaces", extra="gym")
    if isinstance(space, spaces.Dict):
        return dict(space.items())
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(space.spaces))
    names = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    if names or isinstance(space, spaces.Box | spaces.MultiBinary):
        return Numbers(tuple(space.shape), np.dtype(space.dtype).name, categorical=names)
    raise InputError(
        f"{SPACES}, got {type(space).__name__}{where}; wrap the environment in a "
        "gymnasium.wrappers.TransformObservation that gives one of these"
    )
