"""The last part of reading episodes from arrays, tables or files: checks the recorded rows.

The outcome of each episode, and the horizon (the number of steps of a complete run), are determined
here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes._arrangement import Arrangement
from ontarget.episodes._censoring import (
    CENSORED,
    Censored,
    needs,
    run_products,
    settle_censored,
)
from ontarget.episodes._judged import Reading
from ontarget.episodes._store import Roles, Signal, Store
from ontarget.episodes._walk import Walk, walk
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.schema import Schema, UnknownCategories, joined_unknown
from ontarget.errors import Argument, CategoryError, CensoredError, EpisodesError, Placeholder
from ontarget.target import Target


class RawSignal(NamedTuple):
    """The name of one of several behaviors (numbers that runs are judged by), and its data.

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
    """The behavior (the number a run is judged by) at every row, if there is only one behavior."""
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
    """One of several behaviors (numbers that runs are judged by), with checked values.

    There is one value for each row.
    """
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
    """Refuse a run whose behavior so far (the number it is judged by) is too large.

    NaN is allowed. It means that there is no value yet.
    """
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
    """Refuse runs with more steps than the horizon declared for a monitor or other episodes.

    The horizon is the number of steps of a complete run.
    """
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

    The horizon is the number of steps of a complete run. Steps after the horizon are removed.
    Whether an episode is kept depends only on its cut-off, never on how the run went.
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
