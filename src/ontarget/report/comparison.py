"""A comparison of two monitors on the same new episodes: which one to deploy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ontarget._text import percent
from ontarget._typing import FloatArray
from ontarget.errors import FewEpisodesError, InputError
from ontarget.evaluation import (
    NO_ALARM,
    log_losses,
    paired_difference,
    pooled_ece,
    squared_errors,
)
from ontarget.evaluation.resampling import Difference
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule
from ontarget.report.check import MANY_UNANSWERED
from ontarget.report.measured import Measured
from ontarget.target import Target


class Pair(NamedTuple):
    """One measure of two monitors: both values, and their difference with its 95 % interval.

    The difference is the first minus the second.
    """

    first: float
    second: float
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """Two monitors measured on the same forecasts of the same episodes; prints as a few lines.

    Only steps at which both monitors know p are compared. ``brier``, ``log_loss`` and ``ece`` are
    lower for the better p; ``false_alarms`` and ``in_time`` are None if an alarm cannot be
    promised, and ``no_alarms`` says why. ``seen`` is how many of the episodes each monitor was
    fitted on, ``unanswered`` its share of steps without an answer. With ``same_p``, as for a
    monitor and its recalibrated copy, only alarms are compared.
    """

    names: tuple[str, str]
    target: Target | Goal
    episodes: int
    forecasts: int
    brier: Pair
    log_loss: Pair
    ece: tuple[float, float]
    false_alarms: Pair | None
    in_time: Pair | None
    no_alarms: str
    seen: tuple[int, int]
    same_p: bool = False
    unanswered: tuple[float, float] = (0.0, 0.0)

    @property
    def preferred(self) -> str | None:
        """The name of the monitor whose p is better, by more than chance explains."""
        shown = [one.difference for one in (self.brier, self.log_loss) if one.difference.shows]
        better = {self.names[0] if one.value < 0.0 else self.names[1] for one in shown}
        return better.pop() if len(better) == 1 and not any(self.seen) else None

    @property
    def verdict(self) -> str:
        """A sentence that says which of the two monitors to deploy, and why."""
        for name, n in zip(self.names, self.seen, strict=True):
            if n:
                return (
                    f"cannot say: {name} was fitted on {n:,} of these {self.episodes:,} episodes, "
                    "which flatters it; compare on episodes that neither has seen"
                )
        if self.same_p:
            return (
                "deploy the renewed one if the old one's promises no longer hold: it promises what "
                "the newer runs showed. Fit anew if p itself is off (`ontarget drift` tells)"
            )
        if self.preferred is not None:
            other = next(name for name in self.names if name != self.preferred)
            said = f"deploy {self.preferred}: its p is better than that of {other} beyond chance"
            return said + self._but + self._less_often
        if self.brier.difference.shows and self.log_loss.difference.shows:
            return "cannot say: one is better by the Brier score, the other by log loss"
        return (
            f"no difference shows on these {self.episodes:,} episodes: keep the one that is in use"
        )

    @property
    def _but(self) -> str:
        """A clause, if the monitor with the better p has more false alarms; else empty."""
        pair = self.false_alarms
        if pair is None or not pair.difference.shows:
            return ""
        noisier, share = (
            (self.names[0], pair.first) if pair.difference.value > 0.0 else
            (self.names[1], pair.second)
        )  # fmt: skip
        if noisier != self.preferred:
            return ""
        return f", but {percent(share)} of good runs raise its alarm, more than with the other"

    @property
    def _less_often(self) -> str:
        """A clause, if the monitor with the better p answers at clearly fewer steps; else empty."""
        own, other = self.unanswered
        if self.preferred != self.names[0]:
            own, other = other, own
        if own - other <= MANY_UNANSWERED:
            return ""
        return f", but it has no answer at {percent(own)} of steps, the other at {percent(other)}"

    def __str__(self) -> str:
        first, second = self.names
        lines = {
            "first": first,
            "second": second,
            "target": f"{self.target}, {self.episodes:,} episodes, {self.forecasts:,} forecasts "
            "that both can make",
            "no answer": " and ".join(map(percent, self.unanswered)) + " of steps"
            if any(self.unanswered)
            else "",
            "p": "the same in both, which have the same models; only their promises, and so their "
            "alarms, rest on other episodes"
            if self.same_p
            else "",
            "Brier": "" if self.same_p else _measure(self.brier),
            "log loss": "" if self.same_p else _measure(self.log_loss),
            "ECE": "" if self.same_p else f"{self.ece[0]:.4f} and {self.ece[1]:.4f}",
            "false": "" if self.false_alarms is None else _shares(self.false_alarms, "good runs"),
            "caught": "" if self.in_time is None else _shares(self.in_time, "failures, in time"),
            "alarm": self.no_alarms and f"not compared: {self.no_alarms}",
            "verdict": self.verdict,
        }
        return "\n".join(f"{name:<10} {text}" for name, text in lines.items() if text)

    def to_json(self) -> dict[str, Any]:
        """The whole comparison as plain JSON values."""
        pairs = {
            "brier": self.brier,
            "log_loss": self.log_loss,
            "false_alarms": self.false_alarms,
            "in_time": self.in_time,
        }
        return {
            "names": list(self.names),
            "target": str(self.target),
            "episodes": self.episodes,
            "forecasts": self.forecasts,
            "ece": list(self.ece),
            "seen": list(self.seen),
            "unanswered": list(self.unanswered),
            "same_p": self.same_p,
            "preferred": self.preferred,
            "verdict": self.verdict,
            **{
                name: None if one is None else _plain(one) for name, one in pairs.items()
            },
        }  # fmt: skip


def compare(
    first: Measured, second: Measured, rule: AlarmRule, names: tuple[str, str] = ("first", "second")
) -> Comparison:
    """A comparison of two monitors by their evaluations on the same episodes."""
    # Differences are computed run by run, because both monitors were asked about the same runs.
    _check_alike(first, second)
    steps = max(len(first.p), len(second.p))
    panels = [_longer(one.p, steps) for one in (first, second)]
    known = ~np.isnan(panels[0]) & ~np.isnan(panels[1])
    if not known.any():
        raise FewEpisodesError(
            "there is no step at which both monitors know p, so nothing can be compared"
        )
    panels = [np.where(known, one, np.nan) for one in panels]
    learned = [_longer(one.learned.astype(np.float64), steps) for one in (first, second)]
    losses = [
        log_losses(p, first.met, n_calibration=np.nan_to_num(n, nan=1.0).astype(np.intp))
        for p, n in zip(panels, learned, strict=True)
    ]
    squares = [squared_errors(p, first.met) for p in panels]
    false = in_time = None
    trouble = ""
    try:
        false, in_time = _alarms(first, second, rule)
    except FewEpisodesError as error:
        trouble = str(error)
    return Comparison(
        names=names,
        target=first.target,
        episodes=int(first.met.size),
        forecasts=int(known.sum()),
        brier=_pair(first, squares),
        log_loss=_pair(first, losses),
        ece=(_ece(first, panels[0]), _ece(second, panels[1])),
        false_alarms=false,
        in_time=in_time,
        no_alarms=trouble,
        seen=(int(first.fitted_on.size), int(second.fitted_on.size)),
        same_p=np.array_equal(panels[0], panels[1], equal_nan=True)
        and _promise_apart(first, second),
        unanswered=(first.unanswered.share, second.unanswered.share),
    )


def _check_alike(first: Measured, second: Measured) -> None:
    if first.target != second.target:
        raise InputError(
            f"two monitors are compared on one target, got {first.target} and {second.target}"
        )
    if first.ids.tolist() != second.ids.tolist() or not np.array_equal(first.met, second.met):
        raise InputError(
            "two monitors are compared on the same episodes, which must end alike for both; read "
            "one file for both, with the same behavior"
        )


def _promise_apart(first: Measured, second: Measured) -> bool:
    """Whether the two monitors have different assure episodes."""
    one, other = (found.fitted.trained.fingerprints_of("assure") for found in (first, second))
    return not np.array_equal(np.sort(one), np.sort(other))


def _longer(panel: FloatArray, steps: int) -> FloatArray:
    """The array (steps, episodes) with more steps, up to ``steps``; added values are NaN."""
    more = np.full((steps - len(panel), panel.shape[1]), np.nan)
    return np.concatenate([panel, more])


def _ece(found: Measured, p: FloatArray) -> float:
    """The calibration error of these forecasts."""
    return pooled_ece(p, found.met, ids=found.ids, resampling=found.resampling).value


def _pair(found: Measured, losses: list[FloatArray]) -> Pair:
    first, second = losses
    difference = paired_difference(first, second, ids=found.ids, resampling=found.resampling)
    return Pair(float(np.nanmean(first)), float(np.nanmean(second)), difference)


def _alarms(first: Measured, second: Measured, rule: AlarmRule) -> tuple[Pair | None, Pair | None]:
    """Two monitors' shares of false alarms among good runs and of failures caught in time."""
    raised = [one.alarms(rule).first for one in (first, second)]
    on = [np.asarray(one != NO_ALARM) for one in raised]
    timely = [
        went & (at < one.answers.decided_at)
        for went, at, one in zip(on, raised, (first, second), strict=True)
    ]
    found = []
    for bits, own in ((on, first.met), (timely, ~first.met)):
        rows = [np.where(own, one, np.nan)[None, :].astype(np.float64) for one in bits]
        found.append(_pair(first, rows) if own.any() else None)
    return found[0], found[1]


def _measure(pair: Pair) -> str:
    gap = pair.difference
    return (
        f"{pair.first:.4f} and {pair.second:.4f}, difference {gap.value:+.4f} "
        f"[{gap.low:+.4f}, {gap.high:+.4f}]"
    )


def _shares(pair: Pair, what: str) -> str:
    gap = pair.difference
    return (
        f"{percent(pair.first)} and {percent(pair.second)} of {what}, difference "
        f"{100 * gap.value:+.1f} points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
    )


def _plain(pair: Pair) -> dict[str, Any]:
    return {**pair._asdict(), "difference": pair.difference._asdict()}
