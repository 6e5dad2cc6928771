"""``ontarget watch``: reads JSON lines, and writes the monitor's answers or draws them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import number, plain
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    AlarmBelow,
    AsJson,
    CalibrationOption,
    Columns,
    Confidence,
    FalseAlarmRate,
    ForSteps,
    ModelTargetOption,
    RuledOutRate,
    alarm_rule,
    calibration_of,
    model_there,
    reads_runs,
    runs_there,
    target_for,
)
from ontarget.errors import Argument, FewEpisodesError, OntargetError, Placeholder

if TYPE_CHECKING:
    from ontarget import Sessions

_SPEED = 10  # steps of a replay per second, on a terminal
_LONGEST_LINE = 1_000_000  # characters: a state of tens of thousands of features
_LONGEST_NAME = 500
_P = Placeholder("P")


@reads_runs
def watch(
    columns: Columns,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file.",
            metavar="MODEL",
            show_default=False,
            callback=model_there,
            is_eager=True,
        ),
    ] = None,
    target: ModelTargetOption = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="Send the lines to `ontarget serve` at this URL instead; it has the model and "
            "the target. With --replay, recorded runs are sent to it, all side by side.",
            metavar="URL",
        ),
    ] = None,
    alarm_below: AlarmBelow = None,
    false_alarm_rate: FalseAlarmRate = None,
    ruled_out: RuledOutRate = None,
    confidence: Confidence = None,
    for_steps: ForSteps = 1,
    clear_above: Annotated[
        float | None,
        typer.Option(help="An alarm ends when the probability reaches this value.", metavar="P"),
    ] = None,
    calibration: CalibrationOption = "target",
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
        typer.Option(
            help="Play back recorded episodes instead of reading standard input.",
            metavar="RUNS",
            callback=runs_there,
            is_eager=True,  # a file that is missing is told before NumPy reads a target
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Play only the episode with this id; repeat the option to play several together.",
            metavar="ID",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            help="How many steps of a replay to play per second.",
            show_default=f"{_SPEED} on a terminal",
            metavar="N",
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            help="Forget an agent after this many seconds without a line; its next line begins a "
            "new run.",
            show_default="never, but only the latest 10,000 agents are kept",
            metavar="SECONDS",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read JSON lines on standard input; write outlooks as JSON lines, or draw them on a terminal.

    A line is {"agent": "a", "state": {...}, "reward": -1.2}. The reward is what the agent's last
    action earned, so the first state of a run has none. {"agent": "a", "reward": -1.2, "end": true}
    ends a run, and the agent's next line begins another. The default alarm is the one
    that evaluate checks: at most 5 % of the runs that meet the target raise it. A line that
    cannot be used gets the status UNKNOWN and a reason. With --replay the lines come from recorded
    episodes.
    """
    if replay is None and (run or speed is not None):
        raise typer.BadParameter("--run and --speed belong to --replay RUNS")
    if replay is None and columns:
        raise typer.BadParameter(
            "options that name columns are for --replay RUNS only; leave them out"
        )
    if speed is not None and not speed > 0.0:
        raise typer.BadParameter(f"--speed needs a number of steps above 0, got {speed:g}")
    if server is not None:
        if target is not None or (model is None) != (replay is None):
            raise typer.BadParameter(
                "with --server, leave out MODEL and --target; only --replay RUNS needs MODEL, "
                "which says how to read the runs"
            )
        sent: Iterator[dict[str, Any] | str]
        if model is not None and replay is not None:
            sent = _played_to(model, replay, columns, runs=run or (), speed=speed)
        else:
            sent = _sent(_input())
        from ontarget.cli.remote import answers_of_service

        _end(_write(answers_of_service(server, sent)), fail_on_alarm)
        return
    if model is None:
        raise typer.BadParameter("pass MODEL, or --server URL")
    if idle is not None and not idle > 0.0:
        raise typer.BadParameter(f"--idle needs a number of seconds above 0, got {idle:g}")
    chosen = calibration_of(calibration)
    from ontarget import GoalMonitor
    from ontarget.report.facts import explained

    with working(f"opening {model.name}"):
        monitor = GoalMonitor.load(model)
        wanted = target_for(monitor, target)
        rule = alarm_rule(
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate,
            ruled_out=ruled_out,
            confidence=confidence,
            for_steps=for_steps,
            clear_above=clear_above,
        )
        try:
            sessions = monitor.sessions(wanted, alarm=rule, idle_seconds=idle, calibration=chosen)
        except FewEpisodesError as error:
            better = explained(error, monitor.contracts, wanted)
            asked = false_alarm_rate is not None or ruled_out is not None
            other = () if asked else ("; or alarm without a promise: ", Argument("alarm_below", _P))
            raise FewEpisodesError(*better.parts, *other) from None
    drawn = sys.stdout.isatty() and not as_json
    if replay is None:
        answers = _answers(sessions, _lines(_input()))
    else:
        from ontarget.cli.replay import read_replay

        pace = _SPEED if speed is None and drawn else speed
        played = read_replay(replay, monitor, columns, runs=run or (), steps_per_second=pace)
        answers = map(sessions.answer, played)
    if drawn:
        one_by_one = replay is not None and not run
        alarmed = _draw(answers, sessions, name=model.name, one_by_one=one_by_one)
    else:
        alarmed = _write(answers)
    _end(alarmed, fail_on_alarm)


def _end(alarmed: bool, fail_on_alarm: bool) -> None:
    if alarmed and fail_on_alarm:
        raise typer.Exit(Exit.ALARM)


def _input() -> IO[str]:
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin


def _sent(stream: IO[str]) -> Iterator[dict[str, Any] | str]:
    """The messages in a stream of JSON lines; a text where a line cannot be read."""
    return map(_parsed, (line for line in _lines(stream) if line is None or line.strip()))


def _played_to(
    model: Path, replay: Path, columns: Columns, *, runs: Sequence[str], speed: float | None
) -> Iterator[dict[str, Any] | str]:
    """The messages of recorded runs, all side by side, as a service takes them."""
    from ontarget import GoalMonitor
    from ontarget.cli.replay import by_name, read_replay

    monitor = GoalMonitor.load(model)
    played = read_replay(replay, monitor, columns, runs=runs, steps_per_second=speed, together=True)
    for message in played:
        if "state" in message:
            message["state"] = by_name(monitor.schema, message["state"])
        if isinstance(message.get("reward"), dict):  # what each of several behaviors is read from
            earned = message.pop("reward")
            signals = {monitor.readings[name].column or "reward": earned[name] for name in earned}
            message |= {"reward": signals.pop("reward", 0.0), "signals": signals}
        yield message


def _lines(stream: IO[str]) -> Iterator[str | None]:
    """The lines of a stream; None in place of a line that is too long."""
    while line := stream.readline(_LONGEST_LINE):
        if len(line) < _LONGEST_LINE or line.endswith("\n"):
            yield line
            continue
        while line and not line.endswith("\n"):
            line = stream.readline(_LONGEST_LINE)
        yield None


def _answers(sessions: Sessions, lines: Iterable[str | None]) -> Iterator[dict[str, Any]]:
    """One answer per line of input: the monitor's answer about the run, or what is wrong."""
    for place, line in enumerate(lines, start=1):
        if line is None or line.strip():
            message = _parsed(line)
            if isinstance(message, str):
                yield {"line": place, "status": "UNKNOWN", "reason": message}
                continue
            answer = sessions.answer(message)
            yield answer if "t" in answer else {"line": place, **answer}


def _parsed(line: str | None) -> dict[str, Any] | str:
    from ontarget.live.protocol import is_last, is_taken_over

    if line is None:
        return f"a line needs fewer than {_LONGEST_LINE:,} characters"
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(message, dict):
        return 'a line needs to be a JSON object with "agent", "state" and "reward"'
    if len(str(message.get("agent", ""))) > _LONGEST_NAME:
        return f'"agent" needs a name of at most {_LONGEST_NAME} characters'
    if not ("state" in message or is_last(message) or is_taken_over(message)):
        return 'a line needs a "state", or "end": true'
    return message


def _write(answers: Iterable[dict[str, Any]]) -> bool:
    alarmed = False
    for answer in answers:
        alarmed = alarmed or answer["status"] == "ALARM"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return alarmed


def _draw(
    answers: Iterable[dict[str, Any]], sessions: Sessions, *, name: str, one_by_one: bool
) -> bool:
    from rich.console import Console
    from rich.live import Live

    from ontarget.cli.view import LiveView

    console = Console(highlight=False)

    def why(agent: str) -> str:
        """Why an agent is in alarm, as one line of text; empty if that cannot be explained."""
        try:
            return sessions.explain(agent).in_a_line
        except OntargetError:
            return ""

    view = LiveView(
        sessions.contract,
        name,
        one_by_one=one_by_one,
        explain=why,
        so_far=lambda agent: _so_far(sessions, agent),
    )
    try:
        with Live(view, console=console, refresh_per_second=12, vertical_overflow="crop"):
            for answer in answers:
                view.update(answer)
    finally:  # Ctrl-C is how one leaves a stream that has no end
        console.print(view.summary())
    return view.alarms > 0


def _so_far(sessions: Sessions, agent: str) -> str:
    """What an agent's run has, in words; empty if it is over, or nothing is known."""
    if agent not in sessions:
        return ""
    contract, state = sessions.contract, sessions.run_state(agent)
    each = [("", state)]
    if contract.asked.is_joint:
        each = list(zip(contract.asked.names, state.parts, strict=True))
    told = [
        f"{plain(name)} {number(float(f'{one.so_far:.5g}'))}".strip()
        for name, one in each
        if one.so_far is not None
    ]
    return f"so far {', '.join(told)}" if told else ""
