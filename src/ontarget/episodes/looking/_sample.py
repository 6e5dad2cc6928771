"""A sample of the episodes at some of their steps, so that leaks are found fast in any log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes._store import Store

LEAST = 30  # with fewer episodes, a match between columns is too often mere chance
_MOST = 2_000
_STEPS = 8


@dataclass(frozen=True, eq=False)
class Moment:
    """Values of sampled episodes at one step t, or, if t is −1, in the last row of each."""

    t: int
    states: FloatArray  # (features, episodes)
    before: FloatArray  # the behavior before the row's action, and after it
    after: FloatArray
    rewards: FloatArray | None
    outcomes: FloatArray
    lengths: FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled episodes: at their first step, at a few later steps, and in their last rows."""

    moments: tuple[Moment, ...]
    last: Moment


def sampled(episodes: Recorded) -> Sample | None:
    """A sample of the episodes that depends only on their ids; None if there are too few."""
    if len(episodes) < LEAST:
        return None
    store = episodes._store
    own = np.arange(len(episodes)) if episodes._index is None else episodes._index
    chosen = np.sort(own[np.argsort(episodes.keys, kind="stable")[:_MOST]])
    reached = int(np.sort(store.lengths[chosen])[-LEAST])  # enough episodes have this many steps
    steps = np.unique(np.linspace(0, reached - 1, _STEPS).round().astype(int)).tolist()
    ends = np.empty(chosen.size, dtype=np.intp)
    for length in np.unique(store.lengths[chosen]).tolist():
        rows, alive = store.rows(length - 1, chosen)
        ending = store.lengths[chosen[alive]] == length
        ends[alive[ending]] = np.asarray(rows)[ending]
    return Sample(
        moments=tuple(_moment(store, t, chosen) for t in steps),
        last=_seen(store, -1, ends, chosen, store.outcomes[chosen]),
    )


def _moment(store: Store, t: int, chosen: IndexArray) -> Moment:
    rows, alive = store.rows(t, chosen)
    later, still = store.rows(t + 1, chosen)
    after = store.outcomes[chosen].copy()
    after[still] = store.before[later]
    return _seen(store, t, np.asarray(rows), chosen[alive], after[alive])


def _seen(store: Store, t: int, rows: IndexArray, chosen: IndexArray, after: FloatArray) -> Moment:
    return Moment(
        t=t,
        states=store.states[:, rows],
        before=store.before[rows],
        after=after,
        rewards=None if store.rewards is None else store.rewards[rows],
        outcomes=store.outcomes[chosen],
        lengths=store.lengths[chosen].astype(np.float64),
    )
