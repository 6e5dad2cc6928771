"""Reads the columns of a table, with rows sorted by step and then by episode."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from types import EllipsisType

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.censoring import all_taken_over, some_left_out
from ontarget.episodes.recording import Arrangement, arrange
from ontarget.errors import Argument, CensoredError, EpisodesError
from ontarget.reading._columns import Labels, flags, labels, numbers
from ontarget.reading._parts import Parts
from ontarget.reading.layout import Layout

_CUT = "truncated"
_USUAL = "intervened"


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, or its intervals of time (``every=``), sorted by step and episode."""

    read: Callable[[str], pl.Series]
    columns: tuple[str, ...]
    labels: Labels
    steps: IndexArray | None
    first_step: int
    parts: Parts

    @cached_property
    def arrangement(self) -> Arrangement:
        """The order that sorts the rows."""
        names = self.labels.dictionary
        return arrange(self.labels.codes, self.steps, first_step=self.first_step, names=names)

    @cached_property
    def ids(self) -> AnyArray:
        """The id of each episode."""
        return self.labels[self.arrangement.first_rows]

    def where(self, row: int) -> str:
        """The episode and the step of a row of the table, as text for messages."""
        order = self.arrangement.order
        episode, step = self.arrangement.locate(
            row if order is None else int(np.argmax(order == row))
        )
        return f"episode {self.ids[episode]!s}, step {step + self.first_step}"

    def per_row(self, name: str | None, what: str) -> FloatArray | None:
        """The numbers of a column, one per row; ``what`` is what messages call the column."""
        if name is None:
            return None
        values = numbers(self.read(name), f"{what} (column {name!r})", self.where)
        return self.arrangement.place(values)

    def at_start(self, name: str | None, what: str) -> FloatArray | None:
        """The number in the first row of each episode; ``what`` is what messages call it."""
        values = self.per_row(name, what)
        return None if values is None else values[: self.arrangement.lengths.size]

    def per_episode(self, column: pl.Series, what: str) -> AnyArray:
        """One value per episode; refused if the value differs between rows of an episode."""
        name, arrangement = column.name, self.arrangement
        found = labels(column, f"{what} (column {name!r})")
        other = found.place(arrangement) != found.codes[arrangement.first_rows][arrangement.owners]
        if other.any():
            episode, step = arrangement.locate(int(np.argmax(other)))
            raise EpisodesError(
                f"{what} (column {name!r}) needs the same value in all rows of an episode, got "
                f"another in episode {self.ids[episode]!s}, step {step + self.first_step}; a "
                f"{what} is known at the start of a run and does not change"
            )
        return found[arrangement.first_rows]

    def at_last(self, values: FloatArray, name: str) -> FloatArray:
        """A reward for each row: the outcome of an episode in its last row, 0 in its other rows."""
        last = self.arrangement.last_rows()
        own = values[last]
        other = ~np.isnan(values) & (values != own[self.arrangement.owners])
        if other.any():
            row = int(np.argmax(other))
            episode, step = self.arrangement.locate(row)
            raise EpisodesError(
                f"outcome (column {name!r}) needs one value per episode, got {values[row]:g} at "
                f"step {step + self.first_step} of episode {self.ids[episode]!s} and "
                f"{own[episode]:g} in its last row; pass ",
                Argument("behavior", name),
                " if it changes during a run",
            )
        earned = np.zeros(values.size)
        earned[last] = own
        return earned

    def refuse_first_gaps(self, rewards: FloatArray, name: str) -> None:
        """Refuse rewards that are missing in the first row of every episode and nowhere else."""
        n = self.arrangement.lengths.size
        if np.isnan(rewards[:n]).all() and rewards.size > n and not np.isnan(rewards[n:]).any():
            raise EpisodesError(
                f"reward (column {name!r}) is missing in the first row of every episode, and in no "
                "other row; if the column has what was earned since the previous row, pass ",
                Argument("reward_since_last", True),
                "; otherwise write 0 there if nothing was earned in the first step",
            )

    def from_next(self, values: FloatArray, name: str) -> FloatArray:
        """For each row, the value in the next row of its episode; 0 for the last row."""
        lengths, offsets = self.arrangement.lengths, self.arrangement.offsets
        first = values[: lengths.size]
        lost = np.flatnonzero(~np.isnan(first) & (first != 0.0))
        if lost.size:
            raise EpisodesError(
                f"reward (column {name!r}) needs 0 or nothing in the first row of an episode, got "
                f"{first[lost[0]]:g} in that of episode {self.ids[lost[0]]!s}"
                f"{f' (and {lost.size - 1:,} more)' * (lost.size > 1)}: with ",
                Argument("reward_since_last"),
                " the reward is what was earned since the previous row, and the first row has no "
                "previous row; write 0 there, or leave the option out",
            )
        found = np.zeros(values.size)
        for t in range(offsets.size - 2):
            goes_on = lengths[lengths > t] > t + 1
            found[offsets[t] : offsets[t + 1]][goes_on] = values[offsets[t + 1] : offsets[t + 2]]
        return found

    def at_end(self, name: str | None, what: str) -> BoolArray | None:
        """The flag in the last row of each episode; refused if it is set in any other row."""
        if name is None:
            return None
        raised = self.arrangement.place(flags(self.read(name), f"{what} (column {name!r})"))
        last = self.arrangement.last_rows()
        at_end: BoolArray = raised[last]
        if np.count_nonzero(raised) != np.count_nonzero(at_end):
            early = raised.copy()
            early[last] = False
            episode, step = self.arrangement.locate(int(np.argmax(early)))
            raise EpisodesError(
                f"{what} (column {name!r}) is true at episode {self.ids[episode]!s}, step "
                f"{step + self.first_step}, but the episode goes on; give the rest another id, or "
                "pass ",
                Argument(what, None),
                " if it is not such a flag",
            )
        return at_end


def named_column(layout: Layout, columns: Collection[str]) -> str | None:
    """The column that says where somebody acted in place of the policy; None if there is none."""
    name = layout.intervened
    if not isinstance(name, EllipsisType):
        if name is None or name in columns:
            return name
        raise EpisodesError(
            Argument("intervened"),
            f" needs a column of the table ({', '.join(columns)}), got {name!r}",
        )
    known = () if layout.schema is None else layout.schema.names
    used = {*known, *(layout.features or ()), *layout.drop}
    used |= {one for one in vars(layout).values() if isinstance(one, str)}
    return _USUAL if _USUAL in columns and _USUAL not in used else None


def left_alone(
    table: pl.DataFrame, layout: Layout, acted: BoolArray, ids: AnyArray, steps: IndexArray
) -> tuple[pl.DataFrame, Layout, str]:
    """The rows before somebody acted in place of the policy, how to read them, and a remark."""
    _, codes = np.unique(ids, return_inverse=True)
    first = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.intp).max)
    np.minimum.at(first, codes[acted], steps[acted])
    taken = first < np.iinfo(np.intp).max
    n, whole = int(np.count_nonzero(taken)), taken.size
    if not n:
        return table, layout, ""
    if n == whole and layout.censored in ("refuse", "drop"):
        raise CensoredError(all_taken_over(whole, str(layout.drop[-1])))
    if layout.censored == "refuse":
        return table.filter(pl.Series(~taken[codes])), layout, some_left_out(n, whole)
    # A run that was taken over at once keeps a row, so that it counts as stopped.
    upto = np.maximum(first, 1)[codes]
    if layout.horizon is None:
        layout = replace(layout, horizon=int(steps.max()) + 1, declared=False)
    ends = pl.Series(taken[codes] & (steps == upto - 1))
    cut = layout.truncated if isinstance(layout.truncated, str) else _CUT
    flagged = table.get_column(cut) if cut in table.columns else pl.Series([False] * table.height)
    marked = table.with_columns((flagged.cast(pl.Boolean).fill_null(False) | ends).alias(cut))
    note = f"somebody took over {n:,} of {whole:,} runs, which are cut off there"
    return marked.filter(pl.Series(steps < upto)), replace(layout, truncated=cut), note
