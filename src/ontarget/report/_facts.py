"""The numbers behind the sentences of an evaluation: alarms, error of p, what chance explains.

p is the probability of meeting the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, hypot, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ontarget._grid import snap
from ontarget._typing import BoolArray, IndexArray
from ontarget.conformal.levels import exact_confidence, exact_rate
from ontarget.conformal.planning import needed_successes
from ontarget.episodes import Translation
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import NO_ALARM, AlarmQuality, Rate
from ontarget.goal import Goal
from ontarget.live._assured import Contracts
from ontarget.live.goals.contract import GoalContracts
from ontarget.live.rules import AlarmRule, Promised, RuledOut
from ontarget.report.measured import Measured, RaisedAlarms
from ontarget.target import Target

_TWO_SIDED_95 = 1.96
_CLEAR = 0.1  # p nearer to 0 or 1 than this is a clear case
_MOSTLY, _NEARLY_ALL = 0.5, 0.9  # of an error that goes one way
_FEW_BETWEEN = 0.2  # with fewer forecasts between, a mean over all is one over clear cases


class Gap(NamedTuple):
    """How far p (the probability of meeting the target) is off, and how much of it may be chance.

    What chance explains is stated with 95 % confidence.

    Attributes
    ----------
    off
        The expected calibration error: how far p is from how often it came true, on average.
    new_runs
        How far chance in the evaluated runs could move ``off``.
    calibration
        How far chance in the recorded episodes could move p, on average over forecasts.
    too_high
        Mean p minus the share that came true: above 0 if p is too high.
    n
        The median number of recorded episodes that calibrated a forecast.
    """

    off: float
    new_runs: float
    calibration: float
    too_high: float
    n: int

    @property
    def way(self) -> str:
        """Words on how p is wrong: too high, too low, mostly one of them, or each in places.

        p is the probability of meeting the target.
        """
        one_way = abs(self.too_high) / self.off if self.off else 0.0
        side = f"too {'high' if self.too_high > 0.0 else 'low'}"
        if one_way < _MOSTLY:
            return "too high in places, too low in others"
        return side if one_way >= _NEARLY_ALL else f"mostly {side}"

    @property
    def chance(self) -> float:
        """How far p could be off by chance: in the evaluated runs and in the recorded episodes.

        p is the probability of meeting the target.
        """
        return hypot(self.new_runs, self.calibration)

    @property
    def beyond_chance(self) -> bool:
        """Whether p is off by more than chance explains.

        p is the probability of meeting the target.
        """
        return self.off > self.chance


class Lean(NamedTuple):
    """Whether p is too high or too low on average over some forecasts, and what chance explains.

    p is the probability of meeting the target.

    Attributes
    ----------
    too_high
        The mean of p minus the share of these forecasts that came true.
    new_runs, calibration
        How far chance in the evaluated runs, and chance in the recorded episodes, could move
        ``too_high`` (95 % confidence).
    share
        These forecasts as a share of all forecasts.
    runs
        How many runs have at least one of these forecasts.
    """

    too_high: float
    new_runs: float
    calibration: float
    share: float
    runs: int

    @property
    def shows(self) -> bool:
        """Whether ``too_high`` is more than chance in the evaluated runs explains."""
        return abs(self.too_high) > self.new_runs

    @property
    def beyond_chance(self) -> bool:
        """Whether ``too_high`` is more than chance explains.

        Chance in the evaluated runs and chance in the recorded episodes are both counted.
        """
        return abs(self.too_high) > self.chance

    @property
    def chance(self) -> float:
        """How far chance could move ``too_high``, in evaluated runs and recorded episodes."""
        return hypot(self.new_runs, self.calibration)

    @property
    def way(self) -> str:
        """The words "too high" or "too low", for p on average.

        p is the probability of meeting the target.
        """
        return "too high" if self.too_high > 0.0 else "too low"


class Shortfall(NamedTuple):
    """How many recorded runs are missing before a rate of false alarms can be promised.

    A promise needs enough assure episodes (held out to back the promises) that met the target.
    """

    rate: float  # that was asked for
    has: int
    needed: int
    more: int  # how many more runs to record, if as many of them meet the target
    in_all: int  # how many runs that makes for the next fit
    possible: float | None  # the lowest rate, in whole per cent, that could be promised now


class RewardSide(NamedTuple):
    """Alarms that count as in time only because no bounds of the reward were declared.

    With the right bounds they would count as too late: the target was already missed for certain.
    """

    side: str  # where no reward was seen: below 0, or above it
    bounds: tuple[float, float]  # what to declare
    past: int  # alarms that came when the total had already passed the target


@dataclass(frozen=True, eq=False)
class Facts:
    """An evaluation and an alarm rule, with the numbers that the sentences of a report need."""

    found: Measured
    rule: AlarmRule
    alarms: RaisedAlarms | None
    no_alarms: FewEpisodesError | None  # why there are none

    @property
    def asked_rate(self) -> float | None:
        """The rate of false alarms that the alarm rule asks for; None if it asks for none."""
        rule = self.rule
        return float(exact_rate(rule.rate)) if isinstance(rule, Promised | RuledOut) else None

    @property
    def false_alarms(self) -> Rate:
        """The share of runs that raised a false alarm.

        It is a share of the good runs or of all runs, whichever the alarm rule's rate is about.
        """
        assert self.alarms is not None
        return counted_false(self.rule, self.alarms.quality)

    @property
    def raised(self) -> str:
        """Words for the end of a sentence: of which runs the false alarms are a share."""
        if self.rule.of_all_runs:
            return "of all runs raised a false alarm"
        return "of good runs raised an alarm"

    @property
    def counted(self) -> str:
        """The words "false alarms", with "among all runs" if their rate is a share of all runs."""
        return f"false alarms{' among all runs' * self.rule.of_all_runs}"

    @property
    def promised_rate(self) -> float | None:
        """The rate of false alarms that is promised (guaranteed); None if none is."""
        return None if self.only_measured else self.asked_rate

    @property
    def confidence(self) -> float | None:
        """The confidence with which the rate of false alarms is promised.

        None if the rate is promised on average over recordings.
        """
        asked = getattr(self.rule, "confidence", None)
        return None if asked is None else float(exact_confidence(asked))

    @property
    def only_measured(self) -> bool:
        """Whether the alarm's threshold comes from the episodes that models learned from.

        That is so if there are no assure episodes, which are held out to back promises. The rate of
        false alarms is then measured, not promised.
        """
        return self.alarms is not None and self.alarms.measured

    @property
    def allowed_rate(self) -> float | None:
        """The highest true rate of false alarms that does not break the promise.

        The promise is an average over recordings. By chance, the assure episodes of this recording
        (held out to back the promises) may lead to a somewhat higher rate. None without a promise.
        """
        if self.promised_rate is None or self.alarms is None:
            return None
        promises = [trigger.promised for trigger in self.alarms.triggers]
        spreads = [one.spread(0.95)[1] for one in promises if one is not None]
        return max([self.promised_rate, *spreads])

    @cached_property
    def gap(self) -> Gap:
        """How far p (the probability of meeting the target) is off, and what chance explains."""
        return gap_of(self.found)

    @cached_property
    def lean(self) -> Lean:
        """Whether p is too high or too low on average over all forecasts.

        p is the probability of meeting the target.
        """
        return lean_of(self.found, ~np.isnan(self.found.p))

    @cached_property
    def unclear(self) -> Lean | None:
        """Whether p is too high or too low over the forecasts between 10 and 90 %.

        None unless these forecasts are a small part of all forecasts. Nearly all others are then
        close to 0 or 1, and a mean over all forecasts would hide an error in the few between. All
        forecasts between 10 and 90 % are tested together, in a single test. p is the probability of
        meeting the target.
        """
        p = self.found.p
        found = lean_of(self.found, (p >= _CLEAR) & (p <= 1.0 - _CLEAR))
        return found if found.share < _FEW_BETWEEN else None

    @property
    def shortfall(self) -> Shortfall | None:
        """How many recorded runs are missing before the rate that was asked for can be promised.

        None if no runs are missing, or if their number cannot be computed.
        """
        rule, fitted, contracts = self.rule, self.found.fitted, self.found.contracts
        plain = fitted.n_groups == 1 and not any(fitted.stopped)
        if self.alarms is not None or not isinstance(rule, Promised) or rule.robust or not plain:
            return None
        asked: Any = contracts
        met = asked.recorded_met(self.found.target)
        if met is None or not met.any():
            return None
        has, needed = int(met.sum()), needed_successes(rule.rate, rule.confidence)
        if has >= needed:
            return None
        rates = (k / 100 for k in range(1, 51))
        possible = (one for one in rates if needed_successes(one, rule.confidence) <= has)
        more = rounded_up(self.recorded * (needed / has - 1.0))
        return Shortfall(
            rate=float(exact_rate(rule.rate)),
            has=has,
            needed=needed,
            more=more,
            in_all=self.recorded + more,
            possible=next(possible, None),
        )

    @property
    def recorded(self) -> int:
        """How many runs the monitor was fitted on, including those held out for promises."""
        return sum(self.found.fitted.trained.sizes.values())

    @cached_property
    def since(self) -> Lean | None:
        """Whether p is too high or too low over all steps of the runs since the process changed.

        None if the process did not change, if nobody can say when it did, or if no run came before
        the change. p is the probability of meeting the target.
        """
        later = later_runs(self.found)
        if later is None:
            return None
        where = np.zeros(self.found.p.shape, dtype=np.bool_)
        where[:, later] = ~np.isnan(self.found.p[:, later])
        return lean_of(self.found, where)

    @property
    def recorded_rate(self) -> float | None:
        """The share of assure episodes that met the target; None without assure episodes.

        Assure episodes are recorded runs held out to back the promises.
        """
        contracts: Any = self.found.contracts
        met = contracts.recorded_met(self.found.target)
        return None if met is None else float(met.mean())

    @cached_property
    def reward_side(self) -> RewardSide | None:
        """Alarms that count as in time only because no bounds of the reward were declared.

        If rewards are never negative (or never positive), a total beyond the target never returns,
        so these alarms came too late. None if there are no such alarms.
        """
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
        return RewardSide("below" if rising else "above", bounds, past)


def later_runs(found: Measured) -> IndexArray | None:
    """The positions of the runs since the process changed; None if that is not known.

    It is also None if no run came before the change.
    """
    drift = found.drifted
    if drift is None or not drift.covers_both or not drift.later:
        return None
    return np.array(drift.later, dtype=np.intp)


def rounded_up(number: float) -> int:
    """The number rounded up to two significant digits."""
    unit: int = 10 ** max(0, len(str(ceil(number))) - 2)
    return ceil(number / unit) * unit


def facts_of(found: Measured, rule: AlarmRule) -> Facts:
    """The numbers that the sentences of a report need, for an evaluation and an alarm rule."""
    try:
        return Facts(found, rule, found.alarms(rule), None)
    except FewEpisodesError as error:
        return Facts(found, rule, None, explained(error, found.contracts, found.target))


def p_in_words(found: Measured) -> str:
    """Words on how p (the probability of meeting the target) was calibrated."""
    calibration, sizes = found.calibration, found.fitted.trained.sizes
    if calibration is not None:
        return calibration.in_words
    if "learn" in sizes:
        return f"by one map for all targets, from {sizes['learn']:,} learning episodes"
    return f"by the ranks of {sizes['calibrate']:,} calibration episodes, as in the paper"


def explained(
    error: FewEpisodesError, contracts: Contracts | GoalContracts, target: Target | Goal
) -> FewEpisodesError:
    """The error that says that a promise cannot be made, with better advice if there is any.

    If no assure episode met the target, neither more episodes nor a higher rate would help; the
    advice is then to choose another target.
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

    If n episodes calibrate p (the probability of meeting the target), the true share behind a
    stated p has a Beta distribution with the variance p (1 − p) / (n + 2) (method M13 in
    docs/methods.md). All forecasts of a step depend on the same n episodes, so this error does not
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


def lean_of(found: Measured, where: BoolArray) -> Lean:
    """Whether p is too high or too low, on average over the forecasts where ``where`` is true.

    All forecasts of a run share the same outcome, so each run counts as one observation. p is the
    probability of meeting the target.
    """
    total, known = int(np.count_nonzero(where)), int(np.count_nonzero(~np.isnan(found.p)))
    if not total:
        return Lean(0.0, inf, 0.0, 0.0, 0)
    error = np.where(where, found.p - found.met, 0.0).sum(axis=0)
    count = np.count_nonzero(where, axis=0)
    runs, mean = int(np.count_nonzero(count)), float(error.sum() / total)
    reach = inf
    if runs > 1:
        swing = float(((error - mean * count) ** 2).sum()) * runs / (runs - 1)
        reach = float(stdtrit(runs - 1, 0.975)) * sqrt(swing) / total
    p, n = found.p[where], np.broadcast_to(found.learned, where.shape)[where]
    luck = float(_TWO_SIDED_95 * np.sqrt(p * (1.0 - p) / (n + 2.0)).mean())
    return Lean(mean, reach, luck, total / known, runs)


def counted_false(rule: AlarmRule, quality: AlarmQuality) -> Rate:
    """The share of good runs with an alarm, or the share of all runs with a false alarm.

    Which of the two it is depends on what the alarm rule's rate is about.
    """
    false, failed = quality.false_alarms, quality.detections.n
    if not rule.of_all_runs:
        return false
    return Rate.of(false.count, false.n + failed, level=false.level)
