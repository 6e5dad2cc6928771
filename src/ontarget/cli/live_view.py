"""The live view of ``ontarget watch``: probability with its band over time, state, last change."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ontarget.cli.printing import percent

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

    from ontarget import Target
    from ontarget.monitor import AlarmRule

__all__ = ["COLOURS", "LiveView", "Track", "chart", "sparkline"]

COLOURS: Final = {
    "OK": "green",
    "ALARM": "bold red",
    "UNKNOWN": "yellow",
    "DONE": "cyan",
    "PENDING": "dim",
}
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_KEPT = 400  # points of a run: more than any terminal is wide
_ROWS = 9
_URGENT: Final = {"ALARM": 0, "UNKNOWN": 1, "DONE": 3}
_LARGE = 2  # so many agents get a chart of their own
_MOST = 1_000  # so many agents are kept; more, and those whose runs are over go


@dataclass
class Track:
    """What was seen of one agent: points (low, p, high) of the present run, and its state."""

    agent: str
    points: deque[tuple[float, float, float]] = field(
        default_factory=lambda: deque[tuple[float, float, float]](maxlen=_KEPT)
    )
    step: int = 0
    state: str = "PENDING"
    change: str = ""
    over: bool = False

    def add(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer."""
        if self.over and answer.get("end"):
            return  # the horizon has closed this run already
        if self.over:
            self.points.clear()
            self.over, self.state = False, "PENDING"
        state, self.step = str(answer["state"]), int(answer.get("t", self.step))
        numbers = tuple(answer.get(name) for name in ("low", "p", "high"))
        known = [math.nan if number is None else float(number) for number in numbers]
        self.points.append((known[0], known[1], known[2]))
        if state != self.state:
            reason = str(answer.get("reason") or "")
            self.change = f"{state} at step {self.step}" + (f": {reason}" if reason else "")
        self.state = state
        self.over = bool(answer.get("end")) or state == "DONE"

    @property
    def p(self) -> float:
        """The latest probability; NaN where it is unknown."""
        return self.points[-1][1] if self.points else math.nan


@dataclass
class LiveView:
    """All agents at a glance; rich draws it anew whenever it is asked to."""

    target: Target
    rule: AlarmRule
    name: str
    one_by_one: bool = False  # an agent goes when the next one comes, as in a replay
    tracks: dict[str, Track] = field(default_factory=dict)
    lines: int = 0
    agents: int = 0
    runs: int = 0
    alarms: int = 0
    bad: str = ""

    def update(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer of the stream."""
        self.lines += 1
        if "agent" not in answer:
            self.bad = f"line {answer.get('line')}: {answer.get('reason')}"
            return
        track = self._track(str(answer["agent"]))
        before, closed = track.state, track.over
        track.add(answer)
        self.alarms += track.state == "ALARM" != before
        self.runs += track.over and not closed

    def _track(self, agent: str) -> Track:
        if agent in self.tracks:
            return self.tracks[agent]
        if self.one_by_one:
            self.tracks.clear()
        elif len(self.tracks) >= _MOST:
            self.tracks = {name: one for name, one in self.tracks.items() if not one.over}
        self.agents += 1
        return self.tracks.setdefault(agent, Track(agent))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw for the width and the height there are."""
        from rich.text import Text

        width, height = options.max_width, options.height or console.height
        yield self._title()
        if not self.tracks:
            yield Text("waiting for the first line on standard input", style="dim")
            return
        if len(self.tracks) <= _LARGE and height >= 2 + len(self.tracks) * (_ROWS + 4):
            for track in sorted(self.tracks.values(), key=lambda one: one.agent):
                yield from self._large(track, width)
        else:
            yield self._small(width, max(1, height - 5))
        if self.bad:
            yield Text(self.bad, style="yellow", overflow="ellipsis", no_wrap=True)

    def summary(self) -> str:
        """What is left to say when the stream is over."""
        return (
            f"{_counted(self.lines, 'line')}, {_counted(self.agents, 'agent')}, "
            f"{_counted(self.runs, 'run')} ended, {_counted(self.alarms, 'alarm')} raised"
        )

    def _title(self) -> Text:
        from rich.text import Text

        promised = self.rule.promised
        text = Text.assemble(
            (self.name, "bold"),
            f"  target {self.target}  alarm below {self.rule.threshold:.3g}",
            overflow="ellipsis",
            no_wrap=True,
        )
        if self.rule.for_steps > 1:
            text.append(f" for {self.rule.for_steps} steps")
        if promised is not None:
            text.append(f" ({promised.rate:.3g} false alarms promised)", style="dim")
        return text

    def _large(self, track: Track, width: int) -> RenderResult:
        from rich.text import Text

        yield Text("")
        yield _headline(track)
        yield chart(track, self.rule.threshold, width)
        yield Text(track.change, style="dim", overflow="ellipsis", no_wrap=True)

    def _small(self, width: int, most: int) -> RenderableType:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        table.add_column("agent", header_style="dim", no_wrap=True, max_width=16)
        table.add_column("step", justify="right", header_style="dim", no_wrap=True)
        table.add_column("p over time", header_style="dim", no_wrap=True, width=max(10, width // 3))
        table.add_column("now", justify="right", header_style="dim", no_wrap=True)
        table.add_column("band", justify="right", header_style="dim", no_wrap=True)
        table.add_column("last change", header_style="dim", no_wrap=True, ratio=1)
        # Who needs a look comes first; the others keep their place, so that rows do not jump.
        ordered = sorted(self.tracks.values(), key=lambda one: _URGENT.get(one.state, 2))
        for track in ordered[:most]:
            low, p, high = track.points[-1]
            style = COLOURS.get(track.state, "")
            table.add_row(
                track.agent or "–",
                str(track.step),
                sparkline([point[1] for point in track.points], max(10, width // 3)),
                _percent(p),
                "" if math.isnan(p) else f"{100 * low:.0f}–{percent(high, 0)}",
                track.change,
                style=style if track.state in ("ALARM", "UNKNOWN") else None,
            )
        if len(ordered) > most:
            table.caption = f"and {_counted(len(ordered) - most, 'more agent')}"
            table.caption_justify = "left"
        return table


def sparkline(values: list[float], width: int) -> str:
    """The latest values as bars an eighth of a line high; a dot where one is unknown.

    Examples
    --------
    >>> sparkline([0.0, 0.5, float("nan"), 1.0], 10)
    '▁▅·█'
    """
    return "".join(
        "·" if math.isnan(value) else _LEVELS[min(7, int(value * 8))] for value in values[-width:]
    )


def chart(track: Track, threshold: float, width: int, rows: int = _ROWS) -> Text:
    """One run drawn from 0 to 100 %: ● is p, ░ its band, ┄ the alarm's threshold."""
    from rich.text import Text

    columns = list(track.points)[-max(10, width - 8) :]
    text = Text(no_wrap=True, overflow="crop")
    limit = _row(threshold, rows)
    for row in range(rows - 1, -1, -1):
        label = {rows - 1: "100 %", rows // 2: "50 %", 0: "0 %"}.get(row, "")
        text.append(f"{label:>5} ┤", style="dim")
        for low, p, high in columns:
            if math.isnan(p):
                text.append("?" if row == 0 else " ", style="yellow")
            elif _row(p, rows) == row:
                text.append("●", style="bold red" if p < threshold else "green")
            elif _row(low, rows) <= row <= _row(high, rows):
                text.append("░", style="blue")
            else:
                text.append("┄" if row == limit else " ", style="dim red")
        if row == limit:
            text.append("┄" * max(0, min(width - 8 - len(columns), 20)), style="dim red")
            text.append(" alarm" if len(columns) + 34 < width else "", style="dim red")
        text.append("\n" if row else "")
    return text


def _headline(track: Track) -> Text:
    from rich.text import Text

    low, p, high = track.points[-1]
    text = Text(no_wrap=True, overflow="ellipsis")
    if track.agent:
        text.append(f"{track.agent}  ", style="bold")
    text.append(f"step {track.step}  ")
    text.append(f"{_percent(p)} ", style=COLOURS.get(track.state, ""))
    if not math.isnan(p) and high > low:
        text.append(f"({percent(low)} to {percent(high)}) ", style="dim")
    text.append(track.state, style=COLOURS.get(track.state, ""))
    return text


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _row(share: float, rows: int) -> int:
    return min(rows - 1, max(0, round(share * (rows - 1))))


def _percent(share: float) -> str:
    return "?" if math.isnan(share) else percent(share)
