"""Says in words whether the monitor or a classifier is better, and what to do then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import floor, isnan, log10

import numpy as np

from ontarget._numerals import percent
from ontarget.evaluation import Difference
from ontarget.study.compared import BASELINE, OURS, Compared
from ontarget.study.measures import MEASURES

_JUDGED = ("brier", "log_loss")  # the proper scores: nobody gains by hedging
_MANY = 0.01  # of the forecasts without an answer


class Standing(StrEnum):
    """How a monitor compares with one classifier."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "mixed"
    NO_DIFFERENCE = "no difference shown"


@dataclass(frozen=True)
class RivalVerdict:
    """How a monitor compares with one classifier, why, and what to do; prints as one sentence.

    Examples
    --------
    >>> reason = "better than the boosted classifier: Brier score lower by 0.0210 ± 0.0080"
    >>> print(RivalVerdict("boosted classifier", Standing.BETTER, reason))
    better than the boosted classifier: Brier score lower by 0.0210 ± 0.0080
    """

    rival: str
    standing: Standing
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.reason}{'; ' * bool(self.advice)}{self.advice}"


def verdict_beside(found: Compared, rival: str) -> RivalVerdict:
    """How the monitor compares with this classifier, by Brier score and log loss."""
    told = {name: found.difference(rival, name) for name in _JUDGED}
    standing = standing_of(told)
    shown = [name for name, one in told.items() if one.shows]
    match standing:
        case Standing.BETTER:
            reason, advice = f"better than the {rival}: {_listed(told, shown)}", _idle(found)
        case Standing.WORSE:
            reason = f"the {rival} is better: {_listed(told, shown, sign=-1.0)}"
            advice = _advice(found, rival)
        case Standing.MIXED:
            reason = f"neither better nor worse than the {rival}: {_listed(told, shown)}"
            advice = ""
        case Standing.NO_DIFFERENCE:
            reason = (
                f"no difference from the {rival} that these episodes could show: "
                f"{_listed(told, _JUDGED[:1])}"
            )
            advice = _idle(found)
    return RivalVerdict(rival, standing, reason, advice)


def standing_of(told: Mapping[str, Difference]) -> Standing:
    """Whether a method is better, worse, mixed, or not clearly different from another one.

    ``told`` has the differences by measure; a difference below 0 means that the method is better.

    Examples
    --------
    >>> lower, unclear = Difference(-0.02, 0.005, -0.03, -0.01), Difference(0.01, 0.02, -0.03, 0.05)
    >>> print(standing_of({"brier": lower, "log_loss": unclear}))
    better
    """
    ways = {one.value > 0.0 for one in told.values() if one.shows}
    if len(ways) == 2:
        return Standing.MIXED
    if not ways:
        return Standing.NO_DIFFERENCE
    return Standing.WORSE if ways.pop() else Standing.BETTER


def _listed(told: Mapping[str, Difference], shown: Sequence[str], sign: float = 1.0) -> str:
    """The differences of the measures in ``shown``, as text.

    If exactly one measure shows no difference, that is added in brackets.
    """
    text = ", ".join(f"{MEASURES[name]} {_way(told[name], sign)}" for name in shown)
    unshown = [MEASURES[name] for name, one in told.items() if not one.shows]
    if len(unshown) == 1:
        text += f" ({unshown[0]}: no difference shown)"
    return text


def _way(one: Difference, sign: float) -> str:
    way = "lower" if sign * one.value < 0.0 else "higher"
    known = not isnan(one.reach) and one.reach > 0.0
    digits = max(4, -floor(log10(one.reach))) if known else 4
    return f"{way} by {abs(one.value):.{digits}f} ± {one.reach:.{digits}f}"


def _idle(found: Compared) -> str:
    """A sentence if the monitor forecasts no better than the past rate of success; else empty."""
    if found.difference(BASELINE).value < 0.0:
        return ""
    return "always answering with the past's rate is as good, so these features do not help yet"


def _advice(found: Compared, rival: str) -> str:
    """Text: what to do if a classifier is better; reasons found in the numbers come first."""
    ours = found.scores(OURS)
    told = [_where(found, rival)]
    if ours.unanswered > _MANY:
        told.append(
            f"{percent(ours.unanswered, fixed=True)} of the forecasts are UNKNOWN, and the past's "
            "rate is used there; record more runs that reach these steps"
        )
    off = found.difference(rival, "ece")
    if off.shows and off.value > 0.0:
        told.append(f"the monitor's p has an ECE that is higher by {off.value:.4f}")
    told.append(
        "features that sum up earlier steps, or more runs, may close the gap; if this one target "
        "is all you ask about and you need no promises, use that classifier"
    )
    return "; ".join(told)


def _where(found: Compared, rival: str) -> str:
    """Text: the third of the steps in which most of the difference arises."""
    lost = np.zeros(found.n_steps)
    for trial in found.trials:
        ours, theirs = ((trial.p[name] - trial.met) ** 2 for name in (OURS, rival))
        lost += np.bincount(trial.t, ours - theirs, minlength=found.n_steps)
    thirds = np.array_split(np.arange(found.n_steps), min(3, found.n_steps))
    most = max(thirds, key=lambda steps: float(lost[steps].sum()))
    return f"most of the difference comes from steps {most[0]} to {most[-1]}"
