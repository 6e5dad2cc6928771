"""Reads the columns of a table, with rows sorted by step and then by episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray
from ontarget.episodes._arrangement import Arrangement
from ontarget.episodes.reading._columns import flags, labels, numbers
from ontarget.errors import Argument, EpisodesError


@dataclass(frozen=True)
class Reader:
    """Reads one column of a table at a time, with rows sorted by step and then by episode."""

    read: Callable[[str], pl.Series]
    arrangement: Arrangement
    ids: AnyArray
    first_step: int

    def where(self, row: int) -> str:
        """The episode and the step of a row of the table, as text for messages."""
        order = self.arrangement.order
        episode, step = self.arrangement.locate(
            row if order is None else int(np.argmax(order == row))
        )
        return f"episode {self.ids[episode]!s}, step {step + self.first_step}"

    def per_row(self, name: str | None, what: str) -> FloatArray | None:
        """The numbers of a column, one per row; ``what`` is what messages call the column.

        None if ``name`` is None.
        """
        if name is None:
            return None
        values = numbers(self.read(name), f"{what} (column {name!r})", self.where)
        return self.arrangement.place(values)

    def at_start(self, name: str | None, what: str) -> FloatArray | None:
        """The number in the first row of each episode; ``what`` is what messages call it.

        None if ``name`` is None.
        """
        values = self.per_row(name, what)
        return None if values is None else values[: self.arrangement.lengths.size]

    def per_episode(self, column: pl.Series, what: str) -> AnyArray:
        """One value per episode; refused if the value differs between rows of an episode.

        ``what`` is what messages call the column.
        """
        name = column.name
        found = labels(column, f"{what} (column {name!r})")
        own = found.codes[self.arrangement.first_rows]
        placed, offsets = found.place(self.arrangement), self.arrangement.offsets
        for t in range(1, offsets.size - 1):
            alive = np.flatnonzero(self.arrangement.lengths > t)
            other = placed[offsets[t] : offsets[t + 1]] != own[alive]
            if other.any():
                episode = alive[np.argmax(other)]
                raise EpisodesError(
                    f"{what} (column {name!r}) needs the same value in all rows of an episode, "
                    "got another in episode "
                    f"{self.ids[episode]!s}, step {t + self.first_step}; a {what} is known at the "
                    "start of a run and does not change"
                )
        return found[self.arrangement.first_rows]

    def at_last(self, values: FloatArray, name: str) -> FloatArray:
        """A reward for each row: the outcome of an episode in its last row, 0 in its other rows.

        ``values`` is a column of outcomes. In other rows than the last, the outcome may be missing,
        but it may not differ.
        """
        last = self.arrangement.last_rows()
        own = values[last]
        offsets = self.arrangement.offsets
        for t in range(offsets.size - 1):
            alive = np.flatnonzero(self.arrangement.lengths > t)
            there = values[offsets[t] : offsets[t + 1]]
            other = ~np.isnan(there) & (there != own[alive])
            if other.any():
                episode = alive[np.argmax(other)]
                raise EpisodesError(
                    f"outcome (column {name!r}) needs one value per episode, got "
                    f"{there[np.argmax(other)]:g} at step {t + self.first_step} of episode "
                    f"{self.ids[episode]!s} and {own[episode]:g} in its last row; pass ",
                    Argument("behavior", name),
                    " if it changes during a run",
                )
        earned = np.zeros(values.size)
        earned[last] = own
        return earned

    def refuse_first_gaps(self, rewards: FloatArray, name: str) -> None:
        """Refuse rewards that are missing in the first row of every episode and nowhere else.

        The message says that each row may contain what was earned since the row before it.
        """
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
        """The flag in the last row of each episode; refused if it is set in any other row.

        ``what`` is what messages call the column. None if ``name`` is None.
        """
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
