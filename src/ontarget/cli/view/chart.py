"""Draws a run with text characters: a value and its range at each step, up to the horizon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ontarget._numerals import percent
from ontarget.cli.view.course import Course, Point, joined_by
from ontarget.cli.view.digits import alike

if TYPE_CHECKING:
    from rich.text import Text

_SINGLE = "●▼?"  # marks of one letter, however wide a column is
_EDGE = 9  # letters left of a chart, so that two of them stand in line
_NAMES = 16  # letters for the name of a line and its value
_WIDEST = 6
_AMPLE = 40  # columns that are enough for a run, so that a line's name gets the rest


class Line(NamedTuple):
    """A horizontal line across a chart: an alarm's threshold, or a limit of the target."""

    value: float
    name: str
    style: str


@dataclass(frozen=True)
class Chart:
    """How to draw a run with text characters.

    ● is the value at a step, ░ the range around it, ▒ the predicted range at a later step, and ┄ a
    line across the chart. On the axis, ▲ marks a step.

    Parameters
    ----------
    bottom, top
        The values of the lowest and the highest row.
    labels
        The texts to the left of the highest, the middle and the lowest row.
    lines
        The lines to draw across the whole chart.
    horizon
        The number of steps of a complete run. Columns are kept for the steps to come, up to the
        end of the run if there are enough columns.
    width
        How many characters fit into a line. If a run has more steps, several steps share a column.
    rows
        How many lines of text the chart has from the bottom to the top.
    colour
        The colour of the value's character.
    unknown
        The character below a step at which nothing is known about the run.
    mark
        The character that is drawn for a value.
    """

    bottom: float
    top: float
    labels: tuple[str, str, str]
    lines: Sequence[Line]
    horizon: int
    width: int
    rows: int
    colour: Callable[[Point], str]
    unknown: str = "?"
    mark: Callable[[Point], str] = lambda point: "●"

    def drawn(
        self, course: Course, step: int, ahead: Sequence[Point] = (), marked: int | None = None
    ) -> Text:
        """The chart of a run as text: its values up to ``step``, and ranges for later steps.

        ``marked`` is a step to mark on the axis.
        """
        from rich.text import Text

        edge, room = self._edge, self._room
        first = max(0, step - course.steps + 1)
        every, points = course.fitted(room, whole=self.horizon + 1 - first)
        to_come = -(-(self.horizon + 1 - first) // every)
        columns = max(min(room, to_come), len(points))
        later = joined_by(every, ahead)[: columns - len(points)]
        wide = max(1, min(_WIDEST, room // columns))  # letters for each point of a short run
        marks = {self._row(line.value): line for line in self.lines if self._shows(line.value)}
        named = {self.rows - 1: self.labels[0], self.rows // 2: self.labels[1], 0: self.labels[2]}
        text = Text(no_wrap=True, overflow="crop")
        for row in range(self.rows - 1, -1, -1):
            text.append(f"{named.get(row, ''):>{edge - 2}} ┤", style="dim")
            line = marks.get(row)
            for point in points:
                letter, style = self._cell(point, row, line)
                text.append(letter if letter in _SINGLE else letter * wide, style)
                if letter in _SINGLE:  # the band goes on beside it
                    text.append(*self._around(point, row, line, wide - 1))
            for point in later:
                inside = self._row(point.low) <= row <= self._row(point.high)
                style = "dim" if line is None else line.style
                text.append(*(("▒" * wide, style) if inside else self._empty(line, wide)))
            if line is not None:
                text.append("┄" * wide * (columns - len(points) - len(later)), style=line.style)
                fits = wide * columns + len(line.name) + 1 <= self.width - edge
                text.append(f" {line.name}" * fits, style=line.style)
            text.append("\n")
        axis = _axis(first, columns, room, (every, wide), edge=edge, marked=marked)
        return text.append(axis, style="dim")

    def steps_per_column(self, course: Course, step: int) -> int:
        """How many steps share a column when `drawn` draws this course."""
        first = max(0, step - course.steps + 1)
        return course.fitted(self._room, whole=self.horizon + 1 - first)[0]

    @property
    def _edge(self) -> int:
        """How many letters stand to the left of the columns."""
        return max(_EDGE, *(len(label) + 2 for label in self.labels))

    @property
    def _room(self) -> int:
        """How many letters there are for the columns; the names of lines get the others."""
        room = max(10, self.width - self._edge)
        names = max((1 + len(line.name) for line in self.lines), default=0)
        names = max(names, _NAMES)  # so that the steps of two charts stand in line
        return room - names * (room - names >= _AMPLE)

    def _cell(self, point: Point, row: int, line: Line | None) -> tuple[str, str]:
        """The character to draw for a point in a row of the chart, and its style."""
        if math.isnan(point.least):
            return (self.unknown, "yellow") if row == 0 else (" ", "")
        if self._row(point.least) <= row <= self._row(point.most):
            return self.mark(point), self.colour(point)
        return self._around(point, row, line, 1)

    def _around(self, point: Point, row: int, line: Line | None, wide: int) -> tuple[str, str]:
        """The character beside a point's mark in a row of the chart, and its style.

        It is the point's range, a line across the chart, or a blank. Where a line crosses the
        range, the range has the line's colour.
        """
        inside = self._row(point.low) <= row <= self._row(point.high)
        if math.isnan(point.low) or not inside:
            return self._empty(line, wide)
        return "░" * wide, "blue" if line is None else line.style

    def _empty(self, line: Line | None, wide: int = 1) -> tuple[str, str]:
        return (" " * wide, "") if line is None else ("┄" * wide, line.style)

    def _shows(self, value: float) -> bool:
        return self.bottom <= value <= self.top

    def _row(self, value: float) -> int:
        if math.isnan(value):
            return -1
        share = (min(max(value, self.bottom), self.top) - self.bottom) / (self.top - self.bottom)
        return round(share * (self.rows - 1))


def probability_chart(threshold: float, horizon: int, *, width: int, rows: int) -> Chart:
    """A chart of p from 0 to 100 %; a red ▼ marks a p below the alarm threshold.

    A threshold of NaN means that there is none.
    """
    return Chart(
        bottom=0.0,
        top=1.0,
        labels=("100 %", " 50 %", "  0 %"),
        lines=[Line(threshold, f"alarm {percent(threshold)}".replace("\u00a0", " "), "red")],
        horizon=horizon,
        width=width,
        rows=rows,
        colour=lambda point: "bold red" if point.least < threshold else "green",
        mark=lambda point: "▼" if point.least < threshold else "●",
    )


def outcome_chart(
    points: Sequence[Point], ends: Sequence[float], horizon: int, *, width: int, rows: int
) -> Chart | None:
    """A chart of the behavior, scaled to show these points and the target; None without points.

    ``points`` are the run's past and predicted values, ``ends`` the two limits of the target.
    """
    numbers = [value for point in points for value in point]
    known = [value for value in numbers if math.isfinite(value)]
    if not known:
        return None
    target = [end for end in ends if math.isfinite(end)]
    bottom, top = min([*known, *target]), max([*known, *target])
    top = top if bottom < top else bottom + 1.0
    high, middle, low, *ended = alike(top, (bottom + top) / 2.0, bottom, *target)
    return Chart(
        bottom=bottom,
        top=top,
        labels=(high, middle, low),
        lines=[
            Line(end, f"target {text}", "magenta") for end, text in zip(target, ended, strict=True)
        ],
        horizon=horizon,
        width=width,
        rows=rows,
        colour=lambda point: "cyan",
        unknown=" ",  # the chart above says so, and a run that is over has no range
    )


def _axis(
    first: int,
    columns: int,
    room: int,
    scale: tuple[int, int] = (1, 1),
    *,
    edge: int = 7,
    marked: int | None = None,
) -> str:
    """The line below the chart, and below that the numbers of the steps.

    ``scale`` is how many steps share a column, and how many characters wide a column is. A
    ``marked`` step has a ▲ on the line.

    Examples
    --------
    >>> print(_axis(8, 16, room=20))
          └──┬────┬────┬───
     step    10   15   20
    """
    every, wide = scale
    apart = 10 if every > 1 or columns > 30 else 5 if columns > 12 else 2
    line, numbers = ["─"] * (columns * wide), ""
    for column in range(-(first // every) % apart, columns, apart):
        step, at = str(first + column * every), column * wide
        if at + len(step) <= room:  # at the edge it would stick out
            line[at] = "┬"
            numbers = numbers.ljust(at) + step
    if marked is not None and 0 <= (column := (marked - first) // every) < columns:
        line[column * wide] = "▲"
    return f"{'└':>{edge}}{''.join(line)}\n{'step':>{edge - 2}}  {numbers}"
