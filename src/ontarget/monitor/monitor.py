"""`GoalMonitor`: fit it on recorded episodes, ask it about running ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, cast

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._progress import progress_bar
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal._levels import Level
from ontarget.conformal.results import Interval
from ontarget.episodes import Behavior, Episodes, Schema, Split
from ontarget.episodes._store import Roles
from ontarget.episodes.schema import Unseen
from ontarget.errors import Argument, CalibrationError, InputError, ModelFileError, UnfittedError
from ontarget.evaluation import Resampling
from ontarget.fitted.blocks import StepsPerModel, plan_blocks
from ontarget.fitted.calibrating import calibrate_target
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.law import StepLaw
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitting.engines import Engine
from ontarget.fitting.fit import Preset, Recipe, fit_monitor, preset_model
from ontarget.live.alarms import PromisedAlarms, promised_alarms
from ontarget.live.assured import Contracts
from ontarget.live.batch import outlooks_at
from ontarget.live.contract import Contract
from ontarget.live.fleet import FleetWatch
from ontarget.live.outlook import Outlooks
from ontarget.live.rules import AlarmRule, RuleOptions, rule_of
from ontarget.live.sessions import Sessions
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor._keeping import kept_parameters, restored_parameters
from ontarget.monitor.drift import DriftGuard, guard_of
from ontarget.report.evaluation import Evaluation, evaluate
from ontarget.target import Target

__all__ = ["AlarmOptions", "GoalMonitor", "Preset"]


class AlarmOptions(RuleOptions, total=False):
    """When to raise an alarm: a rule, or one of the shorthands; and the target's calibration."""

    alarm: AlarmRule | None
    calibration: TargetCalibration | None


class GoalMonitor:
    """The calibrated probability, at every step of a run, that it ends inside a target.

    Parameters
    ----------
    model
        An unfitted conditional distribution: one of `ontarget.models`, a scikit-learn pipeline that
        ends in one, or your own object with ``fit``, ``cdf_limits`` and ``quantile``. By default
        the preset chooses it.
    preset
        ``"default"``: blocks of steps share a `GuidedForest`. ``"paper"``: one plain forest per
        step, as in the paper, with leaves of 15 episodes (the paper gives no size); on Tamarisk it
        is more than twice as far from the true probability.
    window
        A block's model is also trained on this many steps before and after the block.
    steps_per_model
        How many steps share a model. ``"auto"`` means 5, or a hundredth of the horizon if that is
        more.
    group
        The name of the group column, if each group is to be calibrated by itself (M11).
    min_calibration
        A step that fewer calibration episodes than this reach is UNKNOWN.
    reward_bounds
        The least and the most that one step can ever earn, None where there is no bound. Where
        these settle the outcome by arithmetic, p is exactly 0 or 1 (M18).
    policy
        A name for the policy that was recorded. The model file keeps it.
    unseen
        What a category of a text feature counts as if no training episode had it. ``"missing"``: a
        missing value, live and in calibration alike, if the model can handle those. ``"error"``: a
        mistake in a file, and UNKNOWN live (M18).

    Notes
    -----
    The guarantees assume that the calibration episodes, the assure episodes and the new run are
    exchangeable, all taken together. Then the distribution behind p is calibrated at each step by
    itself (M4). An alarm with a promised false-alarm rate (M8), plausibility and assurance (M9)
    hold for the whole run at once.

    A fitted monitor never changes, so threads may share it, and copies share its contents.

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
    >>> 0.3 < first.p < 0.7, later.p < 0.2, str(later.status)
    (True, True, 'ALARM')
    """

    def __init__(
        self,
        model: Any = None,
        preset: Preset = "default",
        *,
        window: int = 0,
        steps_per_model: StepsPerModel | None = None,
        group: str | None = None,
        min_calibration: int = 20,
        reward_bounds: tuple[float | None, float | None] | None = None,
        policy: str = "",
        unseen: Unseen = "missing",
    ) -> None:
        if preset not in ("default", "paper"):
            raise InputError(f"preset needs 'default' or 'paper', got {preset!r}")
        if unseen not in ("missing", "error"):
            raise InputError(f"unseen needs 'missing' or 'error', got {unseen!r}")
        self.model = model
        self.preset = preset
        self.window = window
        self.steps_per_model = steps_per_model
        self.group = group
        self.min_calibration = min_calibration
        self.reward_bounds = reward_bounds
        self.policy = policy
        self.unseen = unseen
        self._contracts: Contracts | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, in scikit-learn's form, so that its ``clone`` works."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        found = {name: getattr(self, name) for name in names}
        model: Any = self.model
        if deep and hasattr(model, "get_params"):
            found |= {f"model__{name}": one for name, one in model.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> GoalMonitor:
        """The monitor itself, with other arguments; fit it again afterwards."""
        own, model = self.get_params(deep=False), cast(Any, self.model)
        for name, value in parameters.items():
            if name.startswith("model__") and hasattr(model, "set_params"):
                model.set_params(**{name.removeprefix("model__"): value})
            elif name in own:
                setattr(self, name, value)
            else:
                raise InputError(f"GoalMonitor has no parameter {name!r}, it has {', '.join(own)}")
        return self

    def fit(
        self,
        episodes: Episodes | None = None,
        *,
        split: Split | None = None,
        seed: int = 0,
        engine: Engine = "local",
        progress: bool = True,
        checkpoint: str | Path | None = None,
        steps: Collection[int] | None = None,
    ) -> GoalMonitor:
        """The monitor itself, fitted to recorded episodes and calibrated.

        Parameters
        ----------
        episodes
            Recorded episodes. They are divided into train, calibrate and assure, by `seed`.
        split
            Your own split, instead of ``episodes``.
        seed
            The same data and seed give the same model file, bit for bit.
        engine
            Where the blocks are fitted: ``"local"``, ``"dask"``, ``"ray"``, an executor (anything
            with ``submit``), or an object that is called like ``joblib.Parallel``.
        progress
            Whether to show a progress bar.
        checkpoint
            A folder that keeps each fitted block, so that a fit that was killed can resume.
        steps
            The steps that you will ask about, all by default. Models that none of them needs are
            not fitted, which saves time; their steps are UNKNOWN.
        """
        if split is None:
            if episodes is None:
                raise InputError("fit needs episodes, or a split of them")
            split = episodes.split(seed=seed, by_group=None if self.group is None else "stratify")
        blocks, law = plan_blocks(
            split.train.horizon,
            steps_per_model=self.steps_per_model or (1 if self.preset == "paper" else "auto"),
            window=self.window,
        )
        recipe = Recipe(
            model=preset_model(self.preset) if self.model is None else self.model,
            blocks=blocks,
            law=law,
            group=self.group,
            min_calibration=whole_number("min_calibration", self.min_calibration, least=1),
            reward_bounds=_bounds(self.reward_bounds),
            seed=seed,
            parameters=kept_parameters(self.get_params(deep=False)),
            steps=_asked_steps(steps, split.train.horizon),
            unseen=self.unseen,
        )
        fitted = fit_monitor(recipe, split, engine=engine, progress=progress, checkpoint=checkpoint)
        self._contracts = Contracts(fitted)
        return self

    def __repr__(self) -> str:
        if self._contracts is None:
            return "<GoalMonitor: not fitted>"
        found = self.fitted
        sizes = ", ".join(f"{size:,} {part}" for part, size in found.trained.sizes.items())
        return (
            f"<GoalMonitor: horizon {found.horizon}, {len(found.schema)} "
            f"feature{'s' * (len(found.schema) != 1)}, behavior {found.behavior.spec}; {sizes}>"
        )

    @property
    def _kept(self) -> Contracts:
        if self._contracts is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._contracts

    @property
    def fitted(self) -> Fitted:
        """The result of the fit: the distribution of each step, ranks and assure episodes."""
        return self._kept.fitted

    @property
    def horizon(self) -> int:
        """The number of steps of a run."""
        return self.fitted.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the horizon was declared; otherwise it is the longest recorded run."""
        return self.fitted.horizon_declared

    @property
    def grid(self) -> float:
        """The spacing to which outcomes, intervals and promises are rounded (M1)."""
        return self.fitted.grid

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
        """Which column of the log was used for what when the monitor was fitted."""
        return self.fitted.trained.roles

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """The groups, each calibrated by itself; None without groups."""
        return self.fitted.groups

    @property
    def sizes(self) -> dict[str, int]:
        """How many episodes are in each part: train, calibrate and assure."""
        return dict(self.fitted.trained.sizes)

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
            The step; at a declared horizon p is exactly 0 or 1.
        states
            (runs, features).
        behavior
            The behavior so far, such as the sum of the rewards: one number, or one per run.
        target
            One target gives arrays of shape (runs,); a sequence of k gives (runs, k).
        groups
            One group for all runs, or one per run, if the monitor is calibrated by group.
        calibration
            The target's own calibration, from `calibrate_target`, if you made one.
        """
        fitted = self.fitted
        t = whole_number("t", t, least=0)
        if t > fitted.horizon and fitted.horizon_declared:
            raise InputError(f"t needs a step up to the horizon {fitted.horizon}, got {t}")
        X, so_far = self._runs(states, behavior)
        which = fitted.groups_of(groups, len(X))
        return outlooks_at(fitted, t, X, so_far, target, which, calibration=calibration)

    def calibrate_target(self, target: Target, episodes: Episodes) -> TargetCalibration:
        """A calibration of this one target at every step, to be passed as ``calibration`` (M7).

        Without it, p comes from the calibration of the whole distribution, which promises nothing
        for one fixed target. With it, ``low`` and ``high`` are the Venn–Abers pair, which has a
        guarantee, and ``p`` is a number between them, which has none.

        Pass the episodes that calibrated the monitor, or new ones. Those that trained it, and its
        assure episodes, are refused.
        """
        return calibrate_target(self.fitted, target, episodes)

    def interval(
        self, t: int, states: ArrayLike, behavior: ArrayLike, level: Level, *, groups: Any = None
    ) -> Interval:
        """One interval per run that contains its outcome with at least this level (M5).

        The guarantee is for this one step. Use `band` if you look at several.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            return step.pcqr().interval(X, level)

        return self._outcomes(t, states, behavior, groups, find)

    def promise(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        level: Level,
        *,
        side: Literal["lower", "upper"] = "lower",
        groups: Any = None,
    ) -> FloatArray:
        """The best one-sided bound on each run's outcome that can be promised at this level (M5).

        The guarantee needs a level and a step that were fixed beforehand.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            bound = step.pcqr().promise(X, level, side)
            return Interval(bound, bound)

        return self._outcomes(t, states, behavior, groups, find).lower

    def band(
        self, t: int, states: ArrayLike, behavior: ArrayLike, level: Level, *, groups: Any = None
    ) -> Interval:
        """One range of outcomes per run that holds at **all** steps together, at the level (M9)."""

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            depth = band_depth(self.fitted.sorted_excess[group], level)
            return band_interval(step.pcqr(), X, depth)

        return self._outcomes(t, states, behavior, groups, find)

    def watch(
        self,
        target: Target,
        *,
        group: Any = None,
        on_bad: OnBad = "unknown",
        **alarm: Unpack[AlarmOptions],
    ) -> Watch:
        """A watch that follows one run live.

        Everything is opened and compiled here, never in its `step`.

        Parameters
        ----------
        target
            What the run should end in.
        group
            The run's group, if the monitor is calibrated by group.
        on_bad
            What a bad reading does: ``"unknown"`` gives the status UNKNOWN, ``"raise"`` an error.
        **alarm
            When to raise an alarm. ``alarm`` is a rule such as ``Below(0.9)``, ``Promised(0.05)``
            or ``RuledOut(0.05)``. The shorthands are ``alarm_below``, a threshold for p (0.9 by
            default); ``false_alarm_rate``, the promised probability that a successful run raises
            any alarm (M8); ``for_steps``, how many steps in a row p must stay below the threshold;
            and ``clear_above``, where an alarm ends. ``calibration`` is the target's own
            calibration, from `calibrate_target`, if you made one.
        """
        contract = self._contract(target, alarm)
        return Watch(contract, group=self.fitted.group_of(group), on_bad=on_bad)

    def fleet(
        self,
        target: Target,
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
        **alarm: Unpack[AlarmOptions],
    ) -> FleetWatch:
        """A watch that follows many runs live, with one call per step for all of them.

        Parameters
        ----------
        target
            What every run should end in.
        agents
            How many agents there are, or their names; more may join later.
        groups
            One group for all agents, or one per agent, if the monitor is calibrated by group.
        **alarm
            As for `watch`.
        """
        return FleetWatch(self._contract(target, alarm), agents, groups=groups)

    def sessions(
        self,
        target: Target,
        *,
        max_agents: int = 10_000,
        idle_seconds: float | None = None,
        **alarm: Unpack[AlarmOptions],
    ) -> Sessions:
        """Watches for agents that come and go, by name; see `Sessions`.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(300, 3, 1)), rng.normal(size=(300, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.1)
        >>> sessions.answer({"agent": "left", "state": [0.1]})["status"]
        'OK'
        """
        contract = self._contract(target, alarm)
        return Sessions(contract, max_agents=max_agents, idle_seconds=idle_seconds)

    def drift_guard(self, *, t: int = 0, level: Level = 0.99, group: Any = None) -> DriftGuard:
        """A guard that tells from finished episodes whether the process has changed (M10).

        It checks the calibration of step t. With probability ``level`` it never raises a false
        alarm, however long it watches. Feed it each run once, with an id of its own, in the order
        in which the runs started, and only runs that no alarm has changed.
        """
        return guard_of(self.fitted, t=t, level=level, group=self.fitted.group_of(group))

    def alarm_curve(
        self,
        target: Target,
        *,
        rates: Sequence[Level] | None = None,
        for_steps: int = 1,
        group: Any = None,
        calibration: TargetCalibration | None = None,
    ) -> PromisedAlarms:
        """What each promised false-alarm rate gives: threshold, detections, lead time (M8).

        Fix the rate before you look: a rate that was picked from this table is slightly optimistic,
        because the same assure episodes chose it.
        """
        assured = self._kept.assured(target, calibration, self.fitted.group_of(group))
        return promised_alarms(assured, rates=rates, for_steps=for_steps)

    def evaluate(
        self,
        episodes: Episodes,
        target: Target,
        *,
        calibration: TargetCalibration | None = None,
        resamples: int = 200,
        seed: int = 0,
        progress: bool = False,
    ) -> Evaluation:
        """Measures of how good the monitor is on episodes that it has never seen.

        ``resamples`` is how many times whole episodes are resampled for the intervals. If you use
        the result to choose a seed, a preset or a target, report another evaluation, on episodes
        that played no part in the choice.
        """
        bar = progress_bar("evaluating", self.horizon, unit="steps", shown=progress)
        with bar as reached:
            return evaluate(
                self._kept,
                episodes,
                target,
                resampling=Resampling(resamples, seed=seed),
                calibration=calibration,
                reached=reached,
            )

    def save(self, path: str | Path) -> None:
        """Write the model file; the same fit gives the same bytes.

        The file is written beside its place and renamed, so a running process keeps the old one.
        """
        from ontarget.modelfile.file import save

        save(self.fitted, Path(path))

    @classmethod
    def load(
        cls, path: str | Path, *, copy: bool | None = None, behavior: Behavior | None = None
    ) -> GoalMonitor:
        """The monitor that a model file holds, with the parameters that it was fitted with.

        Parameters
        ----------
        path
            A file that `save` wrote.
        copy
            True reads the file into memory, False maps it, so that processes share one copy. By
            default files up to 64 MB are copied and larger ones mapped.
        behavior
            The behavior it was fitted with, if that is a class of your own: a file holds its name
            alone.

        Notes
        -----
        To put a new file in place of one that is in use, rename it there, as `save` does. Never
        copy over it (``cp new old``): that changes a mapped file under a running watch, and the
        system may end the process.
        """
        from ontarget.modelfile.file import load

        fitted = load(Path(path), copy=copy, behavior=behavior)
        try:
            return cls._of(fitted)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{path}: its parameters are none of a GoalMonitor's: {error}"
            ) from error

    @classmethod
    def _of(cls, fitted: Fitted) -> GoalMonitor:
        monitor = cls(**restored_parameters(fitted.trained.parameters))
        monitor._contracts = Contracts(fitted)
        return monitor

    def __getstate__(self) -> dict[str, Any]:
        fitted = None if self._contracts is None else self._contracts.fitted
        return {**self.get_params(deep=False), "fitted": fitted}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        fitted = kept.pop("fitted")
        self.__init__(**kept)  # type: ignore[misc]
        self._contracts = None if fitted is None else Contracts(fitted)

    def __deepcopy__(self, memo: dict[int, Any]) -> GoalMonitor:
        from copy import deepcopy

        twin = type(self)(**deepcopy(self.get_params(deep=False), memo))
        twin._contracts = None if self._contracts is None else Contracts(self._contracts.fitted)
        return twin

    def _contract(self, target: Target, options: AlarmOptions) -> Contract:
        rest: dict[str, Any] = dict(options)
        calibration = rest.pop("calibration", None)
        return self._kept.of(target, rule_of(**rest), calibration)

    def _outcomes(
        self, t: int, states: ArrayLike, behavior: ArrayLike, groups: Any, find: Any
    ) -> Interval:
        """What `find` says of each run's remainder, as outcomes on the grid."""
        fitted, t = self.fitted, whole_number("t", t, least=0)
        X, so_far = self._runs(states, behavior)
        which = fitted.groups_of(groups, len(X))
        lower, upper = np.empty(len(X)), np.empty(len(X))
        for g in np.unique(which).tolist():
            own = np.flatnonzero(which == g)
            step = fitted.at(t, g)
            trouble = fitted.unknown(t, g)
            if trouble:
                raise CalibrationError(f"step {t} is unknown: {trouble}")
            fitted.check_readings(X[own], so_far[own])
            found = find(step, step.inputs(X[own], so_far[own]), g)
            lower[own], upper[own] = step.outcomes(so_far[own], found)
        return Interval(snap(lower, fitted.grid), snap(upper, fitted.grid))

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


def _asked_steps(steps: Collection[int] | None, horizon: int) -> frozenset[int] | None:
    if steps is None:
        return None
    asked = frozenset(whole_number("steps", t, least=0) for t in steps)
    if not asked or max(asked) >= horizon:
        raise InputError(f"steps needs some steps from 0 to {horizon - 1}, got {sorted(asked)}")
    return asked


def _bounds(given: tuple[float | None, float | None] | None) -> tuple[float, float]:
    if given is None:
        return -math.inf, math.inf
    try:
        low, high = given
        least = -math.inf if low is None else float(low)
        most = math.inf if high is None else float(high)
    except (TypeError, ValueError) as error:
        raise InputError(
            Argument("reward_bounds"),
            f" needs the least and most of one step's reward, got {given!r}",
        ) from error
    if not least <= most:
        raise InputError(
            Argument("reward_bounds"), f" needs a least reward up to the most, got {given!r}"
        )
    return least, most
