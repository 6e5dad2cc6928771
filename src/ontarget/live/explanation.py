"""`Explanation`: what moved p between two steps, and the recorded runs that p rests on (M28)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ontarget._numerals import percent
from ontarget._plain import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Contribution", "Explanation", "Precedent"]

_SHOWN = 5  # causes and runs in a table
_SMALL = 0.0005  # a change that would read as 0.0 points


@dataclass(frozen=True)
class Contribution:
    """How much one cause moved p.

    Attributes
    ----------
    cause
        A feature's name, ``reward earned``, of several behaviors ``NAME so far``, or ``time``.
    before, now
        Its value at both steps.
    change
        Its part of the change of p; the parts of all causes add up to it.
    error
        The standard error of a part that was sampled; 0 if it is exact.
    """

    cause: str
    before: float | str
    now: float | str
    change: float
    error: float


@dataclass(frozen=True)
class Precedent:
    """A recorded run that was once where this run is now.

    Attributes
    ----------
    run
        Its id in the log.
    step
        At which of its steps it was most like this run.
    weight
        Its share of the weight of all precedents.
    outcome
        What it ended with; of several behaviors, by name.
    ends_at
        What this run ends with if it goes on as that one did: its behavior so far and what that
        run still gained. If nearly every step earns the same, such as 1 for each step survived, it
        is what that run ended with. Of several behaviors, by name.
    met
        Whether that is inside the target.
    """

    run: int | str
    step: int
    weight: float
    outcome: float | dict[str, float]
    ends_at: float | dict[str, float]
    met: bool


@dataclass(frozen=True)
class Explanation:
    """Why p is what it is at one step of a run: what moved it, and which recorded runs it rests on.

    ``print(explanation)`` shows a table; see `GoalMonitor.explain`.

    Attributes
    ----------
    t, p
        The step and its probability.
    target
        The target, in words.
    t_before, p_before
        The step that it is compared with and its probability; None if there is none.
    contributions
        What moved p, the largest first. They add up to ``p - p_before``.
    precedents
        The recorded runs with the largest weights; none if the monitor does not keep them.
    missed
        The share of the weight that lies on precedents which, from here, miss the target.
    row_share
        The share of the model's answer that rests on recorded runs. Experts that know no runs give
        the rest.
    culprit
        Of a goal over several behaviors, the one with the lowest p by itself; otherwise empty.
    together
        Causes that move one way at every step of the recorded runs, as time does. How their sum is
        shared out among them says little: no recorded run had one without the others.

    Notes
    -----
    This explains the model, not the world. A contribution compares p with what it would be in
    states that mix both steps, and some of those may be impossible.
    """

    t: int
    p: float
    target: str
    t_before: int | None
    p_before: float | None
    contributions: tuple[Contribution, ...]
    precedents: tuple[Precedent, ...]
    missed: float | None
    row_share: float
    culprit: str = ""
    together: tuple[str, ...] = ()

    @property
    def change(self) -> float:
        """By how much p changed since the step that it is compared with; 0 if there is none."""
        return 0.0 if self.p_before is None else self.p - self.p_before

    @property
    def in_a_line(self) -> str:
        """One line: by how much p moved and why, and how many of the precedents miss the target."""
        said = [f"{plain(self.culprit)} is the likely culprit"] if self.culprit else []
        # It may be read some steps later, so it names its step.
        rested = self._missing(f"rested on at step {self.t}", "there")
        return "; ".join(filter(None, [*said, self._moved, rested]))

    @property
    def causes(self) -> str:
        """What moved p most, in points; empty if nothing moved it."""
        moved = [
            f"{plain(one.cause)} {_points(one.change)}"
            for one in self.contributions[:3]
            if abs(one.change) >= _SMALL
        ]
        shown = sum(one.cause in self.together for one in self.contributions[:3])
        joined = f" ({self._joined})" * (shown > 1)
        return f"{', '.join(moved)} points{joined}" if moved else ""

    @property
    def _joined(self) -> str:
        """That some causes move together, and what they add up to; empty if none do."""
        own = [one for one in self.contributions if one.cause in self.together]
        if len(own) < 2:
            return ""
        *names, last = (plain(one.cause) for one in own)
        total = sum(one.change for one in own)
        return f"{', '.join(names)} and {last} always move together: {_points(total)} in all"

    @property
    def rests_on(self) -> str:
        """How many of the precedents miss the target; empty if there are none."""
        return self._missing("rests on", "here")

    def _missing(self, rests_on: str, here: str) -> str:
        if self.missed is None:
            return ""
        return (
            f"of the recorded runs that p {rests_on}, {percent(self.missed)} by weight miss the "
            f"target from {here}"
        )

    @property
    def _moved(self) -> str:
        """From where p came, and the causes; empty if nothing moved it."""
        if self.p_before is None or not self.causes:
            return ""
        went = "fell" if self.change < 0.0 else "rose"
        since = f"from {percent(self.p_before)} at step {self.t_before}"
        return f"p {went} {since} to {percent(self.p)} at step {self.t}: {self.causes}"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain JSON values; null where a number is unknown."""
        found: dict[str, Any] = _plain_json(asdict(self) | {"change": self.change})
        return found

    def figure(self, *, dark: bool = False) -> Figure:
        """A picture: what each cause added to p, and where the precedents lead."""
        from ontarget.evaluation.figures.explanation import explanation_chart

        return explanation_chart(
            [(one.cause, one.change, one.error) for one in self.contributions],
            [(_end(one.ends_at, self.culprit), one.weight, one.met) for one in self.precedents],
            probabilities=(self.p_before, self.p),
            outcome=self.culprit or "outcome",
            dark=dark,
        )

    def __str__(self) -> str:
        return "\n".join([*self._moved_lines(), *self._precedent_lines()])

    @property
    def _meant(self) -> str:
        about = "" if self._is_goal else "the outcome is "
        return f"that {about}{self.target}"

    @property
    def _is_goal(self) -> bool:
        return bool(self.culprit) or any(isinstance(one.outcome, dict) for one in self.precedents)

    @property
    def _blamed(self) -> list[str]:
        return [f"the likely culprit is {plain(self.culprit)}"] if self.culprit else []

    def _moved_lines(self) -> list[str]:
        if self.p_before is None:
            return [f"step {self.t}: p = {percent(self.p)} {self._meant}", *self._blamed]
        lines = [
            f"step {self.t}: p = {percent(self.p)} {self._meant}, after "
            f"{percent(self.p_before)} at step {self.t_before}",
            *self._blamed,
            "what moved p (points)",
        ]
        width = max([len(plain(one.cause)) for one in self.contributions[:_SHOWN]], default=0)
        for one in self.contributions[:_SHOWN]:
            error = f" ± {100 * one.error:.1f}" if one.error else ""
            values = f"{_value(one.before)} → {_value(one.now)}"
            lines.append(
                f"  {plain(one.cause):<{width}}  {values:<20} {_points(one.change)}{error}"
            )
        rest = self.contributions[_SHOWN:]
        if rest:
            total = sum(one.change for one in rest)
            others = "1 other" if len(rest) == 1 else f"{len(rest)} others"
            lines.append(f"  {others:<{width}}  {'':<20} {_points(total)}")
        return [*lines, *([f"  {self._joined}"] if self._joined else [])]

    def _precedent_lines(self) -> list[str]:
        if self.missed is None:
            return ["precedents: the model has no recorded runs behind its answer"]
        lines = [f"precedents: {self.rests_on}"]
        if not self.precedents:
            lines.append("  which runs these are was left out of the model (precedents=False)")
        width = max([len(plain(one.run)) for one in self.precedents[:_SHOWN]], default=0)
        lines += [
            f"  run {plain(one.run):<{width}} at step {one.step:<4} {percent(one.weight):>7}  "
            f"ended with {_value(one.outcome)}; from here {_value(one.ends_at)}, "
            f"{'met' if one.met else 'missed'}"
            for one in self.precedents[:_SHOWN]
        ]
        if self.row_share < 1.0 - 1e-9:
            lines.append(f"  recorded runs give {percent(self.row_share)} of the model's answer")
        return lines


def _plain_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _end(ends_at: float | dict[str, float], culprit: str) -> float:
    """The outcome of a run; of several behaviors, that of the culprit, or else of the first."""
    if not isinstance(ends_at, dict):
        return ends_at
    return ends_at.get(culprit, next(iter(ends_at.values())))


def _points(change: float) -> str:
    return f"{100 * change:+.1f}"


def _value(value: float | str | dict[str, float]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{plain(name)} {one:.4g}" for name, one in value.items())
    if isinstance(value, str):
        return plain(value)
    return f"{value:.4g}" if value == value else "none"  # a least value before the first step
