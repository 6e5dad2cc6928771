"""The rehearsal of a fit: asks models about learning episodes as if they were new (M16, M17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes
from ontarget.fitted.rehearsal import MOST_EPISODES, Rehearsal, as_shares
from ontarget.fitting.tasks import StepRows, seen_remainders

__all__ = ["REHEARSAL", "Stage", "rehearsed"]

REHEARSAL = "rehearsal"  # as a part of a fit
# A row is an episode at a step. Alarms are set by the least p of a run, so they need every step,
# and a threshold hardly gains from more rows than these.
_ALARM_EPISODES, _ENOUGH_EPISODES, _ALARM_ROWS, _ALARM_VALUES = 500, 100, 50_000, 64
# Maps change slowly over the steps; their part of a file is kept small.
_MAP_STEPS, _MAP_VALUES, _MAP_BYTES = 20, 48, 4_000_000


@dataclass(frozen=True, eq=False)
class Stage:
    """The learning episodes of a rehearsal, its steps, and the values at which the law is asked.

    ``ladder`` is (steps, values): at each step the remainders of its episodes as the models see
    them, or some at even ranks, between the least and the greatest of all steps; the last fills up
    the rest. The episodes are in the order of a hash of their ids.
    """

    episodes: Episodes
    steps: tuple[int, ...]
    ladder: FloatArray

    @classmethod
    def of(cls, learn: Episodes, seed: int, *, pace: float, sets_alarms: bool) -> Stage:
        """The stage of these learning episodes; of very many a part, chosen by a hash of ids.

        If it ``sets_alarms``, it has every step; otherwise some steps suffice.
        """
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
                # Where outcomes repeat a law may jump, and both limits are kept.
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
        """The rows, each asked at its step's ladder and, last, at its own remainder."""
        return tuple(replace(rows, y=self._values(rows)) for rows in steps)

    def _values(self, rows: StepRows) -> FloatArray:
        ladder = self.ladder[self.steps.index(rows.step)]
        return np.column_stack([np.broadcast_to(ladder, (len(rows), ladder.size)), rows.y])


def rehearsed(
    limits: dict[int, tuple[FloatArray, FloatArray]], stage: Stage, groups: IndexArray, seed: int
) -> Rehearsal:
    """The rehearsal, from both limits of each step's law at what `Stage.asking` asked."""
    episodes, ladder = stage.episodes, stage.ladder
    before, ranks, lefts, rights = [], [], [], []
    for t in stage.steps:
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
        lefts.append(as_shares(np.nan_to_num(left[:, :-1])))
        rights.append(as_shares(np.nan_to_num(right[:, :-1])))
    below, upto = np.concatenate(lefts), np.concatenate(rights)
    return Rehearsal(
        lengths=episodes.lengths,
        groups=groups,
        outcomes=episodes.outcomes,
        steps=np.array(stage.steps, dtype=np.intp),
        before=np.concatenate(before),
        ranks=np.concatenate(ranks),
        ladder=ladder,
        left=below[:0] if np.array_equal(below, upto) else below,
        right=upto,
    )


def _evenly(n: int, most: int) -> list[int]:
    """At most ``most`` of n places, evenly spaced, from the first to the last."""
    found: list[int] = np.unique(np.linspace(0, n - 1, most).round().astype(int)).tolist()
    return found


def _thinned(values: FloatArray, most: int) -> tuple[FloatArray, bool]:
    """The distinct values, or at most ``most`` of them at even ranks; whether any value repeats.

    The least, the greatest and the frequent values are always included.
    """
    distinct = np.unique(values)
    repeats = distinct.size < values.size
    if distinct.size <= most:
        return distinct, repeats
    return np.unique(np.sort(values)[_evenly(values.size, most)]), repeats
