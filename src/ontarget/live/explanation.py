"""`Explanation`: what changed p between two steps of a run, and the recorded runs behind p.

See method M28 in docs/methods.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ontarget._text import percent, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 5  # causes and runs in a table
_SMALL = 0.0005  # a change that would read as 0.0 points


@dataclass(frozen=True)
class Contribution:
    """How much one cause (a feature, the reward earned, or time) changed p between two steps.

    Attributes
    ----------
    cause
        A feature's name, ``reward earned``, or ``time``; for a goal over several behaviors
        ``NAME so far`` instead of ``reward earned``.
    before, now
        The value of the cause at the earlier and at the later step.
    change
        This cause's part of the change of p; the parts of all causes add up to the whole change.
    error
        The standard error of ``change`` if it was estimated by sampling; 0 if it is exact.
    """

    cause: str
    before: float | str
    now: float | str
    change: float
    error: float


@dataclass(frozen=True)
class Precedent:
    """A recorded run that was, at one of its steps, like the present run is now.

    Attributes
    ----------
    run
        The id of the recorded run in the log.
    step
        The step at which the recorded run was most like the present run.
    weight
        How much the recorded run counts: its share of the weight of all precedents.
    outcome
        The outcome of the recorded run; one number per behavior, by name, if there are several.
    ends_at
        The outcome of the present run if it goes on as the recorded run did: the present run's
        behavior so far plus what the recorded run still gained. If nearly every step earns the
        same, such as 1 for each step survived, it is the outcome of the recorded run. One number
        per behavior, by name, if there are several.
    met
        Whether ``ends_at`` is inside the target.
    """

    run: int | str
    step: int
    weight: float
    outcome: float | dict[str, float]
    ends_at: float | dict[str, float]
    met: bool


@dataclass(frozen=True)
class Explanation:
    """Why p is what it is at one step of a run: what changed p, and the recorded runs behind p.

    ``print(explanation)`` shows a table; see `GoalMonitor.explain`.

    Attributes
    ----------
    t, p
        The step, and p at this step.
    target
        The target, as text.
    t_before, p_before
        The earlier step that t is compared with, and p at that step; None if there is no earlier
        step.
    contributions
        How much each cause changed p, the largest change first. The changes add up to ``p -
        p_before``.
    precedents
        The recorded runs that count most for p; empty if the monitor does not keep the ids of
        recorded runs.
    missed
        The share of the precedents, by weight, that would miss the target if the present run went
        on as they did (`Precedent.ends_at`); None if no recorded runs are behind the answer.
    row_share
        How much of the model's answer comes from recorded runs, from 0 to 1. The rest comes from
        parts of the model (a regression, say) that do not weigh recorded runs.
    culprit
        For a goal over several behaviors, the behavior with the lowest p by itself; otherwise
        empty.
    together
        Causes that, like time, only rise or only fall at every step of the recorded runs. Only
        their joint contribution means much: no recorded run had one of these causes without the
        others.

    Notes
    -----
    This explains the model, not the world. To find a contribution, the model is asked for p in
    states that mix values of the two steps, and some of these states may be impossible.
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
        """By how much p changed since the earlier step; 0 if there is no earlier step."""
        return 0.0 if self.p_before is None else self.p - self.p_before

    @property
    def in_a_line(self) -> str:
        """One line: how p changed and why, and how many similar recorded runs miss the target."""
        said = [f"{plain(self.culprit)} is the likely culprit"] if self.culprit else []
        # The line may be read some steps later, so it names its step.
        rested = self._missing(f"was based on at step {self.t}", "there")
        return "; ".join(filter(None, [*said, self._moved, rested]))

    @property
    def causes(self) -> str:
        """The causes that changed p most, each with its change in percentage points, as text.

        Causes that always move together count as one. The text is empty if p did not change.
        """
        joint, names, total = self._joint
        told = [(plain(one.cause), one.change) for one in self.contributions if one not in joint]
        told += [(f"{names} together", total)] * bool(joint)
        told.sort(key=lambda one: -abs(one[1]))
        moved = [f"{name} {_points(by)}" for name, by in told[:3] if abs(by) >= _SMALL]
        return f"{', '.join(moved)} points" if moved else ""

    @property
    def _joint(self) -> tuple[list[Contribution], str, float]:
        """The causes that always move together, their names as text, and their joint change."""
        own = [one for one in self.contributions if one.cause in self.together]
        if len(own) < 2:
            return [], "", 0.0
        *names, last = (plain(one.cause) for one in own)
        return own, f"{', '.join(names)} and {last}", sum(one.change for one in own)

    @property
    def rests_on(self) -> str:
        """Text that says which share of the precedents (similar recorded runs) miss the target."""
        return self._missing("is based on", "here")

    def _missing(self, rests_on: str, here: str) -> str:
        if self.missed is None:
            return ""
        return (
            f"of the recorded runs that p {rests_on}, {percent(self.missed)} (weighted) miss the "
            f"target from {here}"
        )

    @property
    def _moved(self) -> str:
        """Text that says by how much p changed, and why; empty if p did not change."""
        if self.p_before is None or not self.causes:
            return ""
        went = "fell" if self.change < 0.0 else "rose"
        since = f"from {percent(self.p_before)} at step {self.t_before}"
        return f"p {went} {since} to {percent(self.p)} at step {self.t}: {self.causes}"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values for JSON; None if a number is unknown."""
        found: dict[str, Any] = _plain_json(asdict(self) | {"change": self.change})
        return found

    def figure(self, *, dark: bool = False) -> Figure:
        """A chart: how much each cause changed p, and the outcomes that similar runs lead to."""
        from ontarget.evaluation.figures import explanation_chart

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
        joint, names, total = self._joint
        if joint:
            lines.append(f"  {names} always move together: {_points(total)} in all")
        return lines

    def _precedent_lines(self) -> list[str]:
        if self.missed is None:
            return ["precedents: none; no recorded runs are behind this answer"]
        lines = [f"precedents: {self.rests_on}"]
        if not self.precedents:
            lines.append("  the model does not keep the ids of these runs (precedents=False)")
        width = max([len(plain(one.run)) for one in self.precedents[:_SHOWN]], default=0)
        lines += [
            f"  run {plain(one.run):<{width}} at step {one.step:<4} {percent(one.weight):>7}  "
            f"ended with {_value(one.outcome)}; from here {_value(one.ends_at)}, "
            f"{'met' if one.met else 'missed'}"
            for one in self.precedents[:_SHOWN]
        ]
        if self.row_share < 1.0 - 1e-9:
            given = f"recorded runs give {percent(self.row_share)} of the model's answer"
            lines.append(f"  {given}; the rest, and calibration, are why p is not just their share")
        return lines


def _plain_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _end(ends_at: float | dict[str, float], culprit: str) -> float:
    """The number to draw in the chart for an outcome ``ends_at``."""
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
    return f"{value:.4g}" if value == value else "none"  # such as a minimum before the first step
