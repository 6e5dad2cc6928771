"""The arrays behind `Episodes`: time-major, columnar, read-only."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior, Column
from ontarget.episodes.schema import Schema
from ontarget.errors import EpisodesError

__all__ = ["Roles", "Store", "behavior_before"]


@dataclass(frozen=True)
class Roles:
    """Which column of the user's data plays which part, so that they can be given back."""

    episode: str = "episode"
    step: str = "step"
    reward: str | None = "reward"
    truncated: str | None = None
    terminated: str | None = None
    group: str | None = None
    first_step: int = 0


@dataclass(frozen=True)
class Store:
    """Every recorded row, one slice per step.

    Step t's rows are ``offsets[t]:offsets[t + 1]``, one for each episode with ``lengths > t``, in
    the order of the episodes.
    """

    schema: Schema
    behavior: Behavior
    horizon: int
    roles: Roles
    ids: AnyArray
    groups: AnyArray | None
    truncated: BoolArray | None
    terminated: BoolArray | None
    lengths: IndexArray
    offsets: IndexArray
    states: FloatArray  # (features, rows): a step's slice of each feature is contiguous
    rewards: FloatArray | None
    before: FloatArray  # behavior before acting, one per row
    outcomes: FloatArray
    dropped: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @cached_property
    def censored(self) -> BoolArray:
        """Which episodes were cut off before their end and before the horizon."""
        if self.terminated is not None:
            cut = ~self.terminated
        elif self.truncated is not None:
            cut = self.truncated
        else:
            cut = np.zeros(self.lengths.size, dtype=np.bool_)
        return cut & (self.lengths < self.horizon)

    def part(self, episodes: IndexArray) -> Store:
        """A store of these episodes alone."""
        slices = [self.rows(t, episodes)[0] for t in range(int(self.lengths[episodes].max()))]
        rows = np.concatenate([np.asarray(part) for part in slices])
        counts = [np.asarray(part).size for part in slices]

        def own(values: AnyArray | None) -> Any:
            return None if values is None else values[episodes]

        return replace(
            self,
            ids=self.ids[episodes],
            groups=own(self.groups),
            truncated=own(self.truncated),
            terminated=own(self.terminated),
            lengths=self.lengths[episodes],
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.intp),
            states=self.states[:, rows],
            rewards=None if self.rewards is None else self.rewards[rows],
            before=self.before[rows],
            outcomes=self.outcomes[episodes],
        )

    def rows(self, step: int, episodes: IndexArray | None) -> tuple[slice | IndexArray, IndexArray]:
        """The rows of a step, for all episodes or some, and the positions of those alive.

        Positions count within ``episodes`` where it is given.
        """
        if step >= self.offsets.size - 1:
            return slice(0, 0), np.zeros(0, dtype=np.intp)
        start, stop = int(self.offsets[step]), int(self.offsets[step + 1])
        if episodes is None:
            return slice(start, stop), np.flatnonzero(self.lengths > step)
        kept = np.flatnonzero(self.lengths[episodes] > step)
        if stop - start == self.lengths.size:
            return start + episodes[kept], kept
        alive = np.flatnonzero(self.lengths > step)
        return start + np.searchsorted(alive, episodes[kept]), kept


def behavior_before(
    behavior: Behavior,
    values: FloatArray,
    lengths: IndexArray,
    offsets: IndexArray,
) -> tuple[FloatArray, FloatArray]:
    """The behavior before acting at each row, and each episode's outcome.

    ``values`` are the rewards, or the column's own values after each row, in time-major order.
    """
    before = np.empty(values.size)
    outcomes = np.full(lengths.size, behavior.initial)
    alive = np.arange(lengths.size)
    for step in range(offsets.size - 1):
        rows = slice(int(offsets[step]), int(offsets[step + 1]))
        if rows.stop - rows.start != alive.size:
            alive = np.flatnonzero(lengths > step)
        so_far = outcomes[alive]
        before[rows] = so_far
        if isinstance(behavior, Column):
            outcomes[alive] = values[rows]
        else:
            with np.errstate(over="ignore"):  # refused below
                outcomes[alive] = behavior.update(so_far, values[rows], step)
    if not np.all(np.isfinite(outcomes)):
        raise EpisodesError(
            "an episode's outcome is too large for float64; use rewards of a smaller scale"
        )
    return before, outcomes
