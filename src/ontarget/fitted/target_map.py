"""The map that improves p for one fixed target, learned from the learning episodes (M17)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ontarget._numerals import percent
from ontarget._readonly import read_only
from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._mapping import FOLDS
from ontarget.fitted.law import StepLaw
from ontarget.fitted.target_calibration import OfOneTarget, TargetCalibration

__all__ = ["Calibrated", "TargetMap"]


@dataclass(frozen=True, eq=False)
class TargetMap(OfOneTarget):
    """The map of one target: from the common p to the p of a watch with this target.

    It rises with p at every step, is learned from the learning episodes alone, and leaves p
    unchanged where arithmetic decides the outcome. `map_target` makes it.

    Attributes
    ----------
    target
        The target.
    horizon
        The number of steps of a run.
    steps
        The steps whose maps were learned, ascending; between two of them the map is interpolated.
    tables
        (folds + 1, steps, groups, knots): the mapped p at each of `KNOTS`; last from all episodes,
        before that without the episodes of each fold.
    identity
        (steps, groups): how much of each map is the identity: 1 where nothing could be learned.
    folds
        The fold of each rehearsed episode.
    """

    horizon: int
    steps: IndexArray
    tables: FloatArray
    identity: FloatArray
    folds: IndexArray

    @property
    def n(self) -> int:
        """How many learning episodes it comes from."""
        return int(self.folds.size)

    @cached_property
    def values(self) -> FloatArray:
        """(steps of a run, groups, knots): the map of every step."""
        return read_only(self._between(self.tables[FOLDS]))

    @cached_property
    def spans(self) -> IndexArray:
        """(steps of a run, groups, 2): where each map lies in the flat `values`.

        A span is empty if the map is the identity, which leaves p unchanged to the last bit.
        """
        shape = self.values.shape[:2]
        ends = np.arange(1, shape[0] * shape[1] + 1).reshape(shape) * KNOTS.size
        learned = self._between(self.identity) < 1.0
        return read_only(np.stack([ends - KNOTS.size * learned, ends], axis=-1).astype(np.intp))

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The step with its map."""
        return replace(step, own_map=self.knots_at(step.t, group))

    def knots_at(self, t: int, group: int) -> FloatArray:
        """The mapped p at each of `KNOTS` at a step; empty where the map leaves p as it is."""
        start, stop = self.spans[t, group].tolist()
        return read_only(self.values.reshape(-1)[start:stop])

    def held_out(self, t: int, group: int, episodes: IndexArray, p: FloatArray) -> FloatArray:
        """The mapped p of rehearsed episodes, each by the map that did not learn from it."""
        found = np.array(p)
        for fold in range(FOLDS):
            own = self.folds[episodes] == fold
            table = self._between(self.tables[fold, :, group], np.array([t]))[0]
            found[own] = np.interp(p[own], KNOTS, table)
        return found

    @property
    def in_words(self) -> str:
        """How p is calibrated, in words, and how much of the map is the identity."""
        first, middle, last = (
            percent(float(self.identity[at].mean())) for at in (0, self.steps.size // 2, -1)
        )
        return (
            f"this target's own map, from {self.n:,} learning episodes, blended with the p for all "
            f"targets, which counts {first} at the start, {middle} in the middle, {last} at the end"
        )

    def _between(self, learned: FloatArray, at: IndexArray | None = None) -> FloatArray:
        """Values learned at some steps, interpolated for every step of a run or the given ones."""
        at = np.arange(self.horizon) if at is None else at
        place = np.interp(at, self.steps, np.arange(self.steps.size))
        below = np.minimum(place.astype(np.intp), max(self.steps.size - 2, 0))
        part = (place - below).reshape(-1, *[1] * (learned.ndim - 1))
        above = np.minimum(below + 1, self.steps.size - 1)
        # Between two equal numbers nothing is rounded: an identity stays one.
        found: FloatArray = np.where(
            learned[below] == learned[above],
            learned[below],
            (1.0 - part) * learned[below] + part * learned[above],
        )
        return found


# How p of one target is calibrated, where it is not c_t's.
Calibrated: TypeAlias = TargetCalibration | TargetMap
