"""`GoalRuns`: runs with a goal over several behaviors, with the methods that the engine calls."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ontarget.live import GoalFleet, Outlooks
from ontarget.live.rules import Trigger
from ontarget.live.runs import Standings


class GoalRuns:
    """Runs that are watched for a goal over several behaviors.

    It wraps a `GoalFleet` and has the methods of a `FleetWatch` that the service's engine calls.

    Parameters
    ----------
    fleet
        The `GoalFleet` that follows the runs.
    """

    def __init__(self, fleet: GoalFleet) -> None:
        self._fleet = fleet

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The thresholds of the alarm rule, one `Trigger` per group of runs."""
        return self._fleet.triggers

    def __contains__(self, agent: str) -> bool:
        return agent in self._fleet

    def join(self, agents: Iterable[str], *, groups: Any = None) -> None:
        """Begin a run for each of these agents; ``groups`` names the group of each run."""
        self._fleet.join(agents, groups=groups)

    def leave(self, agents: Iterable[str]) -> None:
        """Stop following the runs of these agents."""
        self._fleet.leave(agents)

    def step(self, states: Sequence[Any], rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """The monitor's answer for each run (`Outlooks`) after a step.

        ``rewards`` has, for each run, the values of its signals by name.
        """
        return self._fleet.step(states, rewards, agents=agents)

    def end(self, rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """End runs, each with its last signals by name; returns the monitor's last answers."""
        return self._fleet.end(rewards, agents=agents)

    def intervene(self, agents: Iterable[str]) -> None:
        """Note that somebody takes these runs over; an alarm that is on then stays on."""
        self._fleet.intervene(agents)

    def parts(self, agent: str) -> dict[str, float | None]:
        """For this agent's run, p of each behavior alone, in a dictionary by name."""
        return {name: one.p for name, one in self._fleet[agent].parts.items()}

    def standings(self, agents: Sequence[str]) -> Standings:
        """The current states of these agents' runs, as arrays and as bytes for `unpack`."""
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
        """Continue stored runs; ``packed`` maps each agent to the bytes of its run."""
        self._fleet.unpack(packed)
