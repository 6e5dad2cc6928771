"""Path bands: promised ranges for a run's later path, from the assure episodes (M22)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._typing import BoolArray, FloatArray, IndexArray, IntArray
from ontarget.conformal.levels import Level
from ontarget.episodes import Episodes, Translation
from ontarget.errors import Argument, FewEpisodesError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.paths.gains import LEVELS, Cells, Gains, Tail
from ontarget.fitted.recorded import RecordedRuns

_SLACK = 1e-12
# Runs per batch: each needs some ten kilobytes.
_ROWS, _FEW_ROWS = 256, 32


@dataclass(frozen=True, eq=False)
class PathLaw:
    """Predicts what a run adds to its behavior (gains) up to every later step, given step t.

    Attributes
    ----------
    t
        The step at which the prediction is made.
    parts
        The (weight, forest) pairs; the predicted distribution consists of the recorded rows in the
        leaves of these forests.
    gains
        What recorded runs gained after each step.
    cells
        The later steps, divided into ranges (cells) that share one predicted distribution.
    maps
        (cells, levels): the calibration curve of each cell; see `PathMaps`.
    """

    t: int
    parts: tuple[tuple[float, Any], ...]
    gains: Gains
    cells: Cells
    maps: FloatArray

    @cached_property
    def _tail(self) -> Tail:
        return self.gains.tail(self.t, self.cells.leads)

    def depths(self, X: FloatArray, paths: FloatArray) -> FloatArray:
        """(paths,): the largest distance of each path from later steps' predicted medians."""
        ends = self.gains.ends(paths, self.t, self.cells)
        pairs = np.arange(0, 2 * self.cells.leads.size + 1, 2)
        judged = self._judged(X, ends, Cells(self.cells.leads, pairs), paths)
        deepest: FloatArray = judged.max(axis=1)
        return deepest

    def _judged(
        self, X: FloatArray, values: FloatArray, cells: Cells, paths: FloatArray
    ) -> FloatArray:
        """(paths, values): how far each gain is from the median predicted for its cell."""
        found, tail = np.empty(values.shape), self._tail.at(cells.of_lead)
        for a in range(0, len(X), _ROWS):
            here = slice(a, a + _ROWS)
            left, right = np.zeros(values[here].shape), np.zeros(values[here].shape)
            for weight, model, samples in self._sampled(X[here]):
                sides = self.gains.limits(model, samples, self.t, cells, values[here])
                left += weight * sides[0]
                right += weight * sides[1]
            left, right = self.gains.kept(left, right, values[here], paths[here, self.t])
            sides = tail.mixed_in(left, values[here]), tail.mixed_in(right, values[here])
            above, below = self._shares(np.stack(sides), cells)
            found[here] = np.maximum(np.maximum(above - 0.5, 0.5 - below), 0.0)
        return found

    def band(self, X: FloatArray, depth: float) -> tuple[FloatArray, FloatArray]:
        """(runs, later steps), twice: the lower and upper end of each run's band, as gains."""
        shape = (len(X), self.cells.leads.size)
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        if np.isfinite(depth):
            reach = np.array([0.5 - depth - _SLACK, 0.5 + depth + _SLACK])
            levels = [np.interp(reach, LEVELS, one) for one in self.maps]
            for a in range(0, len(X), _FEW_ROWS):
                here = slice(a, a + _FEW_ROWS)
                values, mass = self._laws(X[here])
                for c, (low, high) in enumerate(levels):
                    law = values[:, c], mass[:, c]
                    lower[here, c] = self._quantile(law, c, low, strictly=False)
                    upper[here, c] = self._quantile(law, c, high, strictly=True)
        of_lead = self.cells.of_lead
        return lower[:, of_lead], upper[:, of_lead]

    def _sampled(self, X: FloatArray) -> list[tuple[float, Any, IntArray]]:
        return [
            (weight, model, self.gains.samples(model, model.members(X)))
            for weight, model in self.parts
        ]

    def _shares(self, limits: FloatArray, cells: Cells) -> FloatArray:
        """These probabilities after calibration, each by the calibration curve of its cell."""
        found = np.empty_like(limits)
        for c, ranks in enumerate(self.maps):
            here = slice(cells.starts[c], cells.starts[c + 1])
            found[..., here] = np.interp(limits[..., here], ranks, LEVELS)
        return found

    def _laws(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(runs, cells, gains), twice: sorted gains, and the total probability up to each gain."""
        sampled, leads = self._sampled(X), self.cells.leads
        found = [self.gains.gains(model, own, self.t, leads) for _, model, own in sampled]
        weights = [np.full(own.shape[1], w / own.shape[1]) for w, _, own in sampled]
        values, each = np.concatenate(found, axis=2), np.concatenate(weights)
        order = np.argsort(values, axis=2, kind="stable")
        return np.take_along_axis(values, order, axis=2), np.cumsum(each[order], axis=2)

    def _quantile(
        self, law: tuple[FloatArray, FloatArray], cell: int, level: float, *, strictly: bool
    ) -> FloatArray:
        """(runs,): the first gain at which the distribution function reaches a level."""
        values, mass = law
        if level >= 1.0 and strictly:
            return np.full(len(values), np.inf)
        tail = self._tail.at(cell)
        whole = tail.mixed_in(mass, values)
        # Equal gains count together: the level is reached there if the last of them reaches it.
        reached: BoolArray = whole > level if strictly else whole >= level
        first = np.argmax(reached, axis=1)
        none = ~reached.any(axis=1)
        rows = np.arange(len(values))
        before = np.where(first > 0, mass[rows, np.maximum(first - 1, 0)], 0.0)
        before = np.where(none, mass[:, -1], before)
        in_tail = tail.reaching(level, before)
        return np.where(none, in_tail, np.minimum(values[rows, first], in_tail))


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
        """(2, later steps): the least and the most that a run can add by each later step (M18)."""
        # It follows from the declared bounds of a reward (method M18 in docs/methods.md). A path
        # never leaves this range, so a band that is cut to it breaks no promise.
        fitted = self.fitted
        ends = [
            fitted.behavior.ahead(t, bounds=fitted.reward_bounds, horizon=h, declared=True)
            for h in range(t + 1, fitted.horizon + 1)
        ]
        return np.array(ends, dtype=np.float64).T

    def law(self, t: int) -> PathLaw:
        """The predicted distribution of what a run adds to its behavior after step t."""
        with self._lock:
            return _kept(self._laws, t, lambda: self._law(t))

    def depths(self, t: int) -> FloatArray:
        """(assure episodes,): how unusual each path is from step t on; NaN if it ended before t."""
        with self._lock:
            every = np.ones(len(self._assure), dtype=np.bool_)
            return _kept(self._depths, t, lambda: self._depths_of(t, every))

    def run_depths(self) -> FloatArray:
        """(assure episodes,): how unusual each path is, at worst over all steps' predictions."""
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
        """How many of n assure episodes to use, if the longest has this many steps."""
        # More episodes would take too long. If even a few would, an `InputError` is raised.
        allowed = _MOST_WORK // longest - _STEP_WORK
        if allowed < min(_TOO_FEW, n):
            raise InputError(
                "a path band with all_steps=True evaluates every step of the assure episodes, and "
                f"{longest:,} steps are too many for that; pass all_steps=False, or record fewer, "
                "longer steps"
            )
        return min(max(_MOST_ROWS // self.fitted.horizon, _FEWEST), allowed)

    def _depths_of(self, t: int, some: BoolArray) -> FloatArray:
        """(assure episodes,): how unusual the paths of some episodes are from step t on."""
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
    """The cached entry of step t, made by ``make`` if it is missing."""
    if t not in kept:
        kept[t] = make()
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(t)
    return kept[t]
