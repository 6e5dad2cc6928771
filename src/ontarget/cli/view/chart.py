"""A run drawn with letters: its probability from 0 to 100 % over the steps to the horizon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["Chart"]

_LABEL = 7  # "100 % ┤"


@dataclass(frozen=True)
class Chart:
    """● is p, ░ its band, ┄ the alarm's threshold.

    Parameters
    ----------
    threshold
        Where the alarm is raised.
    horizon
        The last step of a run; a run that is too long for the width shows its latest steps.
    width
        How many letters fit into a line.
    rows
        How many lines from 0 to 100 %.
    """

    threshold: float
    horizon: int
    width: int
    rows: int

    def drawn(self, points: Sequence[tuple[float, float, float]], step: int) -> Text:
        """The points (low, p, high), of which the last is this step's."""
        from rich.text import Text

        room = max(10, self.width - _LABEL)
        shown = list(points)[-room:]
        first = max(0, step - len(shown) + 1)
        columns = max(min(room, self.horizon + 1 - first), len(shown))
        text = Text(no_wrap=True, overflow="crop")
        limit = -1 if math.isnan(self.threshold) else self._row(self.threshold)
        for row in range(self.rows - 1, -1, -1):
            label = {self.rows - 1: "100 %", self.rows // 2: "50 %", 0: "0 %"}.get(row, "")
            text.append(f"{label:>5} ┤", style="dim")
            for point in shown:
                text.append(*self._cell(point, row, limit))
            if row == limit:
                text.append("┄" * (columns - len(shown)), style="red")
                text.append(" alarm" * (columns + 6 <= room), style="red")
            text.append("\n")
        return text.append(_axis(first, columns, room), style="dim")

    def _cell(self, point: tuple[float, float, float], row: int, limit: int) -> tuple[str, str]:
        """The letter of a point in a row, and its style."""
        low, p, high = point
        if math.isnan(p):
            return ("?", "yellow") if row == 0 else (" ", "")
        if self._row(p) == row:
            return "●", "bold red" if p < self.threshold else "green"
        if self._row(low) <= row <= self._row(high):
            return "░", "blue"
        return ("┄", "red") if row == limit else (" ", "")

    def _row(self, share: float) -> int:
        return min(self.rows - 1, max(0, round(share * (self.rows - 1))))


def _axis(first: int, columns: int, room: int) -> str:
    """The line below the chart, and the numbers of the steps below that.

    Examples
    --------
    >>> print(_axis(8, 16, room=20))
          └──┬────┬────┬───
     step    10   15   20
    """
    apart = 2 if columns <= 12 else 5 if columns <= 30 else 10
    line, numbers = ["─"] * columns, ""
    for at in range(-first % apart, columns, apart):
        if at + len(str(first + at)) <= room:  # at the edge it would stick out
            line[at] = "┬"
            numbers = numbers.ljust(at) + str(first + at)
    return f"{'└':>{_LABEL}}{''.join(line)}\n{'step':>{_LABEL - 2}}  {numbers}"
