"""Turns rows recorded at any times into one row per interval of time (option ``every``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ontarget._typing import IndexArray
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.reading._columns import Labels, numbers
from ontarget.episodes.reading._parts import Parts
from ontarget.episodes.reading._steps import sortable
from ontarget.episodes.reading._times import is_times, times_of, year_first
from ontarget.errors import Argument, EpisodesError

_UNITS: Final = {"ms": 10**3, "s": 10**6, "m": 6 * 10**7, "h": 36 * 10**8, "d": 864 * 10**8}
_EVERY: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)\s*")
# A clock much finer than the log would fill the memory with copies.
_MOST_ROWS: Final = 10_000_000
_MOST_COPIES: Final = 100


@dataclass(frozen=True, eq=False)
class Clock:
    """Which rows of a table belong to each tick; a tick begins an interval of time (``every=``).

    Attributes
    ----------
    ids
        The episode of each tick.
    steps
        The number of each tick in its episode, from 0.
    seen
        For each tick, the last row at or before its time: the state that is known at the tick.
    ended
        For each tick, the last row before the next tick: what is known after acting.
    tick
        For each row of the table, the last tick at or before its time.
    times
        The time of each tick.
    """

    ids: Labels
    steps: IndexArray
    seen: IndexArray
    ended: IndexArray
    tick: IndexArray
    times: pl.Series

    def reader(
        self,
        read: Callable[[str], pl.Series],
        parts: Parts,
        behavior: Behavior,
        *,
        summed: str | None,
    ) -> Callable[[str], pl.Series]:
        """A function that reads a column of the table with one value per tick.

        A tick begins an interval of time, and becomes one step of an episode. The state is what is
        known at the tick. The rewards from one tick to the next become one reward. ``summed`` is
        the column of rewards.
        """
        late = {parts.truncated, parts.terminated, parts.reward, behavior.column}

        def column(name: str) -> pl.Series:
            if name == parts.step_columns[0]:
                return self.times
            if name == summed and name != behavior.column:
                return self._earned(read(name), behavior)
            return read(name).gather(self.ended if name in late else self.seen)

        return column

    def _earned(self, column: pl.Series, behavior: Behavior) -> pl.Series:
        """One reward per tick (start of an interval), such that runs keep their outcomes.

        For the behavior "sum", it is the sum of the rewards in the interval; for "max" and "min",
        the largest or the smallest; otherwise the last.
        """
        rewards = numbers(column, f"reward (column {column.name!r})", lambda row: f"row {row}")
        if behavior.spec == "sum":
            total = np.bincount(self.tick, weights=rewards, minlength=self.seen.size)
            return pl.Series(column.name, total)
        # A tick without a row repeats the last reward, which changes no maximum, minimum or last.
        values = rewards[self.ended].copy()
        if behavior.spec in ("max", "min"):
            extreme = np.maximum if behavior.spec == "max" else np.minimum
            extreme.at(values, self.tick, rewards)
        return pl.Series(column.name, values)


def clock_of(column: pl.Series, ids: Labels, every: str, behavior: Behavior) -> Clock:
    """A clock that ticks at a fixed interval, such as "15m", from each episode's first row on.

    A tick becomes a step. The clock says which rows of the table belong to which tick.
    """
    length = _microseconds(every)
    column = year_first(column, f"step (column {column.name!r})")
    if not is_times(column):
        raise EpisodesError(
            Argument("every"),
            f" needs a column of dates or times as the step, got {column.name!r} of the type "
            f"{column.dtype}",
        )
    if not (behavior.told or behavior.spec in ("sum", "max", "min", "last")):
        raise EpisodesError(
            Argument("every"),
            f" adds up the rewards between ticks, which changes the behavior {behavior.spec!r}; "
            "use sum, max, min, last or a column",
        )
    times = sortable(column)
    order = np.lexsort((times, ids.codes))
    fresh = np.concatenate([[True], np.diff(ids.codes[order]) != 0])
    starts = np.flatnonzero(fresh)
    owner = np.cumsum(fresh) - 1
    since = times[order] - times[order][starts][owner]
    last = np.append(starts[1:], order.size) - 1
    ticks = since[last] // length + 1
    _check_size(int(ticks.sum()), order.size, every)
    offsets = np.concatenate([[0], np.cumsum(ticks)])
    total = int(offsets[-1])
    during = offsets[owner] + since // length
    ended = np.cumsum(np.bincount(during, minlength=total)) - 1
    # A row is part of the state from the first tick at or after it, unless the episode ends before.
    first_seen = -(-since // length)
    in_time = first_seen < ticks[owner]
    shown = np.bincount(offsets[owner[in_time]] + first_seen[in_time], minlength=total)
    hidden = np.cumsum(np.bincount(owner[~in_time], minlength=starts.size))
    episode = np.repeat(np.arange(starts.size), ticks)
    seen = np.cumsum(shown) - 1 + np.concatenate([[0], hidden])[episode]
    steps = np.arange(total) - offsets[episode]
    tick = np.empty(order.size, dtype=np.intp)
    tick[order] = during
    at = times[order][starts][episode] + steps * length
    kind = times_of(column.head(0)).dtype
    return Clock(
        ids=Labels(ids.codes[order[seen]], ids.dictionary),
        steps=steps,
        seen=order[seen],
        ended=order[ended],
        tick=tick,
        times=pl.Series(column.name, at).cast(kind),
    )


def _microseconds(every: object) -> int:
    found = _EVERY.fullmatch(every) if isinstance(every, str) else None
    if found is None or not int(found[1]):
        raise EpisodesError(
            Argument("every"), f" needs a time such as 30s, 15m, 1h or 1d, got {every!r}"
        )
    return int(found[1]) * _UNITS[found[2]]


def _check_size(ticks: int, rows: int, every: str) -> None:
    if ticks > max(_MOST_ROWS, _MOST_COPIES * rows):
        raise EpisodesError(
            Argument("every"),
            f" {every!r} makes {ticks:,} steps of {rows:,} rows; pass a longer interval",
        )
