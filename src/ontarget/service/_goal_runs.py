"""Runs for a goal over several behaviors, in the form that the engine uses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ontarget.live import GoalFleet, Outlooks
from ontarget.live.rules import Trigger
from ontarget.live.runs import Standings

__all__ = ["GoalRuns"]


class GoalRuns:
    """Runs of a `GoalFleet`, with the methods of a `FleetWatch` that the engine uses.

    Parameters
    ----------
    fleet
        The fleet that watches the runs.
    """

    def __init__(self, fleet: GoalFleet) -> None:
        self._fleet = fleet

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as numbers to compare (`Trigger`), one per group."""
        return self._fleet.triggers

    def __contains__(self, agent: str) -> bool:
        return agent in self._fleet

    def join(self, agents: Iterable[str], *, groups: Any = None) -> None:
        """Begin a run for each of these names."""
        self._fleet.join(agents, groups=groups)

    def leave(self, agents: Iterable[str]) -> None:
        """Forget these runs."""
        self._fleet.leave(agents)

    def step(self, states: Sequence[Any], rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """The outlook of each run after a step; ``rewards`` holds its signals by name."""
        return self._fleet.step(states, rewards, agents=agents)

    def end(self, rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """End runs, each with its last signals."""
        return self._fleet.end(rewards, agents=agents)

    def intervene(self, agents: Iterable[str]) -> None:
        """Note that somebody takes these runs over, so that an alarm which is on stays on."""
        self._fleet.intervene(agents)

    def parts(self, agent: str) -> dict[str, float | None]:
        """The p of each behavior by itself, by name, for this agent's run."""
        return {name: one.p for name, one in self._fleet[agent].parts.items()}

    def standings(self, agents: Sequence[str]) -> Standings:
        """The states of runs, as arrays and as bytes."""
        watches = [self._fleet[agent] for agent in agents]
        group, alarmed, since, ended = np.array([one.standing for one in watches]).T
        return Standings(
            packed=[one.pack() for one in watches],
            so_far=np.full(len(watches), np.nan),  # each behavior has its own
            group=group,
            alarmed=alarmed != 0,
            since=since,
            ended=ended != 0,
            reasoned=np.array([bool(one.peek().reason) for one in watches]),
        )

    def unpack(self, packed: Mapping[Hashable, bytes]) -> None:
        """Continue runs from stored bytes."""
        self._fleet.unpack(packed)
