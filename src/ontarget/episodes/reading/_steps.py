"""The step of each row: a number in the table, or the place of the row in its sorted episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, IndexArray
from ontarget.episodes.reading._columns import Labels, numbers, whole_numbers
from ontarget.episodes.reading._layout import Layout
from ontarget.episodes.reading._parts import Parts
from ontarget.episodes.reading._times import is_times, times_of, year_first
from ontarget.errors import Argument, EpisodesError, Placeholder


class Steps(NamedTuple):
    """The step of each row (None if the rows are in order), and the number of the first step.

    It also says which column is the step, the reward and so on.
    """

    values: IndexArray | None
    first: int
    parts: Parts


def read_steps(
    parts: Parts, layout: Layout, ids: Labels, read: Callable[[str], pl.Series]
) -> Steps:
    """The step of each row of a table.

    The first step has the number that the user passed, or else the smallest number in the table. A
    column of times, or several columns together, only sort the rows of an episode; the steps are
    then 0, 1, 2, … If a column that was guessed to be the step has decimals, it becomes a feature,
    and the returned ``Steps`` does not list it as the step.
    """
    name, first = parts.step, layout.first_step
    columns = [year_first(read(one), f"step (column {one!r})") for one in parts.step_columns]
    timed = any(is_times(column) for column in columns)
    if columns and (parts.sorts or timed):
        if "step" in parts.guessed:
            note = f"{name!r} contains times: they sort the rows, which are counted as steps"
            parts = replace(parts, notes=(*parts.notes, note))
        start = 0 if first is None else int(first)
        return Steps(_places(columns, ids) + start, start, parts)
    if columns and "step" in parts.guessed and _has_decimals(columns[0]):
        _refuse_disorder(columns[0], ids.codes)
        note = f"{name!r} has decimals, so it is a feature, not the step; each row is one step"
        guessed = tuple(part for part in parts.guessed if part != "step")
        notes = (*parts.notes, note)
        parts = replace(parts, step=None, step_columns=(), guessed=guessed, notes=notes)
        columns = []
    if not columns:
        return Steps(None, 0 if first is None else int(first), parts)
    values = whole_numbers(columns[0], f"step (column {name!r})")
    if first is not None:
        return Steps(values, int(first), parts)
    smallest = int(values.min())
    usual = smallest if layout.like is None else layout.like.roles.first_step
    if smallest != usual:
        note = f"steps count from {smallest} here, but from {usual} in the episodes of the fit"
        parts = replace(parts, notes=(*parts.notes, note))
    return Steps(values, smallest, parts)


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
