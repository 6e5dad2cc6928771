"""``ontarget watch``: reads JSON lines, and writes the monitor's answers or draws them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import number, plain
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    AsJson,
    ModelTargetOption,
    ReadsRuns,
    SetsAlarm,
    model_there,
    option,
    runs_there,
    target_for,
)
from ontarget.errors import Argument, FewEpisodesError, OntargetError, Placeholder

if TYPE_CHECKING:
    from ontarget import Goal, GoalMonitor, Sessions, Target
    from ontarget.cli.replay import Replay

_SPEED = 10  # steps of a replay per second, on a terminal
_LONGEST_LINE = 1_000_000  # characters: a state of tens of thousands of features
_LONGEST_NAME = 500
_P = Placeholder("P")


@dataclass(frozen=True, kw_only=True)
class WatchCommand(ReadsRuns, SetsAlarm):
    """Read JSON lines on standard input; write outlooks as JSON lines, or draw them on a terminal.

    A line is {"agent": "a", "state": {...}, "reward": -1.2}. The reward is what the agent's last
    action earned, so the first state of a run has none. {"agent": "a", "reward": -1.2, "end": true}
    ends a run, and the agent's next line begins another. The default alarm is the one
    that evaluate checks: at most 5 % of the runs that meet the target raise it. A line that
    cannot be used gets the status UNKNOWN and a reason. With --replay the lines come from recorded
    episodes.
    """

    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file.",
            metavar="MODEL",
            show_default=False,
            callback=model_there,
            is_eager=True,
        ),
    ] = None
    target: ModelTargetOption = None
    server: Annotated[
        str | None,
        option(
            "Send the lines to `ontarget serve` at this URL instead; it has the model and "
            "the target. With --replay, recorded runs are sent to it, all side by side.",
            "URL",
        ),
    ] = None
    fail_on_alarm: Annotated[
        bool, option(f"Exit with {int(Exit.ALARM)} if any alarm was raised.", "", "--fail-on-alarm")
    ] = False
    replay: Annotated[
        Path | None,
        option(
            "Play back recorded episodes instead of reading standard input.",
            "RUNS",
            callback=runs_there,
            is_eager=True,
        ),
    ] = None
    names: Annotated[
        list[str] | None,
        option(
            "Play only the episode with this id; repeat the option to play several together.",
            "ID",
            "--run",
        ),
    ] = None
    speed: Annotated[
        float | None,
        option(
            "How many steps of a replay to play per second.",
            "N",
            show_default=f"{_SPEED} on a terminal",
        ),
    ] = None
    idle: Annotated[
        float | None,
        option(
            "Forget an agent after this many seconds without a line; its next line begins a "
            "new run.",
            "SECONDS",
            show_default="never, but only the latest 10,000 agents are kept",
        ),
    ] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Answer the lines of standard input or of a replay, here or by a service."""
        self._check()
        if self.server is not None:
            from ontarget.cli.replay import answers_of_service

            alarmed = _write(answers_of_service(self.server, self._sent()))
        else:
            alarmed = self._answered()
        if alarmed and self.fail_on_alarm:
            raise typer.Exit(Exit.ALARM)

    def _check(self) -> None:
        """Refuse options that do not fit together."""
        if self.replay is None and (self.names or self.speed is not None):
            raise typer.BadParameter("--run and --speed belong to --replay RUNS")
        if self.replay is None and self.columns:
            raise typer.BadParameter(
                "options that name columns are for --replay RUNS only; leave them out"
            )
        for name, what in {"speed": "steps", "idle": "seconds"}.items():
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise typer.BadParameter(
                    f"--{name} needs a number of {what} above 0, got {value:g}"
                )
        if self.server is None:
            if self.model is None:
                raise typer.BadParameter("pass MODEL, or --server URL")
        elif self.target is not None or (self.model is None) != (self.replay is None):
            raise typer.BadParameter(
                "with --server, leave out MODEL and --target; only --replay RUNS needs MODEL, "
                "which says how to read the runs"
            )

    def _sent(self) -> Iterator[dict[str, Any] | str]:
        """The messages for a service; a text where a line cannot be read."""
        if self.model is None:
            return map(_parsed, (line for line in _lines(_input()) if line is None or line.strip()))
        from ontarget import GoalMonitor
        from ontarget.cli.replay import played_to

        monitor = GoalMonitor.load(self.model)
        return played_to(monitor, self._played(monitor, self.speed, together=True))

    def _answered(self) -> bool:
        """Answer every line with a model, and say whether any alarm was raised."""
        from ontarget import GoalMonitor

        assert self.model is not None  # it was checked
        with working(f"opening {self.model.name}"):
            monitor = GoalMonitor.load(self.model)
            sessions = self._sessions(monitor, target_for(monitor, self.target))
        drawn = sys.stdout.isatty() and not self.as_json
        if self.replay is None:
            answers = _answers(sessions, _lines(_input()))
        else:
            pace = _SPEED if self.speed is None and drawn else self.speed
            answers = map(sessions.answer, self._played(monitor, pace))
        if not drawn:
            return _write(answers)
        one_by_one = self.replay is not None and not self.names
        return _draw(answers, sessions, name=self.model.name, one_by_one=one_by_one)

    def _sessions(self, monitor: GoalMonitor, target: Target | Goal) -> Sessions:
        """What answers each line; an error says which alarm could be promised instead."""
        from ontarget.report.facts import explained

        try:
            return monitor.sessions(
                target, alarm=self.rule, idle_seconds=self.idle, calibration=self.calibration
            )
        except FewEpisodesError as error:
            better = explained(error, monitor.contracts, target)
            asked = self.false_alarm_rate is not None or self.ruled_out is not None
            other = () if asked else ("; or alarm without a promise: ", Argument("alarm_below", _P))
            raise FewEpisodesError(*better.parts, *other) from None

    def _played(
        self, monitor: GoalMonitor, pace: float | None, *, together: bool = False
    ) -> Replay:
        """The recorded runs, as messages."""
        from ontarget.cli.replay import read_replay

        assert self.replay is not None  # it was checked
        return read_replay(
            self.replay,
            monitor,
            self,
            runs=self.names or (),
            steps_per_second=pace,
            together=together,
        )


def _input() -> IO[str]:
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin


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
