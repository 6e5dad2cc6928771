"""What an evaluation's sentences rest on: the alarm, how far p is off, what chance explains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import hypot
from typing import Any, NamedTuple

import numpy as np

from ontarget._grid import snap
from ontarget.conformal._levels import exact_confidence, exact_rate
from ontarget.episodes import Translation
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import NO_ALARM
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live.assured import Contracts
from ontarget.live.goals.contract import GoalContracts
from ontarget.live.rules import AlarmRule, Promised, RuledOut
from ontarget.report.measured import Measured, RaisedAlarms
from ontarget.target import Target

__all__ = ["Facts", "Gap", "OneSided", "explained", "facts_of", "gap_of", "p_in_words"]

_TWO_SIDED_95 = 1.96


class Gap(NamedTuple):
    """How far p is off, and how far chance alone could put it off (95 % confidence).

    Attributes
    ----------
    off
        The expected calibration error: how far p lies from what came true, on average.
    new_runs
        How far the luck of the evaluated runs could move that error.
    calibration
        How far the luck of the recorded episodes could move p, on average over forecasts.
    too_high
        Mean p less the share that came true: above 0 where p promises too much.
    n
        The median number of recorded episodes that calibrated a forecast.
    """

    off: float
    new_runs: float
    calibration: float
    too_high: float
    n: int

    @property
    def chance(self) -> float:
        """How far both kinds of luck together could put p off."""
        return hypot(self.new_runs, self.calibration)

    @property
    def beyond_chance(self) -> bool:
        """Whether p is off by more than chance explains."""
        return self.off > self.chance


class OneSided(NamedTuple):
    """Alarms that count as in time only because no bounds of the reward were declared."""

    side: str  # where no reward was seen: below 0, or above it
    bounds: tuple[float, float]  # what to declare
    past: int  # alarms that came when the total had already passed the target


@dataclass(frozen=True, eq=False)
class Facts:
    """An evaluation with what several sentences need of it."""

    found: Measured
    rule: AlarmRule
    alarms: RaisedAlarms | None
    no_alarms: FewEpisodesError | None  # why there are none

    @property
    def asked_rate(self) -> float | None:
        """The rate of false alarms that the rule is set for; None if it is set for none."""
        rule = self.rule
        return float(exact_rate(rule.rate)) if isinstance(rule, Promised | RuledOut) else None

    @property
    def promised_rate(self) -> float | None:
        """The rate of false alarms that is promised; None if none is."""
        return None if self.only_measured else self.asked_rate

    @property
    def confidence(self) -> float | None:
        """The confidence with which the rate is promised; None if it is promised on average."""
        asked = getattr(self.rule, "confidence", None)
        return None if asked is None else float(exact_confidence(asked))

    @property
    def only_measured(self) -> bool:
        """Whether the learning episodes set the alarm, for want of assure episodes (M16)."""
        return self.alarms is not None and self.alarms.measured

    @property
    def allowed_rate(self) -> float | None:
        """The rate up to which the promise holds, given the luck of these assure episodes."""
        if self.promised_rate is None or self.alarms is None:
            return None
        promises = [trigger.promised for trigger in self.alarms.triggers]
        spreads = [one.spread(0.95)[1] for one in promises if one is not None]
        return max([self.promised_rate, *spreads])

    @cached_property
    def gap(self) -> Gap:
        """How far p is off, and what chance explains of that."""
        return gap_of(self.found)

    @property
    def recorded_rate(self) -> float | None:
        """The share of assure episodes that met the target; None if the monitor has none."""
        contracts: Any = self.found.contracts
        met = contracts.recorded_met(self.found.target)
        return None if met is None else float(met.mean())

    @cached_property
    def one_sided(self) -> OneSided | None:
        """Alarms after the target was lost in all but name; None if there are none."""
        found, raised = self.found, self.alarms
        if isinstance(found.target, Goal):
            return None
        earned = found.episodes.reward_range
        if raised is None or earned is None:
            return None
        if found.fitted.behavior.translation is not Translation.SHIFT:
            return None
        low, high = found.fitted.reward_bounds
        rising = earned[0] >= 0.0 and low < 0.0
        if not rising and not (earned[1] <= 0.0 and high > 0.0):
            return None
        end = found.target.upper if rising else found.target.lower
        past = 0
        for t in np.unique(raised.first[~found.met & (raised.first != NO_ALARM)]).tolist():
            rows = found.episodes.at(t, grid=found.fitted.grid)
            alarmed = (raised.first[rows.index] == t) & ~found.met[rows.index]
            ahead = rows.behavior - float(snap(end, found.fitted.grid))
            past += int(np.count_nonzero(alarmed & ((ahead if rising else -ahead) > 0.0)))
        if not past:
            return None
        bounds = (0.0, np.inf) if rising else (-np.inf, 0.0)
        return OneSided("below" if rising else "above", bounds, past)


def facts_of(found: Measured, rule: AlarmRule) -> Facts:
    """The facts about an evaluation whose alarms follow this rule."""
    try:
        return Facts(found, rule, found.alarms(rule), None)
    except FewEpisodesError as error:
        return Facts(found, rule, None, explained(error, found.contracts, found.target))


def p_in_words(found: Measured) -> str:
    """How p was calibrated, and by how many episodes."""
    calibration, sizes = found.calibration, found.fitted.trained.sizes
    if isinstance(calibration, TargetMap):
        return calibration.in_words
    if calibration is not None:
        return "exactly calibrated for this target (Venn–Abers)"
    if "learn" in sizes:
        return f"by one map for all targets, from {sizes['learn']:,} learning episodes"
    return f"by the ranks of {sizes['calibrate']:,} calibration episodes, as in the paper"


def explained(
    error: FewEpisodesError, contracts: Contracts | GoalContracts, target: Target | Goal
) -> FewEpisodesError:
    """The error of a promise that cannot be made, or one with better advice.

    If no recorded run ever met the target, neither more episodes nor a higher rate will help.
    """
    asked: Any = contracts  # whose target this is
    met = asked.recorded_met(target)
    if met is None or met.any():
        return error
    observed, seen = contracts.fitted.observed, ""
    if observed is not None and not isinstance(target, Goal):
        low, high = observed.outcomes.min(), observed.outcomes.max()
        seen = f"; their outcomes are {low:.4g} to {high:.4g}"
    return FewEpisodesError(
        f"none of the {met.size:,} assure episodes met the target {target}, and a promise "
        f"needs some that did{seen}: choose a target that runs can meet"
    )


def gap_of(found: Measured) -> Gap:
    """How far p is off on these runs, and how far chance could put it off.

    Given n episodes that calibrate it, the true share behind a stated p is Beta distributed with
    variance p (1 − p) / (n + 2) (M13). The forecasts of a step share their luck, so it does not
    average out.
    """
    ece, known = found.ece(), ~np.isnan(found.p)
    p, n = found.p[known], np.broadcast_to(found.learned, known.shape)[known]
    spread = np.sqrt(p * (1.0 - p) / (n + 2.0))
    met = np.broadcast_to(found.met, known.shape)[known]
    return Gap(
        off=ece.value,
        new_runs=ece.high - ece.value,
        calibration=float(_TWO_SIDED_95 * spread.mean()),
        too_high=float(p.mean() - met.mean()),
        n=int(np.median(n)),
    )
