"""Learns to calibrate path bands, from the paths of learning episodes (M22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ontarget._grid import scale_of
from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.conformal.ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.fitted.paths._gains import MOST_CELLS, Cells, Gains
from ontarget.fitted.paths._maps import MOST_STEPS, PathMaps
from ontarget.fitted.recorded import RecordedRuns
from ontarget.fitting.tasks import PATHS, StepRows

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
