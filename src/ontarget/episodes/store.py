"""The arrays of recorded episodes: one per column, read-only, rows sorted by step and episode.

`Step` is what one step shows of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ontarget._keyed import keys_of
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, IntArray, KeyArray
from ontarget.episodes.behavior import Behavior, steps_of
from ontarget.episodes.history import (
    CHANGE,
    COUNT,
    FEATURE,
    MEAN,
    NO_HISTORY,
    REWARD,
    History,
    running_counts,
    running_means,
)
from ontarget.episodes.judged import Reading
from ontarget.episodes.schema import Schema, UnknownCategories
from ontarget.target import Target


@dataclass(frozen=True)
class Roles:
    """Which column of the user's data was the step, the reward, and so on."""

    episode: str = "episode"
    step: str = "step"
    reward: str | None = "reward"
    truncated: str | None = None
    terminated: str | None = None
    group: str | None = None
    first_step: int = 0


@dataclass(frozen=True)
class Signal:
    """One of several behaviors, and its value at each row."""

    name: str
    reading: Reading
    values: FloatArray  # the signal that the behavior is computed from, one per row
    before: FloatArray
    outcomes: FloatArray
    ahead: FloatArray | None
    grid: float | None = None  # set if the grid is that of other episodes
    settled: bool = True  # whether a split and a fit keep that grid

    def __post_init__(self) -> None:
        _freeze(self)

    def part(self, rows: IndexArray, episodes: IndexArray) -> Signal:
        """The same behavior, for these rows and episodes only."""
        return replace(
            self,
            values=self.values[rows],
            before=self.before[rows],
            outcomes=self.outcomes[episodes],
            ahead=None if self.ahead is None else self.ahead[rows],
        )


class RowValues(NamedTuple):
    """States, rewards and other values of some recorded rows."""

    states: FloatArray  # (features, rows)
    rewards: FloatArray | None
    before: FloatArray
    ahead: FloatArray | None


@dataclass(frozen=True)
class Store:
    """All rows of recorded episodes, as arrays sorted by step and then by episode.

    The rows of step t are ``offsets[t]:offsets[t + 1]``: one for each episode with ``lengths > t``,
    in the order of the episodes.
    """

    schema: Schema
    behavior: Behavior
    horizon: int
    roles: Roles
    ids: AnyArray
    groups: AnyArray | None
    truncated: BoolArray | None
    terminated: BoolArray | None
    lengths: IndexArray
    offsets: IndexArray
    states: FloatArray  # (features, rows): a step's slice of each feature is contiguous
    rewards: FloatArray | None
    before: FloatArray  # behavior before acting, one per row
    outcomes: FloatArray
    ahead: FloatArray | None = None  # the largest (smallest) reward from each row on, for max (min)
    horizon_declared: bool = False
    dropped: int = 0
    censoring: str = ""  # how cut-off episodes were treated, if there were any
    remarks: tuple[str, ...] = ()  # what a user should know about how the columns were read
    strangers: tuple[UnknownCategories, ...] = ()  # readings that count as missing
    wanted: tuple[Target | None, ...] | None = None  # each episode's own target
    several: tuple[Signal, ...] = ()  # named behaviors; the fields above are then of the first
    history: History = NO_HISTORY  # what a state also says about the run so far

    def __post_init__(self) -> None:
        _freeze(self)

    @property
    def unknown_categories(self) -> tuple[UnknownCategories, ...]:
        """The readings of categories that the dictionaries lack, which count as missing."""
        return self.strangers

    def only(self, signal: Signal) -> Store:
        """The same episodes, judged by only one of several behaviors."""
        reading = signal.reading
        told = reading.behavior.told
        own = reading.signal or self.roles.reward
        return replace(
            self,
            behavior=reading.behavior,
            roles=replace(self.roles, reward=None if told else own),
            rewards=None if told else signal.values,
            before=signal.before,
            outcomes=signal.outcomes,
            ahead=signal.ahead,
            several=(),
        )

    @cached_property
    def keys(self) -> KeyArray:
        """A 64-bit hash of each episode's id."""
        keys = keys_of(self.ids)
        keys.setflags(write=False)
        return keys

    @cached_property
    def censored(self) -> BoolArray:
        """For each episode, whether it was cut off before its end."""
        if self.terminated is not None:
            cut = ~self.terminated
        elif self.truncated is not None:
            cut = self.truncated
        else:
            cut = np.zeros(self.lengths.size, dtype=np.bool_)
        # Held-out episodes may be longer than a horizon that is the longest learning episode.
        found: BoolArray = cut & (self.lengths != self.horizon)
        return found

    @cached_property
    def brought(self) -> FloatArray:
        """The number that becomes known together with the state of each row, (rows,)."""
        found = np.array(self.before)
        if self.rewards is not None:
            earned = np.full(self.lengths.size, np.nan)
            for _, rows, alive in steps_of(self.lengths, self.offsets):
                found[rows], earned[alive] = earned[alive], self.rewards[rows]
        found[: self.offsets[1]] = np.nan
        return found

    @cached_property
    def history_columns(self) -> IntArray:
        """What the columns behind the features hold; see `History.columns`."""
        return self.history.columns(self.schema)

    @cached_property
    def means(self) -> FloatArray:
        """For every row, the means so far that its history has, (columns, rows)."""
        columns = self.history_columns
        wanted = columns[columns[:, 0] == MEAN, 1]
        features = self.states[wanted[wanted < len(self.schema)]]
        values = np.vstack([features, self.brought]) if self.history.reads_rewards else features
        return running_means(values, self.lengths, self.offsets)

    @cached_property
    def counts(self) -> IntArray:
        """For every row, how often the categories that its history counts have occurred."""
        return running_counts(self.states, self.history.counts, self.lengths, self.offsets)

    def states_at(self, step: int, rows: slice | IndexArray, alive: IndexArray) -> FloatArray:
        """The states of the episodes in these rows of one step, (episodes, columns)."""
        if not self.history:
            return self.states[:, rows].T
        d, columns = len(self.schema), self.history_columns
        holds, place, number = columns.T
        found = np.full((alive.size, d + len(columns)), np.nan)
        found[:, :d] = self.states[:, rows].T
        own = found[:, d:]
        own[:, holds == MEAN] = self.means[:, rows].T
        own[:, holds == COUNT] = self.counts[:, rows].T
        for lag in range(min(step, self.history.lags) + 1):
            there, _ = self.rows(step - lag, alive)
            if lag and lag <= self.history.steps:
                own[:, (holds == FEATURE) & (number == lag)] = self.states[:, there].T
            earned = (holds == REWARD) & (number == lag + 1)
            if earned.any():
                own[:, earned] = self.brought[there][:, None]
            if lag == 1:
                changed = place[holds == CHANGE]
                own[:, holds == CHANGE] = found[:, changed] - self.states[changed][:, there].T
        return found

    def part(self, episodes: IndexArray) -> Store:
        """The arrays of the episodes at these positions only."""
        lengths = self.lengths[episodes]
        alive = [np.count_nonzero(lengths > t) for t in range(int(lengths.max()))]
        rows = np.asarray(self.rows_of(episodes)[0])
        values = self.values_of(rows)

        def own(values: AnyArray | None) -> Any:
            return None if values is None else values[episodes]

        wanted = self.wanted
        if wanted is not None:
            wanted = tuple(wanted[i] for i in episodes.tolist())

        return replace(
            self,
            ids=self.ids[episodes],
            groups=own(self.groups),
            wanted=wanted,
            truncated=own(self.truncated),
            terminated=own(self.terminated),
            lengths=lengths,
            offsets=np.concatenate([[0], np.cumsum(alive)]).astype(np.intp),
            states=values.states,
            rewards=values.rewards,
            before=values.before,
            ahead=values.ahead,
            outcomes=self.outcomes[episodes],
            several=tuple(signal.part(rows, episodes) for signal in self.several),
        )

    def values_of(self, rows: IndexArray) -> RowValues:
        """States, rewards and other values of these rows, whose numbers must be sorted by step."""
        return RowValues(
            states=self.states[:, rows],
            rewards=None if self.rewards is None else self.rewards[rows],
            before=self.before[rows],
            ahead=None if self.ahead is None else self.ahead[rows],
        )

    def rows_of(self, episodes: IndexArray | None) -> tuple[slice | IndexArray, IndexArray]:
        """All rows of the episodes at these positions, or of all, and the episode of each row."""
        longest = int((self.lengths if episodes is None else self.lengths[episodes]).max())
        parts = [self.rows(t, episodes) for t in range(longest)]
        owners = np.concatenate([alive for _, alive in parts])
        if episodes is None:
            return slice(None), owners
        return np.concatenate([np.asarray(rows) for rows, _ in parts]), owners

    def rows(self, step: int, episodes: IndexArray | None) -> tuple[slice | IndexArray, IndexArray]:
        """The rows of a step, and for each of them the position of its episode.

        Only episodes that are still going at this step have a row. If ``episodes`` is given, only
        the episodes at these positions are considered, and the returned positions are positions in
        ``episodes``.
        """
        if step >= self.offsets.size - 1:
            return slice(0, 0), np.zeros(0, dtype=np.intp)
        start, stop = int(self.offsets[step]), int(self.offsets[step + 1])
        if episodes is None:
            return slice(start, stop), np.flatnonzero(self.lengths > step)
        kept = np.flatnonzero(self.lengths[episodes] > step)
        if stop - start == self.lengths.size:
            return start + episodes[kept], kept
        alive = np.flatnonzero(self.lengths > step)
        return start + np.searchsorted(alive, episodes[kept]), kept


def _freeze(value: Any) -> None:
    """Make the arrays of a dataclass read-only."""
    for item in fields(value):
        array = getattr(value, item.name)
        if isinstance(array, np.ndarray):
            array.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Step:
    """The n episodes that are still going at one step, with their states and outcomes.

    ``states`` are those before acting, ``behavior`` is the behavior so far, and ``remaining`` the
    remainder: for a sum, the outcome minus the behavior so far; for a maximum or minimum, the
    extreme of the rewards from this step on; otherwise the outcome. ``keys`` are hashes of the
    ids, and ``index`` has the positions among all episodes.
    """

    t: int
    states: FloatArray
    behavior: FloatArray
    remaining: FloatArray
    outcomes: FloatArray
    ids: AnyArray
    groups: AnyArray | None
    keys: KeyArray
    index: IndexArray

    def __len__(self) -> int:
        return int(self.index.size)

    @property
    def response(self) -> FloatArray:
        """What a model learns to predict: what was still to come in each episode, (n,)."""
        return self.remaining
