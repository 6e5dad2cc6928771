"""Alarm rules, and the thresholds (triggers) that follow from a rule for each group of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import BoolArray, FloatArray
from ontarget.conformal.levels import (
    Level,
    exact_confidence,
    exact_level,
    exact_rate,
    needed_within,
    rank_within,
)
from ontarget.errors import Argument, FewEpisodesError, InputError
from ontarget.fitted.guarantee import Threshold, promised_threshold
from ontarget.fitted.kernels import PLAUSIBILITY, P
from ontarget.live.outlook import Outlook

NO_ASSURE = "this monitor has no assure episodes; fit with a split that has some"
_NOTHING_RULED_OUT = (
    "ruling a target out needs assure episodes, and this monitor has none; fit with a split that "
    "has some, or set the alarm with ",
    Argument("false_alarm_rate"),
)
_NOTHING_SURE = (
    Argument("confidence"),
    " needs assure episodes, and this monitor has none; fit with a split that has some, or leave "
    "it out: the rate is then measured, not promised",
)
# How far above its threshold p must rise before an alarm clears by itself.
_HYSTERESIS = 0.05
# A live p may be smaller by a rounding error than the p that became the threshold (M8).
_ROUNDING = 1e-9


class RuleOptions(TypedDict, total=False):
    """The keyword arguments that describe a `Below` or a `Promised` alarm rule."""

    alarm_below: float | None
    false_alarm_rate: Level | None
    confidence: Level | None
    for_steps: int | None
    clear_above: float | None


# How p of one target is calibrated: corrected for this target, or in the same way for all targets.
Calibration: TypeAlias = Literal["target", "common"]


class AlarmOptions(RuleOptions, total=False):
    """The options for alarms: a rule, or arguments that describe one, and how p is calibrated."""

    alarm: AlarmRule | None
    calibration: Calibration


class Assured(Protocol):
    """What an alarm rule can ask about the recorded episodes that its threshold comes from."""

    @property
    def met(self) -> BoolArray:
        """(episodes,): whether each episode met the target."""
        ...

    @property
    def ever_broken(self) -> BoolArray:
        """(episodes,): whether each episode has a missing or unreadable value at any step."""
        ...

    @property
    def part(self) -> str:
        """Which episodes the threshold comes from: "assure" (held out) or "learning"."""
        ...

    @property
    def promises(self) -> bool:
        """Whether these are assure (held-out) episodes, so that the rate is promised."""
        # Otherwise it is only measured.
        ...

    @property
    def stopped(self) -> int:
        """How many further episodes were cut off, so that their outcome is unknown."""
        ...

    def scores(self, for_steps: int) -> FloatArray:
        """(episodes,): each episode's score: any threshold above it would have raised an alarm."""
        ...


class Trigger(NamedTuple):
    """An alarm rule as numbers: what is compared with which threshold, and what is promised.

    Attributes
    ----------
    compared
        Which number of the monitor's answer is compared: 0 is p, 1 low, 2 high, 3 plausibility and
        4 assurance; −1 for a rule that decides in Python (`AlarmRule.alarming`).
    raise_below
        The alarm is raised if the compared number is strictly below this.
    clear_at
        The alarm ends when the compared number is at least this.
    for_steps
        How many consecutive steps with known numbers it takes to raise the alarm.
    threshold
        The threshold to show: ``raise_below`` without the small margin for rounding.
    promised
        The promised false-alarm rate, if the rule has one.
    measured
        In a monitor without assure (held-out) episodes: the false-alarm rate as measured on the
        learning episodes, which is not a promise.
    """

    compared: int
    raise_below: float
    clear_at: float
    for_steps: int
    threshold: float
    promised: Threshold | None = None
    measured: Threshold | None = None

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """The trigger as plain numbers for the compiled code."""
        return self.compared, self.raise_below, self.clear_at, self.for_steps


class AlarmRule:
    """The base class of alarm rules, such as `Below`, `Promised` and `RuledOut`.

    To write your own rule, subclass this. Override `trigger` to say which number of the monitor's
    answer is compared with which threshold; such a rule runs at full speed. Or override `alarming`
    to decide in Python.

    Examples
    --------
    >>> class Falling(AlarmRule):
    ...     "Alarm if the lower bound is below one half."
    ...     def alarming(self, outlook):
    ...         return outlook.low < 0.5
    """

    compared_name: ClassVar[str] = "p"
    relation: ClassVar[str] = "below"  # as in "alarm below 0.4"
    needs_assure: ClassVar[bool] = False
    of_all_runs: ClassVar[bool] = False  # whether a promised rate is a share of all runs

    def trigger(self, assured: Assured | None) -> Trigger:
        """The alarm rule as numbers to compare, for a group of runs.

        ``assured`` are the group's assure (held-out) episodes; None if `needs_assure` is false.
        """
        return Trigger(-1, math.nan, math.nan, 1, math.nan)

    def alarming(self, outlook: Outlook) -> bool:
        """Whether an answer of the monitor raises the alarm.

        Not needed if you override `trigger`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs to override the method trigger or alarming"
        )

    def clearing(self, outlook: Outlook) -> bool:
        """Whether an answer of the monitor ends the alarm, for a rule that overrides `alarming`.

        By default the alarm ends with the first answer that does not raise it; override this to
        keep the alarm on for longer. `Below`, `Promised` and `RuledOut` do not use this method.
        """
        return not self.alarming(outlook)


@dataclass(frozen=True)
class Below(AlarmRule):
    """Alarm when p stays below a threshold.

    Parameters
    ----------
    threshold
        The alarm is raised if p is strictly below this.
    for_steps
        How many consecutive steps with known numbers it takes to raise the alarm.
    clear_above
        The alarm ends when p is at least this. By default it is 5 percentage points above the
        threshold, or halfway between the threshold and 1 if that is lower.

    Examples
    --------
    >>> Below(0.5).trigger(None).clear_at
    0.55
    """

    threshold: float = 0.9
    for_steps: int = 1
    clear_above: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise InputError(
                Argument("alarm_below"), f" needs a probability from 0 to 1, got {self.threshold!r}"
            )
        _check_steps(self.for_steps)
        if self.clear_above is not None and not self.threshold <= self.clear_above:
            raise _clears_too_early(self.clear_above, self.threshold)

    def trigger(self, assured: Assured | None) -> Trigger:
        """The alarm rule as numbers to compare; ``assured`` is not used."""
        clear = clear_at(self.threshold) if self.clear_above is None else self.clear_above
        return Trigger(P, self.threshold, clear, self.for_steps, self.threshold)


@dataclass(frozen=True)
class Promised(AlarmRule):
    """Alarm with a promised false-alarm rate; a false alarm is one in a run that meets its target.

    The threshold for p comes from those assure episodes (held out for promises) that met the target
    (method M8 in docs/methods.md). In a monitor without assure episodes it comes from the learning
    episodes; the rate is then measured, not promised.

    Parameters
    ----------
    rate
        The highest allowed probability that a run which meets its target raises any alarm.
    for_steps, clear_above
        As in `Below`. The promise holds with any values of these.
    robust
        Whether the promise holds however often values are missing or unreadable in live runs. By
        default such a bad reading is skipped, in live runs and in the assure episodes. So the
        promise assumes that readings fail in live runs as they did in the assure episodes. With
        True, an assure episode with any bad reading counts as one that would have raised an alarm.
        If there are many such episodes, the alarm detects few failures.
    confidence
        By default the rate holds on average over the sets of assure episodes that might have been
        recorded. With 0.95 it holds for at least 95 in 100 of these sets, if episodes are
        independent; the threshold is then lower (method M20).
    """

    rate: Level = 0.05
    for_steps: int = 1
    clear_above: float | None = None
    robust: bool = False
    confidence: Level | None = None
    needs_assure: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exact_rate(self.rate)
        _check_steps(self.for_steps)
        _check_confidence(self.confidence)

    def trigger(self, assured: Assured | None) -> Trigger:
        """The alarm rule as numbers, with the threshold that follows from ``assured``."""
        if assured is None:
            raise FewEpisodesError(NO_ASSURE)
        if self.confidence is not None and not assured.promises:
            raise FewEpisodesError(*_NOTHING_SURE)
        scores = assured.scores(self.for_steps)
        if self.robust:
            scores = np.where(assured.ever_broken, 0.0, scores)
        found = promised_threshold(
            scores,
            assured.met,
            self.rate,
            part=assured.part,
            confidence=self.confidence,
            stopped=assured.stopped,
        )
        threshold = found.value
        clear = clear_at(threshold) if self.clear_above is None else self.clear_above
        if clear < threshold:
            raise _clears_too_early(clear, threshold)
        behind = (found, None) if assured.promises else (None, found)
        return Trigger(P, threshold - _ROUNDING, clear, self.for_steps, threshold, *behind)


@dataclass(frozen=True)
class RuledOut(AlarmRule):
    """Alarm when the target is ruled out: its plausibility is at most ``rate``.

    At most a share ``rate`` of all runs meet their target and yet raise this alarm at any step,
    whatever the target is. This is a share of *all* runs: if few of them meet the target, the alarm
    may be wrong for most of these few. The alarm never clears. See method M9 in docs/methods.md.

    Parameters
    ----------
    rate
        The highest allowed probability that a run meets its target and yet raises the alarm at any
        step.
    for_steps
        How many consecutive steps with known numbers it takes to raise the alarm.
    confidence
        By default the rate holds on average over the sets of assure episodes (held out for
        promises) that might have been recorded. With 0.95 it holds for at least 95 in 100 of these
        sets, if episodes are independent; a target is then ruled out at a lower plausibility
        (method M20).
    """

    rate: Level = 0.05
    for_steps: int = 1
    confidence: Level | None = None
    compared_name: ClassVar[str] = "plausibility"
    relation: ClassVar[str] = "at or below"
    needs_assure: ClassVar[bool] = True
    of_all_runs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exact_level(self.rate, name="rate", hint="0.05 allows one run in twenty")
        _check_steps(self.for_steps)
        _check_confidence(self.confidence)

    def trigger(self, assured: Assured | None) -> Trigger:
        """The alarm rule as numbers."""
        if assured is None:
            raise FewEpisodesError(NO_ASSURE)
        if not assured.promises:
            raise FewEpisodesError(*_NOTHING_RULED_OUT)
        limit = float(exact_level(self.rate)) if self.confidence is None else self._limit(assured)
        just_above = math.nextafter(limit, math.inf)
        return Trigger(PLAUSIBILITY, just_above, math.inf, self.for_steps, limit)

    def _limit(self, assured: Assured) -> float:
        """The plausibility at or below which a target is ruled out, with the rule's confidence."""
        m = int(assured.met.size) + assured.stopped
        j = rank_within(self.rate, m, self.confidence)
        if j == 0:
            raise FewEpisodesError(
                f"ruling a target out at a rate of {self.rate} with confidence {self.confidence} "
                f"needs at least {needed_within(self.rate, self.confidence)} assure episodes, got "
                f"{m}; record more, or accept a higher rate or a lower confidence"
            )
        return j / (m + 1)


def rule_of(
    alarm: Any = None,
    *,
    alarm_below: float | None = None,
    false_alarm_rate: Level | None = None,
    confidence: Level | None = None,
    for_steps: int | None = None,
    clear_above: float | None = None,
) -> AlarmRule:
    """The alarm rule: ``alarm`` itself, or the rule that the other arguments describe."""
    shorthands = {
        "alarm_below": alarm_below,
        "false_alarm_rate": false_alarm_rate,
        "confidence": confidence,
        "for_steps": for_steps,
        "clear_above": clear_above,
    }
    given = [name for name, value in shorthands.items() if value is not None]
    if alarm is not None:
        if not isinstance(alarm, AlarmRule):
            raise InputError(
                Argument("alarm"),
                " needs a rule such as Below(0.9), Promised(0.05) or RuledOut(0.05), "
                f"got {alarm!r}",
            )
        if given:
            raise InputError(
                "pass ",
                Argument("alarm"),
                " or ",
                Argument(given[0]),
                ", not both: a rule already has all its settings",
            )
        return alarm
    if alarm_below is not None and false_alarm_rate is not None:
        raise InputError(
            "pass ", Argument("alarm_below"), " or ", Argument("false_alarm_rate"), ", not both"
        )
    steps = 1 if for_steps is None else for_steps
    if false_alarm_rate is not None:
        return Promised(false_alarm_rate, steps, clear_above, confidence=confidence)
    if confidence is not None:
        raise InputError(
            Argument("confidence"),
            " is only for a promised rate; pass ",
            Argument("false_alarm_rate", 0.05),
            " too",
        )
    return Below(0.9 if alarm_below is None else alarm_below, steps, clear_above)


def _clears_too_early(clear_above: float, threshold: float) -> InputError:
    return InputError(
        Argument("clear_above"),
        f" needs to be at least the threshold {threshold:g}, got {clear_above!r}",
    )


def clear_at(threshold: float) -> float:
    """The p at which an alarm with this threshold ends, by default."""
    return threshold + min(_HYSTERESIS, (1.0 - threshold) / 2.0)


def _check_steps(for_steps: object) -> None:
    whole_number("for_steps", for_steps, least=1)


def _check_confidence(confidence: Level | None) -> None:
    if confidence is not None:
        exact_confidence(confidence)


def checked_options(options: AlarmOptions) -> dict[str, Any]:
    """The options for an alarm as a dictionary; an unknown option raises an `InputError`."""
    known = AlarmOptions.__annotations__.keys() | RuleOptions.__annotations__.keys()
    for name in options.keys() - known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; the options are {sorted(known)}"
        raise InputError(f"there is no option {name!r}{hint}")
    return dict(options)
