"""Turns targets into CDF limits: which limit each bound of each component takes (M4).

A closed lower bound takes the left limit of the CDF, so that probability on the bound itself
counts; an open one takes the right limit. For upper bounds it is the other way round. An infinite
bound takes an infinite limit, which counts as exactly 0 or 1.
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
from ontarget.errors import InputError, TargetError
from ontarget.models.base import ConditionalDistribution
from ontarget.target import Component, Target

__all__ = ["TargetEnds", "checked_offset", "raw_probability"]


@dataclass(frozen=True, eq=False)
class TargetEnds:
    """The finite bounds of some targets, each once, and which of them each component uses.

    Make it with `of`. ``values`` are the bounds in ascending order; ``single`` is True for a single
    target, not a list; ``grid`` is the grid of M1, or None.
    """

    targets: tuple[Target, ...]
    single: bool
    grid: float | None
    values: FloatArray

    @classmethod
    def of(cls, targets: Target | Sequence[Target], grid: float | None = None) -> TargetEnds:
        """The bounds of one target or of a sequence of targets, on the grid."""
        single = isinstance(targets, Target)
        several = (targets,) if isinstance(targets, Target) else tuple(targets)
        for target in several:
            if not isinstance(target, Target):
                raise TargetError(f"target needs a Target or a sequence of them, got {target!r}")
        # Snapped before any shift, so that components which meet on the grid are one.
        snapped = tuple(target.shift(0.0, grid) for target in several)
        ends = {end for t in snapped for c in t for end in (c.lower, c.upper) if math.isfinite(end)}
        values = read_only(np.array(sorted(ends), dtype=np.float64))
        return cls(snapped, single, grid, values)

    @property
    def components(self) -> list[Component]:
        """The components of all targets, one target after the other."""
        return [component for target in self.targets for component in target]

    @property
    def first(self) -> IndexArray:
        """Where each target's components start, with their total at the end."""
        sizes = [len(target.components) for target in self.targets]
        return np.concatenate(([0], np.cumsum(sizes, dtype=np.intp))).astype(np.intp)

    def shifted(self, offset: FloatArray) -> FloatArray:
        """Every finite bound minus each row's offset, on the grid: (rows, bounds)."""
        moved = self.values[None, :] - snap(offset, self.grid)[:, None]
        return snap(moved, self.grid)

    def columns(self) -> tuple[IndexArray, IndexArray]:
        """Columns of the lower and upper limits in ``[left | right | -inf | +inf]``."""
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
        """Lower and upper limits of every component, from both limits at every finite bound."""
        rows = left.shape[0]
        infinite = np.broadcast_to([-math.inf, math.inf], (rows, 2))
        every = np.concatenate((left, right, infinite), axis=1)
        lower, upper = self.columns()
        return every[:, lower], every[:, upper]

    def limits(
        self, model: ConditionalDistribution, X: ArrayLike, offset: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """CDF limits (a⁻, a⁺) of every component for every row: (rows, components) each."""
        if self.values.size == 0:
            nothing = np.empty((offset.size, 0))
            return self.spread(nothing, nothing)
        left, right = model.cdf_limits(X, self.shifted(offset))
        return self.spread(left, right)

    def contains(self, outcomes: FloatArray, offset: FloatArray) -> BoolArray:
        """Whether each row's outcome, counted from its offset, lies in each target."""
        points = snap(outcomes, self.grid)[:, None]
        ends = self.shifted(offset)
        # A point mass is its own CDF: P(Y < end) and P(Y <= end) say which side of it each lies.
        a_minus, a_plus = self.spread((points < ends).astype(float), (points <= ends).astype(float))
        inside = (np.maximum(a_minus, 0.0) == 0.0) & (np.minimum(a_plus, 1.0) == 1.0)
        hit: BoolArray = np.zeros((inside.shape[0], len(self.targets)), dtype=np.bool_)
        for j, (a, b) in enumerate(pairwise(self.first)):
            hit[:, j] = inside[:, a:b].any(axis=1)
        return hit


def raw_probability(a_minus: FloatArray, a_plus: FloatArray, first: IndexArray) -> FloatArray:
    """The uncalibrated probability of each target, (rows, targets): sums of a⁺ − a⁻."""
    mass = np.minimum(a_plus, 1.0) - np.maximum(a_minus, 0.0)
    total: FloatArray = np.zeros((mass.shape[0], first.size - 1))
    for j, (a, b) in enumerate(pairwise(first)):
        total[:, j] = np.clip(mass[:, a:b].sum(axis=1), 0.0, 1.0)
    return total


def checked_offset(offset: ArrayLike, rows: int) -> FloatArray:
    """The offset of every row: behavior so far, finite, one number or one per row."""
    array = np.asarray(offset, dtype=np.float64)
    if array.shape not in ((), (rows,)):
        raise InputError(f"offset needs one number or one per row ({rows}), got {array.shape}")
    if not np.all(np.isfinite(array)):
        bad = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
        raise InputError(f"offset needs finite numbers, got {array.flat[bad[0]]} at row {bad[0]}")
    return np.broadcast_to(array, (rows,))
