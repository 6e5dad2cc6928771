"""The step of each row, from whole numbers or from times in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from ontarget._typing import IndexArray
from ontarget.episodes.reading._columns import whole_numbers
from ontarget.episodes.reading._layout import Layout
from ontarget.episodes.reading._parts import Parts
from ontarget.errors import Argument, EpisodesError, Placeholder

__all__ = ["Steps", "read_steps"]


class Steps(NamedTuple):
    """The steps (None: rows are in order), the number of the first step, and the roles."""

    values: IndexArray | None
    first: int
    parts: Parts


def read_steps(
    parts: Parts, layout: Layout, ids: IndexArray, read: Callable[[str], pl.Series]
) -> Steps:
    """The step of each row, counted from the first step passed, or else from the smallest.

    A column that was guessed to be the step may hold times instead, such as seconds with decimals.
    It then becomes a feature, and the roles are returned without it.
    """
    name, first = parts.step, layout.first_step
    column = None if name is None else read(name)
    if column is not None and "step" in parts.guessed and _has_decimals(column):
        _refuse_disorder(column, ids)
        note = f"{name!r} has decimals, so it is a feature; the rows in order are the steps"
        guessed = tuple(part for part in parts.guessed if part != "step")
        parts = replace(parts, step=None, guessed=guessed, notes=(*parts.notes, note))
        column = None
    if column is None:
        return Steps(None, 0 if first is None else int(first), parts)
    values = whole_numbers(column, f"step (column {name!r})")
    if first is not None:
        return Steps(values, int(first), parts)
    smallest = int(values.min())
    usual = smallest if layout.like is None else layout.like.roles.first_step
    if smallest != usual:
        note = f"steps count from {smallest} here, but from {usual} in the episodes of the fit"
        parts = replace(parts, notes=(*parts.notes, note))
    return Steps(values, smallest, parts)


def _refuse_disorder(times: pl.Series, ids: IndexArray) -> None:
    """Refuse times that do not increase from one row of an episode to the next."""
    by_episode = np.argsort(ids, kind="stable")
    same = np.diff(ids[by_episode]) == 0
    if np.all(np.diff(times.to_numpy()[by_episode])[same] > 0):
        return
    raise EpisodesError(
        f"column {times.name!r} holds numbers with decimals, and does not rise within each "
        "episode; sort the rows by episode and time, or pass ",
        Argument("step", Placeholder("NAME")),
        " with a column of whole numbers, or ",
        Argument("step", None),
        " if the rows are in order",
    )


def _has_decimals(column: pl.Series) -> bool:
    """Whether these are numbers without gaps, not all of them whole."""
    if not column.dtype.is_float() or column.has_nulls():
        return False
    return bool(column.is_finite().all() and (column != column.round()).any())
