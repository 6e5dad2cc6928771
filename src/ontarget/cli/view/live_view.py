"""The live view of ``ontarget watch``: p over time with its range, status, and changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.cli.view.change import ChangeHint
from ontarget.cli.view.chart import outcome_chart, probability_chart
from ontarget.cli.view.course import Course
from ontarget.cli.view.track import Ahead, Place, Track
from ontarget.fitted._kernels import P
from ontarget.goal import Goal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

    from ontarget import Target
    from ontarget.live import Contract, GoalContract, Trigger

COLOURS: Final = {
    "OK": "green",
    "ALARM": "bold red",
    "UNKNOWN": "yellow",
    "DONE": "cyan",
    "PENDING": "dim",
}
_LEVELS: Final = "▁▂▃▄▅▆▇"  # a full block would touch the row above
_FEWEST_ROWS, _MOST_ROWS = 7, 15
_AROUND = 11  # lines of an agent besides its chart: blank, headline, axis, numbers, texts
_BETWEEN = 3  # lines of a second chart: its axis, numbers, and what it shows
_URGENT: Final = {"ALARM": 0, "UNKNOWN": 1, "DONE": 3}
_BROKEN = 20  # letters that a break between two words may leave empty
_SURE = 0.95  # of the range of false alarms that a threshold may have
_LARGE = 2  # up to this many agents get a chart each
_MOST = 1_000  # up to this many agents are kept; beyond, only the latest that still run


@dataclass
class LiveView:
    """All agents of ``ontarget watch`` on one screen; the library rich redraws it when needed."""

    contract: Contract | GoalContract
    name: str
    one_by_one: bool = False  # an agent is removed when the next one starts, as in a replay
    explain: Callable[[str], str] | None = None  # why an agent is in alarm, in a line
    foretell: Callable[[str], Ahead | None] | None = None  # where its run will be
    # What it has, and where it will end: by behavior, or under "" if there is only one.
    locate: Callable[[str], Mapping[str, Place]] | None = None
    change: ChangeHint | None = None  # says when p has become too high
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
        if self.change is not None:
            self.change.update(answer)
        track = self._track(str(answer["agent"]))
        before, closed = track.status, track.over
        # All that takes time comes first, so that a picture never shows half of an answer.
        large = len(self.tracks) <= _LARGE
        ahead = self.foretell(track.agent) if large and self.foretell is not None else None
        places = self.locate(track.agent) if large and self.locate is not None else None
        raised = str(answer["status"]) == "ALARM" != before
        why = self.explain(track.agent) if raised and self.explain is not None else track.why
        track.add(answer)
        track.ahead, track.why = ahead, why
        if places is not None:
            track.stand({} if closed else places)
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
        return self.tracks.setdefault(agent, Track(agent, limit=self._limit))

    @property
    def _limit(self) -> str:
        """Text: at which p the alarm is raised; empty for an alarm that does not compare p."""
        by_p = self.trigger.compared == P and not self.contract.own_rule
        return f"alarm {self.contract.rule.relation} {_percent(self.trigger.threshold)}" * by_p

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the view in the width and height of the terminal."""
        from rich.text import Text

        width, height = options.max_width, options.height or console.height
        yield self._title()
        yield Text(self._promise(), style="dim", overflow="ellipsis", no_wrap=True)
        hint = "" if self.change is None else self.change.in_words
        if hint:
            yield Text(f"! {hint}", style="bold yellow")
        said = 1 + -(-(len(hint) + 2) // width) * bool(hint)  # lines besides the title
        if not self.tracks:
            yield Text("waiting for the first line on standard input", style="dim")
            return
        told = max(len(track.others) for track in self.tracks.values())
        rows = min(2 * _MOST_ROWS, (height - 3 - said) // len(self.tracks) - _AROUND - told)
        if len(self.tracks) <= _LARGE and rows >= _FEWEST_ROWS:
            for track in sorted(self.tracks.values(), key=lambda one: one.agent):
                yield from self._large(track, width, rows)
        else:
            yield self._small(width, max(1, height - 5 - said))
        if self.bad:
            yield Text(self.bad, style="yellow", overflow="ellipsis", no_wrap=True)

    def summary(self) -> str:
        """The text that is printed when there is no more input."""
        return (
            f"{_counted(self.lines, 'line')}, {_counted(self.agents, 'agent')}, "
            f"{_counted(self.runs, 'run')} ended, {_counted(self.alarms, 'alarm')} raised"
        )

    def _title(self) -> Text:
        from rich.text import Text

        trigger, rule = self.trigger, self.contract.rule
        when = f"{rule.relation} {rule.compared_name} = {trigger.threshold:.3g}"
        if self._limit:
            when = f"{rule.relation} p = {_percent(trigger.threshold)}"
        text = Text.assemble(
            (plain(self.name), "bold"),
            f"  target {_target(self.contract.target)}  alarm ",
            type(rule).__name__ if self.contract.own_rule else when,
            overflow="ellipsis",
            no_wrap=True,
        )
        if trigger.for_steps > 1:
            text.append(f" for {trigger.for_steps} steps")
        return text

    def _promise(self) -> str:
        """Text: which false-alarm rate is promised, and what to expect of this threshold."""
        promised, measured = self.trigger.promised, self.trigger.measured
        if promised is not None and self.change is not None and self.change.in_words:
            return "false alarms: no rate is promised since p has become too high"
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

    @property
    def trigger(self) -> Trigger:
        """The thresholds of the alarm rule (`Trigger`) for the first group of runs."""
        return self.contract.triggers[0]

    def _large(self, track: Track, width: int, rows: int) -> RenderResult:
        from rich.text import Text

        yield Text("")
        yield _headline(track, self._steps(track.step))
        threshold = self.trigger.threshold if self.trigger.compared == 0 else math.nan
        horizon, both = self.contract.fitted.horizon, rows >= 2 * _FEWEST_ROWS + _BETWEEN
        high = _odd((rows - _BETWEEN) // 2 if both else rows)
        second = self._outcomes(track, width, high) if both else None
        high = high if second else _odd(min(rows, _MOST_ROWS))
        chart = probability_chart(threshold, horizon, width=width, rows=high)
        yield chart.drawn(track.course, track.step, marked=track.first_alarm)
        every = chart.steps_per_column(track.course, track.step)
        yield Text(_legend(track, every), style="dim", overflow="ellipsis", no_wrap=True)
        if second:
            yield Text(track.legend, style="dim", overflow="ellipsis", no_wrap=True)
            yield second
        elif track.place is not None and not track.over:
            yield Text(track.standing, overflow="ellipsis", no_wrap=True)
        ahead = track.ahead.in_words if track.ahead else ""
        for text in filter(None, (*(() if track.over else track.others), ahead)):
            yield Text(text, overflow="ellipsis", no_wrap=True)
        if track.why and track.status in ("ALARM", "DONE") and track.first_alarm is not None:
            normal = self._normal * ("miss the target" in track.why)
            fits = len(track.why) + len(normal) <= 2 * width - _BROKEN
            yield Text(f"{track.why}{normal * fits}", style="dim")  # it may take two lines
        if track.history:
            yield Text(track.history, style="dim")  # it may take two lines
        if track.unseen:
            yield Text(track.unseen, style="dim", overflow="ellipsis", no_wrap=True)

    def _steps(self, step: int) -> str:
        """The step of a run, and how many steps a run has; that only while it is not exceeded."""
        fitted = self.contract.fitted
        most = f" of {'at most ' * fitted.horizon_declared}{fitted.horizon:,}"
        return f"step {step}{most * (step <= fitted.horizon)}"

    @property
    def _normal(self) -> str:
        """About what share of all recorded runs misses the target; empty if that is not known."""
        target, fitted = self.contract.target, self.contract.fitted
        if isinstance(target, Goal) or fitted.observed is None:
            return ""
        met = target.contains(fitted.observed.outcomes, fitted.grid)
        share = percent(1.0 - float(met.mean()), 0).replace("\u00a0", " ")
        return f" (of all recorded runs, about {share})"

    def _outcomes(self, track: Track, width: int, rows: int) -> Text | None:
        """The chart of a run's behavior so far and its likely outcome; None if nothing is known."""
        target, course = self.contract.target, track.outcomes.get(track.culprit)
        if course is None:
            return None
        if isinstance(target, Goal):
            target = target.projection(track.culprit)
        ends = [end for part in target.components for end in (part.lower, part.upper)]
        horizon, ahead = self.contract.fitted.horizon, track.ahead.ranges if track.ahead else ()
        points = [*course.fitted(width)[1], *ahead]
        chart = outcome_chart(points, ends, horizon, width=width, rows=rows)
        return None if chart is None else chart.drawn(course, track.step, ahead)

    def _small(self, width: int, most: int) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        table.add_column("agent", header_style="dim", no_wrap=True, max_width=16)
        table.add_column("step", justify="right", header_style="dim", no_wrap=True)
        table.add_column("p over time", header_style="dim", no_wrap=True, width=max(10, width // 3))
        table.add_column("now", justify="right", header_style="dim", no_wrap=True)
        wide = width >= 100
        if wide:
            table.add_column("spread", justify="right", header_style="dim", no_wrap=True)
        table.add_column("1st alarm", justify="right", header_style="dim", no_wrap=True)
        table.add_column("last change", header_style="dim", no_wrap=True, ratio=1)
        # Agents that need attention come first; the others keep their place, so rows do not jump.
        ordered = sorted(self.tracks.values(), key=lambda one: _URGENT.get(one.status, 2))
        for track in ordered[:most]:
            low, p, _, high = track.latest
            style = COLOURS.get(track.status, "")
            band = "" if math.isnan(p) else f"{100 * low:.0f}–{percent(high, 0, fixed=True)}"
            table.add_row(
                Text(plain(track.agent) or "–"),  # a plain string would be read as markup
                str(track.step),
                sparkline(track.course, max(10, width // 3)),
                percent(p, fixed=True),
                *([band] if wide else []),
                "" if track.first_alarm is None else f"step {track.first_alarm}",
                Text(track.change),
                style=style if track.status in ("ALARM", "UNKNOWN") else None,
            )
        if len(ordered) > most:
            table.caption = f"and {_counted(len(ordered) - most, 'more agent')}"
            table.caption_justify = "left"
        return table


def sparkline(course: Course, width: int) -> str:
    """The p of a whole run as text: bars of seven heights, and a dot where p is unknown.

    Where several steps share a bar, the bar shows the lowest p.

    Examples
    --------
    >>> from ontarget.cli.view.course import Course, Point
    >>> course = Course()
    >>> for p in (0.0, 0.5, float("nan"), 1.0):
    ...     course.add(Point.of(p, p, p))
    >>> sparkline(course, 10)
    '▁▄·▇'
    """
    return "".join(
        "·" if math.isnan(point.least) else _LEVELS[min(6, int(point.least * 7))]
        for point in course.fitted(width)[1]
    )


def _headline(track: Track, step: str) -> Text:
    from rich.text import Text

    low, p, _, high = track.latest
    text = Text(no_wrap=True, overflow="ellipsis")
    if track.agent:
        text.append(f"{plain(track.agent)}  ", style="bold")
    text.append(f"{step}  ")
    text.append(f"{percent(p, fixed=True)} ", style=COLOURS.get(track.status, ""))
    if not math.isnan(p) and high > low:
        spread = f"(spread {percent(low, fixed=True)} to {percent(high, fixed=True)}) "
        text.append(spread, style="dim")
    said = "OK, no alarm" if track.status == "OK" else track.status
    text.append(said, style=COLOURS.get(track.status, ""))
    if track.status == "DONE" and p in (0.0, 1.0):
        text.append(f", target {'met' if p else 'missed'}", style="green" if p else "bold red")
    each = [f"{plain(name)} {percent(p, fixed=True)}" for name, p in track.by_p]
    if each:
        text.append(f"   alone: {', '.join(each)}", style="dim")
    return text


def _legend(track: Track, every: int) -> str:
    """Text: what the marks in the chart of p mean."""
    alarmed = track.first_alarm is not None
    below = "   ▼ p below the alarm's limit" * bool(track.limit)
    first = f"   ▲ first alarm, step {track.first_alarm}" * alarmed
    joined = f"   {every:,} steps per column" * (every > 1)
    return f"● p{below}{first}   ░ spread of p{joined}"


def _percent(share: float) -> str:
    return percent(share).replace("\u00a0", " ")


def _target(target: Target | Goal) -> str:
    from ontarget.report._words import target_in_words

    return target_in_words(target)


def _odd(rows: int) -> int:
    """The number of rows, or one fewer, so that one of them is in the middle."""
    return rows - (rows + 1) % 2


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
