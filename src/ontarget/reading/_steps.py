"""The step of each row: a number in the table, or the place of the row in its sorted episode."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, IndexArray
from ontarget.episodes.behavior import Behavior
from ontarget.errors import Argument, EpisodesError, Placeholder
from ontarget.reading._columns import Labels, is_times, numbers, times_of, whole_numbers, year_first
from ontarget.reading._parts import Parts, Table

_UNITS: Final = {"ms": 10**3, "s": 10**6, "m": 6 * 10**7, "h": 36 * 10**8, "d": 864 * 10**8}
_EVERY: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)\s*")
# A clock much finer than the log would fill the memory with copies.
_MOST_ROWS: Final = 10_000_000
_MOST_COPIES: Final = 100
_NEARLY_ALL = 0.95  # the share of episodes in which a column must count the rows
# Two rows may contain 0 and 1 for many reasons, and some longer episodes may look so by chance.
_LONG, _FEWEST = 3, 5


def read_steps(parts: Parts, table: Table, ids: Labels) -> tuple[IndexArray | None, int, Parts]:
    """The step of each row (None if the rows are in order), the first step, and the parts."""
    name, first = parts.step, table.layout.first_step
    columns = [year_first(table.read(one), f"step (column {one!r})") for one in parts.step_columns]
    timed = any(is_times(column) for column in columns)
    if columns and (parts.sorts or timed):
        if "step" in parts.guessed:
            note = f"{name!r} contains times: they sort the rows, which are counted as steps"
            parts = parts.noting(note)
        start = 0 if first is None else int(first)
        return _places(columns, ids) + start, start, parts
    if columns and "step" in parts.guessed and _has_decimals(columns[0]):
        _refuse_disorder(columns[0], ids.codes)
        note = f"{name!r} has decimals, so it is a feature, not the step; each row is one step"
        guessed = tuple(part for part in parts.guessed if part != "step")
        parts = replace(parts.noting(note), step=None, step_columns=(), guessed=guessed)
        columns = []
    if not columns:
        return None, 0 if first is None else int(first), parts
    values = whole_numbers(columns[0], f"step (column {name!r})")
    if first is not None:
        return values, int(first), parts
    smallest = int(values.min())
    like = table.layout.like
    usual = smallest if like is None else like.roles.first_step
    if smallest != usual:
        note = f"steps count from {smallest} here, but from {usual} in the episodes of the fit"
        parts = parts.noting(note)
    return values, smallest, parts


def _places(columns: list[pl.Series], ids: Labels) -> IndexArray:
    """For each row, its place in its episode after sorting the episode by these columns."""
    keys = [sortable(column) for column in columns]
    order = np.lexsort((*reversed(keys), ids.codes))
    same = np.diff(ids.codes[order]) == 0
    equal = same & np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
    if equal.any():
        row = order[int(np.argmax(equal))]
        names = " and ".join(repr(column.name) for column in columns)
        more = int(np.count_nonzero(equal)) - 1
        raise EpisodesError(
            f"two rows of episode {ids[np.array([row])][0]!s} have the same {names} "
            f"({', '.join(str(column[int(row)]) for column in columns)})"
            f"{f' (and {more:,} more such pairs)' * (more > 0)}; "
            "keep one of them, or name a further column that orders them: ",
            Argument("step", [*(column.name for column in columns), Placeholder("NAME")]),
        )
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    lengths = np.diff(np.append(starts, order.size))
    places = np.empty(order.size, dtype=np.intp)
    places[order] = np.arange(order.size) - np.repeat(starts, lengths)
    return places


def sortable(column: pl.Series) -> AnyArray:
    """A column as numbers to sort by: a larger or later value gives a larger number."""
    what = f"step (column {column.name!r})"
    if is_times(column):
        times = times_of(column)
        values: AnyArray = times.cast(pl.Int64).fill_null(0).to_numpy()
        lost = times.is_null().to_numpy()
        rule = "a date or time in every row, year first (2026-01-31 14:05:00)"
    else:
        values = numbers(column, what, lambda row: f"row {row}")
        lost = ~np.isfinite(values)
        rule = "a number in every row"
    if lost.any():
        row = int(np.argmax(lost))
        raise EpisodesError(f"{what} needs {rule}, got {column[row]!r} in row {row}")
    return values


def _refuse_disorder(times: pl.Series, ids: IndexArray) -> None:
    """Refuse times that do not grow from one row of an episode to the next."""
    by_episode = np.argsort(ids, kind="stable")
    same = np.diff(ids[by_episode]) == 0
    if np.all(np.diff(times.to_numpy()[by_episode])[same] > 0):
        return
    raise EpisodesError(
        f"column {times.name!r} has numbers with decimals, which do not rise within each "
        "episode; pass ",
        Argument("step", [times.name]),
        " to sort the rows by it, ",
        Argument("step", Placeholder("NAME")),
        " with a column of whole numbers, or ",
        Argument("step", None),
        " if the rows are in order",
    )


def _has_decimals(column: pl.Series) -> bool:
    """Whether the column has only numbers, none missing, and some of them are not whole."""
    if not column.dtype.is_float() or column.has_nulls():
        return False
    return bool(column.is_finite().all() and (column != column.round()).any())


@dataclass(frozen=True, eq=False)
class Clock:
    """Which rows of a table belong to each tick; a tick begins an interval of time (``every=``).

    ``seen`` is the last row at or before each tick, whose state is known then; ``ended`` the last
    row before the next tick; and ``tick`` the last tick at or before the time of each row.
    """

    ids: Labels
    steps: IndexArray
    seen: IndexArray
    ended: IndexArray
    tick: IndexArray
    times: pl.Series

    def reader(self, table: Table, parts: Parts) -> Callable[[str], pl.Series]:
        """A function that reads a column of the table with one value per tick."""
        read, behavior = table.read, table.judged.first.behavior
        summed = None if table.layout.outcome else parts.reward
        late = {parts.truncated, parts.terminated, parts.reward, behavior.column}

        def column(name: str) -> pl.Series:
            if name == parts.step_columns[0]:
                return self.times
            if name == summed and name != behavior.column:
                return self._earned(read(name), behavior)
            return read(name).gather(self.ended if name in late else self.seen)

        return column

    def _earned(self, column: pl.Series, behavior: Behavior) -> pl.Series:
        """One reward per tick, such that runs keep their outcomes."""
        # For the behavior "sum", it is the sum of the rewards in the interval; for "max" and "min",
        # the largest or the smallest; otherwise the last.
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
    """A clock that ticks at a fixed interval, such as "15m", from each episode's first row on."""
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


def check_order(parts: Parts, table: Table, ids: IndexArray) -> Parts:
    """Check the order of a table's rows with columns that count the rows of an episode."""
    # Such a column contains 0, 1, 2, … or 1, 2, 3, …, each number once in an episode. If there are
    # such columns but none of them counts in the order of the table, the table is refused: if the
    # last row came first, a monitor would see the future. Nothing is checked if a column is known
    # to be the step, or if the user says that no column is the step. The result is ``parts`` (which
    # column is what), with a remark if a column counts the rows.
    if table.layout.step is None or parts.step is not None:
        return parts
    grouped = _Grouped.of(ids)
    found = {name: grouped.counted_in_order(table.read(name)) for name in table.free(parts)}
    counters = [name for name, in_order in found.items() if in_order is not None]
    if not counters:
        return parts
    as_they_stand = [name for name in counters if found[name]]
    if as_they_stand:
        name = as_they_stand[0]
        note = f"{name!r} counts the rows of each episode; if it is the step, pass it as the step"
        return parts.noting(note)
    one = len(counters) == 1
    raise EpisodesError(
        f"no column is known to be the step, and {' and '.join(map(repr, counters))} "
        f"count{'s' * one} the rows of each episode, but the rows are in another order; pass ",
        Argument("step", counters[0] if one else Placeholder("NAME")),
        f" if {'it' if one else 'one of them'} gives the order of the rows, or ",
        Argument("step", None),
        " if the rows are in order",
    )


@dataclass(frozen=True, eq=False)
class _Grouped:
    """The rows of a table grouped by episode; within an episode they keep their order."""

    order: IndexArray
    starts: IndexArray
    lengths: IndexArray

    @classmethod
    def of(cls, ids: IndexArray) -> _Grouped:
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ids[order]) != 0]))
        return cls(order, starts, np.diff(np.append(starts, order.size)))

    def counted_in_order(self, column: pl.Series) -> bool | None:
        """Whether the column counts the rows of each episode in order; None if it counts none."""
        if not column.dtype.is_numeric() or column.has_nulls():
            return None
        values = column.cast(pl.Float64).to_numpy()[self.order]
        least = np.minimum.reduceat(values, self.starts)
        most = np.maximum.reduceat(values, self.starts)
        first = float(np.count_nonzero(least == 1) > np.count_nonzero(least == 0))
        fits = (least == first) & (most == first + self.lengths - 1)
        if not self._are_enough(fits):
            return None
        wanted = np.arange(values.size) - np.repeat(self.starts, self.lengths) + first
        episodes = np.repeat(np.arange(self.starts.size), self.lengths)
        ranked = values[np.lexsort((values, episodes))]
        once_each = np.logical_and.reduceat(ranked == wanted, self.starts)
        if not self._are_enough(once_each):
            return None
        in_order = np.logical_and.reduceat(values == wanted, self.starts)
        return bool(in_order[once_each].all())

    def _are_enough(self, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
        long = np.count_nonzero(which & (self.lengths >= _LONG))
        return bool(which.mean() >= _NEARLY_ALL and long >= _FEWEST)
