"""What `ontarget watch` draws on a terminal: p of a run as bars, or a row for each of many runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ontarget._text import percent, plain
from ontarget.fitted._kernels import P

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

    from ontarget.live import Contract, Trigger

_COLOURS: Final = {"OK": "green", "ALARM": "bold red", "UNKNOWN": "yellow", "DONE": "cyan"}
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_URGENT: Final = {"ALARM": 0, "UNKNOWN": 1, "DONE": 3}
_EDGE: Final = 7  # letters left of the bars
_NAME: Final = 16  # letters right of the bars, for the name of the alarm's line
_FEWEST_ROWS, _MOST_ROWS = 3, 10  # of the bars
_AROUND: Final = 12  # lines besides the bars
_WIDEST: Final = 4  # letters of a bar
_SHOWN: Final = 8  # a run takes at least one part in so many of the chart
_KEPT: Final = 1_000  # numbers of a run: far more than any terminal is wide
_MOST: Final = 1_000  # agents that are kept; beyond, only the latest that still run
_ONE_LINE: Final[dict[str, Any]] = {"overflow": "ellipsis", "no_wrap": True}
_SURE: Final = 0.95  # of the range of false alarms that a threshold may have


@dataclass
class Course:
    """p of a run from its first step to now; neighbours share a number if the run is long.

    Examples
    --------
    >>> course = Course()
    >>> for p in (0.0, 0.5, float("nan"), 1.0):
    ...     course.add(p)
    >>> course.line(10), course.line(2)
    ('▁▄·▇', '▁▇')
    """

    steps: int = 0
    _every: int = 1  # steps in each number; the last may hold fewer
    _lowest: list[float] = field(default_factory=list)

    def add(self, p: float) -> None:
        """Add p of the next step; NaN if it is unknown."""
        if self.steps % self._every:
            self._lowest[-1] = _lowest([self._lowest[-1], p])
        else:
            self._lowest.append(p)
        self.steps += 1
        if len(self._lowest) > _KEPT:
            self._lowest, self._every = list(_joined(self._lowest, 2)), 2 * self._every

    def fitted(self, room: int, whole: int) -> tuple[int, list[float]]:
        """How many steps share a bar if ``whole`` steps get ``room`` bars, and the lowest p's."""
        size = max(1, -(-whole // (room * self._every)))
        return size * self._every, list(_joined(self._lowest, size))

    def line(self, room: int) -> str:
        """The whole run in at most ``room`` letters: bars, and a dot where p is unknown."""
        _, lowest = self.fitted(room, self.steps)
        # A full block would touch the row above.
        return "".join("·" if math.isnan(p) else _BLOCKS[1 + min(6, int(7 * p))] for p in lowest)


def _joined(values: list[float], size: int) -> Iterator[float]:
    return (_lowest(values[at : at + size]) for at in range(0, len(values), size))


def _lowest(values: list[float]) -> float:
    return min((one for one in values if not math.isnan(one)), default=math.nan)


@dataclass
class Track:
    """What the answers said about one agent's present run."""

    agent: str
    course: Course = field(default_factory=Course)
    step: int = 0
    p: float = math.nan
    spread: tuple[float, float] | None = None
    status: str = "PENDING"
    change: str = ""  # the last change of the status, and why
    reason: str = ""  # why p is unknown now
    first_alarm: int | None = None  # its step
    over: bool = False
    so_far: str = ""  # what the run has
    why: str = ""  # what moved p to the last alarm
    unseen: str = ""  # readings of categories that nobody knows
    parts: str = ""  # p of each of several behaviors, the lowest first

    def add(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer about the agent's run; after the end of one, a new one begins."""
        if self.over and answer.get("end"):
            return  # the run already ended at the horizon
        if self.over:
            self.course, self.first_alarm, self.change, self.why = Course(), None, "", ""
            self.status = "PENDING"
        before, self.status = self.status, str(answer["status"])
        self.step, p = int(answer.get("t", self.step)), answer.get("p")
        self.p = math.nan if p is None else float(p)
        self.spread = answer.get("spread")
        self.course.add(self.p)
        if self.status == "ALARM" and self.first_alarm is None:
            self.first_alarm = self.step
        reason = plain(answer.get("reason") or "")
        self.reason = reason if math.isnan(self.p) else ""
        if self.status != before and (self.status != "OK" or self.change):
            told = "" if reason.startswith("p = ") or self.reason else reason
            told = f"p = {percent(self.p, fixed=True)}" if self.status == "ALARM" else told
            self.change = f"{self.status} at step {self.step}" + f": {told}" * bool(told)
        self.over = bool(answer.get("end")) or self.status == "DONE"
        unseen = (answer.get("unseen") or {}).items()
        told = ", ".join(f"{plain(name)} {plain(value)!r}" for name, value in unseen)
        self.unseen = f"no recorded run had {told}: it counts as missing" if told else ""
        each = [(p, name) for name, p in (answer.get("parts") or {}).items() if p is not None]
        self.parts = ", ".join(
            f"{plain(name)} {percent(p, fixed=True)}" for p, name in sorted(each)
        )


@dataclass
class LiveView:
    """All agents of ``ontarget watch`` on one screen; the library rich redraws it when needed."""

    contract: Contract
    name: str
    one_by_one: bool = False  # an agent is removed when the next one starts, as in a replay
    explain: Callable[[str], str] | None = None  # why an agent is in alarm, in a line
    so_far: Callable[[str], str] | None = None  # what an agent's run has, in words
    tracks: dict[str, Track] = field(default_factory=dict)
    lines: int = 0
    agents: int = 0
    runs: int = 0
    alarms: int = 0
    bad: str = ""

    def update(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer about a run."""
        self.lines += 1
        if "agent" not in answer:
            self.bad = f"line {answer.get('line')}: {plain(answer.get('reason'))}"
            return
        track = self._track(str(answer["agent"]))
        raised, closed = answer["status"] == "ALARM" != track.status, track.over
        # What takes time comes first, so that a picture never shows half of an answer.
        why = self.explain(track.agent) if raised and self.explain is not None else ""
        alone = len(self.tracks) == 1
        so_far = self.so_far(track.agent) if alone and self.so_far is not None else ""
        track.add(answer)
        track.why, track.so_far = why or track.why, so_far
        self.alarms += raised
        self.runs += track.over and not closed

    def _track(self, agent: str) -> Track:
        if agent in self.tracks:
            return self.tracks[agent]
        if self.one_by_one:
            self.tracks.clear()
        elif len(self.tracks) >= _MOST:
            running = [(name, one) for name, one in self.tracks.items() if not one.over]
            self.tracks = dict(running[-_MOST // 2 :])
        self.agents += 1
        return self.tracks.setdefault(agent, Track(agent))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the view in the width and height of the terminal."""
        from rich.text import Text

        width, height = options.max_width, options.height or console.height
        yield Text.assemble((plain(self.name), "bold"), f"  {self._title()}", **_ONE_LINE)
        yield Text(self._promise(), style="dim", **_ONE_LINE)
        if not self.tracks:
            yield Text("waiting for the first line on standard input", style="dim")
        elif len(self.tracks) == 1 and height >= _AROUND + _FEWEST_ROWS:
            (track,) = self.tracks.values()
            yield from self._run(track, width, min(_MOST_ROWS, height - _AROUND))
        else:
            yield self._table(width, max(1, height - 6))
        if self.bad:
            yield Text(self.bad, style="yellow", **_ONE_LINE)

    def summary(self) -> str:
        """The text that is printed when there is no more input."""
        return (
            f"{_counted(self.lines, 'line')}, {_counted(self.agents, 'agent')}, "
            f"{_counted(self.runs, 'run')} ended, {_counted(self.alarms, 'alarm')} raised"
        )

    @property
    def _trigger(self) -> Trigger:
        """The alarm's limits for the first group of runs."""
        return self.contract.triggers[0]

    def _title(self) -> str:
        from ontarget.report.page import target_in_words

        trigger, rule = self._trigger, self.contract.rule
        limit = _percent(trigger.threshold) if trigger.compared == P else f"{trigger.threshold:.3g}"
        when = f"{rule.relation} {rule.compared_name} = {limit}"
        when = type(rule).__name__ if self.contract.own_rule else when
        lasting = f" for {trigger.for_steps} steps" * (trigger.for_steps > 1)
        return f"target {target_in_words(self.contract.target)}  alarm {when}{lasting}"

    def _promise(self) -> str:
        """Text: which false-alarm rate is promised, and what to expect of this threshold."""
        promised, measured = self._trigger.promised, self._trigger.measured
        if promised is not None:
            said = f"false alarms: at most {_percent(promised.rate)} promised"
            if promised.confidence is not None:
                return f"{said}, with {_percent(promised.confidence)} confidence"
            low, high = promised.spread(_SURE)
            likely = f"{100 * low:.1f} to {percent(high, fixed=True)}"
            return f"{said} on average; {likely} likely for this threshold ({_percent(_SURE)})"
        if measured is not None:
            return f"false alarms: {_percent(measured.rate)}, measured, not promised"
        return "" if self.contract.rule.needs_assure else "your own limit, nothing promised"

    def _run(self, track: Track, width: int, rows: int) -> RenderResult:
        from rich.text import Text

        fitted, colour = self.contract.fitted, _COLOURS.get(track.status, "")
        most = f" of {'at most ' * fitted.horizon_declared}{fitted.horizon:,}"
        head = Text(**_ONE_LINE)
        head.append(f"{plain(track.agent)}  " * bool(track.agent), style="bold")
        head.append(f"step {track.step}{most * (track.step <= fitted.horizon)}  ")
        head.append(f"{percent(track.p, fixed=True)} ", style=colour)
        head.append("OK, no alarm" if track.status == "OK" else track.status, style=colour)
        if track.status == "DONE" and track.p in (0.0, 1.0):
            met = track.p == 1.0
            head.append(f", target {'met' if met else 'missed'}", "green" if met else "bold red")
        if track.spread is not None and track.spread[1] > track.spread[0]:
            low, high = (percent(end, fixed=True) for end in track.spread)
            head.append(f"  (spread {low} to {high})", style="dim")
        yield Text("")
        yield head
        yield self._bars(track, width, rows)
        first = "" if track.first_alarm is None else f"▲ first alarm, step {track.first_alarm}"
        alone = f"alone: {track.parts}" * bool(track.parts)
        yield Text("   ".join(filter(None, (track.so_far, alone, first))), **_ONE_LINE)
        why = track.why if track.status in ("ALARM", "DONE") else ""
        for text in filter(None, (track.change, track.reason, why, track.unseen)):
            yield Text(text, style="dim")

    def _bars(self, track: Track, width: int, rows: int) -> Text:
        """A bar for p of each step, with the limit of the alarm as a line across."""
        from rich.text import Text

        course, trigger = track.course, self._trigger
        limit = trigger.threshold if trigger.compared == P else math.nan
        room = max(10, width - _EDGE - _NAME * (width >= 60))
        first = max(0, track.step + 1 - course.steps)  # an agent may be heard of late
        whole = max(self.contract.fitted.horizon + 1 - first, course.steps)
        whole = min(whole, max(room, _SHOWN * course.steps))
        every, lowest = course.fitted(room, whole)
        columns = max(-(-whole // every), len(lowest))
        wide = max(1, min(_WIDEST, room // columns))
        empty, labels = wide * (columns - len(lowest)), {rows - 1: "100 %", rows // 2: "50 %"}
        text = Text(no_wrap=True, overflow="crop")
        for row in range(rows - 1, -1, -1):
            line = not math.isnan(limit) and row == min(rows - 1, int(limit * rows))
            text.append(f"{labels.get(row, '0 %' if row == 0 else ''):>{_EDGE - 2}} ┤", style="dim")
            for p in lowest:
                letter, style = _cell(p, row, rows, line)
                text.append(letter * wide, style or ("red" if p < limit else "green"))
            text.append(("┄" if line else " ") * empty, style="red")
            text.append(f" alarm {_percent(limit)}" * (line and width >= 60), style="red")
            text.append("\n")
        axis, last = ["─"] * (columns * wide), f"{first + whole - 1:,}"
        at = -1 if track.first_alarm is None else (track.first_alarm - first) // every
        if 0 <= at < columns:
            axis[wide * at] = "▲"
        numbers = f"{'step':>{_EDGE - 2}}  {first:<{max(2, columns * wide - len(last))}}{last}"
        return text.append(f"{'└':>{_EDGE}}{''.join(axis)}\n{numbers}", style="dim")

    def _table(self, width: int, most: int) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        right: dict[str, Any] = {"justify": "right", "header_style": "dim", "no_wrap": True}
        table.add_column("agent", header_style="dim", no_wrap=True, max_width=16)
        table.add_column("step", **right)
        bars = max(10, width // 3)
        table.add_column("p over time", header_style="dim", no_wrap=True, width=bars)
        table.add_column("now", **right)
        table.add_column("1st alarm", **right)
        table.add_column("last change", header_style="dim", no_wrap=True, ratio=1)
        # Agents that need attention come first; the others keep their place, so rows do not jump.
        ordered = sorted(self.tracks.values(), key=lambda one: _URGENT.get(one.status, 2))
        for track in ordered[:most]:
            table.add_row(
                Text(plain(track.agent) or "–"),  # a plain string would be read as markup
                f"{track.step}",
                track.course.line(bars),
                percent(track.p, fixed=True),
                "" if track.first_alarm is None else f"step {track.first_alarm}",
                Text(track.reason or track.change),
                style=_COLOURS[track.status] if _URGENT.get(track.status, 2) < 2 else None,
            )
        if len(ordered) > most:
            table.caption = f"and {_counted(len(ordered) - most, 'more agent')}"
            table.caption_justify = "left"
        return table


def _cell(p: float, row: int, rows: int, line: bool) -> tuple[str, str]:
    """The letter of a bar in a row of the chart, and its style if it is not the bar's own."""
    if math.isnan(p):
        return ("?", "yellow") if row == 0 else ("┄", "red") if line else (" ", "")
    eighths = max(1, round(8 * rows * p)) - 8 * row
    if line and not 0 < eighths < 8:
        return "┄", "red on green" if eighths > 0 else "red"
    return _BLOCKS[min(8, max(0, eighths))], ""


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _percent(share: float) -> str:
    return percent(share).replace("\u00a0", " ")
