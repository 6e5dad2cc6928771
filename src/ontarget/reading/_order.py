"""Finds out whether the order of a file, or the ids of its episodes, reveal the outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ontarget import Episodes
from ontarget._numerals import percent
from ontarget._typing import AnyArray, FloatArray
from ontarget.errors import Argument, Placeholder
from ontarget.reading._leaks import LEAST, Caution, determined, separated
from ontarget.reading.layout import AN_OUTCOME, FROM_NEXT, ON_CLOCK

_SORTED = 0.9
_NOTICEABLE = 0.1  # a share of the outcomes that the order of a file explains
_PARTS = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_LEAST = 20  # the fewest episodes to judge by
_SELDOM = 0.1
_MOST = 500  # this many episodes are enough to judge by
_NEARLY_ALL = 0.95
_ROUNDED = 1.05  # how many ticks a wait may differ, as its ends may be anywhere between two ticks


@dataclass(frozen=True)
class FileOrder:
    """How the episodes are ordered in their file.

    Attributes
    ----------
    sorted_by
        The features by which the file is sorted: their first readings never fall, or never rise,
        from one episode to the next.
    share
        The share of the differences between outcomes that an episode's place in the file explains,
        from 0 to 1.
    """

    sorted_by: tuple[str, ...]
    share: float

    def __str__(self) -> str:
        by = ", ".join(map(repr, self.sorted_by[:5])) or "no feature"
        share = "nothing" if self.share < 0.01 else percent(self.share, 0)
        text = f"the file is sorted by {by}; its order explains {share} of the outcomes"
        if self.share < _NOTICEABLE:
            return text
        return (
            f"{text}, so the runs are in no random order; for a drift check, name the column that "
            "says when they started (order)"
        )


def find_order(episodes: Episodes) -> tuple[FileOrder, list[Caution]]:
    """How the file is ordered, and cautions if its order or the ids are related to the outcomes."""
    outcomes = episodes.outcomes
    if len(episodes) < LEAST:
        return FileOrder((), 0.0), []
    share = max(determined(np.arange(len(episodes), dtype=np.float64), outcomes), 0.0)
    states = episodes.at(0).states.T
    names = episodes.schema.names
    sorted_by = tuple(name for name, x in zip(names, states, strict=True) if _is_sorted(x))
    cautions = []
    if share >= _SORTED:
        what = "The file is sorted by result: an episode's place in it predicts its outcome"
        why = (
            "This does not affect the split of a fit, but everything that takes runs in order: a "
            "test on the last rows, a drift guard, a replay"
        )
        remedy = "Sort the runs by the time at which they happened"
        cautions.append(Caution("order", (), what, why, (remedy,)))
    for part in _parts_of(episodes.ids):
        if max(determined(part, outcomes), separated(part, outcomes)) >= 0.95:
            role = episodes.roles.episode
            what = f"The ids of the episodes ({role!r}) reveal their outcomes"
            why = (
                "They were given after the runs were over. An id is not a feature, so p does not "
                "read it, but sorting or sampling by id selects runs by their result"
            )
            remedy = "Name the runs before they begin, and make no feature from the id"
            cautions.append(Caution("id", (role,), what, why, (remedy,)))
            break
    return FileOrder(sorted_by, share), cautions


def _is_sorted(x: FloatArray) -> bool:
    steps = np.diff(x)
    return bool(np.any(steps != 0) and (np.all(steps >= 0) or np.all(steps <= 0)))


def _parts_of(ids: AnyArray) -> Iterator[FloatArray]:
    """The numbers and words in ids such as ``run-17``, each as a column of numbers."""
    if ids.dtype.kind in "iu":
        yield ids.astype(np.float64)
        return
    split = [_PARTS.findall(str(one)) for one in ids.tolist()]
    width = min(map(len, split))
    for place in range(width):
        words = [parts[place] for parts in split]
        try:
            yield np.array(words, dtype=np.float64)
        except ValueError:
            yield np.unique(words, return_inverse=True)[1].astype(np.float64)


def find_since_last(episodes: Episodes) -> list[Caution]:
    """A caution if each row seems to contain the reward of the row before it."""
    reward, store = episodes.roles.reward, episodes._store
    if reward is None or store.rewards is None or reward.startswith((AN_OUTCOME, FROM_NEXT)):
        return []
    own = episodes._positions
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


def find_waits(episodes: Episodes) -> list[Caution]:
    """A caution if rewards are the times until the next row; else an empty list."""
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


def _earned_and_gaps(episodes: Episodes) -> tuple[FloatArray, FloatArray]:
    """What was earned at a step, and after how many steps something was earned again."""
    store = episodes._store
    own = episodes._positions
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
    """Whether rewards are the time to the next row, in whatever unit."""
    long = gaps > 1.0  # a wait shorter than one tick shows nothing
    if np.count_nonzero(long) < LEAST or np.ptp(gaps[long]) == 0.0 or np.ptp(earned[long]) == 0.0:
        return False
    unit = float(earned.sum() / gaps.sum())
    if unit == 0.0 or np.corrcoef(earned[long], gaps[long])[0, 1] * np.sign(unit) < _NEARLY_ALL:
        return False
    return bool(np.mean(np.abs(earned[long] / unit - gaps[long]) <= _ROUNDED) >= _NEARLY_ALL)
