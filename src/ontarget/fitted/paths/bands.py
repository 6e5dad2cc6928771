"""Path bands: promised ranges for a run's later path, from the assure episodes (held-out runs).

See method M22 in docs/methods.md.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.levels import Level
from ontarget.episodes import Episodes, Translation
from ontarget.errors import Argument, FewEpisodesError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.paths._gains import Cells, Gains
from ontarget.fitted.paths._law import PathLaw
from ontarget.fitted.recorded import RecordedRuns

Kept = TypeVar("Kept")

# For a band of all steps, about _MOST_ROWS rows of assure episodes are evaluated, but at least
# _FEWEST episodes.
_MOST_ROWS, _FEWEST = 5_000, 100
# If runs are long, the work is limited to _MOST_WORK rows, where each step costs _STEP_WORK more.
# If that allows fewer than _TOO_FEW episodes, too few for a 95 % band, it is an error.
_MOST_WORK, _STEP_WORK, _TOO_FEW = 80_000, 20, 20
_KEPT = 256  # steps whose predictions and depths stay in memory


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
    """Computes the path bands (ranges for later steps) of a monitor, and caches partial results."""

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
        """(runs, later steps), twice: the lower and upper end of each run's band at later steps."""
        fitted, law = self.fitted, self.law(t)
        depths = self.run_depths() if all_steps else self.depths(t)
        own = (fitted.assure_groups == group) & ~np.isnan(depths)
        depth = band_depth(depths[own], level, confidence)
        X = fitted.at(t, group).inputs(states, so_far)[:, : fitted.width]
        lower, upper = law.band(X, depth)
        if law.gains.adds_up:
            least, most = self._possible(t)
            lower, upper = (np.clip(one, least, most) + so_far[:, None] for one in (lower, upper))
        limit = {Translation.FLOOR: np.fmax, Translation.CEILING: np.fmin}.get(
            fitted.behavior.translation
        )
        if limit is not None:  # a maximum never falls, a minimum never rises
            lower, upper = limit(lower, so_far[:, None]), limit(upper, so_far[:, None])
        return snap(lower, fitted.grid), snap(upper, fitted.grid)

    def _possible(self, t: int) -> FloatArray:
        """(2, later steps): the least and the most that a run can add by each later step.

        It follows from the declared bounds of a reward (method M18 in docs/methods.md). A path
        never leaves this range, so a band that is cut to it breaks no promise.
        """
        fitted = self.fitted
        ends = [
            fitted.behavior.ahead(t, bounds=fitted.reward_bounds, horizon=h, declared=True)
            for h in range(t + 1, fitted.horizon + 1)
        ]
        return np.array(ends, dtype=np.float64).T

    def law(self, t: int) -> PathLaw:
        """The predicted distribution of what a run adds to its behavior after step t.

        There is one distribution for each later step.
        """
        with self._lock:
            return _kept(self._laws, t, lambda: self._law(t))

    def depths(self, t: int) -> FloatArray:
        """(assure episodes,): how unusual each path is from step t on; NaN if it ended before t.

        Assure episodes are the held-out runs that back the promises. The number, the *depth*, is
        the path's largest distance from the predicted medians, in probability, from 0 to ½.
        """
        with self._lock:
            every = np.ones(len(self._assure), dtype=np.bool_)
            return _kept(self._depths, t, lambda: self._depths_of(t, every))

    def run_depths(self) -> FloatArray:
        """(assure episodes,): how unusual each path is, at worst over the predictions of all steps.

        The number is the path's largest distance from the predicted medians, in probability. If
        runs are long, a random part of the assure episodes (held-out runs) is used; the others have
        NaN. The first call takes a second, or several if runs are long. If runs are too long for
        this computation, it raises an `InputError`.
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
        """How many of n assure episodes (held-out runs) to use, if the longest has this many steps.

        More episodes would take too long. If even a few would, an `InputError` is raised.
        """
        allowed = _MOST_WORK // longest - _STEP_WORK
        if allowed < min(_TOO_FEW, n):
            raise InputError(
                "a path band with all_steps=True evaluates every step of the assure episodes, and "
                f"{longest:,} steps are too many for that; pass all_steps=False, or record fewer, "
                "longer steps"
            )
        return min(max(_MOST_ROWS // self.fitted.horizon, _FEWEST), allowed)

    def _depths_of(self, t: int, some: BoolArray) -> FloatArray:
        """(assure episodes,): how unusual the paths of some episodes are from step t on.

        Assure episodes are held-out runs. The number is the path's largest distance from the
        predicted medians, in probability. It is NaN for episodes that are not in ``some`` or ended
        before t. An episode that was cut off counts as the worst case at every step: +inf.
        """
        fitted, rows = self.fitted, self._assure.at(t, grid=self.fitted.grid)
        found = np.where(some & np.isinf(fitted.excess), np.inf, np.nan)
        own = np.flatnonzero(some[rows.index] & ~fitted.bad_readings(rows.states))
        own = own[np.isfinite(fitted.excess[rows.index[own]])]
        if own.size:
            step, index = fitted.at(t), rows.index[own]
            X = step.inputs(rows.states[own], rows.behavior[own])[:, : fitted.width]
            # The prediction is not cached here: there may be thousands of steps.
            law = self._laws.get(t) or self._law(t)
            found[index] = law.depths(X, self._paths[index])
        return found

    @property
    def _assure(self) -> Episodes:
        if self.fitted.assure is None:
            raise FewEpisodesError(
                "a path band needs assure episodes, and this monitor has none; fit it with ",
                Argument("assure", 0.2),
            )
        return self.fitted.assure

    @cached_property
    def _paths(self) -> FloatArray:
        """(assure episodes, steps + 1): the behavior of each held-out run before every step."""
        runs = RecordedRuns.of(self._assure, precedents=False, paths=True)
        return runs.paths_until(self.fitted.horizon)

    def _law(self, t: int) -> PathLaw:
        fitted = self.fitted
        parts = fitted.at(t).parts
        if not parts or not all(hasattr(model, "members") for _, model in parts):
            raise InputError(
                "a path band needs a model that predicts with recorded runs: StackedForest "
                "or QuantileForest; fit the monitor with one of these as ",
                Argument("model"),
            )
        if self._gains is None:
            runs = fitted.runs
            self._gains = Gains.of(runs.paths, fitted.behavior, fitted.horizon, fitted.amounts)
        maps = fitted.path_maps.at(t, fitted.horizon)
        return PathLaw(t, parts, self._gains, Cells.of(fitted.horizon - t), maps)


def _kept(kept: OrderedDict[int, Kept], t: int, make: Callable[[], Kept]) -> Kept:
    """The cached entry of step t, made by ``make`` if it is missing.

    If the cache is full, the entries that were used longest ago are dropped.
    """
    if t not in kept:
        kept[t] = make()
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(t)
    return kept[t]
