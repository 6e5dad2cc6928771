"""Targets as arrays for the kernels: the finite bounds, and which bounds each interval uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal.limits import TargetEnds
from ontarget.target import Target


@dataclass(frozen=True, eq=False)
class Question:
    """One or more targets and their complements, as arrays that the kernels read.

    A *component* is one interval of a target; a target may be a union of several intervals.

    Attributes
    ----------
    targets
        The targets, with their bounds rounded like outcomes (to the grid).
    values
        The finite bounds of all targets, without repeats, ascending.
    columns
        (2, components): where each component finds its lower and its upper bound in the
        concatenation ``[left | right | -inf | +inf]``. ``left`` and ``right`` are the predicted
        probabilities of an outcome below each of ``values``, and of one up to it.
    sides
        (components, 4): lower bound, upper bound, and 1 or 0 for whether each of the two belongs to
        the component.
    first
        Where the components of each target begin, then those of each target's complement.
    """

    targets: tuple[Target, ...]
    values: FloatArray
    columns: IndexArray
    sides: FloatArray
    first: IndexArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float) -> Question:
        """These targets as arrays for the kernels; bounds are rounded to multiples of ``grid``."""
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
        """The arrays ``columns``, ``sides`` and ``first``, which describe the targets."""
        return self.columns, self.sides, self.first
