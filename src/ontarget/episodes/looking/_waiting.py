"""Finds rewards that are the time until the next row of the log, if ``every=`` makes the steps."""

from __future__ import annotations

import numpy as np

from ontarget._typing import FloatArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.looking._caution import Caution
from ontarget.episodes.looking._sample import LEAST
from ontarget.episodes.reading._layout import ON_CLOCK
from ontarget.errors import Argument, Placeholder

_MOST = 500  # this many episodes are enough to judge by
_NEARLY_ALL = 0.95
_ROUNDED = 1.05  # how many ticks a wait may differ, as its ends may be anywhere between two ticks


def find_waits(episodes: Recorded) -> list[Caution]:
    """A caution if rewards are the times until the next row; else an empty list.

    This matters only with ``every=``, where steps are intervals of time. Such a reward is earned at
    the first step after its row. From then on, the sum of rewards so far reveals when the next row
    comes, although that is not known yet.
    """
    clock, reward = episodes.roles.step or "", episodes.roles.reward
    if ON_CLOCK not in clock or reward is None or episodes.behavior.spec != "sum":
        return []
    if not _are_waits(*_earned_and_gaps(episodes)):
        return []
    what = f"{reward!r} looks like the time until the next row of the log"
    why = (
        f"With a step every {clock.partition(ON_CLOCK)[2]}, the whole wait is earned at its first "
        "step, so p learns when the next row comes, which is not known yet"
    )
    remedy = (
        "Add a column with the time since the run began, and pass ",
        Argument("behavior", Placeholder("NAME")),
        " in place of the reward; or leave out ",
        Argument("every"),
        ", and log a row for each interval yourself",
    )
    return [Caution("wait", (reward,), what, why, remedy)]


def _earned_and_gaps(episodes: Recorded) -> tuple[FloatArray, FloatArray]:
    """What was earned at a step, and after how many steps something was earned again.

    There is one pair of numbers for each reward that is followed by another.
    """
    store = episodes._store
    own = np.arange(len(episodes)) if episodes._index is None else episodes._index
    chosen = np.sort(own[np.argsort(episodes.keys, kind="stable")[:_MOST]])
    last = np.full(chosen.size, -1)
    amount = np.zeros(chosen.size)
    earned, gaps = [], []
    assert store.rewards is not None  # a sum is made of rewards
    for t in range(int(store.lengths[chosen].max())):
        rows, alive = store.rows(t, chosen)
        reward = store.rewards[rows]
        some = reward != 0.0
        again = alive[some]
        known = again[last[again] >= 0]
        earned.append(amount[known])
        gaps.append((t - last[known]).astype(np.float64))
        last[again], amount[again] = t, reward[some]
    return np.concatenate(earned), np.concatenate(gaps)


def _are_waits(earned: FloatArray, gaps: FloatArray) -> bool:
    """Whether rewards are the time to the next row, in whatever unit.

    ``earned`` are the rewards, ``gaps`` the steps until something was earned again.
    """
    long = gaps > 1.0  # a wait shorter than one tick shows nothing
    if np.count_nonzero(long) < LEAST or np.ptp(gaps[long]) == 0.0 or np.ptp(earned[long]) == 0.0:
        return False
    unit = float(earned.sum() / gaps.sum())
    if unit == 0.0 or np.corrcoef(earned[long], gaps[long])[0, 1] * np.sign(unit) < _NEARLY_ALL:
        return False
    return bool(np.mean(np.abs(earned[long] / unit - gaps[long]) <= _ROUNDED) >= _NEARLY_ALL)
