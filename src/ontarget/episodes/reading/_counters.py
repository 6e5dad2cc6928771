"""Finds columns that count the rows of each episode, if no column is known to be the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ontarget._typing import IndexArray
from ontarget.episodes.reading._layout import Layout
from ontarget.episodes.reading._parts import Parts
from ontarget.errors import Argument, EpisodesError, Placeholder

_NEARLY_ALL = 0.95  # the share of episodes in which a column must count the rows
# Two rows may contain 0 and 1 for many reasons, and some longer episodes may look so by chance.
_LONG, _FEWEST = 3, 5


def check_order(
    parts: Parts,
    layout: Layout,
    columns: Iterable[str],
    ids: IndexArray,
    read: Callable[[str], pl.Series],
) -> Parts:
    """Check the order of a table's rows with columns that count the rows of an episode.

    Such a column contains 0, 1, 2, … or 1, 2, 3, …, each number once in an episode. If there are
    such columns but none of them counts in the order of the table, the table is refused: if the
    last row came first, a monitor would see the future. Nothing is checked if a column is known to
    be the step, or if the user says that no column is the step. The result is ``parts`` (which
    column is what), with a remark if a column counts the rows.
    """
    if layout.step is None or parts.step is not None:
        return parts
    rows = _Rows.of(ids)
    found = {name: rows.counted_in_order(read(name)) for name in columns}
    counters = [name for name, in_order in found.items() if in_order is not None]
    if not counters:
        return parts
    as_they_stand = [name for name in counters if found[name]]
    if as_they_stand:
        name = as_they_stand[0]
        note = f"{name!r} counts the rows of each episode; if it is the step, pass it as the step"
        return replace(parts, notes=(*parts.notes, note))
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
class _Rows:
    """The rows of a table grouped by episode; within an episode they keep their order."""

    order: IndexArray
    starts: IndexArray
    lengths: IndexArray

    @classmethod
    def of(cls, ids: IndexArray) -> _Rows:
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ids[order]) != 0]))
        return cls(order, starts, np.diff(np.append(starts, order.size)))

    def counted_in_order(self, column: pl.Series) -> bool | None:
        """Whether the column counts the rows of each episode (0, 1, 2, …) in their present order.

        False if it counts the rows in another order, None if it does not count rows at all.
        """
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
