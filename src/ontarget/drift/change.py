"""What new episodes say of drift: has anything changed, is it harmful, which way, since when."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.target import Target

__all__ = ["Bias", "Drift", "DriftJudgement", "Evidence"]


class DriftJudgement(StrEnum):
    """What new episodes say of a change."""

    NO_SIGN = "no sign of a change"
    CHANGED = "changed"
    WORSE = "changed for the worse"


class Bias(NamedTuple):
    """How far p lay from what came true, over some episodes.

    ``too_high`` is mean p less the share that met the target, ``low`` and ``high`` its 95 % range.
    ``column`` and ``value`` say which episodes these are, empty for all.
    """

    n: int
    said: float
    met: float
    too_high: float
    low: float
    high: float
    column: str = ""
    value: str = ""

    @property
    def shows(self) -> bool:
        """Whether chance hardly explains it."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def where(self) -> str:
        """Which episodes these are; names from data cannot look like lines of ours."""
        return f"{plain(self.column)} is {plain(self.value)}"

    @property
    def in_words(self) -> str:
        """Which way p is off, and by how much."""
        said = f"it said {percent(self.said)}, {percent(self.met)} of {self.n:,} came true"
        if not self.shows:
            return f"p is right on average as far as these runs can tell: {said}"
        way = "high" if self.too_high > 0.0 else "low"
        ends = sorted(abs(100.0 * end) for end in (self.low, self.high))
        return (
            f"p is now {_points(self.too_high)} too {way} ({ends[0]:.1f} to {ends[1]:.1f}): {said}"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; one episode alone leaves the range unknown."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }


class Evidence(NamedTuple):
    """How strongly a bet on a change was won.

    ``highest`` is the most that the gambler ever had, who started with 1; ``alarm_after`` is after
    how many episodes it reached the limit, None if never.
    """

    highest: float
    limit: float
    alarm_after: int | None


@dataclass(frozen=True)
class Drift:
    """What new episodes say of drift; prints as a few lines.

    Attributes
    ----------
    target
        The target that harm is about.
    t
        The step at which p and outcomes are compared.
    n
        How many episodes were.
    change, harm
        The evidence that anything has changed (M10), and that p has become too high for the
        target (M26). Each is a false alarm with at most the probability 1 − level.
    bias, before
        How far p is off on the new episodes, and on the assure episodes.
    since
        From which of the episodes on, in the order given, they are most unlike the recorded ones: a
        best guess. None if nothing has changed, or the order is unknown.
    since_value
        What the order says there.
    order
        What is known of the order, in words.
    parts
        How far p is off for each value of the columns that were asked for, 95 % ranges for all of
        them together.
    """

    target: Target
    t: int
    n: int
    change: Evidence
    harm: Evidence
    bias: Bias
    before: Bias
    since: int | None
    since_value: str
    order: str
    parts: tuple[Bias, ...] = ()

    @property
    def judgement(self) -> DriftJudgement:
        """Whether anything has changed, and whether for the worse."""
        if self.harm.alarm_after is not None:
            return DriftJudgement.WORSE
        changed = self.change.alarm_after is not None
        return DriftJudgement.CHANGED if changed else DriftJudgement.NO_SIGN

    @property
    def verdict(self) -> str:
        """What was found, and what to do."""
        if self.judgement is DriftJudgement.NO_SIGN:
            return f"{self.judgement}, which is no proof: a small change needs more runs to show"
        advice = "recalibrate on runs that started after the change, or fit anew"
        return f"{self.judgement}: {self.bias.in_words}; what was promised need not hold: {advice}"

    @property
    def in_short(self) -> str:
        """What was found, in a line."""
        if self.judgement is DriftJudgement.NO_SIGN:
            return f"{self.judgement} (evidence {self.change.highest:.3g} of {self.change.limit:g})"
        return f"{self.judgement}: at step {self.t}, {self.bias.in_words}"

    def __str__(self) -> str:
        off = [part for part in self.parts if part.shows]
        lines = [
            ("change", _in_words(self.change, self.n, "something has changed")),
            ("harm", _in_words(self.harm, self.n, "p has become too high")),
            ("p", f"at step {self.t}, {self.bias.in_words}"),
            ("before", f"on the assure episodes {self._before}"),
            ("since", self._since),
            ("order", self.order),
            *(("by", f"where {one.where}, {one.in_words}") for one in off),
            ("verdict", self.verdict),
        ]
        return "\n".join(f"{name:<10} {text}" for name, text in lines if text)

    @property
    def _before(self) -> str:
        before = self.before
        way = "high" if before.too_high > 0.0 else "low"
        return f"it was {_points(before.too_high)} too {way}, of {before.n:,}"

    @property
    def _since(self) -> str:
        if self.since is None:
            return ""
        at = f", {plain(self.since_value)}" * bool(self.since_value)
        return f"since about run {self.since + 1:,} of {self.n:,}{at} (a best guess)"

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return {
            "target": str(self.target),
            "step": self.t,
            "episodes": self.n,
            "judgement": str(self.judgement),
            "verdict": self.verdict,
            "change": self.change._asdict(),
            "harm": self.harm._asdict(),
            "bias": self.bias.to_json(),
            "before": self.before.to_json(),
            "since": self.since,
            "since_value": self.since_value,
            "order": self.order,
            "by": [part.to_json() for part in self.parts],
        }


def _points(share: float) -> str:
    points = abs(100.0 * share)
    text = f"{points:.0f}" if points >= 0.95 else f"{points:.1f}"
    return f"{text} point{'s' * (text != '1')}"


def _in_words(found: Evidence, n: int, what: str) -> str:
    if found.alarm_after is None:
        return (
            f"no sign that {what}: the evidence reached {found.highest:.3g}, and {found.limit:.3g} "
            "would be an alarm"
        )
    return f"{what}: alarm after {found.alarm_after:,} of {n:,} runs, evidence {found.highest:.3g}"
