"""`Step`: the episodes that are alive at one step."""

from __future__ import annotations

from dataclasses import dataclass

from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray

__all__ = ["Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """The episodes that are alive at one step.

    Attributes
    ----------
    t
        The step.
    states
        Their states, (n, d), before acting.
    behavior
        Their behavior so far, b_t.
    remaining
        The remainder, what was still to come: for a sum, the outcome minus the behavior so far; for
        a maximum or minimum, that of the rewards from here on; otherwise the outcome.
    outcomes
        Their outcomes.
    ids, groups
        Their ids and groups; groups are None if the episodes have none.
    keys
        One 64-bit key per id, for randomness that does not depend on the order of the episodes.
    index
        Their positions among all the episodes.
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
        """What a model learns: the remainder (M18)."""
        return self.remaining
