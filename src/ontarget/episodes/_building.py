"""The last steps of reading, common to arrays, frames and files: checks, behavior, horizon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes._arrangement import Arrangement
from ontarget.episodes._store import Roles, Store
from ontarget.episodes._walk import walk
from ontarget.episodes.behavior import Behavior
from ontarget.episodes.schema import Schema
from ontarget.errors import Argument, CensoredError, EpisodesError

__all__ = ["Censored", "RawEpisodes", "build", "remarked"]

Censored: TypeAlias = Literal["refuse", "drop"]


@dataclass(frozen=True)
class RawEpisodes:
    """Columns in time-major order, whose values are not checked yet."""

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
    unseen: int = 0

    def where(self, row: int) -> str:
        """The episode and step of a row, as the user numbers them."""
        episode, step = self.arrangement.locate(row)
        return f"episode {self.ids[episode]!s}, step {step + self.roles.first_step}"


def build(
    recording: RawEpisodes, *, horizon: int | None, censored: Censored, declared: bool = True
) -> tuple[Store, IndexArray | None]:
    """The checked store, and the positions of the episodes to keep; None keeps all of them.

    ``declared`` is False if the horizon was inferred from the longest run of other episodes; a run
    may then be longer.
    """
    if censored not in ("refuse", "drop"):
        raise EpisodesError(f"censored needs 'refuse' or 'drop', got {censored!r}")
    with remarked(recording.remarks):
        store = _checked_store(recording, horizon=horizon, declared=declared)
        return _settle_censored(store, censored)


@contextmanager
def remarked(remarks: Sequence[str]) -> Iterator[None]:
    """A context that adds the remarks to errors, since a wrongly guessed column may cause them."""
    try:
        yield
    except EpisodesError as error:
        if not remarks:
            raise
        raise type(error)(*error.parts, f" ({'; '.join(remarks)})") from error


def _checked_store(recording: RawEpisodes, *, horizon: int | None, declared: bool) -> Store:
    _check_states(recording)
    if recording.rewards is not None:
        column = recording.roles.reward or "reward"
        _check_finite(recording, recording.rewards, f"reward (column {column!r})")
    values = recording.rewards
    if recording.behavior.told:
        values = recording.behavior_values
        if values is not None:
            _check_finite(recording, values, f"behavior (column {recording.behavior.column!r})")
    if values is None:
        raise EpisodesError(
            f"behavior {recording.behavior.spec!r} needs its values; pass the rewards, or the "
            "column that holds the behavior"
        )
    arrangement = recording.arrangement
    found = walk(recording.behavior, values, arrangement.lengths, arrangement.offsets)
    _check_outcomes(recording, found.outcomes)
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
        unseen=recording.unseen,
    )


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


def _check_outcomes(recording: RawEpisodes, outcomes: FloatArray) -> None:
    bad = ~np.isfinite(outcomes)
    if bad.any():
        first = int(np.argmax(bad))
        raise EpisodesError(
            f"an outcome needs to be a finite number, got {outcomes[first]} for episode "
            f"{recording.ids[first]!s} (behavior {recording.behavior.spec!r}); use rewards of a "
            "smaller scale, or a behavior whose value is finite when a run ends"
        )


def _check_states(recording: RawEpisodes) -> None:
    """Refuse infinite readings; NaN is a missing reading and allowed."""
    for feature, column in zip(recording.schema.features, recording.states, strict=True):
        if np.isinf(column).any():
            row = int(np.argmax(np.isinf(column)))
            raise EpisodesError(
                f"feature {feature.name!r} needs finite numbers (NaN where a reading is missing), "
                f"got {column[row]} at {recording.where(row)}"
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
            " or more, or cut them",
        )
    return asked


def _settle_censored(store: Store, censored: Censored) -> tuple[Store, IndexArray | None]:
    """Refuse or leave out episodes whose outcome is unknown, and count them (M1)."""
    cut = int(np.count_nonzero(store.censored))
    if not cut:
        return store, None
    n = store.lengths.size
    first = int(np.argmax(store.censored))
    if censored == "refuse":
        raise CensoredError(
            f"{cut:,} of {n:,} episodes were cut off before their end and before the horizon "
            f"{store.horizon} (first: episode {store.ids[first]!s} after {store.lengths[first]} "
            "steps), so their outcome is unknown; record them to the end, or pass ",
            Argument("censored", "drop"),
            " to leave them out (what remains is then a selection)",
        )
    kept = np.flatnonzero(~store.censored)
    if not kept.size:
        raise CensoredError(
            f"all {n:,} episodes were cut off before the horizon {store.horizon}, so none is left "
            "after ",
            Argument("censored", "drop"),
            "; record episodes to their end, or pass the horizon they reach",
        )
    return replace(store, dropped=cut), kept
