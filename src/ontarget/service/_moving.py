"""The runs in the memory of the service's engine, and how they take their next step."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from ontarget.live import GoalFleet, Outlooks, RunState, Status
from ontarget.live.runs import PACKED, PACKED_BEFORE
from ontarget.service.contracts import Fleet, Held
from ontarget.service.messages import StepMessage
from ontarget.service.store import StoredRun

QUARTERS: Final = 4  # steps per run whose p is kept, to count how often it came true
_CUT_OFF: Final = "cut off: the outcome is unknown"


@dataclass(slots=True)
class Run:
    """A run in memory: its stored data, and the new data that the next transaction will store."""

    stored: StoredRun
    held: Held
    expected: int  # the next step in the database; −1 before the run is there
    resumed: bool  # whether the fleet has it
    marks: list[float | None]
    alarm: str = ""  # the id of the alarm it is in
    only_moved: bool = True  # nothing changed that most steps leave alone
    last: tuple[int, bytes, bytes] | None = None
    fresh: list[tuple[int, bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class Accepted:
    """A message that was accepted as the next step of its run, with its position in the request."""

    place: int
    run: Run
    message: StepMessage
    payload: bytes


def resume(fleet: Fleet, runs: Sequence[Run]) -> None:
    """Put runs read from the database into the `FleetWatch` (or `GoalFleet`) that follows them."""
    if not runs:
        return
    packed: dict[Hashable, bytes] = {}
    for run in runs:
        state = bytes(run.stored.state)
        if isinstance(fleet, GoalFleet) or state[:1] in (PACKED, PACKED_BEFORE):
            packed[run.stored.id] = state
        else:  # as schema 1 stored it
            fleet.resume(run.stored.id, RunState.from_json(msgspec.msgpack.decode(state)))
    fleet.unpack(packed)
    standings = fleet.standings([run.stored.id for run in runs])
    found = zip(runs, standings.alarmed.tolist(), standings.since.tolist(), strict=True)
    for run, alarmed, since in found:
        run.alarm = f"{run.stored.id}-{since}" if alarmed else ""
        run.resumed = True


def moved(
    fleet: Fleet,
    some: Sequence[Accepted],
    keys: Sequence[str],
    *,
    told: bool,
    ends: bool,
    cut: bool,
) -> Outlooks:
    """The monitor's answers about runs that have taken a step, have ended or were cut off.

    ``told`` says that the messages contain the value of the behavior itself, not only rewards. With
    ``ends`` these are the last messages of the runs; with ``cut`` the runs were cut off, so their
    outcome is unknown.
    """
    if cut:
        unknown = replace(Outlooks.pending(len(some)), words=lambda _: _CUT_OFF)
        unknown.status[:] = Status.UNKNOWN
        return unknown
    messages = [one.message for one in some]
    # Before the first step nothing is earned; later null says that nobody knows.
    rewards = [
        (math.nan if one.step else 0.0) if one.reward is None else one.reward for one in messages
    ]
    if isinstance(fleet, GoalFleet):
        return _stepped_to_goal(fleet, messages, rewards, keys, ends=ends)
    behavior = np.array([one.behavior for one in messages], dtype=np.float64) if told else None
    if ends:
        return fleet.end(rewards, agents=keys, behavior=behavior)
    states = [_reading(one.state) for one in messages]
    return fleet.step(states, rewards, agents=keys, behavior=behavior)


def _stepped_to_goal(
    fleet: GoalFleet,
    messages: Sequence[StepMessage],
    rewards: Sequence[float],
    keys: Sequence[str],
    *,
    ends: bool,
) -> Outlooks:
    """The monitor's answers about runs with a goal over several behaviors, after a step.

    The signals that the behaviors are computed from are read from the messages. With ``ends`` these
    are the last messages of the runs.
    """
    signals = [
        _reading({**one.signals, "reward": earned})
        for one, earned in zip(messages, rewards, strict=True)
    ]
    if ends:
        return fleet.end(signals, agents=keys)
    return fleet.step([_reading(one.state) for one in messages], signals, agents=keys)


def _reading(state: Any) -> Any:
    """A state or a set of signals from a JSON message, with NaN in place of None."""
    if isinstance(state, dict):
        if None not in state.values():
            return state
        return {name: math.nan if one is None else one for name, one in state.items()}
    return [math.nan if one is None else one for one in state]


def move_on(one: Accepted, answer: bytes, state: bytes, at: float) -> None:
    """Record the answer to a step, and the new state of the step's run (as bytes)."""
    stored = one.run.stored
    one.run.fresh.append((stored.next, one.payload, answer))
    stored.next, stored.state, stored.updated_at = stored.next + 1, state, at


def change(one: Accepted, p: float, status: str, *, horizon: int, ended: bool, at: float) -> None:
    """Record what changes only at some steps: status, alarm, takeover, end, and p at a few steps.

    p is kept at the start of the run and at a quarter, half and three quarters of the horizon, so
    that p can later be compared with the outcome.

    Parameters
    ----------
    one
        The message, together with its run; the run has already taken this step.
    p, status
        The run's p and status now.
    horizon
        The number of steps of a complete run under this run's contract.
    ended
        Whether the run is over.
    at
        When the step was answered, in seconds since 1970.
    """
    run, stored, message = one.run, one.run.stored, one.message
    alarmed = 1 if run.alarm else 0
    if status != stored.status or alarmed != stored.alarmed:
        stored.status, stored.alarmed = status, alarmed
        run.only_moved = False
    if message.intervened and stored.intervened_at is None:
        stored.intervened_at = message.step
        run.only_moved = False
    if ended:
        stored.ended_at, stored.cut_off = at, int(message.truncated)
        stored.met = int(p) if status == "DONE" else None
        run.only_moved = False
        return
    quarter, rest = divmod(message.step * QUARTERS, horizon)
    if rest < QUARTERS and quarter < QUARTERS:
        run.marks[quarter] = p if p == p else None
        stored.marks = msgspec.msgpack.encode(run.marks)
        run.only_moved = False
