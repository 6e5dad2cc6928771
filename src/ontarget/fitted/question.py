"""Targets as the kernels read them: each finite bound once, and which ones a component uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal._limits import TargetEnds
from ontarget.target import Target

__all__ = ["Question"]


@dataclass(frozen=True, eq=False)
class Question:
    """One or more targets and their complements, in the form that the kernels read.

    Attributes
    ----------
    targets
        The targets, on the grid.
    values
        Their finite bounds, each once, ascending.
    columns
        (2, components): where each component finds its lower and its upper limit in
        ``[left | right | -inf | +inf]``.
    sides
        (components, 4): each component's ends, and whether they belong to it.
    first
        Where the components of each target begin, then those of each complement.
    """

    targets: tuple[Target, ...]
    values: FloatArray
    columns: IndexArray
    sides: FloatArray
    first: IndexArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float) -> Question:
        """The question whether a run ends in each of these targets."""
        several = (targets,) if isinstance(targets, Target) else tuple(targets)
        snapped = tuple(target.shift(0.0, grid) for target in several)
        ends = TargetEnds.of([*snapped, *(target.complement() for target in snapped)], grid)
        sides = np.array(ends.components, dtype=np.float64).reshape(-1, 4)
        return cls(
            targets=snapped,
            values=ends.values,
            columns=read_only(np.stack(ends.columns())),
            sides=read_only(sides),
            first=read_only(ends.first),
        )

    @property
    def components(self) -> tuple[IndexArray, FloatArray, IndexArray]:
        """What the kernels take of it."""
        return self.columns, self.sides, self.first
