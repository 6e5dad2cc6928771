"""`Check`: one thing that was checked on new runs; and how its figures are written."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, NamedTuple

from ontarget import _text


class Mark(StrEnum):
    """What a check says at a glance."""

    GOOD = "good"
    ACT = "act"
    NEITHER = "neither"


class Check(NamedTuple):
    """One thing that was checked on new runs.

    ``said`` and ``next`` are clauses: what was found, and what to do now (empty for nothing).
    ``details`` are more clauses about what was found.
    """

    name: str
    mark: Mark
    said: str
    figure: float | None = None
    interval: tuple[float, float] | None = None
    next: str = ""
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        ends = None if self.interval is None else [_known(end) for end in self.interval]
        return {
            "name": self.name,
            "mark": str(self.mark),
            "said": self.said,
            "figure": None if self.figure is None else _known(self.figure),
            "interval": ends,
            "next": self.next,
            "details": list(self.details),
        }


def percent(share: float, digits: int = 1) -> str:
    """A percentage with an ordinary space, so that a text search finds it in terminals and logs."""
    return _text.percent(share, digits).replace("\u00a0", " ")


def between(low: float, high: float) -> str:
    """A range of shares as text, such as "3 % to 7 %"."""
    return f"{percent(low)} to {percent(high)}"


def in_points(share: float) -> str:
    """A share as text in percentage points."""
    return f"{100 * share:.1f} percentage points"


def _known(value: float) -> float | None:
    """The number, or None if it is not finite (JSON has no NaN)."""
    return value if math.isfinite(value) else None
