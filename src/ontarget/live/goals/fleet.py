"""Many runs held to a goal over several behaviors, live."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget.episodes._judged import Reading
from ontarget.errors import InputError
from ontarget.live.goals.contract import GoalContract
from ontarget.live.goals.watch import GoalWatch
from ontarget.live.outlook import Outlook
from ontarget.live.rules import Trigger
from ontarget.live.runs import RunState

__all__ = ["GoalFleet"]


class GoalFleet:
    """A watch over many runs and several behaviors; see `GoalMonitor.fleet`.

    Each agent has a `GoalWatch` of its own.
    """

    def __init__(
        self,
        contract: GoalContract,
        readings: Mapping[str, Reading],
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
    ) -> None:
        if isinstance(agents, int | np.integer):
            agents = range(whole_number("agents", agents, least=1))
        self._contract, self._readings = contract, readings
        self._watches: dict[Hashable, GoalWatch] = {}
        self.join(agents, groups=groups)

    def __len__(self) -> int:
        return len(self._watches)

    def __contains__(self, agent: Hashable) -> bool:
        return agent in self._watches

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as data, one per group."""
        return self._contract.triggers

    @property
    def agents(self) -> tuple[Hashable, ...]:
        """The agents, in the order in which they joined."""
        return tuple(self._watches)

    def __getitem__(self, agent: Hashable) -> GoalWatch:
        """The watch of one agent."""
        try:
            return self._watches[agent]
        except KeyError:
            some = ", ".join(repr(name) for name in list(self._watches)[:5])
            raise InputError(f"agents need names of this fleet ({some}), got {agent!r}") from None

    def join(self, agents: Iterable[Hashable], *, groups: Any = None) -> None:
        """New agents, each at the beginning of a run."""
        names = list(agents)
        own = self._contract.fitted.groups_of(groups, len(names))
        for name, group in zip(names, own.tolist(), strict=True):
            if name in self._watches:
                raise InputError(f"agents need to differ, {name!r} is here already")
            self._watches[name] = GoalWatch(self._contract, self._readings, group=group)

    def leave(self, agents: Iterable[Hashable]) -> None:
        """Forget these agents."""
        for name in list(agents):
            _ = self[name]
            del self._watches[name]

    def reset(self, agents: Iterable[Hashable] | None = None) -> None:
        """Begin new runs, for all agents or for some."""
        for name in self.agents if agents is None else agents:
            self[name].reset()

    def step(
        self,
        states: Mapping[Hashable, Any],
        rewards: Mapping[Hashable, Any] | None = None,
    ) -> dict[Hashable, Outlook]:
        """The outlook of each of these agents before it acts.

        Parameters
        ----------
        states
            The state of each agent, by its name.
        rewards
            What each agent's signals read since its last call, by its name, as for
            `GoalWatch.step`.
        """
        earned = rewards or {}
        return {name: self[name].step(one, earned.get(name, 0.0)) for name, one in states.items()}

    def end(self, rewards: Mapping[Hashable, Any]) -> dict[Hashable, Outlook]:
        """Close runs that ended before the horizon, each with its last signals."""
        return {name: self[name].end(one) for name, one in rewards.items()}

    def intervene(self, agents: Iterable[Hashable]) -> dict[Hashable, Outlook]:
        """The outlooks of these agents after somebody took their runs over."""
        return {name: self[name].intervene() for name in agents}

    def run_state(self, agent: Hashable) -> RunState:
        """Where an agent's run stands, as a value to store and to `resume` elsewhere."""
        return self[agent].run_state

    def resume(self, agent: Hashable, state: RunState) -> None:
        """Put an agent's run where it stood elsewhere; an agent that is not here joins."""
        if agent not in self._watches:
            self.join([agent], groups=state.group)
        self[agent].resume(state)

    def unpack(self, packed: Mapping[Hashable, bytes]) -> None:
        """Put agents' runs where they stood elsewhere; agents that are not here join."""
        for agent, one in packed.items():
            if agent not in self._watches:
                self._watches[agent] = GoalWatch(self._contract, self._readings)
            self._watches[agent].unpack(one)

    def peek(self) -> dict[Hashable, Outlook]:
        """The present outlook of each agent, without a step."""
        return {name: watch.peek() for name, watch in self._watches.items()}
