"""``ontarget watch``: JSON lines in, outlooks out."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ontarget import GoalMonitor, Target
    from ontarget.monitor import Outlook, Watch

__all__ = ["outlooks", "watch"]

ALARM_EXIT = 3


def watch(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    target: Annotated[str, typer.Option(help="LO:HI, LO: or :HI; several joined by commas.")],
    alarm_below: Annotated[
        float | None, typer.Option(help="Alarm where the probability falls below this; 0.9.")
    ] = None,
    false_alarm_rate: Annotated[
        float | None, typer.Option(help="In its place: the promised share of false alarms.")
    ] = None,
    for_steps: Annotated[int, typer.Option(min=1, help="For so many consecutive steps.")] = 1,
    fail_on_alarm: Annotated[
        bool,
        typer.Option("--fail-on-alarm", help=f"Exit with {ALARM_EXIT} if any alarm was raised."),
    ] = False,
) -> None:
    """Read JSON lines on standard input, write outlooks as JSON lines.

    A line is {"agent": "a", "state": {...}, "reward": -1.2}, and {"agent": "a", "reward": -1.2,
    "end": true} closes a run. The first state of a run has no reward.
    """
    from ontarget import GoalMonitor, Target

    monitor = GoalMonitor.load(model)
    options = {"for_steps": for_steps}
    if alarm_below is not None:
        options["alarm_below"] = alarm_below  # type: ignore[assignment]  # a float among options
    if false_alarm_rate is not None:
        options["false_alarm_rate"] = false_alarm_rate  # type: ignore[assignment]
    alarmed = False
    for answer in outlooks(monitor, Target.parse(target), sys.stdin, options):
        alarmed = alarmed or answer.get("state") == "ALARM"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    if alarmed and fail_on_alarm:
        raise typer.Exit(ALARM_EXIT)


def outlooks(
    monitor: GoalMonitor, target: Target, lines: Iterable[str], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """One answer per line: the outlook of the line's agent, or what is wrong with the line."""
    watches: dict[str, Watch] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        message = _parsed(line)
        if isinstance(message, str):
            yield {"line": number, "state": "UNKNOWN", "reason": message}
            continue
        agent = str(message.get("agent", ""))
        if agent not in watches:
            watches[agent] = monitor.watch(
                target, group=message.get("group"), on_bad="unknown", **options
            )
        run = watches[agent]
        behavior, reward = message.get("behavior"), message.get("reward", 0.0)
        if message.get("end"):
            answer = run.end(reward, behavior=behavior)
            run.reset()
        else:
            answer = run.step(message.get("state"), reward, behavior=behavior)  # type: ignore[arg-type]
        yield {"agent": agent, **_json(answer)}


def _parsed(line: str) -> dict[str, Any] | str:
    try:
        message = json.loads(line)
    except json.JSONDecodeError as error:
        return f"not JSON: {error}"
    if not isinstance(message, dict):
        return "a line needs an object with agent, state and reward"
    if "state" not in message and not message.get("end"):
        return 'a line needs a "state", or "end": true'
    return message


def _json(outlook: Outlook) -> dict[str, Any]:
    fields = outlook._asdict() | {"state": outlook.state.name}
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in fields.items()
        if not (name == "reason" and not value)
    }
