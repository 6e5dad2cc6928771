"""The target map: it corrects p for one fixed target, and is learned from learning episodes.

See method M17 in docs/methods.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ontarget._arrays import read_only
from ontarget._text import percent
from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._mapping import FOLDS
from ontarget.fitted.law import StepLaw


@dataclass(frozen=True, eq=False)
class TargetMap:
    """A function that corrects p for one fixed target (a *target map*).

    A watch, which follows one run, uses the target map of its target. At every step the map is a
    rising function of p. It is learned from the learning episodes (recorded runs that models learn
    from) alone. If arithmetic decides a run, p stays exactly 0 or 1. `map_target` makes the map.

    Attributes
    ----------
    horizon
        The number of steps of a run.
    steps
        The steps whose maps were learned, ascending. Between two of them the map is interpolated.
    tables
        (folds + 1, steps, groups, knots): the corrected p for each p in `KNOTS`, 129 fixed
        probabilities. The learning episodes are divided into parts (folds). Entry f is learned
        without part f; the last entry is learned from all episodes.
    identity
        (steps, groups): how much of each map is the identity (p as it is), from 0 to 1; 1 if
        nothing could be learned.
    folds
        The fold of each learning episode that the map comes from.
    """

    horizon: int
    steps: IndexArray
    tables: FloatArray
    identity: FloatArray
    folds: IndexArray

    @property
    def n(self) -> int:
        """The number of learning episodes from which this correction of p was learned."""
        return int(self.folds.size)

    @cached_property
    def values(self) -> FloatArray:
        """(steps of a run, groups, knots): the corrected p for each p in `KNOTS`, at every step.

        `KNOTS` are 129 fixed probabilities from 0 to 1.
        """
        return read_only(self._between(self.tables[FOLDS]))

    @cached_property
    def spans(self) -> IndexArray:
        """(steps of a run, groups, 2): where each step's map begins and ends in the flat `values`.

        A map turns p into a corrected p. Begin and end are equal if the map is the identity; p is
        then left unchanged to the last bit.
        """
        shape = self.values.shape[:2]
        ends = np.arange(1, shape[0] * shape[1] + 1).reshape(shape) * KNOTS.size
        learned = self._between(self.identity) < 1.0
        return read_only(np.stack([ends - KNOTS.size * learned, ends], axis=-1).astype(np.intp))

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The step's predicted distribution, with this correction of p attached."""
        return replace(step, own_map=self.knots_at(step.t, group))

    def knots_at(self, t: int, group: int) -> FloatArray:
        """(knots,): the corrected p for each p in `KNOTS` at a step; empty if p stays unchanged.

        `KNOTS` are 129 fixed probabilities from 0 to 1.
        """
        start, stop = self.spans[t, group].tolist()
        return read_only(self.values.reshape(-1)[start:stop])

    def held_out(self, t: int, group: int, episodes: IndexArray, p: FloatArray) -> FloatArray:
        """(episodes,): corrected p of learning episodes, by maps that did not learn from them.

        A map is the function that corrects p. The episodes are divided into parts (folds), and each
        episode's p is corrected by the map that was learned without the episode's part.
        """
        found = np.array(p)
        for fold in range(FOLDS):
            own = self.folds[episodes] == fold
            table = self._between(self.tables[fold, :, group], np.array([t]))[0]
            found[own] = np.interp(p[own], KNOTS, table)
        return found

    @property
    def in_words(self) -> str:
        """How p is calibrated, as text that also says how much the uncorrected p still counts."""
        first, middle, last = (
            percent(float(self.identity[at].mean())) for at in (0, self.steps.size // 2, -1)
        )
        return (
            f"corrected for this target (target map, learned from {self.n:,} episodes); the "
            f"uncorrected p counts {first} at the start, {middle} in the middle, {last} at the end"
        )

    def _between(self, learned: FloatArray, at: IndexArray | None = None) -> FloatArray:
        """Values that were learned at some steps, interpolated linearly for other steps.

        The result has all steps of a run, or only the steps ``at``.
        """
        at = np.arange(self.horizon) if at is None else at
        place = np.interp(at, self.steps, np.arange(self.steps.size))
        below = np.minimum(place.astype(np.intp), max(self.steps.size - 2, 0))
        part = (place - below).reshape(-1, *[1] * (learned.ndim - 1))
        above = np.minimum(below + 1, self.steps.size - 1)
        # Between two equal numbers nothing is rounded, so an identity stays exactly one.
        found: FloatArray = np.where(
            learned[below] == learned[above],
            learned[below],
            (1.0 - part) * learned[below] + part * learned[above],
        )
        return found
