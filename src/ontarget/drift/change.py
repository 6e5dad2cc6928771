"""`Drift`: has the process changed, for the worse, which way is p off, and since when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ontarget._text import percent, plain
from ontarget.goal import Goal
from ontarget.target import Target

_MOST_NAMED = 8  # values of a column in one line
_BUILDING = 5.0  # a change "is building" if a test at a rate so many times as high would find it

UNKNOWN_ORDER: Final = (
    "unknown; name a column with the times at which runs started to learn when a change began"
)


class DriftJudgement(StrEnum):
    """Whether new episodes show a change, in words.

    Evidence "is building" if a test with five times the rate of false alarms would find a change:
    by default 5 % instead of 1 %.
    """

    NO_SIGN = "no sign of a change"
    BUILDING = "evidence of a change is building"
    CHANGED = "changed"
    WORSE = "changed for the worse"


class Bias(NamedTuple):
    """How far p was from what came true, on average over some episodes.

    ``n`` is the number of episodes, ``said`` the mean of p, and ``met`` the share of episodes that
    met the target. ``too_high`` is ``said`` minus ``met``; ``low`` and ``high`` are its 95 % range.
    ``column`` and ``value`` say which episodes these are; they are empty for all episodes.
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
        """Whether 0 is outside the 95 % range of the bias, so that chance hardly explains it."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def where(self) -> str:
        """Which episodes this is about, such as "weather is rain"."""
        return f"{plain(self.column)} is {plain(self.value)}"

    @property
    def in_words(self) -> str:
        """Which way p is off, and by how much, as text."""
        return self._told()

    @property
    def short(self) -> str:
        """Which way p is off, and by how much, in a short text without the numbers behind it."""
        return f"p is {self.amount}"

    @property
    def amount(self) -> str:
        """How far p is off, as text such as "8 points too low"."""
        if not self.shows:
            return "right on average as far as these runs can tell"
        return f"{_points(self.too_high)} too {'high' if self.too_high > 0.0 else 'low'}"

    @property
    def reach(self) -> str:
        """The 95 % range of how far p is off, in percentage points; empty if it contains 0."""
        ends = sorted(abs(100.0 * end) for end in (self.low, self.high))
        return f"{ends[0]:.1f} to {ends[1]:.1f}" * self.shows

    def _told(self, runs: str = "", way: str = "") -> str:
        """Text: which way p is off, by how much, and for which runs."""
        reach = f" ({self.reach})" * self.shows
        return f"{way or self.short}{reach}: {self._said(runs)}"

    def _said(self, runs: str = "") -> str:
        """Text with the mean of p, and the share of the runs that met the target."""
        of = runs or f"{self.n:,} run{'s' * (self.n != 1)}"
        return (
            f"p was {percent(self.said)} on average, and {percent(self.met)} of {of} met the target"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values for JSON; None for a range that is not finite."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }


class Evidence(NamedTuple):
    """What the test for a change found (methods M10 and M36 in docs/methods.md).

    Attributes
    ----------
    p_value
        How often new runs differ from the assure episodes at least as much as these if nothing has
        changed, by a permutation test. ``allowed`` or less is a change.
    allowed, rate
        The rate of false alarms of the permutation test, and of the whole test. They are equal
        without an order of time; with one, a quarter of the rate is for the bets.
    highest, limit, alarm_after
        Only with an order of time, else None: the most money of a gambler who starts with 1 and
        bets on a change, run by run; the limit at which that is a change; after how many episodes
        the money reached it, None if never.
    """

    p_value: float
    allowed: float
    rate: float
    highest: float | None = None
    limit: float | None = None
    alarm_after: int | None = None

    @property
    def won(self) -> bool:
        """Whether the test found a change."""
        return self._reaches(1.0)

    @property
    def building(self) -> bool:
        """Whether a test with five times the rate of false alarms finds a change, but not this."""
        return not self.won and self._reaches(_BUILDING)

    def _reaches(self, times: float) -> bool:
        """Whether a test with a rate so many times as high finds a change."""
        if self.p_value <= times * self.allowed:
            return True
        return (
            self.highest is not None
            and self.limit is not None
            and (self.highest >= self.limit / times)
        )

    @property
    def in_words(self) -> str:
        """How well chance explains what was found, and what counts as a change, as text."""
        found, limits = f"chance alone {_chance(self.p_value)}", f"at most {_chance(self.allowed)}"
        if self.highest is not None:
            found += f", evidence {self._money}"
            limits += f", or at least {self.limit:g},"
        return f"{found}; {limits} {'is' if self.won else 'would be'} a change"

    @property
    def test(self) -> str:
        """Which test this is, and how often it finds a change where there is none, as text."""
        bets = ", and bets in the order given" * (self.highest is not None)
        return (
            f"new against assure episodes, permuted{bets}; without a change it finds one in at "
            f"most {_chance(self.rate)} of comparisons"
        )

    @property
    def _money(self) -> str:
        assert self.highest is not None
        assert self.limit is not None
        if self.highest >= 1e6:
            return "over a million"
        text = f"{self.highest:.3g}"
        # A number just below the limit must not be rounded up to it.
        rounded_up = self.highest < self.limit <= float(text)
        return f"just under {self.limit:g}" if rounded_up else text


@dataclass(frozen=True)
class Drift:
    """Whether new episodes show drift; print it to read a few lines.

    Attributes
    ----------
    change
        What the test for a change found. Without a change, it finds one with at most the
        probability 1 − level, where ``level`` is the argument of `GoalMonitor.drift`. Nothing else
        here calls runs changed.
    bias, before, now
        How far p is off on the n new episodes, on the assure episodes, and on the new ones since
        the change (None if its time is unknown, or too few episodes started since then).
    since, since_value, since_column
        A best guess of when the change began: the position, in the order given, of the first
        episode after it, its value of ``order``, and the name of that column. None if nothing has
        changed, or the order is unknown.
    order
        Why the runs were not compared in the order of their times, as text; empty if they were.
    parts
        How far p is off for each value of the columns that were asked for. The 95 % ranges hold for
        all of them together.
    later
        The positions of the episodes since the change, in their order; empty if that is unknown.
    """

    target: Target | Goal
    t: int
    n: int
    change: Evidence
    bias: Bias
    before: Bias
    since: int | None
    since_value: str
    order: str
    parts: tuple[Bias, ...] = ()
    now: Bias | None = None
    since_column: str = ""
    later: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @property
    def latest(self) -> Bias:
        """How far p is off since the change."""
        return self.bias if self.now is None else self.now

    @property
    def judgement(self) -> DriftJudgement:
        """Whether anything has changed, and whether for the worse."""
        if self.changed:
            return DriftJudgement.WORSE if self._worse else DriftJudgement.CHANGED
        return DriftJudgement.BUILDING if self.change.building else DriftJudgement.NO_SIGN

    @property
    def changed(self) -> bool:
        """Whether anything has changed in the new episodes, compared with the recorded ones."""
        return self.change.won

    @property
    def _worse(self) -> bool:
        now, before = self.latest, self.before
        reach = math.hypot(now.too_high - now.low, before.too_high - before.low)
        return now.low > 0.0 and now.too_high - before.too_high > reach

    @property
    def covers_both(self) -> bool:
        """Whether some of the compared runs are from before the change, others from after."""
        return bool(self.since)

    @property
    def verdict(self) -> str:
        """What was found, and what to do, as text."""
        if self.changed:
            said = (
                f"{self.judgement}: {self.way}; the promises may no longer hold: recalibrate on "
                "runs that start from now on, or fit a new monitor on them"
            )
            return "; ".join(filter(None, [said, self.suspect]))
        if self.judgement is DriftJudgement.BUILDING:
            said = (
                f"{self.judgement}, but it is no proof yet ({self.change.in_words}); compare again "
                "once more runs have ended"
            )
            return "; ".join(filter(None, [said, self.suspect]))
        if not self.bias.shows:
            return (
                f"{self.judgement}; this does not prove that there is none, because a small change "
                "shows only with more runs"
            )
        return f"{self.judgement}, yet on these runs {self.bias.short}; {self._unexplained}"

    @property
    def suspect(self) -> str:
        """Text that warns if the assure episodes, not the new runs, may be unusual."""
        before, now = self.before, abs(self.latest.too_high)
        odd = before.shows and now < abs(before.too_high)
        if self.judgement is DriftJudgement.NO_SIGN or not odd:
            return ""
        return (
            f"but on the {before.n:,} assure episodes p was {before.amount}, further off than on "
            "these runs: by luck, the assure episodes may differ from the learning episodes, which "
            "looks like a change; compare with a monitor that was fitted with another seed"
        )

    @property
    def _unexplained(self) -> str:
        """Text about what it means that p is off although there is no sign of a change."""
        before = self.before
        if before.shows and (before.too_high > 0.0) == (self.bias.too_high > 0.0):
            return (
                f"p was also {before.amount} on the assure episodes, so probably the model is "
                "wrong, and the process has not changed: look for a missing feature, or "
                "recalibrate with renew_p"
            )
        return "more runs will show whether that is chance or a small change"

    @property
    def way(self) -> str:
        """Which way p is off, as text with numbers: since the change, or on all new runs."""
        return self.latest._told(self._runs, self.headline)

    @property
    def figures(self) -> str:
        """Text with the mean of p and the share that met the target, for the runs in `headline`."""
        return self.latest._said(self._runs)

    @property
    def _runs(self) -> str:
        """The runs that `latest` is about, as text: those since the change, or all new ones."""
        since = self.now is not None and self.covers_both
        return f"{self.latest.n:,} runs since then" if since else f"these {self.latest.n:,} runs"

    @property
    def headline(self) -> str:
        """Which way p is off, as text without the numbers behind it."""
        latest = self.latest
        return f"p is {'now ' * (self.changed and latest.shows)}{latest.amount}"

    @property
    def in_short(self) -> tuple[str, ...]:
        """The findings, one text each: a change, which way p is off, since when, for which runs."""
        misled = (
            () if self.order in ("", UNKNOWN_ORDER) else (f"the order of the runs is {self.order}",)
        )
        if self.judgement is DriftJudgement.NO_SIGN:
            return (f"{self.judgement} in these {self.n:,} runs ({self.change.in_words})", *misled)
        if not self.changed:
            building = f"{self.judgement} in these {self.n:,} runs ({self.change.in_words})"
            told = (building, f"at step {self.t}, {self.way}", self.suspect, *misled)
            return tuple(filter(None, told))
        told = (
            f"{self.judgement}: at step {self.t}, {self.way}",
            self.when or f"it is not known when this began: the order of the runs is {self.order}",
            self._over_all,
            self.suspect,
            *self.where,
        )
        return tuple(filter(None, told))

    @property
    def _over_all(self) -> str:
        """How far p is off on all compared runs, from before and after the change, as text."""
        if self.now is None or not self.covers_both:
            return ""
        return f"over all {self.n:,} runs, before and after the change, {self.bias.short}"

    @property
    def when(self) -> str:
        """When the change began, as text; empty if there is no change, or the order is unknown."""
        if self.since is None:
            return ""
        if self.since == 0:
            return f"since the first of these {self.n:,} runs, or before (a best guess)"
        name = plain(self.since_column)
        value = plain(self.since_value)
        at = f", where {name} is {value}" if name else f", at {value} in the order given"
        return f"since about run {self.since + 1:,} of {self.n:,}{at} (a best guess)"

    @property
    def where(self) -> tuple[str, ...]:
        """For which values of the given columns p is off, one text each."""
        return tuple(f"where {one.where}, {one.in_words}" for one in self.parts if one.shows)

    @property
    def fine(self) -> tuple[str, ...]:
        """For which values of the given columns p is not clearly off, one text per column."""
        found = []
        for column in dict.fromkeys(one.column for one in self.parts):
            own = [one for one in self.parts if one.column == column and not one.shows]
            named = ", ".join(f"{plain(one.value)} ({one.n:,} runs)" for one in own[:_MOST_NAMED])
            more = len(own) - _MOST_NAMED
            named += f" and {more:,} more values" * (more > 0)
            if own:
                found.append(f"where {plain(column)} is {named}, p is {own[0].amount}")
        return tuple(found)

    def __str__(self) -> str:
        lines = [
            ("change", f"{self._change} ({self.change.in_words})"),
            ("test", self.change.test),
            ("since", self.when.removeprefix("since ")),
            ("p", f"at step {self.t}, {self.way}"),
            ("", self._over_all),
            ("before", f"on the {self.before.n:,} assure episodes {self._before}"),
            ("order", self.order),
            *(("by", one) for one in (*self.where, *self.fine)),
            ("verdict", self.verdict),
        ]
        return "\n".join(f"{name:<10} {text}" for name, text in lines if text)

    @property
    def _change(self) -> str:
        if self.changed:
            after = self.change.alarm_after
            seen = "" if after is None else f", seen after {after:,} of {self.n:,} runs"
            return f"something has changed{seen}"
        building = "evidence is building that something has changed"
        return building if self.change.building else "no sign that something has changed"

    @property
    def _before(self) -> str:
        if self.before.shows:
            return f"p was {self.before.amount}"
        return "p was right on average, as far as they can tell"

    def to_json(self) -> dict[str, Any]:
        """The result as plain values for JSON."""
        return {
            "target": str(self.target),
            "step": self.t,
            "episodes": self.n,
            "judgement": str(self.judgement),
            "verdict": self.verdict,
            "change": self.change._asdict(),
            "bias": self.bias.to_json(),
            "now": None if self.now is None else self.now.to_json(),
            "before": self.before.to_json(),
            "since": self.since,
            "since_value": self.since_value,
            "since_column": self.since_column,
            "order": self.order,
            "by": [part.to_json() for part in self.parts],
        }


def _points(share: float) -> str:
    points = abs(100.0 * share)
    text = f"{points:.0f}" if points >= 0.95 else f"{points:.1f}"
    return f"{text} point{'s' * (text != '1')}"


def _chance(share: float) -> str:
    """A share as text with its first digits, however small: "0.01 %"."""
    return f"{100.0 * share:{'.0f' if share >= 0.1 else '.3g'}} %"
