"""Runs held to a goal over several behaviors, as the engine moves runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ontarget.live import GoalFleet, Outlook, Outlooks
from ontarget.live.rules import Trigger
from ontarget.live.runs import Standings

__all__ = ["GoalRuns"]


class GoalRuns:
    """Runs of a `GoalFleet`, with what the engine asks of a `FleetWatch`.

    Parameters
    ----------
    fleet
        The runs.
    """

    def __init__(self, fleet: GoalFleet) -> None:
        self._fleet = fleet

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as data, one per group."""
        return self._fleet.triggers

    def __contains__(self, agent: str) -> bool:
        return agent in self._fleet

    def join(self, agents: Iterable[str], *, groups: Any = None) -> None:
        """New runs."""
        self._fleet.join(agents, groups=groups)

    def leave(self, agents: Iterable[str]) -> None:
        """Forget these runs."""
        self._fleet.leave(agents)

    def step(self, states: Sequence[Any], rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """The outlook of each run; ``rewards`` are what its signals read."""
        return _together(
            [
                self._fleet[agent].step(state, earned)
                for agent, state, earned in zip(agents, states, rewards, strict=True)
            ]
        )

    def end(self, rewards: Sequence[Any], *, agents: Any) -> Outlooks:
        """Close runs, each with its last signals."""
        ended = zip(agents, rewards, strict=True)
        return _together([self._fleet[agent].end(earned) for agent, earned in ended])

    def intervene(self, agents: Iterable[str]) -> None:
        """Note that somebody takes these runs over, so that an alarm which is on stays on."""
        self._fleet.intervene(agents)

    def parts(self, agent: str) -> dict[str, float | None]:
        """The p of each behavior by itself."""
        return {name: one.p for name, one in self._fleet[agent].parts.items()}

    def standings(self, agents: Sequence[str]) -> Standings:
        """Where runs stand, as arrays and as bytes."""
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
        """Continue runs from where they were stored."""
        self._fleet.unpack(packed)


def _together(found: Sequence[Outlook]) -> Outlooks:
    return Outlooks(
        t=np.array([one.t for one in found], dtype=np.intp),
        p=np.array([one.p for one in found]),
        spread=np.array([one.spread for one in found]),
        low=np.array([one.low for one in found]),
        high=np.array([one.high for one in found]),
        plausibility=np.array([one.plausibility for one in found]),
        assurance=np.array([one.assurance for one in found]),
        n=np.array([one.n for one in found], dtype=np.intp),
        status=np.array([one.status for one in found], dtype=np.int8),
        words=lambda run: found[run].reason,
    )
