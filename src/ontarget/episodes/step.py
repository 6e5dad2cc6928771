"""`Step`: the episodes that are still going at one step, with their states and outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray


@dataclass(frozen=True, eq=False)
class Step:
    """The n episodes that are still going at one step, with their states and outcomes.

    Attributes
    ----------
    t
        The step.
    states
        The state of each episode before acting at this step, (n, columns).
    behavior
        The behavior so far, (n,).
    remaining
        The remainder of each episode, (n,): what was still to come. For a sum, the outcome minus
        the behavior so far. For a maximum or minimum, the extreme of the rewards from this step on.
        Otherwise the outcome.
    outcomes
        The outcome of each episode, (n,).
    ids, groups
        The id and the group of each episode, (n,); ``groups`` is None without groups.
    keys
        A 64-bit hash of each id, for random draws that do not depend on the order of the episodes.
    index
        The position of each episode among all episodes, (n,).
    """

    t: int
    states: FloatArray
    behavior: FloatArray
    remaining: FloatArray
    outcomes: FloatArray
    ids: AnyArray
    groups: AnyArray | None
    keys: KeyArray
    index: IndexArray

    def __len__(self) -> int:
        return int(self.index.size)

    @property
    def response(self) -> FloatArray:
        """What a model learns to predict: what was still to come in each episode, (n,)."""
        return self.remaining
