"""Sorts recorded rows, which may come in any order, by step and then by episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior, Walk, walk
from ontarget.episodes.builtin_behaviors import Reading
from ontarget.episodes.censoring import (
    CENSORED,
    Censored,
    needs,
    run_products,
    settle_censored,
)
from ontarget.episodes.schema import Schema, UnknownCategories, joined_unknown
from ontarget.episodes.store import Roles, Signal, Store
from ontarget.errors import Argument, CategoryError, CensoredError, EpisodesError, Placeholder
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
    """The order that sorts rows by step and then by episode, from each row's episode id and step.

    Episodes keep the order of their first rows. If ``steps`` is None, the rows of each episode are
    assumed to be in order already. If ``ids`` contains codes (numbers that stand for ids),
    ``names`` contains the ids themselves.
    """

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
    """How many episodes there are, if every step has the same ids in the same order; else None.

    Rows are like this if they are sorted by step and all episodes have equally many steps. Such
    rows need no sorting.
    """
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
    """The name of one of several behaviors, and its data.

    The data are the values, one per row, of the column that the behavior is computed from.
    """

    name: str
    reading: Reading
    values: FloatArray


@dataclass(frozen=True)
class RawEpisodes:
    """The columns of recorded episodes, not checked yet.

    Rows are sorted by step and then by episode.
    """

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


def build(
    recording: RawEpisodes,
    *,
    horizon: int | None,
    censored: Censored,
    declared: bool = True,
    given: bool = True,
    stop_bound: float | None = None,
) -> tuple[Store, IndexArray | None]:
    """The recorded rows, checked and in a `Store`, and the positions of the episodes to keep.

    The positions are None if all episodes are kept. ``horizon`` is the number of steps of a
    complete run. ``given`` is False if it was taken from other episodes or a monitor (``like=``).
    ``declared`` is False if nobody declared that horizon: it is only the length of the longest run
    seen, so these runs may be longer. ``censored`` says what to do with episodes that were cut off
    before their end.
    """
    if censored not in CENSORED:
        known = ", ".join(map(repr, CENSORED))
        raise EpisodesError(Argument("censored"), f" needs one of {known}, got {censored!r}")
    with remarked(recording.remarks):
        _refuse_unused(recording, censored)
        if not given and declared:
            _check_reach(recording, horizon)
        if censored == "horizon":
            return _cut_at_horizon(recording, horizon)
        store = _checked_store(recording, horizon=horizon, declared=declared)
        going_on = _going_on(recording) if censored == "weights" else None
        return settle_censored(store, censored, going_on=going_on, bound=stop_bound)


@contextmanager
def remarked(remarks: Sequence[str]) -> Iterator[None]:
    """A context that adds these remarks to the message of any error inside it.

    The remarks say which columns were guessed. A wrong guess may be the cause of the error.
    """
    try:
        yield
    except EpisodesError as error:
        if not remarks:
            raise
        raise type(error)(*error.parts, f" ({'; '.join(remarks)})") from error


def _checked_store(recording: RawEpisodes, *, horizon: int | None, declared: bool) -> Store:
    _check_states(recording)
    recording = _settled(recording)
    if recording.rewards is not None:
        column = recording.roles.reward or "reward"
        _check_finite(recording, recording.rewards, f"reward (column {column!r})")
    several = tuple(_signal(recording, one) for one in recording.several)
    found: Walk | Signal = several[0] if several else _only_walk(recording)
    arrangement = recording.arrangement
    return Store(
        schema=recording.schema,
        behavior=recording.behavior,
        horizon=_checked_horizon(recording, horizon, declared),
        roles=recording.roles,
        ids=recording.ids,
        groups=recording.groups,
        truncated=recording.truncated,
        terminated=recording.terminated,
        lengths=arrangement.lengths,
        offsets=arrangement.offsets,
        states=recording.states,
        rewards=recording.rewards,
        before=found.before,
        outcomes=found.outcomes,
        ahead=found.ahead,
        horizon_declared=horizon is not None and declared,
        remarks=recording.remarks,
        strangers=recording.strangers,
        wanted=recording.wanted,
        several=several,
    )


def _only_walk(recording: RawEpisodes) -> Walk:
    """The behavior at every row, if there is only one behavior."""
    values, behavior = recording.rewards, recording.behavior
    if behavior.told:
        values = recording.behavior_values
        if values is not None:
            _check_finite(recording, values, f"behavior (column {behavior.column!r})")
    if values is None:
        raise EpisodesError(
            f"behavior {behavior.spec!r} needs values to compute it from; pass the rewards, or the "
            "column that contains the behavior"
        )
    return _walked(recording, behavior, values)


def _signal(recording: RawEpisodes, raw: RawSignal) -> Signal:
    """One of several behaviors, with checked values."""
    name, reading, values = raw
    if reading.column is not None:
        _check_finite(recording, values, f"behavior {name!r} (column {reading.column!r})")
    found = _walked(recording, reading.behavior, values)
    return Signal(name, reading, values, found.before, found.outcomes, found.ahead)


def _walked(recording: RawEpisodes, behavior: Behavior, values: FloatArray) -> Walk:
    arrangement = recording.arrangement
    found = walk(behavior, values, arrangement.lengths, arrangement.offsets)
    _check_outcomes(recording, behavior, found.outcomes)
    _check_before(recording, behavior, found.before)
    return found


def _check_finite(recording: RawEpisodes, values: FloatArray, what: str) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        more = int(np.count_nonzero(bad)) - 1
        others = f" and in {more:,} more row{'s' * (more > 1)}" if more else ""
        raise EpisodesError(
            f"{what} needs finite numbers, got {values[row]} at {recording.where(row)}{others}; "
            "correct the row, or leave the episode out"
        )


def _check_outcomes(recording: RawEpisodes, behavior: Behavior, outcomes: FloatArray) -> None:
    bad = ~(np.abs(outcomes) <= LARGEST_OUTCOME)  # true for NaN
    if bad.any():
        first = int(np.argmax(bad))
        raise EpisodesError(
            f"an outcome needs to be a finite number up to 1e300 in size, got {outcomes[first]} "
            f"for episode {recording.ids[first]!s} (behavior {behavior.spec!r}); use rewards of a "
            "smaller scale, or a behavior whose value is finite when a run ends"
        )


def _check_before(recording: RawEpisodes, behavior: Behavior, before: FloatArray) -> None:
    """Refuse a run whose behavior so far is too large; NaN means that there is no value yet."""
    bad = np.isfinite(before) & (np.abs(before) > LARGEST_OUTCOME)
    if bad.any():
        row = int(np.argmax(bad))
        raise EpisodesError(
            f"the behavior so far needs numbers up to 1e300 in size, got {before[row]} at "
            f"{recording.where(row)} (behavior {behavior.spec!r}); use rewards of a smaller scale"
        )


def _check_states(recording: RawEpisodes) -> None:
    """Refuse infinite values in the states. NaN is allowed: it means a missing value."""
    for feature, column in zip(recording.schema.features, recording.states, strict=True):
        if np.isinf(column).any():
            row = int(np.argmax(np.isinf(column)))
            raise EpisodesError(
                f"feature {feature.name!r} needs finite numbers (NaN where a reading is missing), "
                f"got {column[row]} at {recording.where(row)}"
            )


def _settled(recording: RawEpisodes) -> RawEpisodes:
    """The recording, in which numbers that stand for no known category count as missing (M18)."""
    states, strangers = recording.states, list(recording.strangers)
    for j, feature in enumerate(recording.schema.features):
        strange = feature.strange(states[j])
        if strange.any() and feature.unseen == "error":
            row = int(np.argmax(strange))
            raise CategoryError(f"{feature.refusal(states[j][row])} (at {recording.where(row)})")
        if strange.any():
            values, counts = np.unique(states[j][strange], return_counts=True)
            named = zip(values.tolist(), counts.tolist(), strict=True)
            strangers.append(UnknownCategories.of(feature.name, named))
            states = states.copy() if states is recording.states else states
            states[j][strange] = np.nan
    return replace(recording, states=states, strangers=joined_unknown(strangers))


def _refuse_unused(recording: RawEpisodes, censored: Censored) -> None:
    """Refuse ``stop_probability`` or ``cutoff`` if this choice of ``censored`` ignores it."""
    for name, column, way in (
        ("stop_probability", recording.stop_probability, "weights"),
        ("cutoff", recording.cutoff, "horizon"),
    ):
        if column is not None and censored != way:
            raise CensoredError(
                Argument(name), " is used only with ", Argument("censored", way), "; pass both"
            )


def _check_reach(recording: RawEpisodes, horizon: int | None) -> None:
    """Refuse runs with more steps than the horizon declared for a monitor or other episodes."""
    lengths = recording.arrangement.lengths
    longest = int(np.argmax(lengths))
    if horizon is not None and lengths[longest] > horizon:
        raise EpisodesError(
            f"episode {recording.ids[longest]!s} has {lengths[longest]} steps, more than the "
            f"horizon of {horizon} that was declared for the fit; leave such runs out, or fit "
            f"again with a longer horizon"
        )


def _checked_horizon(recording: RawEpisodes, horizon: int | None, declared: bool) -> int:
    lengths = recording.arrangement.lengths
    longest = int(np.argmax(lengths))
    if horizon is None:
        return int(lengths[longest])
    asked = whole_number("horizon", horizon, least=1, error=EpisodesError)
    if not declared:
        return max(asked, int(lengths[longest]))
    if asked < lengths[longest]:
        raise EpisodesError(
            f"horizon {asked} is shorter than episode {recording.ids[longest]!s} with "
            f"{lengths[longest]} steps; pass ",
            Argument("horizon", int(lengths[longest])),
            " or more, or cut off longer episodes",
        )
    return asked


def _going_on(recording: RawEpisodes) -> tuple[FloatArray, FloatArray] | None:
    """For each episode, 1 divided by the probability that nobody stopped it, and its rounding.

    It is the product of 1/(1 − stop_probability) over the steps of the episode; the rounding is in
    units in the last place. None if the data have no stop probabilities.
    """
    q = recording.stop_probability
    if q is None:
        return None
    bad = ~((q >= 0.0) & (q < 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise EpisodesError(
            Argument("stop_probability"),
            f" needs numbers from 0 to below 1, got {q[row]:g} at {recording.where(row)}; a run "
            "that is stopped for certain says nothing about runs that are left alone",
        )
    arrangement = recording.arrangement
    factors = 1.0 / (1.0 - q)
    # In floats 1/(1 − 0.8) is 5.000000000000001: the error of q is as many times larger in 1 − q.
    units = arrangement.lengths * factors.max(initial=1.0)
    return run_products(factors, arrangement.lengths, arrangement.offsets), units


def _cut_at_horizon(recording: RawEpisodes, horizon: int | None) -> tuple[Store, IndexArray]:
    """The recorded episodes, and the positions of those whose cut-off is not before the horizon.

    Steps after the horizon are removed. Whether an episode is kept depends only on its cut-off,
    never on how the run went.
    """
    cutoff = recording.cutoff
    needs(
        "horizon",
        cutoff is not None and horizon is not None,
        Argument("cutoff", Placeholder("NAME")),
        Argument("horizon", Placeholder("N")),
    )
    assert cutoff is not None
    most = whole_number("horizon", horizon, least=1, error=EpisodesError)
    _check_cutoffs(recording, cutoff)
    kept = np.flatnonzero(cutoff >= most)
    if not kept.size:
        raise CensoredError(
            f"no episode has a cut-off of {most} steps or more, the latest is {cutoff.max():g}; "
            "pass a shorter ",
            Argument("horizon"),
        )
    steps = min(most, recording.arrangement.offsets.size - 1)
    rows = int(recording.arrangement.offsets[steps])

    def own(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[:rows]

    short = replace(
        recording,
        arrangement=replace(
            recording.arrangement,
            lengths=np.minimum(recording.arrangement.lengths, most),
            offsets=recording.arrangement.offsets[: steps + 1],
        ),
        states=recording.states[:, :rows],
        rewards=own(recording.rewards),
        behavior_values=own(recording.behavior_values),
        several=tuple(one._replace(values=one.values[:rows]) for one in recording.several),
    )
    store = _checked_store(short, horizon=most, declared=True)
    return replace(store, dropped=cutoff.size - kept.size, censoring="horizon"), kept


def _check_cutoffs(recording: RawEpisodes, cutoff: FloatArray) -> None:
    """Refuse cut-offs that are not numbers of steps, or that contradict how long a run is."""
    lengths, name = recording.arrangement.lengths, Argument("cutoff")
    bad = ~(cutoff >= lengths)  # true for NaN
    if bad.any():
        i = int(np.argmax(bad))
        raise EpisodesError(
            name,
            f" needs the number of steps after which a run is cut off, got {cutoff[i]:g} for "
            f"episode {recording.ids[i]!s}, which has {lengths[i]} steps",
        )
    ended, cut = recording.terminated, recording.truncated
    flagged = cut if ended is None else ~ended
    if flagged is None:
        return
    early = np.flatnonzero(flagged & (cutoff > lengths))
    if early.size:
        i = int(early[0])
        raise CensoredError(
            f"episode {recording.ids[i]!s} was cut off after {lengths[i]} steps, before its ",
            name,
            f" of {cutoff[i]:g}; a cut-off must not depend on how a run goes, so record the "
            "run to its end, or to its cut-off",
        )
