"""A monitor's answers about new episodes, and every measure of how good these answers are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np

from ontarget._grid import snap
from ontarget._keyed import keyed_uniform
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.conformal.levels import Level
from ontarget.drift.change import Drift
from ontarget.drift.comparing import Order, drift_of
from ontarget.episodes import Episodes
from ontarget.episodes.facts import seen_before
from ontarget.errors import CalibrationError, EpisodesError
from ontarget.evaluation import (
    NO_ALARM,
    AlarmCurve,
    AlarmQuality,
    CalibrationEstimate,
    Estimate,
    PitHistogram,
    Rate,
    Reliability,
    Resampling,
    alarm_curve,
    alarm_quality,
    ece_by_step,
    log_losses,
    mean_by_step,
    pit_histogram,
    pool,
    pooled_ece,
    pooled_mean,
    rank_histogram,
    reliability,
    squared_errors,
)
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, in_band
from ontarget.fitted.kernels import KNOTS
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live.alarms import compared_panel
from ontarget.live.answers import Answers
from ontarget.live.contracts import Contracts
from ontarget.live.rules import AlarmRule, RuleOptions, Trigger, rule_of
from ontarget.report.check import Unanswered, unanswered_of
from ontarget.target import Target


@dataclass(frozen=True, eq=False)
class RaisedAlarms:
    """What an alarm rule did on new episodes.

    ``triggers`` are the thresholds of the rule and what they rest on, one for each group of runs.
    ``first`` is the step of each episode's first alarm; −1 means no alarm. ``by_third`` is the
    share of failures caught in time, for failures that were certain in the first, middle and last
    third of the horizon.
    """

    rule: AlarmRule
    triggers: tuple[Trigger, ...]
    first: IndexArray
    quality: AlarmQuality
    by_third: tuple[Rate, ...]

    @property
    def measured(self) -> bool:
        """Whether the threshold was set by episodes that models learned from."""
        return any(trigger.measured is not None for trigger in self.triggers)


@dataclass(frozen=True, eq=False, repr=False)
class Measured:
    """A monitor's answers about new episodes, and how these ended.

    Arrays are (steps, episodes), NaN where an episode is over or the monitor cannot answer
    (UNKNOWN). Measures are about the steps with an answer; `unanswered` counts the others.
    ``raw`` is the probability that the model states before calibration.
    """

    contracts: Contracts
    episodes: Episodes
    target: Target | Goal
    answers: Answers
    resampling: Resampling
    calibration: TargetMap | None = None  # the target's own; None if p is the common one
    order: Order | None = None  # in which the episodes started, if that is known
    columns: Mapping[str, ArrayLike] | None = None  # by which p may be off

    @property
    def parts(self) -> Mapping[str, Measured]:
        """For a goal over several numbers of a run, the same measures for each number by name."""
        return {}

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.target} met by {np.count_nonzero(self.met):,} of "
            f"{self.met.size:,} episodes, {len(self.p):,} steps>"
        )

    @property
    def fitted(self) -> Fitted:
        """The fitted monitor: its models and its calibration."""
        return self.contracts.fitted

    @property
    def p(self) -> FloatArray:
        """The calibrated probability of meeting the target, (steps, episodes)."""
        return self.answers.p

    @property
    def low(self) -> FloatArray:
        """The lower bound on p, by the paper's method, for each step and episode.

        The array has shape (steps, episodes).
        """
        return self.answers.low

    @property
    def high(self) -> FloatArray:
        """The upper bounds ``high`` of the paper's method for p, (steps, episodes)."""
        return self.answers.high

    @property
    def raw(self) -> FloatArray:
        """The probabilities that the model states before calibration, (steps, episodes)."""
        return self.answers.raw

    @property
    def plausibility(self) -> FloatArray:
        """How plausible it is that the target will be met, (steps, episodes).

        If the number is at most 0.05, the target may be called ruled out: such a call is wrong for
        at most 5 % of runs.
        """
        return self.answers.plausibility

    @property
    def assurance(self) -> FloatArray:
        """How certain it is that the target will be met, (steps, episodes)."""
        return self.answers.assurance

    @property
    def spread(self) -> FloatArray:
        """The lower and upper end of the spread around p, (steps, episodes, 2).

        The spread shows how exactly a limited number of held-out episodes can confirm p; see
        `Outlook.spread`.
        """
        return self.answers.spread

    @property
    def met(self) -> BoolArray:
        """Which episodes met the target."""
        return self.answers.met

    @property
    def lengths(self) -> IndexArray:
        """How many steps each episode has."""
        return self.answers.lengths

    @property
    def n(self) -> IndexArray:
        """From how many episodes ``low`` and ``high`` are computed, (steps, episodes)."""
        return self.answers.n

    @property
    def learned(self) -> IndexArray:
        """How many episodes calibrated each p, (steps, episodes)."""
        return np.maximum(self.fitted.learned[:, self.groups], self.fitted.min_calibration)

    @property
    def answered(self) -> BoolArray:
        """Where a model can answer, (steps, episodes)."""
        parts = self.contracts.joint.parts.values()
        found: BoolArray = np.logical_and.reduce([one.answered for one in parts])
        return found[:, self.groups]

    @property
    def outcomes(self) -> FloatArray:
        """The outcome of each episode, rounded as the monitor rounds outcomes."""
        return snap(self.episodes.outcomes, self.fitted.grid)

    @property
    def ids(self) -> AnyArray:
        """The ids of the episodes."""
        return self.episodes.ids

    @cached_property
    def groups(self) -> IndexArray:
        """For each episode, the number of its group among the monitor's groups."""
        return self.fitted.groups_in(self.episodes)

    @cached_property
    def fitted_on(self) -> IndexArray:
        """The positions of the episodes that the monitor was fitted on."""
        names = self.episodes.names
        known = self.episodes.only(names[0]) if names else self.episodes
        return seen_before(known, self.fitted.trained.fingerprints)

    @cached_property
    def unanswered(self) -> Unanswered:
        """At how many steps the monitor had no answer, and why; measures leave these steps out."""
        parts, each = [self.fitted], [self.episodes]
        if isinstance(self.target, Goal):
            parts = [self.contracts.joint.parts[name] for name in self.target.names]
            each = [self.episodes.only(name) for name in self.target.names]
        return unanswered_of(parts, each, self.answers, self.answered)

    @cached_property
    def one_sided(self) -> str:
        """Why p has nothing to learn from: all learning runs met the target, or all missed it.

        Empty if both kinds were recorded. If runs have groups, one sentence for each group in which
        only one kind was recorded.
        """
        return "; ".join(dict.fromkeys(filter(None, self._one_sided)))

    @property
    def knows_both(self) -> bool:
        """Whether p learned from runs that met the target and from runs that missed it."""
        return not all(self._one_sided)

    @cached_property
    def _one_sided(self) -> tuple[str, ...]:
        return self.contracts.one_sided(self.target)

    def panel(self, method: str = "p") -> FloatArray:
        """One kind of answers, (steps, episodes): ``"p"``, ``"low"``, ``"high"`` or ``"raw"``."""
        found: FloatArray = getattr(self.answers, method)
        return found

    def ece(self, method: str = "p") -> CalibrationEstimate[float]:
        """The expected calibration error over all steps, with its 95 % interval."""
        return pooled_ece(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def ece_by_step(self, method: str = "p") -> CalibrationEstimate[FloatArray]:
        """The expected calibration error at each step by itself, with intervals."""
        return ece_by_step(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def brier(self, method: str = "p") -> Estimate[float]:
        """The mean squared error of the probability (Brier score), with its interval."""
        return pooled_mean(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def brier_by_step(self, method: str = "p") -> Estimate[FloatArray]:
        """The mean squared error of the probability (Brier score) at each step by itself."""
        return mean_by_step(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def log_loss(self, method: str = "p") -> Estimate[float]:
        """The mean log loss of the probabilities, with its interval.

        Probabilities very close to 0 or 1 are moved to the distance 0.5 / (n + 1), where n is the
        number of episodes that calibrated them. So the loss stays finite.
        """
        return pooled_mean(self._losses(method, "log"), ids=self.ids, resampling=self.resampling)

    @cached_property
    def reliability(self) -> Reliability:
        """How often the forecasts in each range of p came true, over all steps."""
        pooled = pool(self.p, self.met)
        return reliability(pooled.p, pooled.met, episode=pooled.episode)

    def alarms(
        self, alarm: AlarmRule | None = None, **options: Unpack[RuleOptions]
    ) -> RaisedAlarms:
        """What an alarm rule did here: false alarms, failures caught in time, lead times.

        The rule is an object such as ``Below(0.9)``, or given by the short options of
        `GoalMonitor.watch`. A promised rate raises `FewEpisodesError` if too few assure episodes
        met the target.
        """
        rule = rule_of(alarm, **options)
        if rule not in self._raised:
            self._raised[rule] = self._raise(rule)
        return self._raised[rule]

    @cached_property
    def _raised(self) -> dict[AlarmRule, RaisedAlarms]:
        return {}

    def _raise(self, rule: AlarmRule) -> RaisedAlarms:
        triggers = self._triggers(rule)
        first = np.full(self.met.size, NO_ALARM)
        for g, trigger in enumerate(triggers):
            own = np.flatnonzero(self.groups == g)
            if own.size:
                first[own] = self.answers.take(own).first_alarms(rule, trigger)
        decided = self.answers.decided_at
        quality = alarm_quality(first, self.met, self.lengths, decided=decided)
        return RaisedAlarms(rule, triggers, first, quality, self._by_third(first))

    def _by_third(self, first: IndexArray) -> tuple[Rate, ...]:
        lost = self.answers.decided_at
        in_time = (first != NO_ALARM) & (first < lost)
        third = np.minimum(3 * lost // max(self.p.shape[0], 1), 2)
        thirds = [in_time[~self.met & (third == k)] for k in range(3)]
        return tuple(Rate.of(int(own.sum()), own.size) for own in thirds)

    @cached_property
    def last_p(self) -> float:
        """The median p of failures at the last step before they were certain; NaN if unknown."""
        lost = self.answers.decided_at
        failed = np.flatnonzero(~self.met & (lost > 0))
        last = self.p[lost[failed] - 1, failed]
        last = last[~np.isnan(last)]
        return float(np.median(last)) if last.size else math.nan

    def _triggers(self, rule: AlarmRule) -> tuple[Trigger, ...]:
        return self.contracts.triggers(self.target, rule, self.calibration)

    def alarm_curve(self, for_steps: int = 1) -> AlarmCurve:
        """What alarms at each threshold do here: false alarms, detections, lead times.

        An alarm is raised when p was below the threshold for ``for_steps`` steps in a row.
        """
        panel = compared_panel(self.answers, for_steps)
        return alarm_curve(panel, self.met, self.lengths, decided=self.answers.decided_at)

    def drift(
        self,
        *,
        order: Order | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        t: int = 0,
        level: Level = 0.99,
    ) -> Drift:
        """Whether these episodes show drift: a change of the process since it was recorded.

        It works as `GoalMonitor.drift`. The order and the columns are those that
        `GoalMonitor.evaluate` was given, unless others are given here.
        """
        order = self.order if order is None else order
        by = self.columns if by is None else by
        asked = self.contracts.asked(self.target, self.calibration)
        return drift_of(asked, self.episodes, order=order, by=by, t=t, level=level)

    @cached_property
    def drifted(self) -> Drift | None:
        """Whether the episodes' first steps show drift: a change since the recording."""
        if isinstance(self.target, Goal):
            return None
        try:
            return self.drift()
        except (CalibrationError, EpisodesError):
            return None

    def pit(self, t: int = 0, bins: int = 20) -> PitHistogram:
        """Where outcomes fall in the distributions predicted at step t, as a histogram.

        Only episodes that reach step t count. The histogram is flat if the calibrated distribution
        is right. Ties are broken by random draws that depend only on the episodes' ids.
        """
        ranks, sizes = outcome_ranks(self.fitted, self.episodes, t)
        if np.unique(sizes).size == 1 and sizes[0] + 1 >= bins:
            return rank_histogram(ranks, int(sizes[0]), bins=bins)
        # Groups of several sizes: an effective number of ranks, by which the bars vary as much.
        names, counts = np.unique(sizes, return_counts=True)
        swing = float((counts.astype(np.float64) ** 2 / names).sum())
        effective = max(1, int(ranks.size**2 / swing))
        return pit_histogram((ranks - 0.5) / (sizes + 1), bins, n_calibration=effective)

    def ruled_out_wrongly(self, rate: float = 0.05) -> Rate:
        """How often the target was ruled out although the run met it.

        It is promised that this is at most ``rate``.
        """
        ruled_out, _ = self.called_certain(rate)
        return Rate.of(int(np.count_nonzero(self.met & ruled_out)), self.met.size)

    def assured_wrongly(self, rate: float = 0.05) -> Rate:
        """How often the target was assured although the run missed it.

        It is promised that this is at most ``rate``.
        """
        _, assured = self.called_certain(rate)
        return Rate.of(int(np.count_nonzero(~self.met & assured)), self.met.size)

    def called_certain(self, rate: float) -> tuple[BoolArray, BoolArray]:
        """Of which runs the target was ever ruled out, and assured, if ``rate`` may be wrong."""
        lowest = np.fmin.reduce(self.plausibility, axis=0)
        return lowest <= rate, np.fmax.reduce(self.assurance, axis=0) >= 1 - rate

    def band_coverage(self, level: Level = 0.9) -> Rate:
        """How often `GoalMonitor.band` contained the outcome at every step of an episode.

        The band is a range for the outcome; it is promised to hold with probability ``level``.
        """
        fitted, held = self.fitted, np.ones(len(self.episodes), dtype=np.bool_)
        for t in range(min(fitted.horizon, self.episodes.horizon)):
            rows = self.episodes.at(t, grid=fitted.grid)
            good = ~fitted.bad_readings(rows.states)
            for g in range(fitted.n_groups):
                own = np.flatnonzero(good & (self.groups[rows.index] == g))
                if own.size and not fitted.unknown(t, g):
                    step, depth = fitted.at(t, g), band_depth(fitted.sorted_excess[g], level)
                    inputs = step.inputs(rows.states[own], rows.behavior[own])
                    inside = in_band(step, inputs, rows.response[own], depth)
                    held[rows.index[own][~inside]] = False
        return Rate.of(int(held.sum()), held.size)

    def _losses(self, method: str, kind: str) -> FloatArray:
        panel = self.panel(method)
        if kind == "brier":
            return squared_errors(panel, self.met)
        return log_losses(panel, self.met, n_calibration=self.learned)


def outcome_ranks(fitted: Fitted, episodes: Episodes, t: int) -> tuple[IndexArray, IndexArray]:
    """Where each episode's outcome ranks among n recorded outcomes: 1 to n + 1; and each n."""
    rows = episodes.at(t, grid=fitted.grid)
    seed, groups = fitted.trained.seed, fitted.groups_in(episodes)
    # Separate draws: an id that also belongs to an episode of the fit must not repeat its draw.
    inside, among = (keyed_uniform(rows.keys, seed, part, t) for part in ("pit", "pit tie"))
    ranks, sizes = np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    for g in range(fitted.n_groups):
        step = fitted.at(t, g)
        own = np.flatnonzero((groups[rows.index] == g) & ~fitted.bad_readings(rows.states))
        if fitted.unknown(t, g) or not own.size:
            continue
        inputs = step.inputs(rows.states[own], rows.behavior[own])
        left, right = step.cdf_limits(inputs, rows.response[own])
        drawn = left + inside[own] * (right - left)
        below, upto = step.ranks.counts(drawn)
        ranks[own] = 1 + below + np.floor(among[own] * (upto - below + 1)).astype(np.intp)
        sizes[own] = step.ranks.n
        if not step.ranks.n:  # without assure episodes p has its curve alone
            n = sizes[own] = fitted.learned[t, g]
            place = np.interp(drawn, KNOTS, step.curve) * (n + 1)
            ranks[own] = 1 + np.minimum(place, n).astype(np.intp)
    known = sizes > 0
    if not known.any():
        raise EpisodesError(
            f"no episode can be judged at step {t}: none reaches it, or the monitor says UNKNOWN "
            "for all that do; choose another step"
        )
    return ranks[known], sizes[known]
