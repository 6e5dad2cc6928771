"""Finds rewards that are one row too late: a row contains what the row before it earned."""

from __future__ import annotations

import numpy as np

from ontarget.episodes._recorded import Recorded
from ontarget.episodes.looking._caution import Caution
from ontarget.episodes.reading._layout import AN_OUTCOME, FROM_NEXT
from ontarget.errors import Argument

_LEAST = 20  # the fewest episodes to judge by
_SELDOM = 0.1


def find_since_last(episodes: Recorded) -> list[Caution]:
    """A caution if each row seems to contain the reward of the row before it; else an empty list.

    It seems so if the reward is 0 in the first row of every episode, and seldom 0 elsewhere.
    """
    reward, store = episodes.roles.reward, episodes._store
    if reward is None or store.rewards is None or reward.startswith((AN_OUTCOME, FROM_NEXT)):
        return []
    own = np.arange(len(episodes)) if episodes._index is None else episodes._index
    own = own[store.lengths[own] > 1]
    if own.size < _LEAST or np.any(store.rewards[store.rows(0, own)[0]] != 0.0):
        return []
    zeros = rows = 0
    for t in range(1, int(store.lengths[own].max())):
        later = store.rewards[store.rows(t, own)[0]]
        zeros, rows = zeros + int(np.count_nonzero(later == 0.0)), rows + later.size
    if zeros > _SELDOM * rows:
        return []
    what = (
        f"{reward!r} is 0 in the first row of all {own.size:,} episodes with several rows, and "
        "seldom 0 in other rows, as if it were what was earned since the previous row"
    )
    why = (
        "A row's reward must be what is earned after it. An evaluation cannot notice the mistake, "
        "because it reads new runs in the same way. But p of a run in progress is then wrong, and "
        "more alarms are false"
    )
    remedy = (
        "If it is so, pass ",
        Argument("reward_since_last", True),
        ": each row then gets the reward of the next row. If it is only that nothing can be earned "
        "in the first step, nothing is wrong",
    )
    return [Caution("since last", (reward,), what, why, remedy)]
