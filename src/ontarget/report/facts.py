"""What an evaluation and an alarm rule showed: each condition is decided here, once.

The checks of an evaluation, and every sentence about it, read the conditions from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from math import ceil, hypot, inf, sqrt
from typing import Final, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ontarget._grid import snap
from ontarget._typing import BoolArray, IndexArray
from ontarget.conformal.levels import exact_confidence, exact_rate, needed_successes
from ontarget.drift.change import DriftJudgement
from ontarget.episodes import Translation
from ontarget.errors import FewEpisodesError
from ontarget.evaluation import NO_ALARM, AlarmQuality, Rate, alarm_quality
from ontarget.goal import Goal
from ontarget.live.contracts import Contracts
from ontarget.live.rules import AlarmRule, Promised, RuledOut
from ontarget.report.check import MANY_UNANSWERED
from ontarget.report.measured import Measured, RaisedAlarms
from ontarget.target import Target

COARSE: Final = 0.1  # with chance as large as this, agreement means nothing
CERTAIN: Final = 0.05  # how often what is ruled out or assured may be wrong
_MOSTLY_MISSED = 0.2  # of runs that meet a target: with fewer, an alarm is the normal state
_USEFUL = 0.05  # by how much less a useful p errs than one that only knows the step
_CATCHES = 0.5  # of failures, in time: with fewer, an alarm is of little use
_TWO_SIDED_95 = 1.96
_CLEAR = 0.1  # p nearer to 0 or 1 than this is a clear case
_MOSTLY, _NEARLY_ALL = 0.5, 0.9  # of an error that goes one way
_FEW_BETWEEN = 0.2  # with fewer forecasts between, a mean over all is one over clear cases


class OfP(Enum):
    """How p did on these runs; the first that is true."""

    OFF = auto()  # by more than chance explains
    NONE_MET = auto()
    COARSE = auto()  # chance alone could put p far off
    OFF_BETWEEN = auto()  # right on average, but not between 10 and 90 %
    RIGHT = auto()


class OfAlarm(Enum):
    """How the alarm did on these runs; the first that is true."""

    NONE = auto()  # too few assure runs met the target for the promise that was asked for
    UNPROMISED = auto()
    BROKEN = auto()  # more false alarms than chance explains, over all runs or since a change
    ABOVE = auto()  # more than promised, which the luck of the assure runs may explain
    FEW = auto()  # too few runs to check the promise
    KEPT = auto()


class Gap(NamedTuple):
    """How far p is off over some forecasts, and how much of it may be chance (95 % confidence).

    ``off`` is the size of the error: over all forecasts the expected calibration error, else that
    of ``too_high``, the mean of p minus the share that came true. ``new_runs`` is how far chance in
    the evaluated runs could move it, and ``calibration`` how far chance in the recorded runs could
    move p. ``n`` is the median number of recorded runs behind a forecast, ``share`` the share of
    these forecasts among all, and ``runs`` how many runs have one of them.
    """

    off: float
    new_runs: float
    calibration: float
    too_high: float
    n: int = 0
    share: float = 1.0
    runs: int = 0

    @property
    def way(self) -> str:
        """Whether p is too high, too low, mostly one of them, or each in places, in words."""
        one_way = abs(self.too_high) / self.off if self.off else 0.0
        if one_way < _MOSTLY:
            return "too high in places, too low in others"
        side = f"too {'high' if self.too_high > 0.0 else 'low'}"
        return side if one_way >= _NEARLY_ALL else f"mostly {side}"

    @property
    def chance(self) -> float:
        """How far p could be off by chance: in the evaluated runs and in the recorded ones."""
        return hypot(self.new_runs, self.calibration)

    @property
    def shows(self) -> bool:
        """Whether p is off by more than chance in the evaluated runs explains."""
        return self.off > self.new_runs

    @property
    def beyond_chance(self) -> bool:
        """Whether p is off by more than chance in evaluated and recorded runs explains."""
        return self.off > self.chance


class Shortfall(NamedTuple):
    """How many recorded runs are missing before a rate of false alarms can be promised.

    ``more`` and ``in_all`` count runs of which as many meet the target as of the recorded ones.
    ``possible`` is the lowest rate, in whole per cent, that could be promised now.
    """

    rate: float
    has: int
    needed: int
    more: int
    in_all: int
    possible: float | None


class RewardSide(NamedTuple):
    """Alarms that count as in time only because no bounds of the reward were declared.

    The ``past`` alarms came when the total had already passed the target. Where rewards are never
    on one ``side`` of 0, declaring these ``bounds`` shows that they came too late.
    """

    side: str
    bounds: tuple[float, float]
    past: int


class Enough(NamedTuple):
    """How many runs to fit and to evaluate on, so that chance moves p little; 0 for no more."""

    fit: int
    evaluate: int


@dataclass(frozen=True, eq=False)
class Facts:
    """An evaluation and an alarm rule, with all that is concluded from them."""

    found: Measured
    rule: AlarmRule
    alarms: RaisedAlarms | None
    no_alarms: FewEpisodesError | None  # why there are none

    @property
    def p(self) -> OfP:
        """How p did on these runs."""
        if self.gap.beyond_chance:
            return OfP.OFF
        if not self.found.met.any():
            return OfP.NONE_MET
        if self.gap.chance > COARSE:
            return OfP.COARSE
        between = self.unclear is not None and self.unclear.beyond_chance
        return OfP.OFF_BETWEEN if between else OfP.RIGHT

    @cached_property
    def alarm(self) -> OfAlarm:
        """How the alarm did on these runs."""
        if self.alarms is None:
            return OfAlarm.NONE
        promised, allowed, false = self.promised_rate, self.allowed_rate, self.false_alarms
        if promised is None or allowed is None:
            return OfAlarm.UNPROMISED
        later = self.alarms_since
        if false.low > allowed or (later and counted_false(self.rule, later).low > allowed):
            return OfAlarm.BROKEN
        if false.low > promised:
            return OfAlarm.ABOVE
        return OfAlarm.FEW if false.n < needed_successes(promised) else OfAlarm.KEPT

    @property
    def seen(self) -> bool:
        """Whether the monitor was fitted on some of these runs."""
        return bool(self.found.fitted_on.size)

    @property
    def changed(self) -> bool:
        """Whether the process is known to have changed since it was recorded."""
        return self.found.drifted is not None and self.found.drifted.changed

    @property
    def worse(self) -> bool:
        """Whether the process has changed for the worse: p is too high since then."""
        drift = self.found.drifted
        return drift is not None and drift.judgement is DriftJudgement.WORSE

    @property
    def moved(self) -> bool:
        """Whether the process has changed, and p is too high or too low since then."""
        drift = self.found.drifted
        return drift is not None and drift.changed and drift.latest.shows

    @property
    def building(self) -> bool:
        """Whether evidence of a change is building, which is no proof yet."""
        drift = self.found.drifted
        return drift is not None and drift.judgement is DriftJudgement.BUILDING

    @property
    def covers_both(self) -> bool:
        """Whether the runs are known to come from before and after a change."""
        return self.found.drifted is not None and self.found.drifted.covers_both

    @property
    def many_unanswered(self) -> bool:
        """Whether so many steps have no answer that it qualifies the verdict."""
        return self.found.unanswered.share > MANY_UNANSWERED

    @property
    def mostly_missed(self) -> bool:
        """Whether so many runs miss the target that an alarm is the normal state."""
        return float(self.found.met.mean()) < _MOSTLY_MISSED

    @property
    def catches_few(self) -> bool:
        """Whether the alarm catches few failures in time."""
        caught = None if self.alarms is None else self.alarms.quality.in_time
        return caught is not None and caught.n > 0 and caught.value < _CATCHES

    @property
    def mostly_late(self) -> bool:
        """Whether more alarms come too late than in time."""
        quality = None if self.alarms is None else self.alarms.quality
        return quality is not None and quality.too_late.count > quality.in_time.count

    @cached_property
    def error_of_the_rate(self) -> float:
        """The Brier score of a p that only knows the step."""
        known = ~np.isnan(self.found.p)
        n = known.sum(axis=1)
        met = (known & np.asarray(self.found.met, dtype=np.bool_)).sum(axis=1)
        return float((met * (1.0 - met / np.maximum(n, 1))).sum() / n.sum())

    @cached_property
    def better(self) -> float | None:
        """By which share p's Brier score is below that of a p that only knows the step."""
        other = self.error_of_the_rate
        return 1.0 - self.found.brier().value / other if other > 0.0 else None

    @property
    def useful(self) -> bool:
        """Whether p tells runs apart, or nothing could be told apart."""
        return self.better is None or self.better >= _USEFUL

    @property
    def asked_rate(self) -> float | None:
        """The rate of false alarms that the alarm rule asks for; None if it asks for none."""
        rule = self.rule
        return float(exact_rate(rule.rate)) if isinstance(rule, Promised | RuledOut) else None

    @property
    def promised_rate(self) -> float | None:
        """The rate of false alarms that is promised; None if none is."""
        return None if self.only_measured else self.asked_rate

    @property
    def confidence(self) -> float | None:
        """The confidence of the promised rate; None if it holds on average over recordings."""
        asked = getattr(self.rule, "confidence", None)
        return None if asked is None else float(exact_confidence(asked))

    @property
    def only_measured(self) -> bool:
        """Whether learning runs set the threshold, so that the rate is measured, not promised."""
        return self.alarms is not None and self.alarms.measured

    @property
    def false_alarms(self) -> Rate:
        """The share of good runs, or of all runs, with a false alarm: whichever the rule counts."""
        assert self.alarms is not None
        return counted_false(self.rule, self.alarms.quality)

    @property
    def allowed_rate(self) -> float | None:
        """The highest true rate of false alarms that keeps the promise; None without one."""
        if self.promised_rate is None or self.alarms is None:
            return None
        promises = [trigger.promised for trigger in self.alarms.triggers]
        spreads = [one.spread(0.95)[1] for one in promises if one is not None]
        return max([self.promised_rate, *spreads])

    @cached_property
    def sure(self) -> tuple[Rate, Rate]:
        """How often the target was ruled out, and assured, wrongly."""
        return self.found.ruled_out_wrongly(CERTAIN), self.found.assured_wrongly(CERTAIN)

    @cached_property
    def sure_since(self) -> tuple[Rate, Rate] | None:
        """The same for the runs since the process changed; None if these are not known."""
        found, later = self.found, self.later
        if later is None:
            return None
        out, sure = found.called_certain(CERTAIN)
        wrong = (out & found.met, sure & ~found.met)
        first, second = (Rate.of(int(one[later].sum()), later.size) for one in wrong)
        return first, second

    @property
    def sure_broken(self) -> bool:
        """Whether targets were called certain wrongly more often than is promised."""
        return any(one.low > CERTAIN for one in (*self.sure, *(self.sure_since or ())))

    @cached_property
    def later(self) -> IndexArray | None:
        """The positions of the runs since the process changed."""
        drift = self.found.drifted
        if drift is None or not drift.covers_both or not drift.later:
            return None
        return np.array(drift.later, dtype=np.intp)

    @cached_property
    def alarms_since(self) -> AlarmQuality | None:
        """What the alarm did in the runs since the process changed; None if these are not known."""
        found, raised, later = self.found, self.alarms, self.later
        if raised is None or later is None:
            return None
        return alarm_quality(
            raised.first[later],
            found.met[later],
            found.lengths[later],
            decided=found.answers.decided_at[later],
        )

    @cached_property
    def gap(self) -> Gap:
        """How far p is off, and what chance explains."""
        return gap_of(self.found)

    @cached_property
    def lean(self) -> Gap:
        """Whether p is too high or too low on average over all forecasts."""
        return lean_of(self.found, ~np.isnan(self.found.p))

    @cached_property
    def unclear(self) -> Gap | None:
        """Whether p is too high or too low over the forecasts between 10 and 90 %, in one test."""
        # None unless these are a small part of all forecasts. Nearly all others are then close to 0
        # or 1, and a mean over all forecasts would hide an error in the few between.
        p = self.found.p
        found = lean_of(self.found, (p >= _CLEAR) & (p <= 1.0 - _CLEAR))
        return found if found.share < _FEW_BETWEEN else None

    @cached_property
    def since(self) -> Gap | None:
        """Whether p is too high or too low over all steps of the runs since the process changed."""
        if self.later is None:
            return None
        where = np.zeros(self.found.p.shape, dtype=np.bool_)
        where[:, self.later] = ~np.isnan(self.found.p[:, self.later])
        return lean_of(self.found, where)

    @property
    def recorded(self) -> int:
        """How many runs the monitor was fitted on, including those held out for promises."""
        return sum(self.found.fitted.trained.sizes.values())

    @property
    def recorded_rate(self) -> float | None:
        """The share of assure runs that met the target; None without assure runs."""
        contracts = self.found.contracts
        met = contracts.recorded_met(self.found.target)
        return None if met is None else float(met.mean())

    @property
    def enough(self) -> Enough:
        """How many runs it takes until chance could move p only a little."""
        gap, half, n = self.gap, COARSE / 2.0, self.found.met.size
        if gap.calibration <= half:
            fewer = COARSE**2 - gap.calibration**2
            return Enough(0, rounded_up(n * gap.new_runs**2 / fewer))
        times = (gap.chance / COARSE) ** 2
        new = 0 if gap.new_runs <= half else rounded_up(times * n)
        return Enough(rounded_up(times * self.recorded), new)

    @property
    def shortfall(self) -> Shortfall | None:
        """How many recorded runs are missing before the rate that was asked for can be promised."""
        # None if no runs are missing, or if their number cannot be computed.
        rule, fitted, contracts = self.rule, self.found.fitted, self.found.contracts
        plain = fitted.n_groups == 1 and not any(fitted.stopped)
        if self.alarms is not None or not isinstance(rule, Promised) or rule.robust or not plain:
            return None
        met = contracts.recorded_met(self.found.target)
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

    @cached_property
    def reward_side(self) -> RewardSide | None:
        """Alarms that count as in time only because no bounds of the reward were declared."""
        # If rewards are never negative (or never positive), a total beyond the target never
        # returns, so these alarms came too late. None if there are no such alarms.
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


def facts_of(found: Measured, rule: AlarmRule) -> Facts:
    """All that is concluded from an evaluation and an alarm rule."""
    try:
        return Facts(found, rule, found.alarms(rule), None)
    except FewEpisodesError as error:
        return Facts(found, rule, None, explained(error, found.contracts, found.target))


def explained(
    error: FewEpisodesError, contracts: Contracts, target: Target | Goal
) -> FewEpisodesError:
    """The error that says that a promise cannot be made, with better advice if there is any."""
    # If no assure episode met the target, neither more episodes nor a higher rate would help; the
    # advice is then to choose another target.
    met = contracts.recorded_met(target)
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
    """How far p is off on these runs, and how far chance could put it off."""
    ece, known = found.ece(), ~np.isnan(found.p)
    p, n = found.p[known], np.broadcast_to(found.learned, known.shape)[known]
    met = np.broadcast_to(found.met, known.shape)[known]
    return Gap(
        off=ece.value,
        new_runs=ece.high - ece.value,
        calibration=float(_TWO_SIDED_95 * np.sqrt(p * (1.0 - p) / (n + 2.0)).mean()),
        too_high=float(p.mean() - met.mean()),
        n=int(np.median(n)),
    )


def lean_of(found: Measured, where: BoolArray) -> Gap:
    """Whether p is too high or too low, on average over the forecasts where ``where`` is true."""
    total, known = int(np.count_nonzero(where)), int(np.count_nonzero(~np.isnan(found.p)))
    if not total:
        return Gap(0.0, inf, 0.0, 0.0, share=0.0)
    error = np.where(where, found.p - found.met, 0.0).sum(axis=0)
    count = np.count_nonzero(where, axis=0)
    runs, mean = int(np.count_nonzero(count)), float(error.sum() / total)
    reach = inf
    if runs > 1:
        swing = float(((error - mean * count) ** 2).sum()) * runs / (runs - 1)
        reach = float(stdtrit(runs - 1, 0.975)) * sqrt(swing) / total
    p, n = found.p[where], np.broadcast_to(found.learned, where.shape)[where]
    luck = float(_TWO_SIDED_95 * np.sqrt(p * (1.0 - p) / (n + 2.0)).mean())
    return Gap(abs(mean), reach, luck, mean, share=total / known, runs=runs)


def counted_false(rule: AlarmRule, quality: AlarmQuality) -> Rate:
    """The share of good runs with an alarm, or of all runs with a false one, as the rule counts."""
    false, failed = quality.false_alarms, quality.detections.n
    if not rule.of_all_runs:
        return false
    return Rate.of(false.count, false.n + failed, level=false.level)


def rounded_up(number: float) -> int:
    """The number rounded up to two significant digits."""
    unit: int = 10 ** max(0, len(str(ceil(number))) - 2)
    return ceil(number / unit) * unit
