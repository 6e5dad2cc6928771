"""How good a monitor is on episodes it has never seen: measures by step and pooled (M12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ontarget._grid import snap
from ontarget._keyed import keyed_uniform, keys_of
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.conformal._levels import Level
from ontarget.conformal._limits import raw_probability
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import seen_before
from ontarget.errors import EpisodesError
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
    coverage,
    ece_by_step,
    first_alarms,
    log_losses,
    mean_by_step,
    pit_histogram,
    pool,
    pooled_ece,
    pooled_mean,
    rank_histogram,
    reliability,
    squared_errors,
    sustained,
)
from ontarget.fitted.fitted import Calibrated, ends_with_complements
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live.alarms import AlarmRule, rule_of
from ontarget.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Evaluation", "PromisedQuality", "evaluate"]

METHODS = ("p", "low", "high", "raw")


@dataclass(frozen=True, eq=False)
class PromisedQuality:
    """What an alarm with a promised false-alarm rate did on new episodes.

    ``rules`` holds one rule per group, ``first`` the step of each episode's first alarm.
    """

    rules: tuple[AlarmRule, ...]
    first: IndexArray
    quality: AlarmQuality


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """A monitor's answers on new episodes, beside what came of them.

    Panels are (steps, episodes), NaN where an episode is over or a step is UNKNOWN. ``raw`` is the
    model's own probability, before calibration. ``groups`` is the number of each episode's group.
    """

    fitted: Calibrated
    episodes: Episodes
    groups: IndexArray
    target: Target
    p: FloatArray
    low: FloatArray
    high: FloatArray
    raw: FloatArray
    plausibility: FloatArray
    assurance: FloatArray
    met: BoolArray
    lengths: IndexArray
    outcomes: FloatArray
    ids: AnyArray
    n_calibration: IndexArray  # (steps, episodes): how many stand behind each answer
    resampling: Resampling
    calibration: TargetCalibration | None = None  # the target's own, if p is not PCQR's

    def __repr__(self) -> str:
        return (
            f"<Evaluation: {self.target} met by {np.count_nonzero(self.met):,} of "
            f"{self.met.size:,} episodes, {len(self.p):,} steps>"
        )

    @cached_property
    def fitted_on(self) -> IndexArray:
        """The positions of episodes that the monitor was fitted on; with any, the figures flatter.

        They are known by id and contents. A recording of few possible runs may hide them.
        """
        return seen_before(self.episodes, self.fitted.fingerprints)

    def panel(self, method: str = "p") -> FloatArray:
        """The answers of one method: ``"p"``, ``"low"``, ``"high"`` or ``"raw"``."""
        found: FloatArray = getattr(self, method)
        return found

    def ece(self, method: str = "p") -> CalibrationEstimate[float]:
        """The expected calibration error over all steps, with its interval."""
        return pooled_ece(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def ece_by_step(self, method: str = "p") -> CalibrationEstimate[FloatArray]:
        """The expected calibration error of each step by itself."""
        return ece_by_step(self.panel(method), self.met, ids=self.ids, resampling=self.resampling)

    def brier(self, method: str = "p") -> Estimate[float]:
        """The mean squared error of the probability, with its interval."""
        return pooled_mean(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def brier_by_step(self, method: str = "p") -> Estimate[FloatArray]:
        """The mean squared error of each step by itself."""
        return mean_by_step(self._losses(method, "brier"), ids=self.ids, resampling=self.resampling)

    def log_loss(self, method: str = "p") -> Estimate[float]:
        """The mean log loss, p kept half a rank away from 0 and 1."""
        return pooled_mean(self._losses(method, "log"), ids=self.ids, resampling=self.resampling)

    @cached_property
    def reliability(self) -> Reliability:
        """How often each forecast came true, over all steps."""
        pooled = pool(self.p, self.met)
        return reliability(pooled.p, pooled.met, episode=pooled.episode)

    def alarms(self, threshold: float, for_steps: int = 1) -> AlarmQuality:
        """False alarms, detections and lead times of an alarm below this threshold."""
        first = first_alarms(sustained(self.p, for_steps), threshold)
        return alarm_quality(first, self.met, self.lengths)

    def alarm_curve(self, for_steps: int = 1) -> AlarmCurve:
        """What each threshold gave on these episodes: false alarms, detections, lead times."""
        return alarm_curve(sustained(self.p, for_steps), self.met, self.lengths)

    def promised_alarms(self, rate: Level = 0.05, for_steps: int = 1) -> PromisedQuality:
        """What an alarm did here whose false-alarm rate was promised on the assure episodes (M8).

        Raises `CalibrationError` where too few of those met the target for the promise.
        """
        asked = (str(rate), for_steps)
        if asked not in self._promised:
            self._promised[asked] = self._promise(rate, for_steps)
        return self._promised[asked]

    @cached_property
    def _promised(self) -> dict[tuple[str, int], PromisedQuality]:
        return {}

    def _promise(self, rate: Level, for_steps: int) -> PromisedQuality:
        rules = tuple(
            rule_of(
                self.fitted,
                self.target,
                alarm_below=None,
                false_alarm_rate=rate,
                for_steps=for_steps,
                clear_above=None,
                group=g,
                calibration=self.calibration,
            )
            for g in range(len(self.fitted.sorted_excess))
        )
        compared, first = sustained(self.p, for_steps), np.full(self.met.size, NO_ALARM)
        for g, rule in enumerate(rules):
            own = self.groups == g
            if own.any():
                first[own] = first_alarms(compared[:, own], rule.threshold)
        return PromisedQuality(rules, first, alarm_quality(first, self.met, self.lengths))

    def pit(self, t: int = 0, bins: int = 20) -> PitHistogram:
        """Where the outcomes of episodes alive at step t lie in what was predicted there.

        Flat where the calibrated distribution is right. Ties are broken by draws keyed on ids.
        """
        ranks, sizes = outcome_ranks(self.fitted, self.episodes, t, self.groups)
        if np.unique(sizes).size == 1 and sizes[0] + 1 >= bins:
            return rank_histogram(ranks, int(sizes[0]), bins=bins)
        # Groups of several sizes: as many ranks as would make the bars swing as much in all.
        names, counts = np.unique(sizes, return_counts=True)
        swing = float((counts.astype(np.float64) ** 2 / names).sum())
        effective = max(1, int(ranks.size**2 / swing))
        return pit_histogram((ranks - 0.5) / (sizes + 1), bins, n_calibration=effective)

    def figure(self, name: str, *, dark: bool = False) -> Figure:
        """One figure by its name: reliability, ece, episodes, fan, alarms or pit."""
        from ontarget.report._figures import draw

        return draw(self, name, dark=dark)

    def report(self, path: str | Path, *, false_alarm_rate: Level = 0.05) -> None:
        """Write all of it as one HTML page that needs nothing else: verdict, figures, guarantees.

        The same evaluation gives the same bytes; the file appears whole or not at all.
        """
        from ontarget._whole_file import write_whole
        from ontarget.report._page import report_page

        page = report_page(self, false_alarm_rate=false_alarm_rate)
        write_whole(Path(path), [page.encode()])

    def ruled_out_wrongly(self, delta: float = 0.05) -> Rate:
        """How often the target was met although it had been ruled out: at most δ promised (M9)."""
        lowest = np.fmin.reduce(self.plausibility, axis=0)
        return Rate.of(int(np.count_nonzero(self.met & (lowest <= delta))), self.met.size)

    def assured_wrongly(self, delta: float = 0.05) -> Rate:
        """How often the target was missed although it had been assured: at most δ promised (M9)."""
        highest = np.fmax.reduce(self.assurance, axis=0)
        return Rate.of(int(np.count_nonzero(~self.met & (highest >= 1 - delta))), self.met.size)

    def summary(self) -> str:
        """A few lines for people."""
        ece, raw = self.ece(), self.ece("raw")
        lines = [
            f"target     {self.target}: met by {100 * self.met.mean():.1f} % of "
            f"{self.met.size:,} episodes",
            f"ECE        {ece.value:.4f} [{ece.low:.4f}, {ece.high:.4f}], chance alone "
            f"{ece.floor:.4f}; uncalibrated {raw.value:.4f}",
            f"Brier      {_with_interval(self.brier())}; uncalibrated "
            f"{self.brier('raw').value:.4f}",
            f"log loss   {_with_interval(self.log_loss())}; uncalibrated "
            f"{self.log_loss('raw').value:.4f}",
            f"at 5 %     ruled out wrongly {self.ruled_out_wrongly()}; assured wrongly "
            f"{self.assured_wrongly()}",
        ]
        if self.fitted_on.size:
            lines.append(
                f"caution    it was fitted on {self.fitted_on.size:,} of these "
                f"{self.met.size:,} episodes: the figures flatter; measure on new ones"
            )
        return "\n".join(lines)

    def _losses(self, method: str, kind: str) -> FloatArray:
        panel = self.panel(method)
        if kind == "brier":
            return squared_errors(panel, self.met)
        return log_losses(panel, self.met, n_calibration=self.n_calibration)


def evaluate(
    fitted: Calibrated,
    episodes: Episodes,
    target: Target,
    *,
    groups: IndexArray,
    resampling: Resampling,
    calibration: TargetCalibration | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """The monitor's answers on these episodes at every step."""
    fitted.check_alike(episodes)
    if calibration is not None:
        calibration.check(target, fitted.grid)
    ends = ends_with_complements(target, fitted.grid)
    panels = np.full((6, fitted.horizon, len(episodes)), np.nan)
    n_calibration = np.ones((fitted.horizon, len(episodes)), dtype=np.intp)
    for t in range(fitted.horizon):
        rows = episodes.at(t, grid=fitted.grid)
        for g in range(fitted.n_groups):
            step = fitted.at(t, g, calibration)
            own = np.flatnonzero(groups[rows.index] == g)
            own = own[~fitted.bad_readings(rows.states[own])] if own.size else own
            if fitted.unknown(step) or not own.size:
                continue
            states, behavior, index = rows.states[own], rows.behavior[own], rows.index[own]
            left, right = step.limits(states, behavior, ends)
            found = step.outlook_of(left, right, ends, fitted.sorted_excess[g])
            panels[:5, t, index] = found[:, 0].T
            n_calibration[t, index] = step.ranks.n
            a_minus, a_plus = ends.spread(left, right)
            panels[5, t, index] = raw_probability(a_minus, a_plus, ends.first)[:, 0]
        if progress is not None:
            progress(t + 1, fitted.horizon)
    low, p, high, plausibility, assurance, raw = panels
    return Evaluation(
        fitted=fitted,
        episodes=episodes,
        groups=groups,
        target=target,
        p=p,
        low=low,
        high=high,
        raw=raw,
        plausibility=plausibility,
        assurance=assurance,
        met=target.contains(episodes.outcomes, fitted.grid),
        lengths=episodes.lengths,
        outcomes=episodes.outcomes,
        ids=episodes.ids,
        n_calibration=n_calibration,
        resampling=resampling,
        calibration=calibration,
    )


def outcome_ranks(
    fitted: Calibrated, episodes: Episodes, t: int, groups: IndexArray
) -> tuple[IndexArray, IndexArray]:
    """The rank, 1 to n + 1, of each outcome among the step's n calibration ranks, and that n."""
    rows = episodes.at(t, grid=fitted.grid)
    keys = keys_of(rows.ids)
    # Draws of their own: an id that was also a calibration episode's must not repeat its draw.
    inside, among = (keyed_uniform(keys, fitted.seed, part, t) for part in ("pit", "pit tie"))
    ranks, sizes = np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    for g in range(len(fitted.sorted_excess)):
        step = fitted.at(t, g)
        own = np.flatnonzero((groups[rows.index] == g) & ~fitted.bad_readings(rows.states))
        if fitted.unknown(step) or step.model is None or not own.size:
            continue
        inputs = step.inputs(rows.states[own], rows.behavior[own])
        left, right = step.model.cdf_limits(inputs, rows.response[own])
        below, upto = step.ranks.counts(left + inside[own] * (right - left))
        ranks[own] = 1 + below + np.floor(among[own] * (upto - below + 1)).astype(np.intp)
        sizes[own] = step.ranks.n
    known = sizes > 0
    if not known.any():
        raise EpisodesError(f"no episode has a known outlook at step {t}")
    return ranks[known], sizes[known]


def interval_coverage(
    fitted: Calibrated, episodes: Episodes, level: Level, *, steps: Sequence[int] | None = None
) -> dict[int, Rate]:
    """How often the step's interval at this level held the outcome (M5)."""
    found = {}
    for t in range(fitted.horizon) if steps is None else steps:
        step, rows = fitted.at(t), episodes.at(t, grid=fitted.grid)
        if not fitted.unknown(step) and len(rows):
            interval = step.pcqr().interval(step.inputs(rows.states, rows.behavior), level)
            found[t] = coverage(interval.lower, interval.upper, rows.response)
    return found


def band_coverage(fitted: Calibrated, episodes: Episodes, level: Level) -> Rate:
    """How often the simultaneous band held the outcome at every step of the episode (M9)."""
    held = np.ones(len(episodes), dtype=np.bool_)
    depth = band_depth(fitted.sorted_excess[0], level)
    for t in range(fitted.horizon):
        step, rows = fitted.at(t), episodes.at(t, grid=fitted.grid)
        if step.model is None or not len(rows) or not step.ranks.n:
            continue
        band = band_interval(step.pcqr(), step.inputs(rows.states, rows.behavior), depth)
        inside = band.contains(snap(rows.response, fitted.grid))
        held[rows.index[~inside]] = False
    return Rate.of(int(held.sum()), held.size)


def _with_interval(estimate: Estimate[float]) -> str:
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"
