"""`Episodes`: recorded runs of one fixed policy, with a state and a reward for every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ontarget._arguments import usable_path, whole_number
from ontarget._arrays import read_only
from ontarget._grid import snap
from ontarget._keyed import keyed_hash
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.building import build
from ontarget.episodes.censoring import Censored, chosen_by_lot, products_of
from ontarget.episodes.history import MOST_STEPS, History, state_schema
from ontarget.episodes.joining import joined_store, recoded_store, same_dictionaries
from ontarget.episodes.judged import JudgedBy, Reading
from ontarget.episodes.recording import RawEpisodes
from ontarget.episodes.rounding import Unrounded, own_grid
from ontarget.episodes.schema import Schema, UnknownCategories
from ontarget.episodes.splits import ByGroup, asked_parts, divide, positions_of
from ontarget.episodes.store import Roles, Step, Store
from ontarget.errors import Argument, EpisodesError, EpisodesFileError, InputError
from ontarget.reading.layout import FrameOptions, Layout, layout_of
from ontarget.target import Target

if TYPE_CHECKING:
    import polars as pl

    from ontarget.reading.look import Look

Kind = TypeVar("Kind", bound=np.generic)
Values: TypeAlias = ArrayLike | Sequence[ArrayLike]

_KEPT = ("_store", "_index", "_grid", "_settled")


class Split(NamedTuple):
    """Episodes divided in two: ``learn`` for the models, and ``assure``, held out for promises.

    Everything that is estimated comes from ``learn``. Every guarantee comes from ``assure``. A part
    of size 0 is None. ``rest`` contains the episodes that are in neither part.
    """

    learn: Episodes
    assure: Episodes | None
    rest: Episodes | None


class PaperSplit(NamedTuple):
    """Episodes divided in three as in the paper: ``train``, ``calibrate`` and ``assure``.

    Models learn from ``train``; ``calibrate`` corrects their probabilities; promises about whole
    runs come from ``assure``. A part of size 0 is None. ``rest`` contains the episodes that are in
    no part.
    """

    train: Episodes
    calibrate: Episodes
    assure: Episodes | None
    rest: Episodes | None


class Episodes:
    """Recorded runs of one fixed policy: states, rewards and outcomes.

    Build them with `from_arrays`, `from_frame` or `read`. `split` and `take` return parts without
    copying, and `at` returns one step.

    Outcomes are rounded to multiples of `grid`, by default computed from these episodes. All parts
    of a split share the grid of the part that models learn from, and episodes read with ``like=``
    that of ``like``; such a grid is settled. `take` keeps the grid too, but a split or a fit then
    computes it anew, from the part to learn from.

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

    def __init__(
        self, store: Store, index: IndexArray | None = None, *, grid: float | None = None
    ) -> None:
        self._store = store
        self._index = index
        self._grid = grid
        self._settled = grid is not None

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike | Sequence[ArrayLike],
        rewards: Values | Mapping[str, Values] | None,
        *,
        ids: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        horizon: int | None = None,
        behavior: JudgedBy = "sum",
        behavior_values: ArrayLike | Sequence[ArrayLike] | None = None,
        features: Sequence[str] | None = None,
        categorical: Sequence[str] = (),
        censored: Censored = "refuse",
        stop_probability: ArrayLike | Sequence[ArrayLike] | None = None,
        stop_bound: float | None = None,
        cutoff: ArrayLike | None = None,
    ) -> Episodes:
        """Episodes from arrays: one array for all episodes, or a list with one array per episode.

        Parameters
        ----------
        states
            The features known before acting at each step. For n episodes of H steps with d
            features, an array (n, H, d). For episodes of different lengths T_i, a list of arrays
            (T_i, d).
        rewards
            The reward received at each step: (n, H), or a list of (T_i,). To pass several signals
            (other numbers per step), use a mapping from their names to such arrays.
        ids
            One id per episode; by default the episodes are numbered from 0.
        truncated
            One flag per episode: whether it was cut off before it ended.
        groups
            One group per episode, such as the weather, which must be known when the episode starts.
        horizon
            The number of steps H after which an episode is complete; by default the length of the
            longest episode.
        behavior
            The number that an episode is judged by; see `ontarget.episodes.behavior_of`. It may be
            computed from a signal instead of the reward: ``"min:distance"``,
            ``"first:distance<0.3:200"``. To judge by several behaviors, pass a mapping from their
            names: ``{"return": "sum", "energy": "sum:energy", "clearance": "min:distance"}``.
        behavior_values
            The value of the behavior after each step, in the shape of ``rewards``, if the behavior
            is not computed from rewards.
        features
            The features' names; ``x0, x1, …`` by default.
        categorical
            Features whose numbers stand for categories.
        censored
            What to do with episodes that were cut off before the horizon, so that their outcome is
            unknown. ``"refuse"`` raises an error. ``"drop"`` leaves them out; the remaining
            episodes are then a selection. ``"worst-case"`` keeps them, and promises hold whatever
            their outcome would have been. ``"weights"`` draws some of the other episodes at random,
            so that these are like runs that nobody stops. ``"horizon"`` keeps the episodes whose
            ``cutoff`` is not before the horizon, and ignores steps after the horizon. The reasons
            are in method M24 in docs/methods.md.
        stop_probability, stop_bound
            Both are for ``censored="weights"``. ``stop_probability`` is the probability that the
            run was stopped at each step, given what was recorded by then, in the shape of
            ``rewards``. ``stop_bound`` is an upper bound on the product of 1/(1 − stop_probability)
            over a run, chosen before you look at the runs. A run is drawn with the probability
            product / bound.
        cutoff
            For ``censored="horizon"``: after how many steps each run would have been cut off, also
            for runs that ended earlier. It must not depend on how a run went.
        """
        from ontarget.reading.arrays import record_arrays

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
            stop_probability=stop_probability,
            cutoff=cutoff,
        )
        return cls(*build(recording, horizon=horizon, censored=censored, stop_bound=stop_bound))

    @classmethod
    def from_frame(cls, frame: Any, **options: Unpack[FrameOptions]) -> Episodes:
        """Episodes from a dataframe of any kind: one row per episode and step, in any order.

        Parameters
        ----------
        frame
            A pandas, polars or PyArrow table, or any other that narwhals reads.
        episode, step, reward
            The names of the columns with the episode's id, the step and the reward. By default, the
            columns of ``like`` are used, then columns with these names, then the only column with
            another common name, such as ``run``, ``t`` or ``gain``. Several columns can name an
            episode together, ``episode=["home", "season"]``. A step is a whole number, or a time,
            which only sorts the rows of an episode. Several columns sort them too: ``step=["over",
            "ball"]``. With ``step=None``, each episode's rows are taken in the order of the table.
        reward_since_last
            Whether the reward column contains what was earned since the previous row, as in many
            exports of tickets: hours since the last event. Each row then gets the reward that is
            written in the next row of its episode, and the last row gets 0. The first row must
            contain 0 or nothing.
        features
            The feature columns; by default all columns without another role. Text becomes
            categories.
        drop
            Columns to ignore.
        times
            Columns of dates or times to make features of: the hours since the run's first row
            (``NAME_elapsed_h``), the hour of the day (``NAME_hour``) and the weekday
            (``NAME_weekday``, Monday is 1).
        every
            Make one step per interval of time, such as ``"15m"`` or ``"1h"``, counted from the
            run's first row; the step must be a column of times. Each interval begins with a tick. A
            step's state is the last row up to its tick, and its reward is all that is earned until
            the next tick.
        outcome
            A column with a run's result, the same in all rows of the run or in its last row only.
            The result counts as the reward of the last step and is not a feature.
        behavior
            What an episode is judged by: the name of a behavior, or of a column with the behavior's
            value after each row. For several behaviors, and behaviors that read a signal, see
            `from_arrays`; here a signal is a column.
        truncated, terminated, group
            The names of three columns. ``truncated`` is true in the last row of a run that was cut
            off, ``terminated`` is true in the last row of a run that ended by itself, and ``group``
            is the run's group. By default the columns are found by their names, if they exist. Pass
            None for "no such column".
        horizon, categorical, censored, stop_bound
            As for `from_arrays`.
        stop_probability, cutoff
            The names of the columns with these values; see `from_arrays`.
        intervened
            The name of a column that is true in rows where somebody acted in place of the policy;
            None for no column. By default it is the column named ``intervened``, if there is one.
            Runs in which somebody acted are left out, so the other runs are a selection; `remarks`
            says so. With ``censored="drop"``, ``"worst-case"`` or ``"weights"``, a run counts as
            cut off at the first row in which somebody acted.
        target
            The name of a column with each run's own target, such as ``60:`` (at least 60); see
            `aimed`.
        first_step
            The number of the first step; by default the smallest number in the table.
        like
            Other episodes, or a fitted monitor. The new episodes must have the same features,
            categories, behavior and horizon; columns with the same names are tried first.

        Notes
        -----
        `remarks` says which columns were guessed, and `describe` shows these remarks. If several
        columns could have the same role, an error names them.

        Examples
        --------
        >>> import polars as pl
        >>> log = pl.DataFrame({"run": [7, 7, 9], "tick": [0, 1, 0], "speed": [1.0, 2.0, 3.0],
        ...                     "mode": ["on", "off", "on"], "gain": [0.5, 0.25, 1.0]})
        >>> runs = Episodes.from_frame(log)
        >>> print(runs.outcomes, runs.schema.names)
        [0.75 1.  ] ('speed', 'mode')
        >>> runs.remarks
        ('guessed by name: episode = run, step = tick, reward = gain',)
        """
        from ontarget.reading.frames import record_frame, table_of

        layout = layout_of(options)
        return cls._built(record_frame(table_of(frame), layout), layout)

    @classmethod
    def read(cls, path: str | PathLike[str] | Any, **options: Unpack[FrameOptions]) -> Episodes:
        """Episodes from a Parquet or CSV file, or the folder of a Minari or LeRobot dataset.

        A `minari.MinariDataset` works too: its episodes are read from its folder.

        The options are those of `from_frame`, and columns are found in the same way. A Parquet file
        that `write` made needs no options, because the file says what each column is. A Minari
        dataset takes ``features``, ``categorical``, ``behavior``, ``horizon``, ``censored`` and
        ``like``; its runs are complete at the environment's time limit. In a LeRobot dataset, the
        observed numbers are the state. The reward is the column ``next.reward``; without that
        column it is ``next.success``, and a run is judged by whether it ever succeeded (behavior
        ``"max"``). Prepared episodes (see `prepare`) stay on disk; their only option is ``like``.
        """
        from ontarget.reading.files import record_file
        from ontarget.reading.prepared.manifest import is_prepared

        if isinstance(path, str | PathLike):
            place = usable_path(path, error=EpisodesFileError)
            if is_prepared(place):
                return _prepared(place, options)
            return cls._built(*record_file(place, options))
        folder = getattr(getattr(path, "storage", None), "data_path", None)
        if folder is None:
            raise EpisodesError(
                Argument("path"),
                f" needs a file, a folder or a Minari dataset, got {type(path).__name__}; "
                "pass a table to Episodes.from_frame",
            )
        chosen = [int(one) for one in path.episode_indices]
        return cls._built(*record_file(Path(folder), options, chosen))

    @classmethod
    def concat(cls, parts: Sequence[Episodes]) -> Episodes:
        """All episodes of several recordings of one policy, in the order given.

        The recordings need the same features, groups and horizon, and must be judged by the same
        behavior. All ids must differ. A text feature gets the categories of all recordings
        together. Each recording may be a part of another one (`take`, `split`).

        Examples
        --------
        >>> old = Episodes.from_arrays(np.zeros((3, 2, 1)), np.ones((3, 2)))
        >>> new = Episodes.from_arrays(np.zeros((2, 2, 1)), np.ones((2, 2)), ids=[3, 4])
        >>> Episodes.concat([old, new]).ids.tolist()
        [0, 1, 2, 3, 4]
        """
        given = list(parts)
        if not given or not all(isinstance(one, Episodes) for one in given):
            kinds = ", ".join(type(one).__name__ for one in given) or "none"
            raise InputError(f"concat needs a list of Episodes, got {kinds}")
        store = joined_store([one.compact()._store for one in given])
        grids = {one._grid for one in given}
        settled = all(one._settled for one in given)
        return cls(store, grid=grids.pop() if settled and len(grids) == 1 else None)

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
        """The names of the behaviors.

        Empty if there is only one behavior, which then has no name.
        """
        return tuple(signal.name for signal in self._store.several)

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior, what it is computed from.

        Empty if there is only one behavior, which then has no name.
        """
        return {signal.name: signal.reading for signal in self._store.several}

    @property
    def horizon(self) -> int:
        """The horizon: the number of steps after which an episode is complete."""
        return self._store.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the user declared the horizon.

        Otherwise the horizon is the length of the longest run seen.
        """
        return self._store.horizon_declared

    @property
    def roles(self) -> Roles:
        """Which column of the user's data was the step, which the reward, and so on."""
        return self._store.roles

    @property
    def is_prepared(self) -> bool:
        """Whether the episodes are on disk and read step by step; see `PreparedEpisodes`."""
        return hasattr(self._store, "recoded")

    @property
    def dropped(self) -> int:
        """How many episodes were left out when these were read, because they were cut off."""
        return self._store.dropped

    @property
    def censoring(self) -> str:
        """How cut-off episodes were treated (``censored=``); empty if there were none."""
        return self._store.censoring

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
    def lengths(self) -> IndexArray:
        """The number of steps of each episode."""
        return self._own(self._store.lengths)

    @cached_property
    def truncated(self) -> BoolArray | None:
        """Which episodes were flagged as cut off; None if there is no such flag."""
        return None if self._store.truncated is None else self._own(self._store.truncated)

    @cached_property
    def terminated(self) -> BoolArray | None:
        """Which episodes were flagged as ended by themselves; None if there is no such flag."""
        return None if self._store.terminated is None else self._own(self._store.terminated)

    @cached_property
    def cut_off(self) -> BoolArray:
        """Which episodes were cut off before their end: their outcome is unknown.

        Such episodes are kept only with ``censored="worst-case"``. In place of their outcome,
        `outcomes` has what they reached up to the cut-off.
        """
        return self._own(self._store.censored)

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
    def reward_range(self) -> tuple[float, float] | None:
        """The smallest and the largest reward of any step; None without rewards."""
        if self._judged.rewards is None:
            return None
        by_step = [self.rewards_at(t) for t in range(int(self.lengths.max()))]
        return min(float(r.min()) for r in by_step), max(float(r.max()) for r in by_step)

    def at(self, t: int, *, grid: float | None = None) -> Step:
        """The states, outcomes and values so far of the episodes still going at step t.

        Episodes that ended before step t are left out. Outcomes and the behavior so far are rounded
        to `grid`, or to another grid that is passed.
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

    def take(self, index: ArrayLike) -> Episodes:
        """Some of the episodes, chosen by position or by a mask (true or false per episode).

        Nothing is copied.
        """
        chosen = positions_of(index, len(self))
        index = chosen if self._index is None else self._index[chosen]
        return self._on_same_grid(self._store, index)

    def sample(self, most: int, *, seed: int = 0) -> Episodes:
        """At most ``most`` episodes, chosen at random; nothing is copied.

        The choice depends only on the seed and the episodes' ids.

        Examples
        --------
        >>> walks = Episodes.from_arrays(np.zeros((10, 3, 1)), np.ones((10, 3)))
        >>> walks.sample(4).ids.tolist(), len(walks.sample(20))
        ([5, 6, 7, 9], 10)
        """
        if len(self) <= whole_number("most", most, least=1):
            return self
        order = np.argsort(keyed_hash(self.keys, seed, "sample"), kind="stable")
        return self.take(np.sort(order[:most]))

    def only(self, name: str) -> Episodes:
        """The same episodes, judged by only one of their named behaviors; nothing is copied.

        Examples
        --------
        >>> runs = Episodes.from_arrays(
        ...     np.zeros((2, 3, 1)),
        ...     {"reward": [[1, 2, 3], [4, 5, 6]], "distance": [[9, 8, 9], [7, 7, 5]]},
        ...     behavior={"return": "sum", "clearance": "min:distance"},
        ... )
        >>> runs.names, runs.only("clearance").outcomes.tolist()
        (('return', 'clearance'), [8.0, 5.0])
        """
        for signal in self._store.several:
            if signal.name == name:
                found = Episodes(self._store.only(signal), self._index, grid=signal.grid)
                found._settled &= signal.settled
                return found
        if not self.names:
            raise EpisodesError(
                f"these episodes have a single behavior without a name, got {name!r}; build them "
                "with behavior={NAME: …}"
            )
        raise EpisodesError(
            Argument("name"), f" needs one of the behaviors {', '.join(self.names)}, got {name!r}"
        )

    @overload
    def split(
        self,
        learn: float | None = None,
        assure: float | None = None,
        *,
        seed: int = 0,
        by_group: ByGroup | None = None,
    ) -> Split: ...

    @overload
    def split(
        self,
        *,
        train: float,
        calibrate: float | None = None,
        assure: float | None = None,
        seed: int = 0,
        by_group: ByGroup | None = None,
    ) -> PaperSplit: ...

    def split(
        self,
        learn: float | None = None,
        assure: float | None = None,
        *,
        train: float | None = None,
        calibrate: float | None = None,
        seed: int = 0,
        by_group: ByGroup | None = None,
    ) -> Split | PaperSplit:
        """The episodes, divided into parts by seed and id; the order of rows does not matter.

        Parameters
        ----------
        learn, assure
            Fractions (floats up to 1) or counts (whole numbers); by default 0.8 and 0.2. All
            estimates come from the part ``learn``, and all promises (guarantees) from the part
            ``assure``. With ``assure=0`` all episodes are in learn, and nothing is promised.
            Episodes in neither part are the ``rest``.
        train, calibrate, assure
            The sizes of the paper's three parts, by default 0.4, 0.4 and 0.2. They cannot be
            combined with ``learn``.
        seed
            A different seed divides the episodes differently.
        by_group
            ``"stratify"`` divides each group in the same way; promises then hold for new runs of
            these groups. ``"whole"`` keeps each group in one part, so that the model is measured on
            groups that it has not seen. Promises for a run of a new group then hold only roughly,
            because runs of one group resemble each other. ``"cluster"`` makes these promises exact:
            whole groups are divided, and assure (and calibrate) keep one run of each group, drawn
            by seed and id. The other runs of these groups are left out.

        Examples
        --------
        >>> walks = Episodes.from_arrays(np.zeros((10, 3, 1)), np.ones((10, 3)))
        >>> parts = walks.split()
        >>> len(parts.learn), len(parts.assure)
        (8, 2)
        >>> parts = walks.split(train=5, calibrate=3, assure=0)
        >>> len(parts.train), len(parts.calibrate), parts.assure, len(parts.rest)
        (5, 3, None, 2)
        """
        asked = asked_parts(learn, train, calibrate, assure)
        chosen = divide(self.ids, self.keys, self.groups, asked, seed=seed, by_group=by_group)
        # All parts are rounded to the grid of the part that a monitor learns from.
        first = next(iter(chosen.values()))
        learned = self.take(first)
        if self.names:
            each = {name: learned.only(name)._on_own_grid().grid for name in self.names}
            whole = self._on_grids(each)
        else:
            whole = self._rounded_to(learned._on_own_grid().grid)
        parts = {
            name: whole.take(np.sort(index)) if index.size else None
            for name, index in chosen.items()
        }
        kind: Any = Split if "learn" in parts else PaperSplit
        found: Split | PaperSplit = kind(**parts)
        return found

    def thinned(
        self, ratios: ArrayLike | Sequence[ArrayLike], bound: float, *, seed: int = 0
    ) -> Episodes:
        """Some of the episodes, drawn at random so that they are like runs of another policy.

        Parameters
        ----------
        ratios
            For each action of a run, the probability of the action under the new policy, divided by
            its probability under the recorded policy: an array (episodes, steps), or a list with
            one array per episode. Or one number per episode: the product of the ratios of its
            actions.
        bound
            An upper bound on an episode's product of ratios, chosen before you look at the runs. An
            episode is drawn with the probability product / bound; a product above the bound is
            refused.
        seed
            The seed and the episodes' ids determine which episodes are drawn.

        Notes
        -----
        The drawn episodes are distributed like runs of the new policy. So everything that holds for
        recorded runs holds for runs of the new policy. About one in ``bound`` episodes is drawn, so
        few are left if the policies differ much.

        Examples
        --------
        >>> walks = Episodes.from_arrays(np.zeros((400, 2, 1)), np.ones((400, 2)))
        >>> len(walks.thinned(np.full((400, 2), 1.0), bound=4.0))
        107
        """
        weights = products_of(ratios, self.lengths, self.ids)
        bad = ~(np.isfinite(weights) & (weights >= 0.0))
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                Argument("ratios"),
                f" need finite numbers from 0 up, got a product of {weights[i]} for episode "
                f"{self.ids[i]!s}",
            )
        lots = chosen_by_lot(
            weights,
            bound,
            units=self.lengths,  # one ratio per step
            keys=self.keys,
            ids=self.ids,
            name="bound",
            seed=seed,
        )
        if not lots.size:
            raise EpisodesError(
                f"none of the {len(self):,} episodes was drawn; record more, or choose a policy "
                "closer to the recorded one"
            )
        return self.take(lots)

    def aimed(self, targets: Sequence[Target | None]) -> Episodes:
        """The same episodes, each with its own target.

        A monitor that is fitted on the returned episodes can watch runs that each have their own
        target; see `GoalMonitor.watch_own`.

        Parameters
        ----------
        targets
            One target per episode; None for an episode without a target. A target must have been
            fixed before its run began. If the policy reacts to its target, make the target a
            feature too.

        Examples
        --------
        >>> walks = Episodes.from_arrays(np.zeros((2, 2, 1)), np.ones((2, 2)))
        >>> walks.aimed([Target.at_least(1), Target.at_least(5)]).targets
        (Target('[1, inf)'), Target('[5, inf)'))
        """
        given = tuple(targets)
        if len(given) != len(self):
            raise InputError(
                Argument("targets"),
                f" need one entry for each of {len(self)} episodes, got {len(given)}",
            )
        for i, one in enumerate(given):
            if not isinstance(one, Target | None):
                raise InputError(
                    Argument("targets"),
                    f" need a Target or None each, got {one!r} for episode {self.ids[i]!s}",
                )
        store = self.compact()._store
        return self._on_same_grid(replace(store, wanted=given))

    def with_history(self, history: int | History) -> Episodes:
        """The same episodes, with columns about the run so far in every state; nothing is copied.

        A ``GoalMonitor(history=…)`` uses episodes in this form. A state then has more columns
        (`state_schema`): the features and rewards of that many earlier steps, and the mean of each
        feature and of the reward over the run so far. A value is NaN if the run has no such earlier
        step.

        Parameters
        ----------
        history
            How many earlier steps, up to 100; 0 for none. Or the ``history`` of a fitted monitor or
            of other episodes.

        Examples
        --------
        >>> walks = Episodes.from_arrays([[[1], [2], [6]]], [[10, 20, 30]], features=["x"])
        >>> recalling = walks.with_history(1)
        >>> recalling.state_schema.names
        ('x', 'x[-1]', 'reward[-1]', 'mean(x)', 'mean(reward)')
        >>> print(recalling.at(0).states, recalling.at(2).states)
        [[ 1. nan nan  1. nan]] [[ 6.  2. 20.  3. 15.]]
        """
        if not isinstance(history, History):
            history = History(whole_number("history", history, least=0, most=MOST_STEPS))
        if history and self.is_prepared:
            raise EpisodesError(
                "a history needs episodes in memory, got prepared episodes, which are read one "
                "step at a time; take some of them with sample(N).compact(), or put what was seen "
                "earlier into columns of the log and prepare it again"
            )
        if history == self._store.history:
            return self
        found = Episodes(replace(self._store, history=history), self._index, grid=self._grid)
        found._settled = self._settled
        return found

    def recoded(self, schema: Schema) -> Episodes:
        """The same episodes, with text features coded by the categories of another schema."""
        if same_dictionaries(self.schema, schema):
            return self
        return self._on_same_grid(recoded_store(self._alone, schema))

    def compact(self) -> Episodes:
        """A copy of these episodes in memory.

        The recording they were taken from can then be freed.
        """
        store = self._alone
        if self.is_prepared and self._index is None:
            store = store.part(np.arange(len(self)))
        return self._on_same_grid(store)

    def describe(self) -> str:
        """A text of a few lines: number, lengths and outcomes of episodes, what was left out."""
        from ontarget.reading.look import describe

        return describe(self)

    def look(self, target: Target | None = None) -> Look:
        """An overview of the episodes, and what to clear up before a fit; print the result.

        The overview shows lengths, outcomes, gaps, constant columns, rare categories and the order
        of the file. Above all it searches for leaks: features that contain something that is not
        known yet at that step, such as the outcome, the number of steps left, or the reward of the
        same row. Each caution says what was found, where, why it matters and what to do. A weak
        leak, or one that shows only when several columns are combined, can be missed.

        Parameters
        ----------
        target
            If given, count the episodes that met this target, and look for columns that give away
            whether a run meets it.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> rewards = rng.normal(size=(100, 3))
        >>> leak = np.repeat(rewards.sum(axis=1), 3).reshape(100, 3, 1)
        >>> runs = Episodes.from_arrays(leak, rewards, features=["final_score"])
        >>> [caution.kind for caution in runs.look().cautions]
        ['outcome']
        """
        from ontarget.reading.look import look_at

        return look_at(self, target)

    def write(self, path: str | Path) -> None:
        """Write the episodes to a Parquet or CSV file; the path's ending decides which.

        The file is written completely or not at all. Parquet stores everything. A CSV file stores
        only the rows: if you declared a behavior (what runs are judged by) or a horizon (number of
        steps), pass it again when you read the file (an `EpisodesWarning` says so).

        Values are written unchanged, so they read back the same. A spreadsheet treats text in a
        CSV file that begins with ``=``, ``+``, ``-`` or ``@`` as a formula: if categories or ids
        come from an untrusted source, import those columns as text, or write Parquet.
        """
        from ontarget.reading.files import write

        write(self, Path(path))

    def to_frame(self) -> pl.DataFrame:
        """The episodes as a polars frame: one row per episode and step, sorted by step."""
        from ontarget.reading.files import frame_of

        return frame_of(self)

    def __len__(self) -> int:
        return int(self._store.lengths.size if self._index is None else self._index.size)

    def __repr__(self) -> str:
        from ontarget.reading.look import judged_in_words

        longest = int(self.lengths.max())
        upto = "" if self.lengths.min() == longest else "up to "
        return (
            f"<Episodes: {len(self):,} episode{'s' * (len(self) != 1)} of {upto}{longest} "
            f"step{'s' * (longest != 1)}, {len(self.schema)} "
            f"feature{'s' * (len(self.schema) != 1)}, {judged_in_words(self)}>"
        )

    def __getstate__(self) -> dict[str, object]:
        # Without what was computed from the store, which may be on disk and large.
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def _built(cls, recording: RawEpisodes, layout: Layout) -> Episodes:
        like = layout.like
        found = cls(
            *build(
                recording,
                horizon=layout.horizon,
                declared=layout.declared,
                given=like is None or layout.horizon != like.horizon,
                censored=layout.censored,
                stop_bound=layout.stop_bound,
            ),
            grid=None if like is None or like.readings else like.grid,
        )
        if like is None or not like.readings:
            return found
        return found._on_grids({name: like.only(name).grid for name in found.names})

    @property
    def _judged(self) -> Store:
        """The arrays of the episodes; an error if the episodes are judged by several behaviors."""
        if self._store.several:
            raise EpisodesError(
                f"these episodes have several behaviors ({', '.join(self.names)}); choose one of "
                f"them: episodes.only({self.names[0]!r})"
            )
        return self._store

    def _own(self, values: NDArray[Kind]) -> NDArray[Kind]:
        if self._index is None:
            return values
        own: NDArray[Kind] = values[self._index]
        own.setflags(write=False)
        return own

    @property
    def _positions(self) -> IndexArray:
        """The positions of these episodes in the store."""
        return np.arange(len(self)) if self._index is None else self._index

    @property
    def _alone(self) -> Store:
        """The arrays of these episodes only, without other episodes of the same recording."""
        return self._store if self._index is None else self._store.part(self._index)

    def _on_same_grid(self, store: Store, index: IndexArray | None = None) -> Episodes:
        """Other episodes, or some of these, rounded as these are."""
        if store.several:
            grids = {one.name: self.only(one.name).grid for one in store.several if not one.grid}
            return Episodes(store, index)._on_grids(grids, settled=False)
        found = Episodes(store, index, grid=self.grid)
        found._settled = self._settled
        return found

    def _on_own_grid(self) -> Episodes:
        """The same episodes, rounded as their rewards demand, unless their grid is settled."""
        return self if self._settled else self._rounded_to(self._own_grid)

    def _rounded_to(self, grid: float) -> Episodes:
        """The same episodes, rounded to multiples of ``grid`` and nothing before that."""
        return Episodes(self._store, self._index, grid=grid)

    def _on_grids(self, grids: Mapping[str, float], *, settled: bool = True) -> Episodes:
        """The same episodes, each behavior rounded to multiples of the number given for it."""
        several = tuple(
            replace(one, grid=grids[one.name], settled=settled) if one.name in grids else one
            for one in self._store.several
        )
        return Episodes(replace(self._store, several=several), self._index)

    def _with_horizon(self, horizon: int) -> Episodes:
        """The same episodes with another horizon, which some of them may exceed."""
        if horizon == self.horizon:
            return self
        return self._on_same_grid(replace(self._store, horizon=horizon), self._index)

    @cached_property
    def _own_grid(self) -> float:
        """The grid that these episodes have by themselves (method M1)."""
        return own_grid(self._judged, self._index)

    def _outcomes_on(self, grid: float) -> FloatArray:
        """The outcomes rounded to a grid; those of the last grid asked for are kept."""
        kept: tuple[float, FloatArray] | None = self.__dict__.get("_rounded")
        if kept is None or kept[0] != grid:
            kept = grid, read_only(snap(self._unsnapped_outcomes, grid))
            self.__dict__["_rounded"] = kept
        return kept[1]

    @cached_property
    def _unsnapped_outcomes(self) -> FloatArray:
        return self._own(self._judged.outcomes)

    @property
    def _unrounded(self) -> Unrounded:
        """The outcomes before they are rounded, and how exact they are."""

        def path() -> Iterator[tuple[IndexArray, FloatArray]]:
            for t in range(1, int(self.lengths.max())):
                _, alive = self._store.rows(t, self._index)
                yield alive, self._unrounded_at(t)

        return Unrounded(self._unsnapped_outcomes, self.lengths, ~self.cut_off, path, self.ids)

    def _unrounded_at(self, t: int) -> FloatArray:
        """The behavior before step t of each episode that is still going there, not rounded."""
        rows, _ = self._judged.rows(t, self._index)
        values: FloatArray = self._judged.before[rows]
        return values


def _prepared(folder: Path, options: FrameOptions) -> Episodes:
    from ontarget.reading.prepared.store import opened_store

    stray = sorted(set(options) - {"like"})
    if stray:
        raise EpisodesError(
            f"{folder} contains prepared episodes, whose columns are fixed; leave out ",
            Argument(stray[0]),
            ", or prepare them again with it",
        )
    return Episodes(opened_store(folder))
