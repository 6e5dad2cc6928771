"""`Recorded`: the contents of recorded episodes. `Episodes` adds building and dividing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ontarget._grid import LARGEST_OUTCOME, decimals_of, grid_of, snap
from ontarget._readonly import read_only
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes._store import Roles, Store
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.builtin_behaviors import Reading
from ontarget.episodes.history import History, state_schema
from ontarget.episodes.rounding import Unrounded
from ontarget.episodes.schema import Schema, UnknownCategories
from ontarget.episodes.step import Step
from ontarget.errors import Argument, EpisodesError, InputError
from ontarget.target import Target

Kind = TypeVar("Kind", bound=np.generic)

_KEPT = ("_store", "_index", "_grid", "_settled")


class Recorded:
    """Recorded episodes: all episodes of a store, or those at the positions in ``index``.

    Outcomes are rounded to multiples of ``grid``. By default the grid is computed from these
    episodes. It is passed if these episodes must share the grid of others: all parts of a split use
    the grid of the part that models learn from, and episodes read with ``like=`` use the grid of
    ``like``. Such a grid is *settled*. Some of the episodes (`Episodes.take`) have the grid of
    all of them too, but a split or a fit computes it anew, from the part to learn from.
    """

    def __init__(
        self, store: Store, index: IndexArray | None = None, *, grid: float | None = None
    ) -> None:
        self._store = store
        self._index = index
        self._grid = grid
        self._settled = grid is not None

    @property
    def schema(self) -> Schema:
        """The features of a state: their names, types and categories."""
        return self._store.schema

    @property
    def history(self) -> History:
        """What a state also says about the run so far; see `Episodes.with_history`."""
        return self._store.history

    @cached_property
    def state_schema(self) -> Schema:
        """The columns of a state: the features, and those that a history adds."""
        return state_schema(self.schema, self.history)

    @property
    def behavior(self) -> Behavior:
        """The behavior: the number that the episodes are judged by, such as the sum of rewards.

        An error if there are several; `only` chooses one of them.
        """
        return self._judged.behavior

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the behaviors (numbers that episodes are judged by).

        Empty if there is only one behavior, which then has no name.
        """
        return tuple(signal.name for signal in self._store.several)

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior (a number that episodes are judged by), what it is computed from.

        Empty if there is only one behavior, which then has no name.
        """
        return {signal.name: signal.reading for signal in self._store.several}

    @property
    def _judged(self) -> Store:
        """The arrays of the episodes; an error if the episodes are judged by several behaviors."""
        if self._store.several:
            raise EpisodesError(
                f"these episodes have several behaviors ({', '.join(self.names)}); choose one of "
                f"them: episodes.only({self.names[0]!r})"
            )
        return self._store

    @property
    def is_prepared(self) -> bool:
        """Whether the episodes are on disk and read step by step; see `PreparedEpisodes`."""
        return hasattr(self._store, "recoded")

    @property
    def horizon(self) -> int:
        """The horizon: the number of steps after which an episode is complete."""
        return self._store.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the user declared the horizon (the number of steps of a complete run).

        Otherwise the horizon is the length of the longest run seen.
        """
        return self._store.horizon_declared

    @property
    def roles(self) -> Roles:
        """Which column of the user's data was the step, which the reward, and so on."""
        return self._store.roles

    @property
    def dropped(self) -> int:
        """How many episodes were left out when these were read, because they were cut off."""
        return self._store.dropped

    @property
    def censoring(self) -> str:
        """How cut-off episodes were treated (``censored=``); empty if there were none."""
        return self._store.censoring

    @cached_property
    def cut_off(self) -> BoolArray:
        """Which episodes were cut off before their end: their outcome is unknown.

        Such episodes are kept only with ``censored="worst-case"``. In place of their outcome,
        `outcomes` has what they reached up to the cut-off.
        """
        return self._own(self._store.censored)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for the user about what was guessed when the columns were read."""
        return self._store.remarks

    @property
    def unseen(self) -> int:
        """How many values were categories that are not known, and so became missing values."""
        return sum(one.readings for one in self.strangers)

    @property
    def strangers(self) -> tuple[UnknownCategories, ...]:
        """The values that `unseen` counts, by feature: how many, and the most frequent of them."""
        return self._store.unknown_categories

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
        """The group of each episode, such as the weather; None without groups."""
        return None if self._store.groups is None else self._own(self._store.groups)

    @property
    def targets(self) -> tuple[Target | None, ...] | None:
        """The target of each episode, given by `Episodes.aimed`; None if none were given."""
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
        """Which episodes were flagged as ended by themselves; None if there is no such flag."""
        return None if self._store.terminated is None else self._own(self._store.terminated)

    @cached_property
    def lengths(self) -> IndexArray:
        """The number of steps of each episode."""
        return self._own(self._store.lengths)

    @cached_property
    def outcomes(self) -> FloatArray:
        """The outcome of each episode: the number it is judged by, at its end, rounded to `grid`.

        Intervals and promises are rounded to the same grid, so that comparisons are exact.
        """
        return self._outcomes_on(self.grid)

    @cached_property
    def grid(self) -> float:
        """Outcomes are rounded to multiples of this number, so that 0.1 + 0.2 equals 0.3."""
        return self._own_grid if self._grid is None else self._grid

    @cached_property
    def _own_grid(self) -> float:
        """The grid that these episodes have by themselves (method M1)."""
        outcomes, behavior = self._unsnapped_outcomes, self.behavior
        kind = behavior.spec.partition(":")[0]
        if kind == "first":
            return grid_of(outcomes, decimals=decimals_of([outcomes]))
        if behavior.told or kind in ("last", "max", "min"):  # nothing is added up
            decimals = decimals_of(self._recorded_values())
            lost = 0.0 if decimals is None else _beyond(decimals, self._recorded_values())
            return grid_of(outcomes, decimals=decimals, noise=4.0 * lost)
        if kind == "share" or self._judged.rewards is None:
            return grid_of(outcomes)
        decimals = decimals_of(self._recorded_values()) if kind == "sum" else None
        sizes, missed = self._reward_sizes(decimals)
        if decimals is not None and 4.0 * missed > 10.0**-decimals:
            decimals, missed = None, 0.0  # float32 has lost the decimals
        # A sum is off by up to this many times the last bit; a running mean forgets its errors.
        steps = self.horizon if self.horizon_declared else int(self.lengths.max())
        noise = 4.0 * (8 if kind == "mean" else steps) * 2.0**-53 * sizes
        return grid_of(outcomes, decimals=decimals, noise=max(noise, 4.0 * missed))

    def _recorded_values(self) -> Iterator[FloatArray]:
        """The numbers that the behavior is computed from, step by step, as they were recorded."""
        store = self._judged
        values = store.rewards
        if values is None:  # a column: the last value of a run is its outcome
            yield self._unsnapped_outcomes
            values = store.before
        for t in range(int(self.lengths.max())):
            rows, _ = store.rows(t, self._index)
            yield values[rows]

    def _reward_sizes(self, decimals: int | None) -> tuple[float, float]:
        """The largest sum of the sizes of a run's rewards, and of what decimals leave out."""
        sizes, missed = np.zeros(len(self)), np.zeros(len(self))
        for t in range(int(self.lengths.max())):
            _, alive = self._store.rows(t, self._index)
            earned = self.rewards_at(t)
            sizes[alive] += np.abs(earned)
            if decimals is not None:
                missed[alive] += np.abs(earned - snap(earned, float(f"1e{-decimals}")))
        return min(float(sizes.max()), LARGEST_OUTCOME), float(missed.max())

    @property
    def _unrounded(self) -> Unrounded:
        """The outcomes before they are rounded, and how exact they are."""

        def path() -> Iterator[tuple[IndexArray, FloatArray]]:
            for t in range(1, int(self.lengths.max())):
                _, alive = self._store.rows(t, self._index)
                yield alive, self._unrounded_at(t)

        return Unrounded(self._unsnapped_outcomes, self.lengths, ~self.cut_off, path, self.ids)

    @cached_property
    def _unsnapped_outcomes(self) -> FloatArray:
        return self._own(self._judged.outcomes)

    @cached_property
    def reward_range(self) -> tuple[float, float] | None:
        """The smallest and the largest reward of any step; None without rewards."""
        if self._judged.rewards is None:
            return None
        by_step = [self.rewards_at(t) for t in range(int(self.lengths.max()))]
        return min(float(r.min()) for r in by_step), max(float(r.max()) for r in by_step)

    def at(self, t: int, *, grid: float | None = None) -> Step:
        """The states, outcomes and values so far of the episodes still going at step t.

        Episodes that ended before step t are left out. Outcomes and the behavior so far (the number
        that an episode is judged by, up to step t) are rounded to `grid`, or to another grid that
        is passed.
        """
        if not 0 <= t < self.horizon:
            raise InputError(Argument("t"), f" needs a step from 0 to {self.horizon - 1}, got {t}")
        store, grid = self._judged, self.grid if grid is None else grid
        rows, alive = store.rows(t, self._index)
        behavior = snap(store.before[rows], grid)
        outcomes = self._outcomes_on(grid)[alive]
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

    def _unrounded_at(self, t: int) -> FloatArray:
        """The behavior before step t of each episode that is still going there, not rounded."""
        rows, _ = self._judged.rows(t, self._index)
        values: FloatArray = self._judged.before[rows]
        return values

    def _outcomes_on(self, grid: float) -> FloatArray:
        """The outcomes rounded to a grid; those of the last grid asked for are kept."""
        kept: tuple[float, FloatArray] | None = self.__dict__.get("_rounded")
        if kept is None or kept[0] != grid:
            kept = grid, read_only(snap(self._unsnapped_outcomes, grid))
            self.__dict__["_rounded"] = kept
        return kept[1]

    def rewards_at(self, t: int) -> FloatArray:
        """The reward at step t of each episode that is still going there."""
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
        return {name: getattr(self, name) for name in _KEPT}

    def __len__(self) -> int:
        return int(self._store.lengths.size if self._index is None else self._index.size)

    def _own(self, values: NDArray[Kind]) -> NDArray[Kind]:
        if self._index is None:
            return values
        own: NDArray[Kind] = values[self._index]
        own.setflags(write=False)
        return own


def _beyond(decimals: int, pieces: Iterable[FloatArray]) -> float:
    """How far these numbers are at most from having so many decimals, as float32 leaves them."""
    unit = float(f"1e{-decimals}")
    far = (np.fmax.reduce(np.abs(values - snap(values, unit)), initial=0.0) for values in pieces)
    return float(max(far, default=0.0))
