"""Predicts learning episodes as if they were new runs: for rehearsals and path bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ontarget._grid import scale_of
from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.conformal.ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.fitted.paths.gains import MOST_CELLS, MOST_STEPS, Cells, Gains, PathMaps
from ontarget.fitted.recorded import MOST_EPISODES, RecordedRuns, Rehearsal, as_shares
from ontarget.fitting.tasks import PATHS, StepRows, seen_remainders

REHEARSAL = "rehearsal"  # the name of its rows among the parts of a fit
# A row is an episode at a step. An alarm threshold depends on the lowest p of a run, so it needs
# every step; more rows than these would hardly make it better.
_ALARM_EPISODES, _ENOUGH_EPISODES, _ALARM_ROWS, _ALARM_VALUES = 500, 100, 50_000, 64
# Target maps change slowly over the steps, so a few steps are enough and the file stays small.
_MAP_STEPS, _MAP_VALUES, _MAP_BYTES = 20, 48, 4_000_000


@dataclass(frozen=True, eq=False)
class Stage:
    """The episodes and steps of a rehearsal, and the values at which predictions are stored.

    A rehearsal predicts learning episodes as if they were new runs. ``ladder`` is (steps, values),
    ascending: the distinct remainders (what is still to earn) of all episodes at the step, in the
    scale of the models, or an even selection of these. The first and last value are the least and
    the greatest remainder of all steps; the last value is repeated to fill up the row. The episodes
    are in the order of a hash of their ids.
    """

    episodes: Episodes
    steps: tuple[int, ...]
    ladder: FloatArray

    @classmethod
    def of(cls, learn: Episodes, seed: int, *, pace: float, sets_alarms: bool) -> Stage:
        """The plan to predict these learning episodes as if they were new."""
        # If ``sets_alarms`` is true, the plan has every step, because alarm thresholds need all of
        # them. Otherwise it has at most 20 steps.
        some = range(learn.horizon) if sets_alarms else _evenly(learn.horizon, _MAP_STEPS)
        most = _ALARM_VALUES if sets_alarms else _MAP_VALUES
        ends: list[float] = []
        found: dict[int, FloatArray] = {}
        sides = 1
        for t in range(learn.horizon):
            y = seen_remainders(learn.at(t), learn.behavior.scale(t), pace * t, learn.grid)
            ends += [y.min(), y.max()] if y.size else []
            if t in some:
                found[t], repeats = _thinned(y, most)
                # If outcomes repeat, distribution functions may jump: both sides are stored.
                sides = 2 if repeats else sides
        rungs = [np.unique([min(ends), *found[t], max(ends)]) for t in some]
        ladder = np.full((len(some), max(map(len, rungs))), max(ends))
        for place, own in enumerate(rungs):
            ladder[place, : own.size] = own
        if sets_alarms:
            kept = min(_ALARM_EPISODES, max(_ENOUGH_EPISODES, _ALARM_ROWS // learn.horizon))
        else:
            kept = _MAP_BYTES // (len(some) * (16 + 2 * sides * ladder.shape[1]))
        order = np.argsort(keyed_hash(learn.keys, seed, REHEARSAL), kind="stable")
        return cls(learn.take(order[: min(kept, MOST_EPISODES)]), tuple(some), ladder)

    def asking(self, steps: Sequence[StepRows]) -> tuple[StepRows, ...]:
        """The rows with new values to predict at: those in ``ladder``, then the row's remainder."""
        return tuple(replace(rows, y=self._values(rows)) for rows in steps)

    def _values(self, rows: StepRows) -> FloatArray:
        ladder = self.ladder[self.steps.index(rows.step)]
        return np.column_stack([np.broadcast_to(ladder, (len(rows), ladder.size)), rows.y])


def rehearsed(
    limits: dict[int, tuple[FloatArray, FloatArray]], stage: Stage, groups: IndexArray, seed: int
) -> Rehearsal:
    """The rehearsal: learning episodes with predictions as if each were a new run."""
    episodes, ladder = stage.episodes, stage.ladder
    before, ranks, lefts, rights = [], [], [], []
    for t in stage.steps:
        rows = episodes.at(t)
        unanswered = np.full((len(rows), ladder.shape[1] + 1), np.nan)
        left, right = limits.get(t, (unanswered, unanswered))
        # If every tree has seen an episode, it has no out-of-bag prediction.
        known = ~np.isnan(left[:, -1])
        own = np.full(len(rows), np.nan)
        own[known] = draw_ranks(
            left[known, -1], right[known, -1], rows.keys[known], seed=seed, step=t
        )
        before.append(rows.behavior)
        ranks.append(own)
        lefts.append(as_shares(np.nan_to_num(left[:, :-1])))
        rights.append(as_shares(np.nan_to_num(right[:, :-1])))
    below, upto = np.concatenate(lefts), np.concatenate(rights)
    return Rehearsal(
        lengths=np.minimum(episodes.lengths, episodes.horizon),
        groups=groups,
        outcomes=episodes._unsnapped_outcomes,
        steps=np.array(stage.steps, dtype=np.intp),
        before=np.concatenate(before),
        ranks=np.concatenate(ranks),
        ladder=ladder,
        left=below[:0] if np.array_equal(below, upto) else below,
        right=upto,
    )


def _evenly(n: int, most: int) -> list[int]:
    """At most ``most`` of the numbers 0 to n − 1, evenly spaced, with the first and the last."""
    found: list[int] = np.unique(np.linspace(0, n - 1, most).round().astype(int)).tolist()
    return found


def _thinned(values: FloatArray, most: int) -> tuple[FloatArray, bool]:
    """The distinct values, ascending, or about ``most`` of these; and whether any value repeats."""
    distinct = np.unique(values)
    repeats = distinct.size < values.size
    if distinct.size <= most:
        return distinct, repeats
    return np.unique(np.sort(values)[_evenly(values.size, most)]), repeats


# The calibration curves are smooth: this many ranks are enough.
_EPISODES = 250


@dataclass(frozen=True, eq=False)
class PathStage:
    """The episodes and steps whose paths calibrate path bands, and what all runs gained."""

    episodes: Episodes
    steps: tuple[int, ...]
    gains: Gains
    paths: FloatArray  # of these episodes

    @classmethod
    def of(cls, learn: Episodes, seed: int) -> PathStage:
        """A choice of learning episodes and steps whose paths are compared with predictions."""
        order = np.argsort(keyed_hash(learn.keys, seed, PATHS), kind="stable")
        some = learn.take(order[:_EPISODES])
        n = learn.horizon
        steps = np.unique(np.linspace(0, n - 1, min(n, MOST_STEPS)).round().astype(int))
        amounts = np.array([learn.grid, scale_of(learn.grid)])
        return cls(
            episodes=some,
            steps=tuple(steps.tolist()),
            gains=Gains.of(_paths(learn), learn.behavior, n, amounts),
            paths=_paths(some),
        )

    def asking(self, steps: Sequence[StepRows]) -> tuple[StepRows, ...]:
        """The rows with new values to predict at: the row's own gain in every cell."""
        return tuple(replace(rows, y=self.values(rows.step, rows.index)) for rows in steps)

    def values(self, t: int, episodes: IndexArray) -> FloatArray:
        """(episodes, cells): what these episodes gained from step t to the middle of each cell."""
        leads = Cells.of(self.episodes.horizon - t).leads
        return self.gains.own(self.paths[episodes], t, leads)


def _paths(episodes: Episodes) -> FloatArray:
    return RecordedRuns.of(episodes, precedents=False, paths=True).paths


def learned_maps(
    limits: dict[int, tuple[FloatArray, FloatArray]], stage: PathStage, seed: int
) -> PathMaps:
    """The calibration curve of path bands for each step and cell (range of later steps)."""
    found = {}
    for t in sorted(limits):
        rows = stage.episodes.at(t)
        leads = Cells.of(stage.episodes.horizon - t).leads
        values, tail = stage.values(t, rows.index), stage.gains.tail(t, leads)
        now = stage.paths[rows.index, t]
        left, right = (
            tail.mixed_in(one, values) for one in stage.gains.kept(*limits[t], values, now)
        )
        found[t] = [
            _ranks(left[:, c], right[:, c], rows.keys, seed=seed, step=t * MOST_CELLS + c)
            for c in range(left.shape[1])
        ]
    return PathMaps.of(found)


def _ranks(
    left: FloatArray, right: FloatArray, keys: KeyArray, *, seed: int, step: int
) -> FloatArray:
    known = ~(np.isnan(left) | np.isnan(right))
    return np.sort(draw_ranks(left[known], right[known], keys[known], seed=seed, step=step))
