"""``ontarget watch``: JSON lines in, outlooks out; on a terminal a live view."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import AsJson, FalseAlarmRate, Model, TargetOption

if TYPE_CHECKING:
    from ontarget.cli.desk import Desk

__all__ = ["watch"]

_SPEED = 10  # steps of a replay per second, on a terminal


def watch(
    model: Model,
    target: TargetOption,
    alarm_below: Annotated[
        float | None,
        typer.Option(
            help="Alarm where the probability falls below this.", show_default="0.9", metavar="P"
        ),
    ] = None,
    false_alarm_rate: FalseAlarmRate = None,
    for_steps: Annotated[
        int, typer.Option(min=1, help="For so many consecutive steps.", metavar="N")
    ] = 1,
    clear_above: Annotated[
        float | None,
        typer.Option(help="An alarm ends where the probability is at least this.", metavar="P"),
    ] = None,
    fail_on_alarm: Annotated[
        bool,
        typer.Option(
            "--fail-on-alarm",
            help=f"Exit with {int(Exit.ALARM)} if any alarm was raised.",
            metavar="",
        ),
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(help="Play recorded episodes in place of standard input.", metavar="RUNS"),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Of these only the episode of this id; several are played side by side.",
            metavar="ID",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            help="Steps per second of a replay.",
            show_default=f"{_SPEED} on a terminal",
            metavar="N",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read JSON lines on standard input; write outlooks as JSON lines, or draw them on a terminal.

    A line is {"agent": "a", "state": {...}, "reward": -1.2}, where reward is what the last action
    earned: the first state of a run has none. {"agent": "a", "reward": -1.2, "end": true} closes a
    run, and the agent's next line begins another. A line that cannot be used is answered with the
    state UNKNOWN and its reason. With --replay the lines come from recorded episodes.
    """
    from ontarget import GoalMonitor, Target
    from ontarget.cli.desk import Desk

    if replay is None and (run or speed is not None):
        raise typer.BadParameter("--run and --speed belong to --replay RUNS")
    if speed is not None and not speed > 0.0:
        raise typer.BadParameter(f"--speed needs a number of steps above 0, got {speed:g}")
    with working(f"opening {model.name}"):
        monitor = GoalMonitor.load(model)
        desk = Desk(
            monitor,
            Target.parse(target),
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate,
            for_steps=for_steps,
            clear_above=clear_above,
        )
    drawn = sys.stdout.isatty() and not as_json
    if replay is None:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        answers = desk.answers(sys.stdin)
    else:
        from ontarget.cli.replay import read_replay

        pace = _SPEED if speed is None and drawn else speed
        with working(f"reading {replay.name}"):
            played = read_replay(replay, monitor, runs=run or (), steps_per_second=pace)
        answers = desk.replies(played)
    one_by_one = replay is not None and not run
    alarmed = (
        _draw(answers, desk, name=model.name, one_by_one=one_by_one) if drawn else _write(answers)
    )
    if alarmed and fail_on_alarm:
        raise typer.Exit(Exit.ALARM)


def _write(answers: Iterable[dict[str, Any]]) -> bool:
    alarmed = False
    for answer in answers:
        alarmed = alarmed or answer["state"] == "ALARM"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return alarmed


def _draw(answers: Iterable[dict[str, Any]], desk: Desk, *, name: str, one_by_one: bool) -> bool:
    from rich.console import Console
    from rich.live import Live

    from ontarget.cli.live_view import LiveView

    console = Console(highlight=False)
    view = LiveView(desk.target, desk.rule, name, desk.horizon, one_by_one=one_by_one)
    try:
        with Live(view, console=console, refresh_per_second=12, vertical_overflow="crop"):
            for answer in answers:
                view.update(answer)
    finally:  # Ctrl-C is how one leaves a stream that has no end
        console.print(view.summary())
    return view.alarms > 0
