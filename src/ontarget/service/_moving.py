"""Runs as the engine holds them, and how their fleets move them on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from ontarget._typing import FloatArray
from ontarget.live import Outlooks, RunState, Status
from ontarget.live.runs import PACKED, Standings
from ontarget.service._goal_runs import GoalRuns
from ontarget.service.contracts import Fleet, Held
from ontarget.service.messages import StepMessage
from ontarget.service.store import StoredRun

__all__ = ["Accepted", "Run", "moved", "numbers_of", "resume", "thresholds"]

_CUT_OFF: Final = "cut off: nobody knows what the run would have come to"


@dataclass(slots=True)
class Run:
    """A run in memory: as stored, and what this transaction adds to it."""

    stored: StoredRun
    held: Held
    expected: int  # the next step in the database; −1 before the run is there
    resumed: bool  # whether the fleet has it
    marks: list[float | None]
    alarm: str = ""  # the id of the alarm it is in
    last: tuple[int, bytes, bytes] | None = None
    fresh: list[tuple[int, bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class Accepted:
    """A message that is the next one of its run, and its place among those that came with it."""

    place: int
    run: Run
    message: StepMessage
    payload: bytes


def resume(fleet: Fleet, runs: Sequence[Run]) -> None:
    """Put stored runs into their fleet."""
    if not runs:
        return
    packed: dict[Hashable, bytes] = {}
    for run in runs:
        state = bytes(run.stored.state)
        if isinstance(fleet, GoalRuns) or state[:1] == PACKED:
            packed[run.stored.id] = state
        else:  # as schema 1 stored it
            fleet.resume(run.stored.id, RunState.from_json(msgspec.msgpack.decode(state)))
    fleet.unpack(packed)
    standings = fleet.standings([run.stored.id for run in runs])
    found = zip(runs, standings.alarmed.tolist(), standings.since.tolist(), strict=True)
    for run, alarmed, since in found:
        run.alarm = f"{run.stored.id}-{since}" if alarmed else ""
        run.resumed = True


def numbers_of(outlooks: Outlooks, standings: Standings) -> FloatArray:
    """What an answer says of each run, in its order."""
    return np.column_stack(
        [
            outlooks.p,
            outlooks.spread,
            outlooks.low,
            outlooks.high,
            outlooks.plausibility,
            outlooks.assurance,
            standings.so_far,
        ]
    )


def moved(
    fleet: Fleet,
    some: Sequence[Accepted],
    keys: Sequence[str],
    *,
    told: bool,
    ends: bool,
    cut: bool,
) -> Outlooks:
    """The outlooks of runs after their next step, after their end, or after they were cut off."""
    if cut:
        unknown = replace(Outlooks.pending(len(some)), words=lambda _: _CUT_OFF)
        unknown.status[:] = Status.UNKNOWN
        return unknown
    messages = [one.message for one in some]
    # Before the first step nothing is earned; later null says that nobody knows.
    rewards = [
        (math.nan if one.step else 0.0) if one.reward is None else one.reward for one in messages
    ]
    if isinstance(fleet, GoalRuns):
        return _stepped_to_goal(fleet, messages, rewards, keys, ends=ends)
    behavior = np.array([one.behavior for one in messages], dtype=np.float64) if told else None
    if ends:
        return fleet.end(rewards, agents=keys, behavior=behavior)
    states = [_reading(one.state) for one in messages]
    return fleet.step(states, rewards, agents=keys, behavior=behavior)


def _stepped_to_goal(
    fleet: GoalRuns,
    messages: Sequence[StepMessage],
    rewards: Sequence[float],
    keys: Sequence[str],
    *,
    ends: bool,
) -> Outlooks:
    """The same for runs over several behaviors, which read signals beside the reward."""
    signals = [
        _reading({**one.signals, "reward": earned})
        for one, earned in zip(messages, rewards, strict=True)
    ]
    if ends:
        return fleet.end(signals, agents=keys)
    return fleet.step([_reading(one.state) for one in messages], signals, agents=keys)


def _reading(state: Any) -> Any:
    """A state with NaN for what is missing."""
    if isinstance(state, dict):
        if None not in state.values():
            return state
        return {name: math.nan if one is None else one for name, one in state.items()}
    return [math.nan if one is None else one for one in state]


def thresholds(fleet: Fleet, standings: Standings) -> list[float]:
    """The threshold of each run's alarm."""
    of = np.array([trigger.threshold for trigger in fleet.triggers])
    found: list[float] = of[standings.group].tolist()
    return found
