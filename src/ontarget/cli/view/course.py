"""`Course`: all of a run so far, thinned out so that any length can be kept and drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_FEWEST = 8  # points of a run that are drawn, if it has so many, before its end is in sight
_MOST = 1_000  # points that are kept: far more than any terminal is wide


class Point(NamedTuple):
    """A value of a run, with the range from ``low`` to ``high`` around it.

    A point may stand for several steps. Their values then go from ``least`` to ``most``, and the
    range covers their ranges; for a single step, ``least`` and ``most`` are equal.
    """

    low: float
    least: float
    most: float
    high: float

    @classmethod
    def of(cls, low: float, value: float, high: float) -> Point:
        """The point of one step: its value, and the range from ``low`` to ``high``."""
        return cls(low, value, value, high)


@dataclass
class Course:
    """The values of a run at each step from its first step to now, with ranges around them.

    Examples
    --------
    >>> course = Course()
    >>> for value in (0.5, 0.1, 0.9):
    ...     course.add(Point.of(0.0, value, 1.0))
    >>> every, points = course.fitted(2)
    >>> every, points[0]
    (2, Point(low=0.0, least=0.1, most=0.5, high=1.0))
    """

    steps: int = 0
    _every: int = 1  # steps in each point; the last may hold fewer
    _points: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """Add the point of the next step."""
        if self.steps % self._every:
            self._points[-1] = _joined([self._points[-1], point])
        else:
            self._points.append(point)
        self.steps += 1
        if len(self._points) > _MOST:
            self._points, self._every = joined_by(2, self._points), 2 * self._every

    def fitted(self, room: int, *, whole: int = 0) -> tuple[int, list[Point]]:
        """The run in at most ``room`` points: how many steps each stands for, and the points.

        ``whole`` is the expected number of steps of the complete run. Places are kept for the steps
        to come, unless too few points would then be left to show the run so far.
        """
        every = self._every
        while self.steps > every * room:
            every *= 2
        while whole > every * room and self.steps >= 2 * every * _FEWEST:
            every *= 2
        return every, joined_by(every // self._every, self._points)


def joined_by(size: int, points: Sequence[Point]) -> list[Point]:
    """The points, with every ``size`` neighbours joined into one."""
    if size == 1:
        return list(points)
    return [_joined(points[at : at + size]) for at in range(0, len(points), size)]


def _joined(points: Iterable[Point]) -> Point:
    """One point that spans several points; unknown values (NaN) are left out."""
    low, least, most, high = zip(*points, strict=True)
    return Point(_end(min, low), _end(min, least), _end(max, most), _end(max, high))


def _end(choose: Callable[[list[float]], float], values: Iterable[float]) -> float:
    known = [one for one in values if not math.isnan(one)]
    return choose(known) if known else math.nan
