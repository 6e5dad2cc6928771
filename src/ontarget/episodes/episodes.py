"""`Episodes`: recorded runs of one fixed policy, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ontarget._grid import grid_of, snap
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.episodes._building import Censored, build
from ontarget.episodes._store import Roles, Store
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.schema import Schema
from ontarget.errors import EpisodesError, InputError

if TYPE_CHECKING:
    import polars as pl

    from ontarget.episodes._frames import FrameOptions
    from ontarget.episodes.splits import ByGroup, Split

__all__ = ["Episodes", "Step"]

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Step:
    """The episodes that are alive at one step.

    Attributes
    ----------
    t
        The step.
    states
        Their states, (n, d), before acting.
    behavior
        Their behavior so far, b_t.
    remaining
        What is still to come, ``outcomes - behavior``; None where the behavior does not add up.
    outcomes
        Their outcomes.
    ids, groups
        Who they are; groups are None where the episodes have none.
    index
        Their positions among all episodes.
    """

    t: int
    states: FloatArray
    behavior: FloatArray
    remaining: FloatArray | None
    outcomes: FloatArray
    ids: AnyArray
    groups: AnyArray | None
    index: IndexArray

    def __len__(self) -> int:
        return int(self.index.size)

    @property
    def inputs(self) -> FloatArray:
        """What a model reads: the states, and the behavior so far where it does not add up (M1)."""
        if self.remaining is not None:
            return self.states
        return np.column_stack([self.states, self.behavior])

    @property
    def response(self) -> FloatArray:
        """What a model learns: the remainder where the behavior adds up, else the outcome (M1)."""
        return self.outcomes if self.remaining is None else self.remaining


class Episodes:
    """Recorded runs of one fixed policy: states, rewards, and what each run came to.

    Build them with `from_arrays`, `from_frame` or `read`; take parts with `split` and `take`, which
    copy nothing; ask for one step with `at`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(100, 5, 2)), rng.normal(size=(100, 5)))
    >>> walks
    <Episodes: 100 episodes of 5 steps, 2 features, behavior sum>
    >>> step = walks.at(3)
    >>> step.states.shape, bool(np.allclose(step.behavior + step.remaining, walks.outcomes))
    ((100, 2), True)
    """

    __slots__ = ("__dict__", "_index", "_store")

    def __init__(self, store: Store, index: IndexArray | None = None) -> None:
        self._store = store
        self._index = index

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike | Sequence[ArrayLike],
        rewards: ArrayLike | Sequence[ArrayLike] | None,
        *,
        ids: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        horizon: int | None = None,
        behavior: str | Behavior = "sum",
        behavior_values: ArrayLike | Sequence[ArrayLike] | None = None,
        features: Sequence[str] | None = None,
        categorical: Sequence[str] = (),
        censored: Censored = "refuse",
    ) -> Episodes:
        """Episodes from arrays, rectangular or one array per episode.

        Parameters
        ----------
        states
            (n, H, d), or a list of (T_i, d): the features known before acting at each step.
        rewards
            (n, H), or a list of (T_i,): the reward received at each step.
        ids
            One per episode; the episode's number by default.
        truncated
            One flag per episode: cut off, rather than ended by itself.
        groups
            One per episode, known at its start.
        horizon
            The number of steps H after which an episode is complete; the longest one by default.
        behavior
            What an episode is judged by; see `ontarget.episodes.behavior_of`.
        behavior_values
            For a behavior of the user's own: its value after each step, shaped like ``rewards``.
        features
            The features' names; ``x0, x1, …`` by default.
        categorical
            Features whose numbers are names rather than amounts.
        censored
            What to do with episodes cut off before the horizon, whose outcome nobody knows.
        """
        from ontarget.episodes._arrays import record_arrays

        recording = record_arrays(
            states,
            rewards,
            ids=ids,
            truncated=truncated,
            groups=groups,
            behavior=behavior,
            behavior_values=behavior_values,
            features=features,
            categorical=categorical,
        )
        return cls(*build(recording, horizon=horizon, censored=censored))

    @classmethod
    def from_frame(cls, frame: Any, **options: Unpack[FrameOptions]) -> Episodes:
        """Episodes from a dataframe of any kind: one row per episode and step, in any order.

        Parameters
        ----------
        frame
            pandas, polars, PyArrow, or whatever else narwhals reads.
        episode, step, reward
            The names of these columns. ``step=None`` takes an episode's rows as recorded in order.
        features
            The feature columns; by default all that play no other part. Text is encoded.
        behavior
            What an episode is judged by: a name, or a column that holds its value after each row.
        truncated, terminated, group
            Names of the columns that flag a cut-off or an end, and that hold the group; by default
            columns called so play the part where they exist.
        horizon, categorical, censored
            As for `from_arrays`.
        first_step
            The number of the first step; by default 0, or 1 where no row has step 0.
        like
            Earlier episodes, or a fitted monitor, whose features, dictionaries, behavior and
            horizon these must share. Its column names stand in where the usual ones are not there.

        Examples
        --------
        >>> import polars as pl
        >>> log = pl.DataFrame({"run": [7, 7, 9], "tick": [0, 1, 0], "speed": [1.0, 2.0, 3.0],
        ...                     "mode": ["on", "off", "on"], "gain": [0.5, 0.25, 1.0]})
        >>> runs = Episodes.from_frame(log, episode="run", step="tick", reward="gain")
        >>> print(runs.outcomes, runs.schema.names)
        [0.75 1.  ] ('speed', 'mode')
        """
        from ontarget.episodes._frames import layout_of, record_frame, table_of

        layout = layout_of(options)
        recording = record_frame(table_of(frame), layout)
        return cls(*build(recording, horizon=layout.horizon, censored=layout.censored))

    @classmethod
    def read(cls, path: str | Path, **options: Unpack[FrameOptions]) -> Episodes:
        """Episodes from a Parquet or CSV file, or a Minari dataset folder (HDF5).

        Options are those of `from_frame`. A file that `write` made needs none: Parquet keeps them.
        A Minari dataset takes ``features``, ``categorical``, ``behavior``, ``horizon``,
        ``censored`` and ``like``; its runs are complete at its environment's time limit.
        """
        from ontarget.episodes._files import record_file

        recording, layout = record_file(Path(path), options)
        return cls(*build(recording, horizon=layout.horizon, censored=layout.censored))

    def write(self, path: str | Path) -> None:
        """Write the episodes as Parquet or CSV, by the path's ending; the file appears whole."""
        from ontarget.episodes._files import write

        write(self, Path(path))

    def to_frame(self) -> pl.DataFrame:
        """The episodes as a polars frame: one row per episode and step, sorted by step."""
        from ontarget.episodes._frames import frame_of

        return frame_of(self)

    @property
    def schema(self) -> Schema:
        """The features of a state."""
        return self._store.schema

    @property
    def behavior(self) -> Behavior:
        """What the episodes are judged by."""
        return self._store.behavior

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is complete."""
        return self._store.horizon

    @property
    def roles(self) -> Roles:
        """Which column of the user's data plays which part."""
        return self._store.roles

    @property
    def dropped(self) -> int:
        """How many censored episodes were left out when these were built."""
        return self._store.dropped

    @cached_property
    def ids(self) -> AnyArray:
        """Who the episodes are."""
        return self._own(self._store.ids)

    @cached_property
    def groups(self) -> AnyArray | None:
        """The episodes' groups, or None."""
        return None if self._store.groups is None else self._own(self._store.groups)

    @cached_property
    def truncated(self) -> BoolArray | None:
        """Which episodes were flagged as cut off; None where nothing says so."""
        return None if self._store.truncated is None else self._own(self._store.truncated)

    @cached_property
    def terminated(self) -> BoolArray | None:
        """Which episodes were flagged as ended by themselves; None where nothing says so."""
        return None if self._store.terminated is None else self._own(self._store.terminated)

    @cached_property
    def lengths(self) -> IndexArray:
        """The episodes' numbers of steps."""
        return self._own(self._store.lengths)

    @cached_property
    def outcomes(self) -> FloatArray:
        """What each episode came to: its behavior at the end."""
        return self._own(self._store.outcomes)

    @cached_property
    def grid(self) -> float:
        """The spacing on which these outcomes are compared (M1)."""
        return grid_of(self.outcomes)

    def at(self, t: int, *, grid: float | None = None) -> Step:
        """The episodes that are alive at step t, their numbers snapped to the grid if one is given.

        An episode that ended before t is not alive; its outcome is known.
        """
        if not 0 <= t < self.horizon:
            raise InputError(f"step needs 0 <= t < {self.horizon}, the horizon, got {t}")
        store = self._store
        rows, alive = store.rows(t, self._index)
        states = store.states[:, rows].T
        behavior = snap(store.before[rows], grid)
        outcomes = snap(self.outcomes[alive], grid)
        remaining = snap(outcomes - behavior, grid) if store.behavior.additive else None
        groups = None if self.groups is None else self.groups[alive]
        return Step(t, states, behavior, remaining, outcomes, self.ids[alive], groups, alive)

    def rewards_at(self, t: int) -> FloatArray:
        """The rewards that the episodes alive at step t received there."""
        if self._store.rewards is None:
            raise EpisodesError(
                f"these episodes have no rewards: their behavior is {self.behavior.spec}"
            )
        rows, _ = self._store.rows(t, self._index)
        rewards: FloatArray = self._store.rewards[rows]
        return rewards

    def take(self, index: ArrayLike) -> Episodes:
        """Some of the episodes, by position or by a mask; nothing is copied."""
        chosen = np.asarray(index)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise InputError(f"a mask needs shape ({len(self)},), got {chosen.shape}")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.intp)
        if chosen.ndim != 1 or (chosen.size and not -len(self) <= chosen.min()):
            raise InputError(f"index needs positions of the {len(self)} episodes")
        if chosen.size and chosen.max() >= len(self):
            raise InputError(f"index needs positions below {len(self)}, got {chosen.max()}")
        if chosen.size == 0:
            raise EpisodesError("no episode is left; choose at least one")
        chosen = chosen % len(self)
        if np.unique(chosen).size != chosen.size:
            raise InputError("index needs different positions: an episode counts once")
        return Episodes(self._store, chosen if self._index is None else self._index[chosen])

    def compact(self) -> Episodes:
        """The same episodes in arrays of their own, without those they were taken from."""
        return Episodes(self._store if self._index is None else self._store.part(self._index))

    def split(
        self,
        train: float = 0.4,
        calibrate: float = 0.4,
        assure: float = 0.2,
        *,
        seed: int = 0,
        by_group: ByGroup | None = None,
    ) -> Split:
        """Whole episodes divided by seed and id, whatever the order of the rows.

        Parameters
        ----------
        train, calibrate, assure
            Fractions (floats up to 1) or counts (whole numbers). What is left is ``rest``.
        seed
            Another seed, another division.
        by_group
            ``"stratify"`` divides each group alike; ``"whole"`` keeps each group in one part.

        Examples
        --------
        >>> walks = Episodes.from_arrays(np.zeros((10, 3, 1)), np.ones((10, 3)))
        >>> parts = walks.split(train=5, calibrate=3, assure=0)
        >>> len(parts.train), len(parts.calibrate), parts.assure, len(parts.rest)
        (5, 3, None, 2)
        """
        from ontarget.episodes.splits import split

        return split(self, (train, calibrate, assure), seed=seed, by_group=by_group)

    def describe(self) -> str:
        """A few lines for people: how many, how long, what they came to, what was left out."""
        from ontarget.episodes._description import describe

        return describe(self)

    def __len__(self) -> int:
        return int(self._store.lengths.size if self._index is None else self._index.size)

    def __repr__(self) -> str:
        longest = int(self.lengths.max())
        upto = "" if self.lengths.min() == longest else "up to "
        return (
            f"<Episodes: {len(self):,} episode{'s' * (len(self) != 1)} of {upto}{longest} "
            f"step{'s' * (longest != 1)}, {len(self.schema)} "
            f"feature{'s' * (len(self.schema) != 1)}, behavior {self.behavior.spec}>"
        )

    def _own(self, values: NDArray[Kind]) -> NDArray[Kind]:
        if self._index is None:
            return values
        own: NDArray[Kind] = values[self._index]
        own.setflags(write=False)
        return own
