"""``ontarget watch``: JSON lines in, outlooks out; on a terminal a live view."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget.cli.mistakes import Exit
from ontarget.cli.options import AsJson, FalseAlarmRate, Model, TargetOption
from ontarget.cli.progress import working

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Target
    from ontarget.monitor import AlarmRule, Outlook, Watch

__all__ = ["Desk", "watch"]


def watch(
    model: Model,
    target: TargetOption,
    alarm_below: Annotated[
        float | None,
        typer.Option(help="Alarm where the probability falls below this.", show_default="0.9"),
    ] = None,
    false_alarm_rate: FalseAlarmRate = None,
    for_steps: Annotated[int, typer.Option(min=1, help="For so many consecutive steps.")] = 1,
    clear_above: Annotated[
        float | None, typer.Option(help="An alarm ends where the probability is at least this.")
    ] = None,
    fail_on_alarm: Annotated[
        bool,
        typer.Option(
            "--fail-on-alarm", help=f"Exit with {int(Exit.ALARM)} if any alarm was raised."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read JSON lines on standard input; write outlooks as JSON lines, or draw them on a terminal.

    A line is {"agent": "a", "state": {...}, "reward": -1.2}, where reward is what the last action
    earned: the first state of a run has none. {"agent": "a", "reward": -1.2, "end": true} closes a
    run, and the agent's next line begins another. A line that cannot be used is answered with the
    state UNKNOWN and its reason.
    """
    from ontarget import GoalMonitor, Target

    with working(f"opening {model.name}"):
        desk = Desk(
            GoalMonitor.load(model),
            Target.parse(target),
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate,
            for_steps=for_steps,
            clear_above=clear_above,
        )
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    drawn = sys.stdout.isatty() and not as_json
    alarmed = _draw(desk, model.name) if drawn else _write(desk)
    if alarmed and fail_on_alarm:
        raise typer.Exit(Exit.ALARM)


class Desk:
    """One watch per agent, made when it is first heard of; a run that ends frees it for the next.

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
        self._first = {group: monitor.watch(target, group=group, **rule) for group in groups}
        self._watches: dict[str, Watch] = {}
        self._done: dict[str, Outlook] = {}

    @property
    def rule(self) -> AlarmRule:
        """The alarm's rule: that of the first group."""
        return next(iter(self._first.values())).rule

    def answers(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """One answer per line: the outlook of the line's agent, or what is wrong with the line."""
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield self._answer(number, line)

    def _answer(self, number: int, line: str) -> dict[str, Any]:
        message = _parsed(line)
        if isinstance(message, str):
            return {"line": number, "state": "UNKNOWN", "reason": message}
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
            run.reset()
            return outlook
        self._done.pop(agent, None)
        outlook = run.step(message["state"], reward, behavior=behavior)
        if outlook.state.name == "DONE":
            self._done[agent] = outlook
            run.reset()
        return outlook

    def _watch_of(self, agent: str, group: Any) -> Watch | str:
        """The agent's watch, or why there is none."""
        from ontarget.monitor import Watch

        if agent in self._watches:
            return self._watches[agent]
        if isinstance(group, list | dict) or group not in self._first:
            known = ", ".join(repr(one) for one in self._first)
            return (
                f"group needs one of {known}, got {group!r}"
                if self._fitted.groups is not None
                else f"this monitor was calibrated without groups, got group {group!r}"
            )
        first = self._first[group]
        place = 0 if group is None else self._fitted.group_of(group)
        self._watches[agent] = Watch(self._fitted, self.target, first.rule, group=place)
        return self._watches[agent]


def _write(desk: Desk) -> bool:
    alarmed = False
    for answer in desk.answers(sys.stdin):
        alarmed = alarmed or answer["state"] == "ALARM"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return alarmed


def _draw(desk: Desk, name: str) -> bool:
    from rich.console import Console
    from rich.live import Live

    from ontarget.cli.live_view import LiveView

    console = Console()
    view = LiveView(desk.target, desk.rule, name)
    alarmed = False
    with Live(view, console=console, refresh_per_second=12, vertical_overflow="crop"):
        for answer in desk.answers(sys.stdin):
            alarmed = alarmed or answer["state"] == "ALARM"
            view.update(answer)
    console.print(view.summary(), highlight=False)
    return alarmed


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
