"""What the live view stores about an agent: its run's present state and history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.cli.view.course import Course, Point
from ontarget.cli.view.digits import alike

_UNKNOWN: Final = Point.of(math.nan, math.nan, math.nan)
_KEPT: Final = 3  # changes of a run


class Place(NamedTuple):
    """A run's behavior so far, and the range in which nine of ten runs like it end."""

    so_far: float
    low: float
    high: float

    @property
    def in_words(self) -> str:
        """Text: the run's behavior so far, and where the run will likely end."""
        had = "" if math.isnan(self.so_far) else f"so far {self.so_far_in_words}, "
        return f"{had}{self.range_in_words}"

    @property
    def so_far_in_words(self) -> str:
        """The run's behavior so far as text, with as many decimals as its likely outcomes."""
        return alike(self.low, self.high, self.so_far)[2]

    @property
    def range_in_words(self) -> str:
        """The range in which the run will likely end, as text."""
        low, high, _ = alike(self.low, self.high, self.so_far)
        return f"likely to end at {low} to {high} (9 in 10)"


class Ahead(NamedTuple):
    """The predicted range of a run at each later step, and a text about it."""

    ranges: tuple[Point, ...]
    in_words: str


@dataclass
class Track:
    """What the answers said about one agent: its status, and p of its run with the range around p.

    For a goal over several behaviors, the *culprit* is the behavior with the lowest p by itself.
    """

    agent: str
    course: Course = field(default_factory=Course)  # of p and its spread
    latest: Point = _UNKNOWN
    # What it has so far, and where it will end: by behavior, or under "" if there is only one.
    outcomes: dict[str, Course] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    ended_at: dict[str, float] = field(default_factory=dict)  # what it ended with, likewise
    step: int = 0
    status: str = "PENDING"
    shown: str = "PENDING"  # the status, but UNKNOWN while an alarm stands and nothing is known
    changes: deque[str] = field(default_factory=lambda: deque[str](maxlen=_KEPT))
    alarms_before: int = 0  # among changes that are no longer kept
    first_alarm: int | None = None  # its step
    limit: str = ""  # when the alarm is raised, such as "alarm below 18.5 %"; empty if not by p
    over: bool = False
    why: str = ""  # what moved p to the last alarm
    ahead: Ahead | None = None  # where the run will be
    unseen: str = ""  # readings of categories that nobody knows
    by_p: tuple[tuple[str, float], ...] = ()  # p of each of several behaviors, the lowest first
    culprit: str = ""

    def add(self, answer: Mapping[str, Any]) -> None:
        """Take in one answer about the agent's run."""
        if self.over and answer.get("end"):
            return  # the run already ended at the horizon
        if self.over:
            self.course, self.outcomes, self.places, self.ended_at = Course(), {}, {}, {}
            self.changes.clear()
            self.alarms_before, self.first_alarm = 0, None
            self.over, self.status, self.shown = False, "PENDING", "PENDING"
        status, self.step = str(answer["status"]), int(answer.get("t", self.step))
        least, most = answer.get("spread") or (None, None)
        numbers = (least, answer.get("p"), most)
        known = [math.nan if number is None else float(number) for number in numbers]
        self.latest = Point.of(known[0], known[1], known[2])
        self.course.add(self.latest)
        self.unseen = _unseen_in_words(answer.get("unseen") or {})
        shown = "UNKNOWN" if status == "ALARM" and math.isnan(known[1]) else status
        if shown == "ALARM" and self.first_alarm is None:
            self.first_alarm = self.step
        if shown != self.shown and (shown != "OK" or self.changes):
            reason = self._reason(answer)
            lost = self.changes[0] if len(self.changes) == _KEPT else ""
            self.alarms_before += lost.startswith("ALARM")
            self.changes.append(f"{shown} at step {self.step}" + (f": {reason}" if reason else ""))
        self.status, self.shown = status, shown
        each = [(name, p) for name, p in (answer.get("parts") or {}).items() if p is not None]
        self.by_p = tuple(sorted(each, key=lambda one: one[1]))
        self.culprit = self.by_p[0][0] if self.by_p else self.culprit
        self.over = bool(answer.get("end")) or status == "DONE"
        ended = answer.get("outcome")
        by_name = ended if isinstance(ended, Mapping) else {"": ended}
        self.ended_at = {name: float(one) for name, one in by_name.items() if one is not None}

    def _reason(self, answer: Mapping[str, Any]) -> str:
        """The reason in an answer, with its numbers written as elsewhere in the live view."""
        reason, p, ended = plain(answer.get("reason") or ""), answer.get("p"), answer.get("outcome")
        if self.limit and p is not None and reason.startswith("p = "):
            return f"p = {percent(p, fixed=True)}, {self.limit}"
        told, found, _ = reason.partition(" the target at ")
        if found and isinstance(ended, float | int):
            return f"{told}{found}{alike(float(ended))[0]}"
        return reason

    def stand(self, places: Mapping[str, Place]) -> None:
        """Store the run's behavior so far and its likely outcome, as far as they are known."""
        self.places |= places
        for name in places:
            self.outcomes.setdefault(name, Course())
        for name, course in self.outcomes.items():
            place, ended = places.get(name), self.ended_at.get(name, math.nan)
            course.add(
                Point.of(math.nan, ended, math.nan)
                if place is None
                else Point.of(place.low, place.so_far, place.high)
            )

    @property
    def place(self) -> Place | None:
        """The run's behavior so far and its likely outcome; of several behaviors, the culprit's.

        The culprit is the behavior with the lowest p.
        """
        return self.places.get(self.culprit)

    @property
    def standing(self) -> str:
        """The run's behavior so far and its likely outcome in a line of text; empty if unknown."""
        return "" if self.place is None else _named(self.culprit, self.place.in_words)

    @property
    def others(self) -> list[str]:
        """For each of the other behaviors a line: its value so far, and its likely outcome.

        The behavior with the lowest p (the culprit) is not among them.
        """
        return [
            _named(name, place.in_words)
            for name, place in self.places.items()
            if name != self.culprit
        ]

    @property
    def legend(self) -> str:
        """Text: what the chart of outcomes shows, with the latest numbers."""
        if self.place is None:
            return ""
        if self.over:  # how it ended is told below
            return _named(self.culprit, "● so far   ░ where it was likely to end (9 in 10)")
        to_come = "   ▒ where it will be" if self.ahead else ""
        told = f"● so far {self.place.so_far_in_words}   ░ {self.place.range_in_words}{to_come}"
        return f"{plain(self.culprit)}, the likely culprit: {told}" if self.culprit else told

    @property
    def change(self) -> str:
        """The last change of the run's status, and the reason, as text."""
        return self.changes[-1] if self.changes else ""

    @property
    def history(self) -> str:
        """Text: the first alarm, the last few changes of status, and how many alarms came between.

        The reason is given only for the last change.
        """
        n = self.alarms_before
        before = [f"first ALARM at step {self.first_alarm}"] if n else []
        before += [f"{n - 1:,} more alarm{'s' * (n > 2)}"] if n > 1 else []
        earlier = [change.split(":")[0] for change in list(self.changes)[:-1]]
        return ", ".join([*before, *earlier, self.change])


def _named(behavior: str, text: str) -> str:
    return f"{plain(behavior)}: {text}" if behavior else text


def _unseen_in_words(unseen: Mapping[str, str]) -> str:
    """Text that some features had unknown categories; empty if none had."""
    told = ", ".join(f"{plain(name)} {plain(value)!r}" for name, value in unseen.items())
    return f"no recorded run had {told}: it counts as missing" if told else ""
