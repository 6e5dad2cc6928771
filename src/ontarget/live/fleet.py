"""`FleetWatch`: follows many live runs, with one call per step for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from ontarget._arguments import whole_number
from ontarget._arrays import NUMBER_KINDS, numbers_of, shown
from ontarget._package import internal
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.errors import Argument, EpisodesError, InputError
from ontarget.fitted.kernels import ASSURANCE, HIGH, LOW, PLAUSIBILITY, SPREAD_HIGH, SPREAD_LOW, P
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._reasons import Reason
from ontarget.live._track import judge_own, said_of_taken, words_of_run
from ontarget.live._turns import Turn
from ontarget.live.contract import Contract
from ontarget.live.outlook import Outlooks
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, Standings, stretches
from ontarget.target import Target

_T = TypeVar("_T")


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
        self._part = contract.parts[0]
        self._table = self._part.table(0)
        self._rows: dict[Hashable, int] = {}  # in the order in which the agents joined
        self._free: list[int] = []
        # The last state of each row; it is a part of a run's stored state.
        self._readings: FloatArray = np.zeros((0, contract.fitted.state_width))
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
        found: IndexArray = self._table.whole[self._which(None), k.T]
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
            self._table.whole[rows, k.GROUP] = own
            self._table.begin(rows)
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
            self._table.begin(self._which(agents))

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
            news = self._news(rows, rewards, behavior)
            news[list(unread), k.READING] = 1.0
            X = self._recalled(rows, news, X)
            self._readings[rows] = X
            ends = np.empty((rows.size, self._part.question.values.size))
            became = self._advance(rows, news, X, ends)
            for i, text in unread.items():
                if self._table.whole[rows[i], k.CODE] == Reason.TEXT:
                    self._table.texts[int(rows[i])] = text
            looking = np.flatnonzero(became == k.LOOK)
            if looking.size:
                at, table = rows[looking], self._table
                held = table.held(at.tolist()) if table.taken else []
                self._part.look_at_many(table, at, X[looking], ends[looking])
                if self._contract.own_rule:
                    for row in at.tolist():
                        judge_own(self._contract, table, row)
                table.hold(held)
            return self._outlooks(rows)

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
            news = self._news(rows, rewards, behavior)
            news[:, k.ENDING] = k.CUT if truncated else k.ENDS
            nothing = np.empty((rows.size, self._part.question.values.size))
            self._advance(rows, news, self._readings[rows], nothing)
            return self._outlooks(rows)

    def intervene(self, agents: Iterable[Hashable]) -> Outlooks:
        """Note that somebody took these agents' runs over; returns the answers about them.

        See `Watch.intervene`. If the run of any of these agents is over, an error is raised and
        nothing is noted.
        """
        names = list(agents)
        with self._turn:
            rows = self._which(names)
            over = np.flatnonzero(self._table.whole[rows, k.ENDED])
            if over.size:
                raise InputError(
                    f"the run of agent {names[over[0]]!r} is over; call reset to begin the next"
                )
            self._table.take_over(rows)
            return self._outlooks(rows)

    def peek(self, agents: Any = None) -> Outlooks:
        """The present answer for each agent (`Outlooks`) again; no run takes a step."""
        return self._outlooks(self._which(agents))

    def run_state(self, agent: Hashable) -> RunState:
        """The state of an agent's run, to be stored and later passed to `resume`."""
        self._row(agent)
        return self.run_states([agent])[0]

    def run_states(self, agents: Any = None) -> list[RunState]:
        """The states of these agents' runs (all by default); much faster than one by one.

        A state can be stored and later passed to `resume`.
        """
        rows, names = self._which(agents), self._contract.fitted.groups
        numbers = self._table.whole[rows, k.GROUP].tolist()
        return self._table.states_of(
            rows,
            groups=[None if names is None else names[number] for number in numbers],
            target=str(self.target),
            readings=self._readings[rows],
        )

    @internal
    def standings(self, agents: Any = None) -> Standings:
        """The states of these agents' runs, as arrays and as bytes.

        `unpack` of another `FleetWatch` can read the bytes and continue the runs.
        """
        rows = self._which(agents)
        whole = self._table.whole[rows]
        return Standings(
            packed=self._table.pack(rows, self._readings[rows]),
            so_far=self._table.real[rows, k.SO_FAR],
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
        """Continue agents' runs from bytes; ``packed`` has the bytes of each agent, by name.

        The bytes come from `standings` of a `FleetWatch` with the same monitor, target and alarm
        rule.
        """
        names = self._contract.fitted.groups
        some = None if names is None else names[0]  # replaced by the group in the bytes
        new = [agent for agent in packed if agent not in self._rows]
        self.join(new, groups=some)
        try:
            with self._turn:
                for agent, one in packed.items():
                    row = self._rows[agent]
                    self._readings[row] = self._table.unpack(row, one, self._contract.fitted)
        except InputError:
            self.leave(new)  # otherwise a run that could not be read would start from step 0
            raise

    def resume(self, agent: Hashable, state: RunState) -> None:
        """Continue an agent's run from a stored state; an agent not in the fleet yet joins it."""
        group = self._contract.admit(state)  # checks the whole state
        if agent not in self._rows:
            self.join([agent], groups=state.group)
        row = self._row(agent)
        self._table.whole[row, k.GROUP] = group
        self._table.restore(row, state)
        self._readings[row] = state.reading(self._readings.shape[1])

    def _read(self, states: Any, n: int) -> tuple[FloatArray, dict[int, str]]:
        """(n, features): the states as numbers; and the reasons why some cannot be read.

        The reasons are given by the position of the state.
        """
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

    def _recalled(self, rows: IndexArray, news: FloatArray, given: FloatArray) -> FloatArray:
        """The states in ``given``, with columns about the run so far if the monitor reads these.

        ``news`` are the rewards or behaviors that came with the states; see `_news`.
        """
        part = self._part
        if not part.memory.size:
            return given
        is_told = part.is_told
        known = (news[:, k.IS_TOLD] > 0.0) == is_told
        came = np.where(known, news[:, k.TOLD if is_told else k.REWARD], np.nan)
        states = np.empty((rows.size, part.fitted.state_width))
        states[:, : given.shape[1]] = given
        part.recall(self._table, rows, came, states)
        return states

    def _news(self, rows: IndexArray, rewards: Any, behavior: Any) -> FloatArray:
        """(runs, columns): the rewards or behaviors of this call, as `advance_rows` reads them."""
        earned = _per_agent(rewards, rows.size, "rewards")
        news = np.zeros((rows.size, k.N_NEWS))
        news[:, k.REWARD] = earned
        rule = self._contract.fitted.behavior
        if behavior is not None:
            news[:, k.TOLD] = _per_agent(behavior, rows.size, "behavior")
            if not rule.vectorised:
                news[:, k.TOLD] = np.nan
            news[:, k.IS_TOLD] = 1.0
        elif not rule.told:
            times = self._table.whole[rows, k.T]
            moving = np.flatnonzero((times > 0) & np.isfinite(earned))
            for t, some in _by_value(times[moving]):
                here = moving[some]
                news[here, k.UPDATED] = self._updated(rows[here], earned[here], t - 1)
        return news

    def _updated(self, rows: IndexArray, earned: FloatArray, t: int) -> FloatArray:
        """(runs,): each run's behavior so far, after it earned ``earned`` at step t."""
        rule, table = self._contract.fitted.behavior, self._table
        if rule.vectorised:
            with np.errstate(over="ignore", invalid="ignore"):
                found: FloatArray = rule.update(table.real[rows, k.SO_FAR], earned, t)
            return found
        values = np.empty(rows.size)
        for i, (row, one) in enumerate(zip(rows.tolist(), earned.tolist(), strict=True)):
            if not table.whole[row, k.ENDED]:
                table.behaviors[row] = rule.update(table.behaviors[row], one, t)
            values[i] = rule.value(table.behaviors[row])
        return values

    def _advance(
        self, rows: IndexArray, news: FloatArray, states: FloatArray, ends: FloatArray
    ) -> IndexArray:
        became = np.zeros(rows.size, dtype=np.int64)
        for row in [row for row in self._table.texts if not self._table.whole[row, k.LOST]]:
            del self._table.texts[row]
        taken = self._part.advancing(self._table, rows, (news, states), (ends, became))
        k.advance_rows(*taken)
        return became

    def _outlooks(self, rows: IndexArray) -> Outlooks:
        contract, table = self._contract, self._table
        whole, real = table.whole[rows], table.real[rows]
        said, taken = _of_rows(table.texts, rows), _of_rows(table.taken, rows)

        def words(run: int) -> str:
            own = whole[run].tolist()
            reason = ""
            if own[k.CODE] or contract.one_sided[own[k.GROUP]]:
                reason = words_of_run(contract, own, real[run].tolist(), said.get(run, ""))
            return said_of_taken(reason, taken[run], own[k.STATUS]) if run in taken else reason

        return Outlooks(
            t=whole[:, k.LAST_T],
            p=real[:, P],
            spread=real[:, SPREAD_LOW : SPREAD_HIGH + 1],
            low=real[:, LOW],
            high=real[:, HIGH],
            plausibility=real[:, PLAUSIBILITY],
            assurance=real[:, ASSURANCE],
            n=whole[:, k.LAST_N],
            status=whole[:, k.STATUS].astype(np.int8),
            words=words,
        )

    def _are_taken(self, rows: IndexArray) -> BoolArray:
        taken = self._table.taken
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
        old = self._table
        n = len(old.whole)
        more = max(more, n)  # at least double the table, so that joining one by one is fast
        table = self._part.table(n + more)
        table.whole[:n], table.real[:n], table.memory[:n] = old.whole, old.real, old.memory
        table.behaviors[:n], table.texts, table.taken = old.behaviors, old.texts, old.taken
        self._table = table
        self._readings = np.concatenate([self._readings, np.zeros((more, self._readings.shape[1]))])
        self._free = [*range(n + more - 1, n - 1, -1), *self._free]


def _per_agent(values: Any, n: int, what: str) -> FloatArray:
    try:
        array = numbers_of(values)
    except Exception as error:  # a foreign object may raise anything
        raise InputError(f"{what} need numbers, got {shown(values)}") from error
    if array.shape not in ((), (n,)):
        raise InputError(f"{what} need one number or one for each of {n} agents, got {array.shape}")
    return array if array.shape else np.full(n, array)


def _of_rows(kept: dict[int, _T], rows: IndexArray) -> dict[int, _T]:
    """The entries of ``kept`` for these rows, with new keys: each row's position in ``rows``."""
    if not kept:
        return {}
    return {i: kept[row] for i, row in enumerate(rows.tolist()) if row in kept}


def _by_value(times: IndexArray) -> Iterator[tuple[int, IndexArray]]:
    """Each distinct value of ``times``, and the positions that have it."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    for a, b in stretches(ordered):
        yield int(ordered[a]), order[a:b]
