"""`Sessions`: one watch for each agent, known by its name; agents may come and go.

It also answers JSON messages.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from ontarget._arguments import whole_number
from ontarget.errors import Argument, InputError, OntargetError
from ontarget.live.contract import Contract
from ontarget.live.explanation import Explanation
from ontarget.live.outlook import Outlook, Status
from ontarget.live.protocol import earned, fields_of, is_last, is_taken_over, reading
from ontarget.live.runs import RunState
from ontarget.live.watch import Watch


class Sessions:
    """One watch per agent, made at the agent's first message and dropped at the end of its run.

    Parameters
    ----------
    contract
        The monitor, target and alarm rule that every run is watched with.
    max_agents
        How many agents are remembered. If there are more, the agent that has been silent for
        longest is forgotten; the next message of that agent begins a new run.
    idle_seconds
        After how many seconds without a message an agent is forgotten; None for never.
    clock
        A function that returns the time in seconds.

    Examples
    --------
    See `GoalMonitor.sessions`.
    """

    def __init__(
        self,
        contract: Contract,
        *,
        max_agents: int = 10_000,
        idle_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.contract = contract
        self._most = whole_number("max_agents", max_agents, least=1)
        if idle_seconds is not None and not idle_seconds > 0.0:
            raise InputError(
                Argument("idle_seconds"), f" needs a number above 0, got {idle_seconds!r}"
            )
        self._idle = math.inf if idle_seconds is None else idle_seconds
        self._clock = clock
        # Agents in the order of their last message, the one that was silent for longest first.
        self._watches: OrderedDict[Hashable, tuple[Watch, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._watches)

    def __contains__(self, agent: Hashable) -> bool:
        return agent in self._watches

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._watches)

    def step(
        self,
        agent: Hashable,
        state: Any,
        reward: Any = 0.0,
        *,
        behavior: Any = None,
        group: Any = None,
    ) -> Outlook:
        """The monitor's answer about an agent's run (`Outlook`) before it acts; see `Watch.step`.

        The first call begins a run.
        """
        return self._watch_of(agent, group).step(state, reward, behavior=behavior)

    def end(
        self,
        agent: Hashable,
        reward: Any = 0.0,
        *,
        behavior: Any = None,
        truncated: bool = False,
    ) -> Outlook:
        """End an agent's run, forget the agent, and return the last answer about the run.

        If the run has already reached the horizon, this repeats the last answer. ``truncated`` says
        that the run was cut off: see `Watch.end`.
        """
        watch = self._watch_of(agent, None)
        if watch.status is Status.DONE:
            found = watch.peek()
        else:
            found = watch.end(reward, behavior=behavior, truncated=truncated)
        self.forget(agent)
        return found

    def peek(self, agent: Hashable) -> Outlook:
        """The present answer about an agent's run (`Outlook`); the run takes no step."""
        return self._known(agent).peek()

    def explain(self, agent: Hashable, *, since: int | None = None) -> Explanation:
        """Why an agent's p is what it is, and what changed p since a step; see `Watch.explain`."""
        return self._known(agent).explain(since=since)

    def intervene(self, agent: Hashable) -> Outlook:
        """Note that somebody took an agent's run over; returns the answer about the run.

        See `Watch.intervene`.
        """
        return self._known(agent).intervene()

    def run_state(self, agent: Hashable) -> RunState:
        """The state of an agent's run, to be stored and later passed to `resume`."""
        return self._known(agent).run_state

    def resume(self, agent: Hashable, state: RunState) -> None:
        """Continue an agent's run from a stored state."""
        watch = Watch(self.contract).resume(state)
        self._watches[agent] = watch, self._clock()
        self._watches.move_to_end(agent)
        self._forget_some()

    def forget(self, agent: Hashable) -> None:
        """Forget an agent and its run; nothing happens if the agent is unknown."""
        self._watches.pop(agent, None)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a message; message and answer are plain JSON values.

        A message has the fields ``agent`` (a name, by default ""), ``state`` (an object by feature,
        or a list; null is a missing value), ``reward``, and if needed ``signals``, ``behavior`` and
        ``group``. When the run is over, the message has ``"end": true`` instead of a state, or
        ``"truncated": true`` if the run was cut off before its own end. ``"intervened": true``,
        with a state or alone, says that somebody takes the run over; from then on answers have it
        too. The answer has the agent and the fields of `Outlook`, with null where a number is
        unknown; the last answer of a run also has its ``outcome``. docs/live-protocol.md describes
        every field.
        """
        agent = str(message.get("agent", ""))
        before = self._watches.get(agent)  # the agent is forgotten if its run ends now
        try:
            outlook = self._outlook(agent, message)
        except OntargetError as error:
            known = self._watches.get(agent)
            stands = known is not None and known[0].status is Status.ALARM
            status = Status.ALARM if stands else Status.UNKNOWN
            return {"agent": agent, "status": status.name, "reason": str(error)}
        closed = is_last(message) or outlook.status is Status.DONE
        watched = self._watches.get(agent, before)
        taken = watched is not None and watched[0].intervened_at is not None
        marks = {"intervened": taken, "end": closed}
        true = {name: True for name, one in marks.items() if one}
        unseen = self.contract.fitted.schema.unseen_in(message.get("state"))
        more = self._parts(agent) | ({"unseen": unseen} if unseen else {})
        cut = bool(message.get("truncated")) and outlook.status is not Status.DONE
        if closed and watched is not None and not cut:
            more |= _outcome(watched[0])
        return {"agent": agent, "t": outlook.t, **fields_of(outlook), **more, **true}

    def _parts(self, agent: str) -> dict[str, Any]:
        """The field "parts" of a JSON answer: p of each behavior by itself, by name."""
        known = self._watches.get(agent)
        if known is None or not self.contract.asked.is_joint:
            return {}
        each = {name: one.p if one.known else None for name, one in known[0].parts.items()}
        return {"parts": each}

    def _outlook(self, agent: str, message: Mapping[str, Any]) -> Outlook:
        behavior, group = message.get("behavior"), message.get("group")
        self._forget_some()  # this agent too, if it was silent for too long
        known = self._watches.get(agent)
        if known is not None and known[0].status is Status.DONE and not is_last(message):
            self.forget(agent)  # its last run is over, so this message begins the next one
            known = None
        signals = message.get("signals") if self.contract.readings else None
        reward = earned(message.get("reward", 0.0), signals, first=known is None)
        if is_last(message):
            if known is None and group is not None:
                self._watch_of(agent, group)
            cut = bool(message.get("truncated"))
            return self.end(agent, reward, behavior=behavior, truncated=cut)
        taken = is_taken_over(message)
        if "state" not in message and not taken:
            raise InputError('a message needs a "state", or "end": true')
        if "state" in message:
            state = reading(message["state"])
            found = self.step(agent, state, reward, behavior=behavior, group=group)
        return self.intervene(agent) if taken else found

    def _watch_of(self, agent: Hashable, group: Any) -> Watch:
        self._forget_some()
        found = self._watches.get(agent)
        watch = found[0] if found is not None else self._made(group)
        self._watches[agent] = watch, self._clock()
        self._watches.move_to_end(agent)
        self._forget_some()
        return watch

    def _made(self, group: Any) -> Watch:
        if isinstance(group, list | dict):
            raise InputError(Argument("group"), f" needs the name of a group, got {group!r}")
        return Watch(self.contract, group=self.contract.fitted.group_of(group))

    def _known(self, agent: Hashable) -> Watch:
        found = self._watches.get(agent)
        if found is None:
            raise InputError(
                f"agent {agent!r} has no run: it has not begun one, or its run has ended, or the "
                f"agent was forgotten; begin a run with step"
            )
        return found[0]

    def _forget_some(self) -> None:
        now = self._clock()
        while self._watches:
            agent, (_, since) = next(iter(self._watches.items()))
            if len(self._watches) <= self._most and now - since <= self._idle:
                return
            del self._watches[agent]


def _outcome(watch: Watch) -> dict[str, Any]:
    """The field "outcome" of a JSON answer: a number, or one number per behavior, by name."""
    state = watch.run_state
    if watch.contract.asked.is_joint:
        names = watch.contract.asked.names
        return {"outcome": dict(zip(names, map(_ended_at, state.parts), strict=True))}
    ended = _ended_at(state)
    return {} if ended is None else {"outcome": ended}


def _ended_at(state: RunState) -> float | None:
    """The outcome of one behavior; None if it is unknown or not finite."""
    known = not state.lost[0] and state.so_far is not None and math.isfinite(state.so_far)
    return state.so_far if known else None
