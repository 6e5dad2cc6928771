"""The rehearsal of a fit without assure episodes: what its learning episodes are asked (M16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.fitted.rehearsal import Rehearsal, as_shares
from ontarget.fitting.tasks import StepRows

__all__ = ["REHEARSAL", "Stage", "rehearsed"]

REHEARSAL = "rehearsal"  # as a part of a fit
# A row is an episode at a step, and takes some 270 bytes; a threshold hardly gains from more.
_MOST_EPISODES, _ENOUGH_EPISODES, _MOST_ROWS = 500, 100, 50_000
_MOST_VALUES = 64


@dataclass(frozen=True, eq=False)
class Stage:
    """The learning episodes of a rehearsal, and the values at which their law is asked.

    ``ladder`` is (steps, values): at each step its episodes' remainders, or 64 of them at even
    ranks, between the least and the greatest remainder of all steps; the last fills up the rest.
    """

    episodes: Episodes
    ladder: FloatArray

    @classmethod
    def of(cls, learn: Episodes, seed: int) -> Stage:
        """The stage of these learning episodes; of very many a part, chosen by a hash of ids."""
        order = np.argsort(keyed_hash(learn.keys, seed, REHEARSAL), kind="stable")
        most = min(_MOST_EPISODES, max(_ENOUGH_EPISODES, _MOST_ROWS // learn.horizon))
        behavior, steps = learn.behavior, range(learn.horizon)
        found = [np.unique(learn.at(t).response * behavior.scale(t)) for t in steps]
        ends = [one[[0, -1]] for one in found if one.size]
        least, greatest = np.min(ends), np.max(ends)
        rungs = [np.unique([least, *_thinned(one), greatest]) for one in found]
        ladder = np.full((learn.horizon, max(map(len, rungs))), greatest)
        for t, own in enumerate(rungs):
            ladder[t, : own.size] = own
        return cls(learn.take(np.sort(order[:most])), ladder)

    def asking(self, steps: Sequence[StepRows]) -> tuple[StepRows, ...]:
        """The rows, each asked at its step's ladder and, last, at its own remainder."""
        return tuple(replace(rows, y=self._values(rows)) for rows in steps)

    def _values(self, rows: StepRows) -> FloatArray:
        ladder = self.ladder[rows.step]
        return np.column_stack([np.broadcast_to(ladder, (len(rows), ladder.size)), rows.y])


def rehearsed(
    limits: dict[int, tuple[FloatArray, FloatArray]], stage: Stage, groups: IndexArray, seed: int
) -> Rehearsal:
    """The rehearsal, from both limits of each step's law at what `Stage.asking` asked."""
    episodes, ladder = stage.episodes, stage.ladder
    before, ranks, sides = [], [], []
    for t in range(len(ladder)):
        rows = episodes.at(t)
        unanswered = np.full((len(rows), ladder.shape[1] + 1), np.nan)
        left, right = limits.get(t, (unanswered, unanswered))
        # An episode that every tree has seen has no honest answer of its own.
        known = ~np.isnan(left[:, -1])
        own = np.full(len(rows), np.nan)
        own[known] = draw_ranks(
            left[known, -1], right[known, -1], rows.keys[known], seed=seed, step=t
        )
        before.append(rows.behavior)
        ranks.append(own)
        sides.append([as_shares(np.nan_to_num(side[:, :-1])) for side in (left, right)])
    return Rehearsal(
        lengths=episodes.lengths,
        groups=groups,
        outcomes=episodes.outcomes,
        before=np.concatenate(before),
        ranks=np.concatenate(ranks),
        ladder=ladder,
        left=np.concatenate([left for left, _ in sides]),
        right=np.concatenate([right for _, right in sides]),
    )


def _thinned(values: FloatArray) -> FloatArray:
    """At most so many of the values, the least and the greatest among them."""
    if values.size <= _MOST_VALUES:
        return values
    return values[np.linspace(0, values.size - 1, _MOST_VALUES).round().astype(np.intp)]
