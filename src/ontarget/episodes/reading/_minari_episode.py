"""One checked episode of a Minari dataset, in any of its file formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ontarget._typing import AnyArray, FloatArray
from ontarget.episodes._observations import Leaf, ObservationLayout
from ontarget.errors import EpisodesFileError


class MinariEpisode(NamedTuple):
    """One episode: the state before each action, the rewards, and whether the run was cut off."""

    states: AnyArray
    rewards: FloatArray
    truncated: bool


def episode_of(
    name: str,
    column: Callable[[str], AnyArray],
    part: Callable[[Leaf], AnyArray],
    seen: ObservationLayout,
) -> MinariEpisode:
    """An episode of a Minari dataset, checked.

    ``column`` reads one of the episode's columns by its name, ``part`` reads one array of its
    observations.
    """
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
