"""Recorded rows that are not checked yet, and the order that sorts them by step and episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.judged import Reading
from ontarget.episodes.schema import Schema, UnknownCategories
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, EpisodesError, Placeholder
from ontarget.target import Target

_SEVERAL = (Placeholder("NAME"), Placeholder("NAME"))
Values = TypeVar("Values", bound=AnyArray)


@dataclass(frozen=True)
class Arrangement:
    """The order of recorded rows: by step, and within a step by episode.

    In this order, the rows of step t are ``offsets[t]:offsets[t + 1]``: one for each episode that
    has step t. Within a step, episodes keep the order in which they first appear in the data.
    """

    order: IndexArray | None  # None if the rows are in this order already
    first_rows: IndexArray  # the row of each episode's first step, in the user's order
    lengths: IndexArray
    offsets: IndexArray

    def place(self, column: Values) -> Values:
        """The values of a column, reordered: sorted by step, and within a step by episode."""
        return column if self.order is None else column[self.order]  # type: ignore[return-value]

    @cached_property
    def owners(self) -> IndexArray:
        """The position of the episode that each row belongs to, in the order of `place`."""
        steps = range(self.offsets.size - 1)
        return np.concatenate([np.flatnonzero(self.lengths > t) for t in steps])

    def locate(self, row: int) -> tuple[int, int]:
        """The position of the episode that a row belongs to, and its step; rows as in `place`."""
        return int(self.owners[row]), int(np.searchsorted(self.offsets, row, side="right")) - 1

    def last_rows(self) -> IndexArray:
        """For each episode, the number of its last row, in the order of `place`."""
        last = np.empty(self.lengths.size, dtype=np.intp)
        last[self.owners] = np.arange(self.owners.size)  # later rows of an episode overwrite
        return last


def arrange(
    ids: IndexArray,
    steps: IndexArray | None,
    *,
    first_step: int = 0,
    names: AnyArray | None = None,
) -> Arrangement:
    """The order that sorts rows by step and then by episode."""

    def name(episode_id: Any) -> str:
        return str(episode_id if names is None else names[episode_id])

    episodes, first_rows = _numbered(ids)
    n = first_rows.size
    counts = np.bincount(episodes, minlength=n)
    times = _counted(episodes, counts) if steps is None else _checked(steps, ids, first_step, name)
    lengths = np.zeros(n, dtype=np.intp)
    np.maximum.at(lengths, episodes, times + 1)
    short = np.flatnonzero(counts < lengths)
    if short.size:
        own = np.unique(times[episodes == short[0]])
        _refuse_gap(name(ids[first_rows[short[0]]]), own, short.size, int(times.min()), first_step)
    key = times * n + episodes
    if np.all(key[1:] > key[:-1]):
        order = None
    else:
        order = np.argsort(key, kind="stable")
        twice = np.flatnonzero(np.diff(key[order]) == 0)
        if twice.size:
            step, episode = divmod(int(key[order[twice[0]]]), n)
            raise EpisodesError(
                f"episode {name(ids[first_rows[episode]])} has step {step + first_step} twice"
                f"{_more(twice.size, 'row')}; keep one row per episode and step, or pass all "
                f"columns that together identify a run, ",
                Argument("episode", _SEVERAL),
                ", or that sort their rows, ",
                Argument("step", _SEVERAL),
            )
    alive = np.bincount(times, minlength=int(lengths.max()))
    offsets = np.concatenate([[0], np.cumsum(alive)]).astype(np.intp)
    starts = np.arange(n) if order is None else order[:n]
    return Arrangement(order, starts, lengths, offsets)


def _numbered(ids: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The number of each row's episode, in order of appearance, and each episode's first row."""
    if ids.size and not np.any(ids[1:] != ids[:1]):
        return np.zeros(ids.size, dtype=np.intp), np.zeros(1, dtype=np.intp)
    first = _block_of_distinct(ids)
    if first is not None:
        n = first
        return np.tile(np.arange(n), ids.size // n), np.arange(n)
    _, starts, codes = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(starts, kind="stable")
    number = np.empty(starts.size, dtype=np.intp)
    number[by_appearance] = np.arange(starts.size)
    return number[codes], starts[by_appearance]


def _block_of_distinct(ids: IndexArray) -> int | None:
    """How many episodes there are, if every step has the same ids in the same order; else None."""
    again = np.flatnonzero(ids[1:] == ids[0])
    n = int(again[0]) + 1 if again.size else ids.size
    if ids.size % n or np.unique(ids[:n]).size != n:
        return None
    blocks = ids.reshape(-1, n)
    return n if bool(np.all(blocks == blocks[0])) else None


def _counted(episodes: IndexArray, counts: IndexArray) -> IndexArray:
    """For each row, how many earlier rows of the same episode there are."""
    by_episode = np.argsort(episodes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    times = np.empty(episodes.size, dtype=np.intp)
    times[by_episode] = np.arange(episodes.size) - np.repeat(starts, counts)
    return times


def _checked(
    steps: IndexArray, ids: IndexArray, first_step: int, name: Callable[[Any], str]
) -> IndexArray:
    times = steps - first_step
    if times.min() < 0:
        row = int(np.argmin(times))
        raise EpisodesError(
            f"episode {name(ids[row])} has step {steps[row]}, below the first step {first_step}; "
            f"number the steps from {first_step}, or pass ",
            Argument("first_step", int(steps[row])),
        )
    return times


def _refuse_gap(
    name: str, own: IndexArray, episodes: int, earliest: int, first_step: int
) -> NoReturn:
    missing = int(np.argmax(own != np.arange(own.size)))
    start = earliest + first_step
    remedy: tuple[str | Argument, ...] = (
        "record every step, or leave the episode out; if these numbers only sort the rows, pass ",
        Argument("step", [Placeholder("NAME")]),
    )
    if earliest > 0:
        begin = Argument("first_step", int(start))
        remedy = (f"if the steps are numbered from {start}, pass ", begin)
    elif own[0] and own[-1] - own[0] == own.size - 1:
        number = f"number each episode's steps from {first_step}; "
        remedy = (number, Argument("step", None), " counts the rows instead")
    raise EpisodesError(
        f"episode {name} lacks step {missing + first_step} of "
        f"{first_step}..{int(own[-1]) + first_step}{_more(episodes, 'episode')}; ",
        *remedy,
    )


def _more(count: int, what: str) -> str:
    return f" (and {count - 1:,} more such {what}{'s' * (count > 2)})" if count > 1 else ""


class RawSignal(NamedTuple):
    """The name of one of several behaviors, and its data."""

    name: str
    reading: Reading
    values: FloatArray


@dataclass(frozen=True)
class RawEpisodes:
    """The columns of recorded episodes, not checked yet."""

    arrangement: Arrangement
    schema: Schema
    behavior: Behavior
    roles: Roles
    ids: AnyArray
    groups: AnyArray | None
    truncated: BoolArray | None
    terminated: BoolArray | None
    states: FloatArray
    rewards: FloatArray | None
    behavior_values: FloatArray | None
    remarks: tuple[str, ...] = ()
    strangers: tuple[UnknownCategories, ...] = ()
    stop_probability: FloatArray | None = None  # one per row: chance that the run is stopped there
    cutoff: FloatArray | None = None  # one per episode: after how many steps it is cut off
    wanted: tuple[Target | None, ...] | None = None  # each episode's own target
    several: tuple[RawSignal, ...] = ()  # named behaviors; ``behavior`` is then the first of them

    def where(self, row: int) -> str:
        """The episode and the step of a row, as text for messages, numbered as the user does."""
        episode, step = self.arrangement.locate(row)
        return f"episode {self.ids[episode]!s}, step {step + self.roles.first_step}"


@contextmanager
def remarked(remarks: Sequence[str]) -> Iterator[None]:
    """A context that adds these remarks to the message of any error inside it."""
    try:
        yield
    except EpisodesError as error:
        if not remarks:
            raise
        raise type(error)(*error.parts, f" ({'; '.join(remarks)})") from error
