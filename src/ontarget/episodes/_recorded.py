"""The contents of recorded episodes. `Episodes` adds how they are built and divided."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ontarget._grid import grid_of, snap
from ontarget._readonly import read_only
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes._history import state_schema
from ontarget.episodes._judged import Reading
from ontarget.episodes._store import Roles, Store
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.schema import Schema
from ontarget.episodes.step import Step
from ontarget.errors import EpisodesError, InputError
from ontarget.target import Target

__all__ = ["Recorded"]

Kind = TypeVar("Kind", bound=np.generic)


class Recorded:
    """All episodes of a store, or those at some positions.

    Outcomes are rounded to multiples of ``grid``. By default it is computed from the episodes' own
    outcomes. It is passed if the episodes must share the grid of others: all parts of a split use
    the grid of the part to learn from, and episodes read with ``like=`` use the grid of ``like``.
    """

    def __init__(
        self, store: Store, index: IndexArray | None = None, *, grid: float | None = None
    ) -> None:
        self._store = store
        self._index = index
        self._grid = grid

    @property
    def schema(self) -> Schema:
        """The features of a state."""
        return self._store.schema

    @property
    def history(self) -> int:
        """How many earlier steps a state also contains; see `Episodes.with_history`."""
        return self._store.history

    @cached_property
    def state_schema(self) -> Schema:
        """The columns of a state: the features, and what a history adds to them."""
        return state_schema(self.schema, self.history)

    @property
    def behavior(self) -> Behavior:
        """The behavior that the episodes are judged by; `only` chooses one of several."""
        return self._judged.behavior

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the behaviors; empty if there is a single one without a name."""
        return tuple(signal.name for signal in self._store.several)

    @property
    def readings(self) -> dict[str, Reading]:
        """The signal that each named behavior reads; empty for a single behavior without a name."""
        return {signal.name: signal.reading for signal in self._store.several}

    @property
    def _judged(self) -> Store:
        """The store, if its episodes are judged by a single behavior."""
        if self._store.several:
            raise EpisodesError(
                f"these episodes have several behaviors ({', '.join(self.names)}); choose one of "
                f"them: episodes.only({self.names[0]!r})"
            )
        return self._store

    @property
    def is_prepared(self) -> bool:
        """Whether the rows are on disk, read step by step; see `PreparedEpisodes`."""
        return hasattr(self._store, "recoded")

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is complete."""
        return self._store.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the horizon was declared; otherwise it is only the longest run seen."""
        return self._store.horizon_declared

    @property
    def roles(self) -> Roles:
        """Which column of the user's data was used for what."""
        return self._store.roles

    @property
    def dropped(self) -> int:
        """How many episodes were left out when these were built, because of cut-offs."""
        return self._store.dropped

    @property
    def censoring(self) -> str:
        """How cut-off episodes were treated (``censored=``); empty if there were none."""
        return self._store.censoring

    @cached_property
    def cut_off(self) -> BoolArray:
        """Which episodes were cut off before their end: their outcome is unknown.

        Such episodes are kept only with ``censored="worst-case"``. Their entries in `outcomes` are
        the behavior up to the cut-off.
        """
        return self._own(self._store.censored)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was guessed when the columns were read, in sentences; empty if nothing was."""
        return self._store.remarks

    @property
    def unseen(self) -> int:
        """How many readings of unknown categories were turned into missing values."""
        return self._store.unseen

    @cached_property
    def ids(self) -> AnyArray:
        """The ids of the episodes."""
        return self._own(self._store.ids)

    @cached_property
    def keys(self) -> KeyArray:
        """A 64-bit hash of each id, for random draws that do not depend on the episodes' order."""
        return self._own(self._store.keys)

    @cached_property
    def groups(self) -> AnyArray | None:
        """The episodes' groups, or None."""
        return None if self._store.groups is None else self._own(self._store.groups)

    @cached_property
    def weights(self) -> FloatArray | None:
        """The weight of each episode, as given to `Episodes.weighted`; None without weights."""
        return None if self._store.weights is None else self._own(self._store.weights)

    @property
    def targets(self) -> tuple[Target | None, ...] | None:
        """Each episode's own target, given by `Episodes.aimed`; None if there are no targets."""
        wanted = self._store.wanted
        if wanted is None or self._index is None:
            return wanted
        return tuple(wanted[i] for i in self._index.tolist())

    @cached_property
    def truncated(self) -> BoolArray | None:
        """Which episodes were flagged as cut off; None if there is no such flag."""
        return None if self._store.truncated is None else self._own(self._store.truncated)

    @cached_property
    def terminated(self) -> BoolArray | None:
        """Which episodes were flagged as terminated; None if there is no such flag."""
        return None if self._store.terminated is None else self._own(self._store.terminated)

    @cached_property
    def lengths(self) -> IndexArray:
        """The episodes' numbers of steps."""
        return self._own(self._store.lengths)

    @cached_property
    def outcomes(self) -> FloatArray:
        """The outcome of each episode: its behavior at the end, rounded to `grid`.

        Intervals and promises are rounded to the same grid, so that comparisons are exact.
        """
        return read_only(snap(self._unsnapped_outcomes, self.grid))

    @cached_property
    def grid(self) -> float:
        """Outcomes are rounded to multiples of this number before they are compared."""
        return grid_of(self._unsnapped_outcomes) if self._grid is None else self._grid

    @cached_property
    def _unsnapped_outcomes(self) -> FloatArray:
        return self._own(self._judged.outcomes)

    @cached_property
    def reward_range(self) -> tuple[float, float] | None:
        """The least and the greatest reward of all steps; None without rewards."""
        if self._judged.rewards is None:
            return None
        by_step = [self.rewards_at(t) for t in range(int(self.lengths.max()))]
        return min(float(r.min()) for r in by_step), max(float(r.max()) for r in by_step)

    def at(self, t: int, *, grid: float | None = None) -> Step:
        """The episodes that are still going at step t; those that ended before are left out.

        Their outcomes and behavior so far are rounded to `grid`, or to another grid that is passed.
        """
        if not 0 <= t < self.horizon:
            raise InputError(f"`t` needs a step from 0 to {self.horizon - 1}, got {t}")
        store, grid = self._judged, self.grid if grid is None else grid
        rows, alive = store.rows(t, self._index)
        behavior = snap(store.before[rows], grid)
        own = grid == self.grid  # then they are rounded already
        outcomes = self.outcomes[alive] if own else snap(self._unsnapped_outcomes[alive], grid)
        remaining = outcomes
        if store.ahead is not None:
            remaining = snap(store.ahead[rows], grid)
        elif store.behavior.additive:
            remaining = snap(outcomes - behavior, grid)
        return Step(
            t=t,
            states=store.states_at(t, rows, alive if self._index is None else self._index[alive]),
            behavior=behavior,
            remaining=remaining,
            outcomes=outcomes,
            ids=self.ids[alive],
            groups=None if self.groups is None else self.groups[alive],
            keys=self.keys[alive],
            index=alive,
        )

    def rewards_at(self, t: int) -> FloatArray:
        """The rewards that the episodes still going at step t received at this step."""
        earned = self._judged.rewards
        if earned is None:
            raise EpisodesError(
                f"these episodes have no rewards: their behavior is {self.behavior.spec}"
            )
        rows, _ = self._store.rows(t, self._index)
        rewards: FloatArray = earned[rows]
        return rewards

    def __getstate__(self) -> dict[str, object]:
        # Without what was computed from the store, which may be on disk and large.
        return {name: getattr(self, name) for name in ("_store", "_index", "_grid")}

    def __len__(self) -> int:
        return int(self._store.lengths.size if self._index is None else self._index.size)

    def _own(self, values: NDArray[Kind]) -> NDArray[Kind]:
        if self._index is None:
            return values
        own: NDArray[Kind] = values[self._index]
        own.setflags(write=False)
        return own
