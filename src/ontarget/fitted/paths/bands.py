"""Bands for a run's later path, with a promise from the assure episodes (M22)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from ontarget._grid import snap
from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal._levels import Level
from ontarget.episodes import Episodes, Translation
from ontarget.errors import FewEpisodesError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.paths._gains import Cells, Gains
from ontarget.fitted.paths._law import PathLaw
from ontarget.fitted.recorded import RecordedRuns

__all__ = ["PathBand", "PathBands"]

Kept = TypeVar("Kept")

# For all steps at once, so many rows of assure episodes are judged; but so many episodes at least.
_MOST_ROWS, _FEWEST = 5_000, 100
# Of long runs as many as this work allows, in rows; a step costs some, whoever is judged there.
# With fewer episodes than a 95 % band needs there is none.
_MOST_WORK, _STEP_WORK, _TOO_FEW = 80_000, 20, 20
_KEPT = 256  # steps whose law and depths are kept


@dataclass(frozen=True, eq=False)
class PathBand:
    """Where runs will be at every later step.

    Attributes
    ----------
    t
        The step at which the band was predicted.
    steps
        The later steps, up to the horizon. The band at step h is about the behavior before step h.
    lower, upper
        (runs, steps): the bounds of the band, infinite where nothing can be promised.
    level
        The probability with which the whole path stays inside.
    all_steps
        Whether this probability holds for the bands asked for at all steps of a run together, and
        not only for this band.
    """

    t: int
    steps: IndexArray
    lower: FloatArray
    upper: FloatArray
    level: float
    all_steps: bool


class PathBands:
    """Makes the path bands of a fitted monitor, and keeps what it computes from assure episodes."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        self._depths: OrderedDict[int, FloatArray] = OrderedDict()
        self._laws: OrderedDict[int, PathLaw] = OrderedDict()
        self._everywhere: FloatArray | None = None
        self._gains: Gains | None = None
        self._lock = threading.RLock()

    def band(
        self,
        t: int,
        states: FloatArray,
        so_far: FloatArray,
        group: int,
        *,
        level: Level,
        all_steps: bool = False,
        confidence: Level | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """(runs, later steps): the lower and upper ends for runs of one group."""
        fitted, law = self.fitted, self.law(t)
        depths = self.run_depths() if all_steps else self.depths(t)
        own = (fitted.assure_groups == group) & ~np.isnan(depths)
        depth = band_depth(depths[own], level, confidence)
        X = fitted.at(t, group).inputs(states, so_far)[:, : fitted.width]
        lower, upper = law.band(X, depth)
        if law.gains.adds_up:
            lower, upper = lower + so_far[:, None], upper + so_far[:, None]
        limit = {Translation.FLOOR: np.fmax, Translation.CEILING: np.fmin}.get(
            fitted.behavior.translation
        )
        if limit is not None:  # a maximum never falls, a minimum never rises
            lower, upper = limit(lower, so_far[:, None]), limit(upper, so_far[:, None])
        return snap(lower, fitted.grid), snap(upper, fitted.grid)

    def law(self, t: int) -> PathLaw:
        """The predicted distribution of what a run gains up to each later step, given step t."""
        with self._lock:
            return _kept(self._laws, t, lambda: self._law(t))

    def depths(self, t: int) -> FloatArray:
        """How deep each assure episode's path from step t on lies; NaN if it was over by then."""
        with self._lock:
            every = np.ones(len(self._assure), dtype=np.bool_)
            return _kept(self._depths, t, lambda: self._depths_of(t, every))

    def run_depths(self) -> FloatArray:
        """How deep each assure episode's path ever lies, over all steps.

        If runs are long, a random part of the assure episodes is used; the others have NaN. The
        first call takes a second, or several if runs are long. Runs that are too long for that are
        refused.
        """
        with self._lock:
            if self._everywhere is None:
                self._everywhere = self._run_depths()
            return self._everywhere

    def _run_depths(self) -> FloatArray:
        fitted, n = self.fitted, len(self._assure)
        longest = min(fitted.horizon, int(self._assure.lengths.max()))
        some = np.zeros(n, dtype=np.bool_)
        drawn = np.random.default_rng(0).permutation(n)
        some[drawn[: self._how_many(n, longest)]] = True
        known = [t for t in range(longest) if fitted.is_trained(t)]
        found = [self._depths_of(t, some) for t in known]
        deepest: FloatArray = np.fmax.reduce([np.where(some, 0.0, np.nan), *found])
        return read_only(deepest)

    def _how_many(self, n: int, longest: int) -> int:
        """Of how many of n assure episodes every step is judged, if the longest has so many."""
        allowed = _MOST_WORK // longest - _STEP_WORK
        if allowed < min(_TOO_FEW, n):
            raise InputError(
                "a path band of all steps is judged at every step of assure episodes, and "
                f"{longest:,} steps are too many for that; ask for the bands of single steps "
                "(all_steps=False), or record longer steps"
            )
        return min(max(_MOST_ROWS // self.fitted.horizon, _FEWEST), allowed)

    def _depths_of(self, t: int, some: BoolArray) -> FloatArray:
        """The depths of some assure episodes from step t on; NaN for others and where it is over.

        An episode that was cut off counts as the worst case at every step (M24).
        """
        fitted, rows = self.fitted, self._assure.at(t, grid=self.fitted.grid)
        found = np.where(some & np.isinf(fitted.excess), np.inf, np.nan)
        own = np.flatnonzero(some[rows.index] & ~fitted.bad_readings(rows.states))
        own = own[np.isfinite(fitted.excess[rows.index[own]])]
        if own.size:
            step, index = fitted.at(t), rows.index[own]
            X = step.inputs(rows.states[own], rows.behavior[own])[:, : fitted.width]
            # A law is not kept for this alone: there may be thousands.
            law = self._laws.get(t) or self._law(t)
            found[index] = law.depths(X, self._paths[index])
        return found

    @property
    def _assure(self) -> Episodes:
        if self.fitted.assure is None:
            raise FewEpisodesError(
                "a path band is promised by assure episodes, and this monitor has none; fit it "
                "with assure=0.2"
            )
        return self.fitted.assure

    @cached_property
    def _paths(self) -> FloatArray:
        """The paths of the assure episodes."""
        return RecordedRuns.of(self._assure, precedents=False, paths=True).paths

    def _law(self, t: int) -> PathLaw:
        fitted = self.fitted
        parts = fitted.at(t).parts
        if not parts or not all(hasattr(model, "members") for _, model in parts):
            raise InputError(
                "a path band needs a model whose answers rest on recorded runs: StackedForest, "
                "GuidedForest or QuantileForest"
            )
        if self._gains is None:
            runs = fitted.runs
            self._gains = Gains.of(runs.paths, fitted.behavior, fitted.horizon, fitted.amounts)
        maps = fitted.path_maps.at(t, fitted.horizon)
        return PathLaw(t, parts, self._gains, Cells.of(fitted.horizon - t), maps)


def _kept(kept: OrderedDict[int, Kept], t: int, make: Callable[[], Kept]) -> Kept:
    """What belongs to step t, made once; that of the step asked for longest ago is forgotten."""
    if t not in kept:
        kept[t] = make()
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(t)
    return kept[t]
