"""Evaluates a model's CDF at the bounds of targets (method M4 in docs/methods.md).

A target is a union of intervals, its components. At a value y, a CDF has two limits: the left one,
P(Y < y), and the right one, P(Y <= y). They differ if y itself has a probability. A closed lower
bound uses the left limit, so that the probability of the bound itself counts; an open lower bound
uses the right limit. For upper bounds it is the other way round. An infinite bound gives -inf or
+inf instead of a CDF, which later counts as exactly 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ontarget._grid import snap
from ontarget._readonly import read_only
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.errors import Argument, InputError, TargetError
from ontarget.models.base import ConditionalDistribution
from ontarget.target import Component, Target


@dataclass(frozen=True, eq=False)
class TargetEnds:
    """The distinct finite bounds of one or several targets, and which bounds each component uses.

    Make it with `of`. ``values`` are the bounds in ascending order. ``single`` is True if one
    target was passed instead of a sequence. Outcomes and bounds are rounded to multiples of
    ``grid``, if it is not None.
    """

    targets: tuple[Target, ...]
    single: bool
    grid: float | None
    values: FloatArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float | None = None) -> TargetEnds:
        """The bounds of one target or of a sequence of targets, rounded to the grid."""
        single = isinstance(targets, Target)
        several = (targets,) if isinstance(targets, Target) else tuple(targets)
        for target in several:
            if not isinstance(target, Target):
                raise TargetError(
                    Argument("target"), f" needs a Target or a sequence of them, got {target!r}"
                )
        # Snapped before any shift, so that components which meet on the grid are one.
        snapped = tuple(target.shift(0.0, grid) for target in several)
        ends = {end for t in snapped for c in t for end in (c.lower, c.upper) if math.isfinite(end)}
        values = read_only(np.array(sorted(ends), dtype=np.float64))
        return cls(snapped, single, grid, values)

    @property
    def components(self) -> list[Component]:
        """The intervals (components) of all targets, one target after the other."""
        return [component for target in self.targets for component in target]

    @property
    def first(self) -> IndexArray:
        """The index of each target's first interval, then the number of all intervals."""
        sizes = [len(target.components) for target in self.targets]
        return np.concatenate(([0], np.cumsum(sizes, dtype=np.intp))).astype(np.intp)

    def shifted(self, offset: FloatArray) -> FloatArray:
        """Every finite bound minus each row's offset (behavior so far): (rows, bounds).

        The results are rounded to the grid, as outcomes are.
        """
        moved = self.values[None, :] - snap(offset, self.grid)[:, None]
        return snap(moved, self.grid)

    def columns(self) -> tuple[IndexArray, IndexArray]:
        """For each component (interval), the columns of its lower and its upper limit.

        Both results are (components,). They are columns of the array that `spread` joins from four
        parts: the left limits at all finite bounds, the right limits, one column of -inf, one of
        +inf.
        """
        m = self.values.size
        place = {value: i for i, value in enumerate(self.values.tolist())}
        lower = [
            2 * m if c.lower == -math.inf else place[c.lower] + (0 if c.lower_closed else m)
            for c in self.components
        ]
        upper = [
            2 * m + 1 if c.upper == math.inf else place[c.upper] + (m if c.upper_closed else 0)
            for c in self.components
        ]
        return np.array(lower, dtype=np.intp), np.array(upper, dtype=np.intp)

    def spread(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The CDF at the lower and upper ends of all components (intervals of the targets).

        Both results are (rows, components). ``left`` and ``right``, (rows, bounds), are the CDF's
        two limits at every finite bound.
        """
        rows = left.shape[0]
        infinite = np.broadcast_to([-math.inf, math.inf], (rows, 2))
        every = np.concatenate((left, right, infinite), axis=1)
        lower, upper = self.columns()
        return every[:, lower], every[:, upper]

    def limits(
        self, model: ConditionalDistribution, X: ArrayLike, offset: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The model's CDF at the lower and upper ends of all components (intervals of the targets).

        The result is two arrays (rows, components), written a⁻ and a⁺ in docs/methods.md. Bounds
        are first shifted down by each row's offset, the behavior so far.
        """
        if self.values.size == 0:
            nothing = np.empty((offset.size, 0))
            return self.spread(nothing, nothing)
        left, right = model.cdf_limits(X, self.shifted(offset))
        return self.spread(left, right)

    def contains(self, outcomes: FloatArray, offset: FloatArray) -> BoolArray:
        """Whether each row's outcome plus its offset lies in each target: (rows, targets)."""
        points = snap(outcomes, self.grid)[:, None]
        ends = self.shifted(offset)
        # Treat each outcome as a distribution of one point: P(Y < end) and P(Y <= end) are 0 or 1.
        a_minus, a_plus = self.spread((points < ends).astype(float), (points <= ends).astype(float))
        inside = (np.maximum(a_minus, 0.0) == 0.0) & (np.minimum(a_plus, 1.0) == 1.0)
        hit: BoolArray = np.zeros((inside.shape[0], len(self.targets)), dtype=np.bool_)
        for j, (a, b) in enumerate(pairwise(self.first)):
            hit[:, j] = inside[:, a:b].any(axis=1)
        return hit


def raw_probability(a_minus: FloatArray, a_plus: FloatArray, first: IndexArray) -> FloatArray:
    """The uncalibrated probability of each target, (rows, targets).

    It is the sum, over the target's components (intervals), of the CDF at the upper end minus the
    CDF at the lower end. ``first`` says which components belong to which target, as
    `TargetEnds.first`.
    """
    mass = np.minimum(a_plus, 1.0) - np.maximum(a_minus, 0.0)
    total: FloatArray = np.zeros((mass.shape[0], first.size - 1))
    for j, (a, b) in enumerate(pairwise(first)):
        total[:, j] = np.clip(mass[:, a:b].sum(axis=1), 0.0, 1.0)
    return total


def checked_offset(offset: ArrayLike, rows: int) -> FloatArray:
    """The offset (the behavior so far) of every row, (rows,); a single number is for all rows.

    Numbers that are not finite, and arrays of other shapes, are refused.
    """
    array = np.asarray(offset, dtype=np.float64)
    if array.shape not in ((), (rows,)):
        raise InputError(
            Argument("offset"),
            f" needs one number or one per row ({rows}), got shape {array.shape}",
        )
    if not np.all(np.isfinite(array)):
        bad = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
        raise InputError(
            Argument("offset"), f" needs finite numbers, got {array.flat[bad[0]]} at row {bad[0]}"
        )
    return np.broadcast_to(array, (rows,))
