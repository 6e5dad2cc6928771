"""Messages in, outlooks out: one watch per agent, whatever the lines say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Target
    from ontarget.monitor import AlarmRule, Outlook, Watch

__all__ = ["Desk"]


class Desk:
    """One watch per agent in a run; a run that ends frees its watch for the next.

    Parameters
    ----------
    monitor
        The monitor.
    target
        What every run should end in.
    rule
        Options of `GoalMonitor.watch`; the rule is found once per group, not per agent.
    """

    def __init__(self, monitor: GoalMonitor, target: Target, **rule: Any) -> None:
        self._fitted = monitor.fitted
        self.target = target
        # Made here, so that a rule that cannot be kept is refused before the first line.
        groups = [None] if self._fitted.groups is None else list(self._fitted.groups)
        first = {group: monitor.watch(target, group=group, **rule) for group in groups}
        self._rules = {group: watch.rule for group, watch in first.items()}
        self._free = {group: [watch] for group, watch in first.items()}
        self._runs: dict[str, tuple[Any, Watch]] = {}  # the group and the watch of each agent
        self._done: dict[str, Outlook] = {}

    @property
    def rule(self) -> AlarmRule:
        """The alarm's rule: that of the first group."""
        return next(iter(self._rules.values()))

    @property
    def horizon(self) -> int:
        """The number of steps of a run."""
        return self._fitted.horizon

    def answers(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """One answer per line: the outlook of the line's agent, or what is wrong with the line."""
        for number, line in enumerate(lines, start=1):
            if line.strip():
                message = _parsed(line)
                yield (
                    {"line": number, "state": "UNKNOWN", "reason": message}
                    if isinstance(message, str)
                    else self._answer(number, message)
                )

    def replies(self, messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """One answer per message."""
        for number, message in enumerate(messages, start=1):
            yield self._answer(number, message)

    def _answer(self, number: int, message: dict[str, Any]) -> dict[str, Any]:
        agent = str(message.get("agent", ""))
        run = self._watch_of(agent, message.get("group"))
        if isinstance(run, str):
            return {"line": number, "agent": agent, "state": "UNKNOWN", "reason": run}
        outlook = self._outlook(agent, run, message)
        closed = bool(message.get("end")) or outlook.state.name == "DONE"
        return {"agent": agent, **_json(outlook), **({"end": True} if closed else {})}

    def _outlook(self, agent: str, run: Watch, message: dict[str, Any]) -> Outlook:
        behavior, reward = message.get("behavior"), _reward(message, run)
        if message.get("end"):
            # A run that reached the horizon has been closed by its last state already.
            closed = self._done.pop(agent, None)
            outlook = run.end(reward, behavior=behavior) if closed is None else closed
            self._release(agent)
            return outlook
        self._done.pop(agent, None)
        outlook = run.step(self._reading(message["state"]), reward, behavior=behavior)
        if outlook.state.name == "DONE":
            self._done[agent] = outlook
            self._release(agent)
        return outlook

    def _reading(self, state: Any) -> Any:
        """The state; null is a missing value, and the watch knows which features may miss one."""
        if isinstance(state, Mapping):
            return {name: math.nan if one is None else one for name, one in state.items()}
        if isinstance(state, list):
            return [math.nan if one is None else one for one in state]
        return state

    def _watch_of(self, agent: str, group: Any) -> Watch | str:
        """The agent's watch, or why there is none."""
        from ontarget.monitor import Watch

        if agent in self._runs:
            return self._runs[agent][1]
        if isinstance(group, list | dict) or group not in self._rules:
            known = ", ".join(repr(one) for one in self._rules)
            return (
                f"group needs one of {known}, got {group!r}"
                if self._fitted.groups is not None
                else f"this monitor was calibrated without groups, got group {group!r}"
            )
        if not self._free[group]:
            place = self._fitted.group_of(group)
            made = Watch(self._fitted, self.target, self._rules[group], group=place)
            self._free[group].append(made)
        self._runs[agent] = (group, self._free[group].pop())
        return self._runs[agent][1]

    def _release(self, agent: str) -> None:
        group, run = self._runs.pop(agent)
        run.reset()
        self._free[group].append(run)


def _parsed(line: str) -> dict[str, Any] | str:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(message, dict):
        return "a line needs an object with agent, state and reward"
    if "state" not in message and not message.get("end"):
        return 'a line needs a "state", or "end": true'
    return message


def _reward(message: dict[str, Any], run: Watch) -> float:
    """What the last action earned: nothing where it is left out, unknown where it is null."""
    reward: Any = message.get("reward", 0.0)
    if reward is None:
        return 0.0 if run.state.name == "PENDING" else math.nan
    return reward  # type: ignore[no-any-return]  # the watch judges whatever stands there


def _json(outlook: Outlook) -> dict[str, Any]:
    fields = outlook._asdict() | {"state": outlook.state.name}
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in fields.items()
        if not (name == "reason" and not value)
    }
