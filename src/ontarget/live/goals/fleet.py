"""`GoalFleet`: follows many live runs for a goal over several behaviors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._arrays import shown
from ontarget._package import internal
from ontarget._typing import BoolArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.goal import Goal
from ontarget.live.contract import Contract
from ontarget.live.outlook import Outlooks
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, Standings, state_of
from ontarget.live.watch import Watch


class GoalFleet:
    """Follows many runs for a goal over several behaviors; see `GoalMonitor.fleet`.

    Use it like a `FleetWatch`. Each agent also has its own watch, ``fleet[agent]``, whose ``parts``
    are the answers about each behavior by itself.

    Parameters
    ----------
    goal
        The goal that every run should meet.
    contract
        The monitor, goal and alarm rule that every run is watched with.
    agents
        How many agents there are, or their names.
    groups
        Each agent's group, for a monitor that was calibrated by group.
    """

    def __init__(
        self,
        goal: Goal,
        contract: Contract,
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
    ) -> None:
        if isinstance(agents, int | np.integer):
            agents = range(whole_number("agents", agents, least=1))
        self._goal, self._contract = goal, contract
        self._watches: dict[Hashable, Watch] = {}
        self.join(agents, groups=groups)

    def __len__(self) -> int:
        return len(self._watches)

    def __contains__(self, agent: Hashable) -> bool:
        return agent in self._watches

    @property
    def target(self) -> Goal:
        """The goal that every run should meet."""
        return self._goal

    @property
    def rule(self) -> AlarmRule:
        """The alarm rule: when a run is in alarm."""
        return self._contract.rule

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as numbers to compare (`Trigger`), one per group of runs."""
        return self._contract.triggers

    @property
    def agents(self) -> tuple[Hashable, ...]:
        """The agents, in the order in which they joined."""
        return tuple(self._watches)

    @property
    def steps(self) -> IndexArray:
        """(agents,): the step that each agent's next call of `step` will be about."""
        return np.array([one.run_state.step for one in self._watches.values()], dtype=np.intp)

    @property
    def intervened(self) -> BoolArray:
        """(agents,): whether somebody took the agent's run over; see `intervene`."""
        taken = [one.intervened_at is not None for one in self._watches.values()]
        return np.array(taken, dtype=np.bool_)

    def __getitem__(self, agent: Hashable) -> Watch:
        """The watch that follows this agent's run."""
        try:
            return self._watches[agent]
        except (KeyError, TypeError):
            some = ", ".join(repr(name) for name in list(self._watches)[:5])
            more = ", …" if len(self._watches) > 5 else ""
            raise InputError(
                Argument("agents"), f" need names of this fleet ({some}{more}), got {agent!r}"
            ) from None

    def join(self, agents: Iterable[Hashable], *, groups: Any = None) -> None:
        """Add agents, each at the beginning of a run."""
        names = list(agents)
        for name in names:
            if name in self._watches:
                raise InputError(
                    Argument("agents"), f" need different names, {name!r} is already in the fleet"
                )
        if len(set(names)) != len(names):
            raise InputError(Argument("agents"), " need different names, got the same name twice")
        own = self._contract.fitted.groups_of(groups, len(names))
        for name, group in zip(names, own.tolist(), strict=True):
            self._watches[name] = Watch(self._contract, group=group)

    def leave(self, agents: Iterable[Hashable]) -> None:
        """Stop following these agents."""
        for name in self._which(agents):
            del self._watches[name]

    def reset(self, agents: Any = None) -> None:
        """Begin new runs for these agents; for all agents by default."""
        for name in self._which(agents):
            self[name].reset()

    def step(
        self, states: Any, rewards: Any = 0.0, *, agents: Any = None, behavior: Any = None
    ) -> Outlooks:
        """The monitor's answer for each agent before it acts, in the order of the agents.

        Parameters
        ----------
        states
            (agents, features), or a list of states as `Watch.step` takes them.
        rewards
            The values of the signals (reward and other columns) since the last call: a mapping from
            each signal to one number per agent, or a list with a mapping for each agent. Plain
            numbers are taken as the reward.
        agents
            Which agents these are, by name; all of them by default.
        behavior
            A mapping from each behavior to its value so far for each agent, as for
            `Watch.step`.
        """
        names = self._which(agents)
        rows = list(states)
        if len(rows) != len(names):
            raise InputError(
                Argument("states"),
                f" need one state for each of {len(names)} agents, got {len(rows)}",
            )
        earned = _by_agent(rewards, len(names), "rewards")
        told = _by_agent(behavior, len(names), "behavior")
        found = [
            self._watches[name].step(row, one, behavior=other)
            for name, row, one, other in zip(names, rows, earned, told, strict=True)
        ]
        return Outlooks.of_each(found)

    def end(
        self,
        rewards: Any = 0.0,
        *,
        agents: Any = None,
        behavior: Any = None,
        truncated: bool = False,
    ) -> Outlooks:
        """End runs before the horizon; returns the last answers: status DONE, p 0 or 1.

        ``truncated`` says that these runs were cut off: see `Watch.end`.
        """
        names = self._which(agents)
        earned = _by_agent(rewards, len(names), "rewards")
        told = _by_agent(behavior, len(names), "behavior")
        found = [
            self._watches[name].end(one, behavior=other, truncated=truncated)
            for name, one, other in zip(names, earned, told, strict=True)
        ]
        return Outlooks.of_each(found)

    def intervene(self, agents: Iterable[Hashable]) -> Outlooks:
        """Note that somebody took these agents' runs over; returns the answers about them.

        See `Watch.intervene`. If the run of any of these agents is over, an error is raised and
        nothing is noted.
        """
        names = self._which(agents)
        for name in names:
            if self._watches[name].run_state.ended:
                raise InputError(f"the run of agent {name!r} is over; call reset to begin the next")
        return Outlooks.of_each([self._watches[name].intervene() for name in names])

    def peek(self, agents: Any = None) -> Outlooks:
        """The present answer for each agent (`Outlooks`) again; no run takes a step."""
        return Outlooks.of_each([self._watches[name].peek() for name in self._which(agents)])

    def run_state(self, agent: Hashable) -> RunState:
        """The state of an agent's run, to be stored and later passed to `resume`."""
        return self[agent].run_state

    def run_states(self, agents: Any = None) -> list[RunState]:
        """The states of these agents' runs (all by default).

        A state can be stored and later passed to `resume`.
        """
        return [self._watches[name].run_state for name in self._which(agents)]

    def resume(self, agent: Hashable, state: RunState) -> None:
        """Continue an agent's run from a stored state; an agent not in the fleet yet joins it."""
        self._contract.admit(state)  # checked first: no new run may begin if it fails
        if agent not in self._watches:
            self.join([agent], groups=state.group)
        self[agent].resume(state)

    @internal
    def standings(self, agents: Any = None) -> Standings:
        """The states of these agents' runs, as arrays and as bytes for `unpack`."""
        watches = [self._watches[name] for name in self._which(agents)]
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

    @internal
    def unpack(self, packed: Mapping[Hashable, bytes]) -> None:
        """Continue agents' runs from bytes; ``packed`` has the bytes of each agent, by name.

        The bytes come from `Watch.pack`. Agents that are not in the fleet yet join it.
        """
        states = {agent: state_of(one) for agent, one in packed.items()}
        for state in states.values():
            self._contract.admit(state)  # all of them before any joins
        for agent, state in states.items():
            self.resume(agent, state)

    def _which(self, agents: Any) -> list[Hashable]:
        """The names of these agents, or of all; an error if a name is unknown or repeated."""
        if agents is None:
            return list(self._watches)
        names = agents.tolist() if isinstance(agents, np.ndarray) else list(agents)
        for name in names:
            _ = self[name]
        if len(set(names)) != len(names):
            raise InputError(
                Argument("agents"),
                " need different names, because each takes one step per call; got a name twice",
            )
        return names


def _by_agent(values: Any, n: int, what: str) -> list[Any]:
    """The values that the caller passed, as a list with one entry for each of n agents.

    ``values`` has one value per agent, or a single value for all of them; or it is a mapping from
    names to such values, and then each entry of the list is a mapping too. ``what`` names the
    argument in error messages.
    """
    if isinstance(values, Mapping):
        columns = {name: _column(one, n, f"{what} of {name!r}") for name, one in values.items()}
        return [{name: one[i] for name, one in columns.items()} for i in range(n)]
    return _column(values, n, what)


def _column(values: Any, n: int, what: str) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        return [values] * n
    if np.shape(values) == ():
        return [values[()]] * n
    if len(values) != n:
        raise InputError(f"{what} need one value for each of {n} agents, got {shown(values)}")
    return list(values)
