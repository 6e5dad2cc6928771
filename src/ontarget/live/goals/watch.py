"""One run held to a goal over several behaviors, live; and many of them."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import ArrayLike, FloatArray
from ontarget.episodes._judged import Reading
from ontarget.errors import InputError
from ontarget.fitted._kernels import NUMBERS
from ontarget.fitted.joint.joint import pieces_room
from ontarget.goal import Goal
from ontarget.live import _run_kernel as k
from ontarget.live._reasons import Reason
from ontarget.live._turns import Turn
from ontarget.live.contract import Contract
from ontarget.live.goals.contract import GoalContract
from ontarget.live.outlook import Change, Outlook, Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.live.runs import RunState, RunTable
from ontarget.live.watch import OnBad, Watch, judge_own, outlook_of

__all__ = ["GoalFleet", "GoalWatch", "SignalWatch"]

_FIRST = np.zeros(1, dtype=np.intp)


class _Missing:
    """Stands for a signal that a call did not bring; a reason shows it by name."""

    def __init__(self, signal: str) -> None:
        self._signal = signal

    def __repr__(self) -> str:
        return f"no signal {self._signal!r}"


class GoalWatch:
    """A watch over one run and several behaviors; see `GoalMonitor.watch`.

    It is used like a `Watch`. ``reward`` is a mapping from signals to what they read since the last
    call, under the name of the signal or of the behavior. `parts` says how each behavior stands.
    """

    __slots__ = (
        "_contract",
        "_each",
        "_group",
        "_had",
        "_limits",
        "_out",
        "_raises",
        "_room",
        "_table",
        "_turn",
        "_watches",
        "changes",
    )

    def __init__(
        self,
        contract: GoalContract,
        readings: Mapping[str, Reading],
        *,
        group: int = 0,
        on_bad: OnBad = "unknown",
    ) -> None:
        if on_bad not in ("unknown", "raise"):
            raise InputError(f"on_bad needs 'unknown' or 'raise', got {on_bad!r}")
        self._contract, self._group, self._raises = contract, group, on_bad == "raise"
        names = contract.question.names
        self._watches = tuple(Watch(part, group=group) for part in contract.parts)
        self._each = [
            (name, readings[name], watch) for name, watch in zip(names, self._watches, strict=True)
        ]
        self._limits = [watch._limits for watch in self._watches]
        # What the kernels work in never changes, only what stands in it.
        self._had, self._out = np.zeros((len(names), 1)), np.zeros((1, NUMBERS))
        self._room = pieces_room(contract.question, 1)
        self._table = RunTable(contract.fitted.behavior, 1)
        self._turn = Turn("watch")
        self.changes: list[Change]
        self.reset()

    def reset(self) -> None:
        """Begin a new run."""
        with self._turn:
            for watch in self._watches:
                watch.reset()
            self._table.whole[0, k.GROUP] = self._group
            self._table.begin((0,))
            self.changes = [Change(0, Status.PENDING, self.peek().reason)]

    @property
    def contract(self) -> GoalContract:
        """The monitor, goal and alarm rule of this watch; other watches may share it."""
        return self._contract

    @property
    def target(self) -> Goal:
        """What the run should end in."""
        return self._contract.goal

    @property
    def rule(self) -> AlarmRule:
        """When it is in alarm."""
        return self._contract.rule

    @property
    def trigger(self) -> Trigger:
        """The rule as data: its threshold, and the promise behind it."""
        return self._contract.triggers[self._group]

    @property
    def status(self) -> Status:
        """The run's status now."""
        return Status(int(self._table.whole[0, k.STATUS]))

    @property
    def parts(self) -> dict[str, Outlook]:
        """The outlook on each behavior by itself: the one with the lowest p is the likely culprit.

        For a goal of one box, what it asks of the behavior; for several boxes, the values with
        which any of them can still be met.
        """
        names = self._contract.question.names
        return {name: watch.peek() for name, watch in zip(names, self._watches, strict=True)}

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: Mapping[str, float] | None = None,
    ) -> Outlook:
        """The outlook before acting at this step; the first call is step 0.

        Parameters
        ----------
        state
            As for `Watch.step`.
        reward
            What each signal read since the last call, by name; a number is the reward itself. A
            signal that is missing makes the run UNKNOWN, with its name.
        behavior
            The behavior so far of some behaviors, by name: it repairs a sum that was lost.
        """
        with self._turn:
            begun = int(self._table.whole[0, k.T]) > 0
            for name, reading, watch in self._each:
                watch.step(state, **news_of(name, reading, reward, behavior, begun=begun))
            return self._told()

    def end(
        self,
        reward: float | Mapping[str, object] = 0.0,
        *,
        behavior: Mapping[str, float] | None = None,
    ) -> Outlook:
        """Close a run that ended before the horizon: DONE, with p exactly 0 or 1."""
        with self._turn:
            for name, reading, watch in self._each:
                watch.end(**news_of(name, reading, reward, behavior, begun=True))
            return self._told()

    def pack(self) -> bytes:
        """Where the run stands, as bytes from which another watch goes on bit for bit."""
        parts = [watch.run_state.to_json() for watch in self._watches]
        own = self._table.pack(_FIRST, np.zeros((1, 0)))[0]
        return json.dumps({"parts": parts, "own": own.hex()}).encode()

    def unpack(self, packed: bytes) -> None:
        """Continue a run from where another watch of the same contract has packed it."""
        found = json.loads(packed)
        with self._turn:
            for watch, state in zip(self._watches, found["parts"], strict=True):
                watch.resume(RunState.from_json(state))
            self._table.unpack(0, bytes.fromhex(found["own"]), 0)
            self._group = int(self._table.whole[0, k.GROUP])
            now = self.peek()
            self.changes = [Change(now.t, now.status, now.reason)]

    @property
    def standing(self) -> tuple[int, bool, int, bool]:
        """The number of the run's group, if it is in alarm, since which step, and if it is over."""
        whole = self._table.whole[0].tolist()
        return whole[k.GROUP], bool(whole[k.ALARMED]), whole[k.SINCE], bool(whole[k.ENDED])

    def __getstate__(self) -> object:
        raise InputError(
            "a watch over several behaviors cannot be copied or sent; make one where it is used, "
            "with monitor.watch"
        )

    def peek(self) -> Outlook:
        """The present outlook, without a step."""
        whole, real = self._table.whole[0].tolist(), self._table.real[0].tolist()
        contract: Any = self._contract  # it has what an outlook is put into words with
        return outlook_of(contract, whole, real, self._table.texts.get(0, ""))

    def _told(self) -> Outlook:
        """Join what the behaviors' own watches know."""
        table, watches = self._table, self._watches
        whole = table.whole[0]
        first = watches[0]._whole
        for place in (k.T, k.ENDED, k.LAST_T, k.LAST_N):
            whole[place] = first[place]
        table.texts.clear()
        became = [int(watch._became[0]) for watch in watches]
        if all(one == k.LOOK for one in became):
            self._look()
        elif all(watch.status is Status.DONE for watch in watches):
            self._close()
        else:
            self._know_nothing(k.BAD in became)
        outlook = self.peek()
        if k.BAD in became and self._raises:
            raise InputError(f"step {outlook.t}: {outlook.reason}")
        if outlook.status is not self.changes[-1].status:
            self.changes.append(Change(outlook.t, outlook.status, outlook.reason))
        return outlook

    def _look(self) -> None:
        contract, table = self._contract, self._table
        for c, watch in enumerate(self._watches):
            self._had[c, 0] = watch._real[k.SNAPPED]
        t = int(table.whole[0, k.LAST_T])
        contract.look(t, self._group, self._limits, self._had, self._room, self._out)
        table.real[0, :NUMBERS] = self._out[0]
        if contract.own_rule:
            judging: Any = contract
            judge_own(judging, table, 0)
            return
        k.judge_rows((table.whole, table.real), _FIRST, contract.numbers)
        if table.whole[0, k.CODE] == Reason.DECIDED:
            self._say(Status.ALARM, "the goal is out of reach")

    def _close(self) -> None:
        """A run that has ended: exactly 0 or 1."""
        names, grids = self._contract.question.names, self._contract.contracts.joint.grids
        ended: dict[str, FloatArray] = {
            name: watch._table.real[:, k.SO_FAR]
            for name, watch in zip(names, self._watches, strict=True)
        }
        met = bool(self._contract.goal.contains(ended, grids)[0])
        self._table.real[0, :NUMBERS] = float(met)
        shown = ", ".join(f"{name} = {float(value[0]) + 0.0:.6g}" for name, value in ended.items())
        self._say(Status.DONE, f"ended {'inside' if met else 'outside'} the goal at {shown}")

    def _know_nothing(self, bad: bool) -> None:
        """No number for this step; an alarm stands until something is known again."""
        whole = self._table.whole[0]
        self._table.real[0, :NUMBERS] = math.nan
        names = self._contract.question.names
        unknown = [
            (name, watch.peek().reason)
            for name, watch in zip(names, self._watches, strict=True)
            if int(watch._became[0]) != k.LOOK
        ]
        name, reason = unknown[0]
        shared = len({reason for _, reason in unknown}) == 1 and len(unknown) == len(names)
        if bad:
            whole[k.STREAK] = 0
        if whole[k.ENDED]:
            whole[k.ALARMED] = 0
        status = Status.ALARM if whole[k.ALARMED] else Status.UNKNOWN
        self._say(status, reason if shared else f"{name}: {reason}")

    def _say(self, status: Status, text: str) -> None:
        self._table.whole[0, k.STATUS], self._table.whole[0, k.CODE] = status, Reason.TEXT
        self._table.texts[0] = text


class SignalWatch(Watch):
    """A watch over one of several behaviors, which finds its signal in what each call brings."""

    __slots__ = ("_name", "_reading")

    def __init__(
        self,
        contract: Contract,
        name: str = "",
        reading: Reading | None = None,
        *,
        group: int = 0,
        on_bad: OnBad = "unknown",
        weight: float | None = None,
    ) -> None:
        self._name, self._reading = name, reading or Reading(contract.behavior)
        super().__init__(contract, group=group, on_bad=on_bad, weight=weight)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "name": self._name, "reading": self._reading}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        named = kept.pop("name"), kept.pop("reading")
        super().__setstate__(kept)
        self._name, self._reading = named

    def step(
        self,
        state: ArrayLike | Mapping[str, object],
        reward: Any = 0.0,
        *,
        behavior: Any = None,
    ) -> Outlook:
        """The outlook before acting at this step, as `GoalWatch.step` takes what it brings."""
        return super().step(state, **self._brought(reward, behavior))

    def end(self, reward: Any = 0.0, *, behavior: Any = None) -> Outlook:
        """Close a run that ended before the horizon: DONE, with p exactly 0 or 1."""
        return super().end(**self._brought(reward, behavior))

    def _brought(self, reward: Any, behavior: Any) -> dict[str, Any]:
        if not isinstance(reward, Mapping) and not isinstance(behavior, Mapping):
            return {"reward": reward, "behavior": behavior}
        begun = self.status is not Status.PENDING
        return news_of(self._name, self._reading, reward, behavior, begun=begun)


def news_of(
    name: str,
    reading: Reading,
    reward: Any,
    behavior: Mapping[str, float] | None,
    *,
    begun: bool,
) -> dict[str, Any]:
    """What a call brings to one behavior, as its own watch takes it."""
    if behavior is not None and name in behavior:
        return {"behavior": behavior[name]}
    signal = reading.column or "reward"
    missing = _Missing(signal) if begun else 0.0  # before the first step there is nothing to read
    found: Any = missing
    if isinstance(reward, Mapping):
        found = reward.get(signal, reward.get(name, missing))
    elif reading.column is None:
        found = reward
    if not reading.behavior.told:
        return {"reward": found}
    return {"behavior": found} if begun else {}


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
    def agents(self) -> tuple[Hashable, ...]:
        """The agents, in the order in which they joined."""
        return tuple(self._watches)

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The alarm rule as data, one per group."""
        return self._contract.triggers

    def unpack(self, packed: Mapping[Hashable, bytes]) -> None:
        """Put agents' runs where they stood elsewhere; agents that are not here join."""
        for agent, one in packed.items():
            if agent not in self._watches:
                self._watches[agent] = GoalWatch(self._contract, self._readings)
            self._watches[agent].unpack(one)

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

    def peek(self) -> dict[Hashable, Outlook]:
        """The present outlook of each agent, without a step."""
        return {name: watch.peek() for name, watch in self._watches.items()}
