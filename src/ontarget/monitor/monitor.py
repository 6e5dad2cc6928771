"""`GoalMonitor`: fit it on recorded episodes, ask it about running ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal._levels import Level
from ontarget.conformal.pcqr import PCQR
from ontarget.conformal.results import Interval
from ontarget.episodes import Behavior, Episodes, Schema, Split
from ontarget.episodes._store import Roles
from ontarget.errors import CalibrationError, InputError, UnfittedError
from ontarget.evaluation import Resampling
from ontarget.fitted.blocks import StepsPerModel, plan_blocks
from ontarget.fitted.fitted import Calibrated, ends_with_complements
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitting.engines import Engine
from ontarget.fitting.fit import Preset, Recipe, fit_monitor, preset_model
from ontarget.live._batch import outlooks_at
from ontarget.live.alarms import PromisedAlarms, promised_alarms, rule_of
from ontarget.live.fleet import FleetWatch
from ontarget.live.outlook import Outlooks
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor.drift import DriftGuard, guard_of
from ontarget.report.evaluation import Evaluation, evaluate
from ontarget.target import Target

if TYPE_CHECKING:
    from ontarget.models.base import ConditionalDistribution

__all__ = ["GoalMonitor", "Preset"]


class GoalMonitor:
    """The calibrated probability, at every step of a run, that it ends inside a target.

    Parameters
    ----------
    model
        An unfitted conditional distribution; by default the preset's.
    preset
        ``"default"``, blocks of steps that share a `GuidedForest`; or ``"paper"``, one plain forest
        per step as in the paper, on Tamarisk twice as far from the true probability.
    window
        How many further steps each side train a block's model.
    steps_per_model
        How many steps share a model; ``"auto"`` is 5, or a hundredth of the horizon if more.
    group
        The name of the episodes' group column to calibrate each group by itself (M11).
    min_calibration
        A step that fewer calibration episodes reach is UNKNOWN.
    policy
        A label for the policy that was recorded, kept in the model file.

    Notes
    -----
    If a new run is exchangeable with the calibration episodes, its probability is calibrated at
    each step by itself (M4); an alarm with a promised false-alarm rate (M8), plausibility and
    assurance (M9) hold for the whole run at once.

    Examples
    --------
    >>> from ontarget import Episodes, GoalMonitor, Target
    >>> rng = np.random.default_rng(0)
    >>> gains = rng.normal(size=(600, 4))
    >>> walks = Episodes.from_arrays(rng.normal(size=(600, 4, 1)), gains)
    >>> monitor = GoalMonitor().fit(walks, progress=False)
    >>> watch = monitor.watch(Target.at_least(0.0), alarm_below=0.2)
    >>> first = watch.step([0.1])
    >>> later = watch.step([0.1], reward=-4.0)
    >>> 0.3 < first.p < 0.7, later.p < 0.2, str(later.state)
    (True, True, 'ALARM')
    """

    def __init__(
        self,
        model: ConditionalDistribution | None = None,
        preset: Preset = "default",
        *,
        window: int = 0,
        steps_per_model: StepsPerModel | None = None,
        group: str | None = None,
        min_calibration: int = 20,
        policy: str = "",
    ) -> None:
        if preset not in ("default", "paper"):
            raise InputError(f"preset needs 'default' or 'paper', got {preset!r}")
        self.model = model
        self.preset = preset
        self.window = window
        self.steps_per_model = steps_per_model
        self.group = group
        self.min_calibration = min_calibration
        self.policy = policy
        self._fitted: Calibrated | None = None

    def fit(
        self,
        episodes: Episodes | None = None,
        *,
        split: Split | None = None,
        seed: int = 0,
        engine: Engine = "local",
        progress: bool = True,
        checkpoint: str | Path | None = None,
    ) -> GoalMonitor:
        """Learn from recorded episodes and calibrate; gives the monitor itself.

        Parameters
        ----------
        episodes
            They are split by `seed` into train, calibrate and assure.
        split
            A split of your own in place of that.
        seed
            Same data, same seed: the same model file, bit for bit.
        engine
            Where the blocks are fitted: ``"local"``, ``"dask"`` or ``"ray"``.
        progress
            Whether to show a progress bar.
        checkpoint
            A folder that keeps each fitted block, so that a killed fit resumes there.
        """
        if split is None:
            if episodes is None:
                raise InputError("fit needs episodes, or a split of them")
            split = episodes.split(seed=seed, by_group=None if self.group is None else "stratify")
        recipe = Recipe(
            model=preset_model(self.preset) if self.model is None else self.model,
            leaf_per_step=self.model is None,
            blocks=plan_blocks(
                split.train.horizon,
                steps_per_model=self.steps_per_model or (1 if self.preset == "paper" else "auto"),
                window=self.window,
            ),
            group=self.group,
            min_calibration=whole_number("min_calibration", self.min_calibration, least=1),
            policy=self.policy,
            seed=seed,
        )
        self._fitted = fit_monitor(
            recipe, split, engine=engine, progress=progress, checkpoint=checkpoint
        )
        return self

    def __repr__(self) -> str:
        found = self._fitted
        if found is None:
            return "<GoalMonitor: not fitted>"
        sizes = ", ".join(f"{size:,} {part}" for part, size in found.sizes.items())
        return (
            f"<GoalMonitor: horizon {found.horizon}, {len(found.schema)} "
            f"feature{'s' * (len(found.schema) != 1)}, behavior {found.behavior.spec}; {sizes}>"
        )

    @property
    def fitted(self) -> Calibrated:
        """What the fit left behind."""
        if self._fitted is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._fitted

    @property
    def horizon(self) -> int:
        """The number of steps of a run."""
        return self.fitted.horizon

    @property
    def schema(self) -> Schema:
        """The features of a state; `Episodes.read` takes the monitor itself as ``like=``."""
        return self.fitted.schema

    @property
    def behavior(self) -> Behavior:
        """What a run is judged by."""
        return self.fitted.behavior

    @property
    def roles(self) -> Roles:
        """Which columns of a log played which part when it was fitted."""
        return self.fitted.roles

    def outlook(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        target: Target | Sequence[Target],
        *,
        groups: Any = None,
        calibration: TargetCalibration | None = None,
    ) -> Outlooks:
        """The outlook of many runs at one step.

        Parameters
        ----------
        t
            The step; at the horizon p is exactly 0 or 1.
        states
            (runs, features).
        behavior
            Behavior so far: one number, or one per run.
        target
            One target gives (runs,); a sequence of k gives (runs, k).
        groups
            One per run, for a monitor that was calibrated by group.
        calibration
            The one target's own calibration (`calibrate_target`), if it has one.
        """
        fitted = self.fitted
        X, so_far = self._runs(states, behavior)
        groups, t = fitted.groups_of(groups, len(X)), whole_number("t", t, least=0)
        return outlooks_at(fitted, t, X, so_far, target, groups, calibration=calibration)

    def calibrate_target(self, target: Target, episodes: Episodes) -> TargetCalibration:
        """The target calibrated for itself at every step, to pass on as ``calibration`` (M7).

        Without it p follows from the whole distribution's calibration, which promises nothing for
        one fixed target. With it ``low`` and ``high`` are the Venn–Abers pair and ``p`` lies
        between. ``episodes`` are those that calibrated the monitor, or new ones: never those that
        trained it, nor its assure episodes if alarms or guarantees are asked for.
        """
        fitted = self.fitted
        fitted.check_alike(episodes)
        ends = ends_with_complements(target, fitted.grid)
        groups = fitted.groups_of(None if fitted.groups is None else episodes.groups, len(episodes))
        return TargetCalibration.of(fitted, ends, episodes, groups)

    def interval(
        self, t: int, states: ArrayLike, behavior: ArrayLike, level: Level, *, group: Any = None
    ) -> Interval:
        """An interval of outcomes per run that holds with at least the level, at this step (M5)."""
        pcqr, X, offset = self._at(t, states, behavior, group)
        found = pcqr.interval(X, level)
        return self._counted_from(offset, found)

    def promise(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        level: Level,
        *,
        side: Literal["lower", "upper"] = "lower",
        group: Any = None,
    ) -> FloatArray:
        """The best one-sided bound on each run's outcome that can be promised at the level (M5)."""
        pcqr, X, offset = self._at(t, states, behavior, group)
        return snap(pcqr.promise(X, level, side) + offset, self.fitted.grid)

    def watch(
        self,
        target: Target,
        *,
        alarm_below: float | None = None,
        false_alarm_rate: Level | None = None,
        for_steps: int = 1,
        clear_above: float | None = None,
        group: Any = None,
        calibration: TargetCalibration | None = None,
        on_bad: OnBad = "unknown",
    ) -> Watch:
        """A live watch over one run; everything is opened and compiled here, never in its `step`.

        Parameters
        ----------
        target
            What the run should end in.
        alarm_below
            Alarm where p falls below this; 0.9 unless a rate is promised.
        false_alarm_rate
            In its place: the promised share of successful runs that raise any alarm (M8).
        for_steps
            How many consecutive steps p must stay below.
        clear_above
            Where an alarm ends; at the threshold by default.
        group
            The run's group, for a monitor that was calibrated by group.
        calibration
            The target's own calibration (`calibrate_target`), if it has one.
        on_bad
            Whether a bad reading gives UNKNOWN or raises.
        """
        fitted = self.fitted
        number = fitted.group_of(group)
        rule = rule_of(
            fitted,
            target,
            alarm_below=alarm_below,
            false_alarm_rate=false_alarm_rate,
            for_steps=for_steps,
            clear_above=clear_above,
            group=number,
            calibration=calibration,
        )
        return Watch(fitted, target, rule, group=number, calibration=calibration, on_bad=on_bad)

    def fleet(
        self,
        target: Target,
        agents: int,
        *,
        alarm_below: float | None = None,
        false_alarm_rate: Level | None = None,
        for_steps: int = 1,
        clear_above: float | None = None,
        groups: Any = None,
        calibration: TargetCalibration | None = None,
    ) -> FleetWatch:
        """A live watch over many runs at once; options as for `watch`, ``groups`` one per agent."""
        fitted = self.fitted
        rules = [
            rule_of(
                fitted,
                target,
                alarm_below=alarm_below,
                false_alarm_rate=false_alarm_rate,
                for_steps=for_steps,
                clear_above=clear_above,
                group=g,
                calibration=calibration,
            )
            for g in range(fitted.n_groups)
        ]
        groups = fitted.groups_of(groups, agents)
        return FleetWatch(fitted, target, rules, agents, groups=groups, calibration=calibration)

    def drift_guard(self, *, step: int = 0, epsilon: float = 0.01, group: Any = None) -> DriftGuard:
        """A guard to feed finished episodes to: is the calibration of this step still valid? (M10).

        It raises a false alarm, ever, with probability at most ``epsilon``.
        """
        return guard_of(self.fitted, step=step, epsilon=epsilon, group=self.fitted.group_of(group))

    def band(
        self, t: int, states: ArrayLike, behavior: ArrayLike, level: Level, *, group: Any = None
    ) -> Interval:
        """The range of outcomes per run that holds at **all** steps at once with the level (M9)."""
        pcqr, X, offset = self._at(t, states, behavior, group)
        excess = self.fitted.sorted_excess[self.fitted.group_of(group)]
        found = band_interval(pcqr, X, band_depth(excess, level))
        return self._counted_from(offset, found)

    def alarm_curve(
        self,
        target: Target,
        *,
        rates: Sequence[Level] | None = None,
        for_steps: int = 1,
        group: Any = None,
        calibration: TargetCalibration | None = None,
    ) -> PromisedAlarms:
        """What each promised false-alarm rate buys: threshold, detection rate, lead time (M8)."""
        return promised_alarms(
            self.fitted,
            target,
            rates=rates,
            for_steps=for_steps,
            group=self.fitted.group_of(group),
            calibration=calibration,
        )

    def evaluate(
        self,
        episodes: Episodes,
        target: Target,
        *,
        calibration: TargetCalibration | None = None,
        resamples: int = 200,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Evaluation:
        """How good the monitor is on episodes it has never seen: measures by step and pooled.

        Intervals come from so many resamples of whole episodes. ``progress`` is called with the
        steps done and the steps in all.
        """
        fitted = self.fitted
        of_run = None if fitted.groups is None else episodes.groups
        return evaluate(
            fitted,
            episodes,
            target,
            groups=fitted.groups_of(of_run, len(episodes)),
            resampling=Resampling(resamples, seed=seed),
            calibration=calibration,
            progress=progress,
        )

    def save(self, path: str | Path) -> None:
        """Write the model file; the same fit gives the same bytes."""
        from ontarget.modelfile.file import save

        save(self.fitted, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> GoalMonitor:
        """The monitor in a model file, memory-mapped."""
        from ontarget.modelfile.file import load

        fitted = load(Path(path))
        monitor = cls(min_calibration=fitted.min_calibration, policy=fitted.policy)
        monitor._fitted = fitted
        return monitor

    def _at(
        self, t: int, states: ArrayLike, behavior: ArrayLike, group: Any
    ) -> tuple[PCQR, FloatArray, FloatArray]:
        fitted = self.fitted
        step = fitted.at(whole_number("t", t, least=0), fitted.group_of(group))
        trouble = fitted.unknown(step)
        if trouble:
            raise CalibrationError(f"step {t} is unknown: {trouble}")
        X, so_far = self._runs(states, behavior)
        fitted.check_readings(X, so_far)
        return step.pcqr(), step.inputs(X, so_far), step.offset(so_far)

    def _counted_from(self, offset: FloatArray, found: Interval) -> Interval:
        """An interval of remainders as one of outcomes, on the grid on which those are compared."""
        grid = self.fitted.grid
        return Interval(snap(found.lower + offset, grid), snap(found.upper + offset, grid))

    def _runs(self, states: ArrayLike, behavior: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The states as a matrix and the behavior so far of each run, on the grid."""
        X = np.asarray(states, dtype=np.float64)
        width = len(self.fitted.schema)
        if X.ndim != 2 or X.shape[1] != width:
            raise InputError(f"states need shape (runs, {width}), got {X.shape}")
        so_far = np.asarray(behavior, dtype=np.float64)
        if so_far.shape not in ((), (len(X),)):
            raise InputError(
                f"behavior needs one number or one for each of {len(X)} runs, got {so_far.shape}"
            )
        return X, snap(np.broadcast_to(so_far, (len(X),)), self.fitted.grid)
