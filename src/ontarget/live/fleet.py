"""`FleetWatch`: follows many live runs, with one call per step for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._arrays import NUMBER_KINDS, numbers_of, shown
from ontarget._package import internal
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.errors import Argument, EpisodesError, InputError
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._table import Runs, Turn
from ontarget.live.contract import Contract
from ontarget.live.outlook import Outlooks
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, Standings
from ontarget.target import Target


class FleetWatch:
    """Follows many runs at once, each at its own step; see `GoalMonitor.fleet`.

    Each agent gets exactly the answers that its own `Watch` would give. An agent's name may be
    anything that can be a dictionary key; by default agents are numbered from 0. Agents may `join`
    and `leave` at any time. Only one thread at a time may use a fleet; a second thread gets an
    error.

    Parameters
    ----------
    contract
        The monitor, target and alarm rule that every run is watched with.
    agents
        How many agents there are, or their names.
    groups
        Each agent's group, for a monitor that was calibrated by group.
    """

    def __init__(
        self, contract: Contract, agents: int | Iterable[Hashable], *, groups: Any = None
    ) -> None:
        self._contract = contract
        self._runs = Runs(contract, 0)
        self._rows: dict[Hashable, int] = {}  # in the order in which the agents joined
        self._free: list[int] = []
        self._everyone: IndexArray | None = None
        self._noted: BoolArray = np.array([bool(one) for one in contract.one_sided])
        self._turn = Turn("fleet")
        if isinstance(agents, int | np.integer):
            agents = range(whole_number("agents", agents, least=1))
        self.join(agents, groups=groups)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, agent: Hashable) -> bool:
        return agent in self._rows

    @property
    def agents(self) -> tuple[Hashable, ...]:
        """The agents, in the order in which they joined."""
        return tuple(self._rows)

    @property
    def target(self) -> Target | Goal:
        """The outcomes that every run should end in."""
        return self._contract.target

    @property
    def rule(self) -> AlarmRule:
        """The alarm rule: when a run is in alarm."""
        return self._contract.rule

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as numbers to compare (`Trigger`), one per group of runs."""
        return self._contract.triggers

    @property
    def steps(self) -> IndexArray:
        """(agents,): the step that each agent's next call of `step` will be about."""
        found: IndexArray = self._runs.table.whole[self._which(None), k.T]
        return found

    @property
    def intervened(self) -> BoolArray:
        """(agents,): whether somebody took the agent's run over; see `intervene`."""
        return self._are_taken(self._which(None))

    def join(self, agents: Iterable[Hashable], *, groups: Any = None) -> None:
        """Add agents, each at the beginning of a run."""
        names = list(agents)
        for name in names:
            if name in self._rows:
                raise InputError(
                    Argument("agents"), f" need different names, {name!r} is already in the fleet"
                )
        if len(set(names)) != len(names):
            raise InputError(Argument("agents"), " need different names, got the same name twice")
        own = self._contract.fitted.groups_of(groups, len(names))
        with self._turn:
            self._grow(len(names) - len(self._free))
            rows = [self._free.pop() for _ in names]
            self._runs.put_in(own, rows)
            self._runs.begin(rows)
            self._rows.update(zip(names, rows, strict=True))
            self._everyone = None

    def leave(self, agents: Iterable[Hashable]) -> None:
        """Stop following these agents."""
        with self._turn:
            leaving = {name: self._row(name) for name in agents}
            for name in leaving:
                del self._rows[name]
            self._free += leaving.values()
            self._everyone = None

    def reset(self, agents: Any = None) -> None:
        """Begin new runs for these agents; for all agents by default."""
        with self._turn:
            self._runs.begin(self._which(agents))

    def step(
        self,
        states: ArrayLike,
        rewards: ArrayLike = 0.0,
        *,
        agents: Any = None,
        behavior: ArrayLike | None = None,
    ) -> Outlooks:
        """The monitor's answer for each agent before it acts, in the order of the agents.

        Parameters
        ----------
        states
            (agents, features), or a list of states as `Watch.step` takes them, or a dataframe,
            which is read by column names. If a state cannot be read, that agent's status is
            UNKNOWN, with a reason.
        rewards
            What each agent's last action earned; 0 at the agent's first call.
        agents
            Which agents these are, by name; all of them by default.
        behavior
            The behavior so far of each agent. Pass it if the monitor's behavior is read from a
            column rather than computed from rewards.
        """
        with self._turn:
            rows = self._which(agents)
            X, unread = self._read(states, rows.size)
            self._runs.step(rows, X, unread, self._brought(rewards, behavior, rows.size))
            return self._runs.outlooks(rows)

    def end(
        self,
        rewards: ArrayLike = 0.0,
        *,
        agents: Any = None,
        behavior: ArrayLike | None = None,
        truncated: bool = False,
    ) -> Outlooks:
        """End runs before the horizon; returns the last answers, with status DONE and p 0 or 1.

        ``truncated`` says that these runs were cut off: see `Watch.end`.
        """
        with self._turn:
            rows = self._which(agents)
            brought, ending = self._brought(rewards, behavior, rows.size), k.ENDS
            if truncated:
                ending = k.CUT
            self._runs.step(rows, self._runs.readings[rows], {}, brought, ending)
            return self._runs.outlooks(rows)

    def intervene(self, agents: Iterable[Hashable]) -> Outlooks:
        """Note that somebody took these agents' runs over; returns the answers about them.

        See `Watch.intervene`. If the run of any of these agents is over, an error is raised and
        nothing is noted.
        """
        names = list(agents)
        with self._turn:
            rows = self._which(names)
            over = np.flatnonzero(self._runs.table.whole[rows, k.ENDED])
            if over.size:
                raise InputError(
                    f"the run of agent {names[over[0]]!r} is over; call reset to begin the next"
                )
            self._runs.table.take_over(rows)
            return self._runs.outlooks(rows)

    def peek(self, agents: Any = None) -> Outlooks:
        """The present answer for each agent (`Outlooks`) again; no run takes a step."""
        return self._runs.outlooks(self._which(agents))

    def parts(self, agents: Any = None) -> dict[str, Outlooks]:
        """The answers about each behavior by itself, by the behavior's name; see `Watch.parts`."""
        rows, asked = self._which(agents), self._contract.asked
        if asked.is_function:
            return {}
        if not asked.is_joint:
            return {name: self._runs.outlooks(rows) for name in self._contract.readings}
        return {name: self._runs.outlooks(rows, c) for c, name in enumerate(asked.names)}

    def run_state(self, agent: Hashable) -> RunState:
        """The state of an agent's run, to be stored and later passed to `resume`."""
        self._row(agent)
        return self.run_states([agent])[0]

    def run_states(self, agents: Any = None) -> list[RunState]:
        """The states of these agents' runs (all by default); much faster than one by one.

        A state can be stored and later passed to `resume`.
        """
        return self._runs.states_of(self._which(agents))

    @internal
    def standings(self, agents: Any = None) -> Standings:
        """The states of these agents' runs, as arrays and as bytes."""
        rows, table = self._which(agents), self._runs.table
        whole, so_far = table.whole[rows], table.real[rows, k.SO_FAR]
        if self._contract.readings:
            so_far = np.full(rows.size, np.nan)  # each behavior has its own
        return Standings(
            packed=self._runs.pack(rows),
            so_far=so_far,
            group=whole[:, k.GROUP],
            alarmed=whole[:, k.ALARMED] != 0,
            since=whole[:, k.SINCE],
            ended=whole[:, k.ENDED] != 0,
            reasoned=(whole[:, k.CODE] != 0)
            | self._noted[whole[:, k.GROUP]]
            | self._are_taken(rows),
        )

    @internal
    def unpack(self, packed: Mapping[Hashable, bytes]) -> None:
        """Continue agents' runs from bytes; ``packed`` has the bytes of each agent, by name."""
        names = self._contract.fitted.groups
        some = None if names is None else names[0]  # replaced by the group in the bytes
        new = [agent for agent in packed if agent not in self._rows]
        self.join(new, groups=some)
        try:
            with self._turn:
                self._runs.unpack([self._rows[agent] for agent in packed], list(packed.values()))
        except InputError:
            self.leave(new)  # otherwise a run that could not be read would start from step 0
            raise

    def resume(self, agent: Hashable, state: RunState) -> None:
        """Continue an agent's run from a stored state; an agent not in the fleet yet joins it."""
        group = self._contract.admit(state)  # checks the whole state
        if agent not in self._rows:
            self.join([agent], groups=state.group)
        self._runs.restore(self._row(agent), state, group)

    def _read(self, states: Any, n: int) -> tuple[FloatArray, dict[int, str]]:
        """(n, features): the states as numbers; and the reasons why some cannot be read."""
        schema = self._contract.fitted.schema
        if type(states) is np.ndarray and states.dtype.kind in NUMBER_KINDS:
            if states.shape != (n, len(schema)):
                raise InputError(
                    Argument("states"), f" need shape ({n}, {len(schema)}), got {states.shape}"
                )
            return schema.settled(np.ascontiguousarray(states, dtype=np.float64)), {}
        try:
            X, unread = schema.encode_many(states)
        except EpisodesError as error:
            return np.full((n, len(schema)), np.nan), dict.fromkeys(range(n), str(error))
        if len(X) != n:
            raise InputError(
                Argument("states"), f" need shape ({n}, {len(schema)}), got {len(X)} states"
            )
        return np.ascontiguousarray(X), unread

    def _brought(self, rewards: Any, behavior: Any, n: int) -> tuple[Any, Any]:
        """The rewards and behaviors of a call, as `Runs.step` takes them."""
        if self._contract.readings:
            return _by_agent(rewards, n, "rewards"), _by_agent(behavior, n, "behavior")
        earned = _per_agent(rewards, n, "rewards")
        return earned, None if behavior is None else _per_agent(behavior, n, "behavior")

    def _are_taken(self, rows: IndexArray) -> BoolArray:
        taken = self._runs.table.taken
        if not taken:
            return np.zeros(rows.size, dtype=np.bool_)
        return np.array([row in taken for row in rows.tolist()], dtype=np.bool_)

    def _which(self, agents: Any) -> IndexArray:
        if agents is None:
            if self._everyone is None:
                self._everyone = np.fromiter(self._rows.values(), dtype=np.intp)
            return self._everyone
        names = agents.tolist() if isinstance(agents, np.ndarray) else list(agents)
        try:
            rows = np.array([self._rows[name] for name in names], dtype=np.intp)
        except (KeyError, TypeError):
            for name in names:
                self._row(name)
            raise
        if len(set(names)) != len(names):
            raise InputError(
                Argument("agents"),
                " need different names, because each takes one step per call; got a name twice",
            )
        return rows

    def _row(self, agent: Any) -> int:
        try:
            return self._rows[agent]
        except (KeyError, TypeError):
            some = ", ".join(repr(name) for name in list(self._rows)[:5])
            more = ", …" if len(self._rows) > 5 else ""
            raise InputError(
                Argument("agents"), f" need names of this fleet ({some}{more}), got {agent!r}"
            ) from None

    def _grow(self, more: int) -> None:
        if more <= 0:
            return
        n = len(self._runs.readings)
        more = max(more, n)  # at least double the table, so that joining one by one is fast
        self._runs.grow(more)
        self._free = [*range(n + more - 1, n - 1, -1), *self._free]


def _per_agent(values: Any, n: int, what: str) -> FloatArray:
    try:
        array = numbers_of(values)
    except Exception as error:  # a foreign object may raise anything
        raise InputError(f"{what} need numbers, got {shown(values)}") from error
    if array.shape not in ((), (n,)):
        raise InputError(f"{what} need one number or one for each of {n} agents, got {array.shape}")
    return array if array.shape else np.full(n, array)


def _by_agent(values: Any, n: int, what: str) -> list[Any]:
    """The values that the caller passed, as a list with one entry for each of n agents."""
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
