"""Checks recorded rows, finds the outcome of each episode and the horizon, and makes a store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes.behavior import Behavior, Walk, walk
from ontarget.episodes.censoring import (
    CENSORED,
    Censored,
    going_on_of,
    refuse_unused,
    settle_censored,
    within_horizon,
)
from ontarget.episodes.recording import RawEpisodes, RawSignal, remarked
from ontarget.episodes.schema import UnknownCategories, joined_unknown
from ontarget.episodes.store import Signal, Store
from ontarget.errors import Argument, CategoryError, EpisodesError


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
        refuse_unused(recording, censored)
        if not given and declared:
            _check_reach(recording, horizon)
        if censored == "horizon":
            recording, kept = within_horizon(recording, horizon)
            store = _checked_store(recording, horizon=horizon, declared=True)
            n = recording.arrangement.lengths.size
            return replace(store, dropped=n - kept.size, censoring=censored), kept
        store = _checked_store(recording, horizon=horizon, declared=declared)
        going_on = going_on_of(recording) if censored == "weights" else None
        return settle_censored(store, censored, going_on=going_on, bound=stop_bound)


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
