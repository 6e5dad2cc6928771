"""What a fitted monitor can do: outlooks, intervals, watches, alarm curves, evaluations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, Unpack, overload

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._progress import progress_bar
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal._levels import Level, exact_level
from ontarget.conformal.results import Interval
from ontarget.drift._comparing import drift_of
from ontarget.drift.change import Drift
from ontarget.drift.follow import FollowingInterval
from ontarget.drift.guard import DriftGuard, guard_of, harm_guard_of
from ontarget.episodes import Behavior, Episodes, Schema
from ontarget.episodes._judged import Reading
from ontarget.episodes._store import Roles
from ontarget.errors import CalibrationError, InputError, UnfittedError
from ontarget.evaluation import Resampling
from ontarget.fitted.calibrating import calibrate_target
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.law import StepLaw
from ontarget.fitted.paths.bands import PathBand
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitted.target_map import Calibrated, TargetMap
from ontarget.goal import Goal
from ontarget.live._explaining import Reading as StepReading
from ontarget.live._explaining import explained
from ontarget.live.alarms import PromisedAlarms, promised_alarms
from ontarget.live.assured import Contracts
from ontarget.live.batch import outlooks_at
from ontarget.live.contract import Contract
from ontarget.live.explanation import Explanation
from ontarget.live.fleet import FleetWatch
from ontarget.live.goals._signals import SignalWatch
from ontarget.live.goals.contract import GoalContract, GoalContracts
from ontarget.live.goals.fleet import GoalFleet
from ontarget.live.goals.watch import GoalWatch
from ontarget.live.outlook import Outlooks
from ontarget.live.own_targets import OwnTargets, OwnWatch
from ontarget.live.rules import AlarmRule, RuleOptions, rule_of
from ontarget.live.sessions import Sessions
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor._goals import boxes_at, goal_outlooks, so_far_of
from ontarget.report.evaluation import (
    Evaluation,
    OwnEvaluation,
    evaluate,
    evaluate_goal,
    evaluate_own,
)
from ontarget.target import Target

__all__ = ["AlarmOptions", "Asked", "Calibration"]

# How p of one target is calibrated: by the target's own map, as for all targets, or exactly.
Calibration: TypeAlias = Literal["target", "common"] | TargetCalibration

_EVALUATED_STEPS = 1_000_000  # of prepared episodes; their answers take some 80 bytes each
_ONE_BY_ONE = "each run has its own weight: make a watch for each"


class AlarmOptions(RuleOptions, total=False):
    """The options for alarms: a rule or its shorthands, and how p is calibrated."""

    alarm: AlarmRule | None
    calibration: Calibration


class Asked:
    """The methods of a fitted `GoalMonitor`."""

    _contracts: Contracts | GoalContracts | None

    @property
    def _held(self) -> Contracts | GoalContracts:
        if self._contracts is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._contracts

    @property
    def _goals(self) -> GoalContracts | None:
        """What was fitted on several behaviors; None for a single one."""
        return self._held if isinstance(self._held, GoalContracts) else None

    @property
    def _kept(self) -> Contracts:
        if isinstance(self._held, GoalContracts):
            names = tuple(self._held.joint.parts)
            raise InputError(
                f"this monitor has several behaviors ({', '.join(names)}); ask one of them: "
                f"monitor.only({names[0]!r})"
            )
        return self._held

    @property
    def fitted(self) -> Fitted:
        """The result of the fit: the distribution of each step, ranks and assure episodes."""
        return self._kept.fitted

    @property
    def contracts(self) -> Contracts | GoalContracts:
        """What was fitted, and what was asked of it before; for the tools around a monitor."""
        return self._held

    @property
    def _shared(self) -> Fitted:
        """The result of the fit, for what several behaviors have in common."""
        return self._held.fitted

    @property
    def horizon(self) -> int:
        """The number of steps of a run."""
        return self._shared.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the horizon was declared; otherwise it is the longest recorded run."""
        return self._shared.horizon_declared

    @property
    def grid(self) -> float:
        """The spacing to which outcomes, intervals and promises are rounded (M1)."""
        return self.fitted.grid

    @property
    def schema(self) -> Schema:
        """The features of a state; `Episodes.read` takes the monitor itself as ``like=``."""
        return self._shared.schema

    @property
    def behavior(self) -> Behavior:
        """What a run is judged by."""
        return self.fitted.behavior

    @property
    def readings(self) -> dict[str, Reading]:
        """What each named behavior reads; empty for a single one without a name."""
        return {} if self._goals is None else self._goals.joint.readings

    def only(self, name: str) -> Self:
        """The monitor of one of several behaviors, as good as one that was fitted on it alone."""
        goals = self._goals
        if goals is None:
            raise InputError(f"this monitor has a single behavior without a name, got {name!r}")
        if name not in goals.parts:
            known = ", ".join(goals.parts)
            raise InputError(f"name needs one of the behaviors {known}, got {name!r}")
        twin = copy(self)
        twin._contracts = goals.parts[name]
        return twin

    @property
    def roles(self) -> Roles:
        """Which column of the log was used for what when the monitor was fitted."""
        return self._shared.trained.roles

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """The groups, each calibrated by itself; None without groups."""
        return self._shared.groups

    @property
    def sizes(self) -> dict[str, int]:
        """How many episodes are in each part: learn and assure, or the paper's three."""
        return dict(self._shared.trained.sizes)

    def outlook(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike | Mapping[str, ArrayLike],
        target: Target | Goal | Sequence[Target],
        *,
        groups: Any = None,
        calibration: Calibration = "common",
        weights: ArrayLike | None = None,
    ) -> Outlooks:
        """The outlooks of many runs at one step.

        By default p is the common one, which is the same map for all targets, so that targets can
        be compared: a wider one never has a lower p. A watch gives its one target a map of its own;
        ask for that with ``calibration="target"``.

        Parameters
        ----------
        t
            The step; at a declared horizon p is exactly 0 or 1.
        states
            (runs, features).
        behavior
            The behavior so far, such as the sum of the rewards: one number, or one per run. For
            several behaviors a mapping from their names.
        target
            One target gives arrays of shape (runs,); a sequence of k gives (runs, k). A monitor of
            several behaviors takes a goal.
        groups
            One group for all runs, or one per run, if the monitor is calibrated by group.
        calibration
            ``"common"``, ``"target"``, or what `calibrate_target` gave, as for `watch`.
        weights
            One weight for all runs, or one per run, if the monitor's assure episodes have weights.
        """
        fitted = self._shared
        t = whole_number("t", t, least=0)
        if t > fitted.horizon and fitted.horizon_declared:
            raise InputError(f"t needs a step up to the horizon {fitted.horizon}, got {t}")
        if self._goals is not None:
            return self._goal_outlooks(
                self._goals, t, states, behavior, target, groups=groups, calibration=calibration
            )
        if isinstance(target, Goal) or isinstance(behavior, Mapping):
            raise self._no_goal(target)
        X, so_far = self._runs(states, behavior)
        which = fitted.groups_of(groups, len(X))
        return outlooks_at(
            fitted,
            t,
            X,
            so_far,
            target,
            which,
            calibration=self._calibration(target, calibration),
            weights=fitted.checked_weights(weights, len(X)),
        )

    def _goal_outlooks(
        self,
        goals: GoalContracts,
        t: int,
        states: ArrayLike,
        behavior: Any,
        goal: Any,
        *,
        groups: Any,
        calibration: Any,
    ) -> Outlooks:
        goal = goals.joint.checked(goal)
        X = self._states(states)
        so_far = so_far_of(goals.joint, behavior, len(X))
        if goal.only is not None:
            name, target = goal.only
            alone = self.only(name)
            return alone.outlook(t, X, so_far[name], target, groups=groups, calibration=calibration)
        return goal_outlooks(
            goals,
            t,
            X,
            so_far,
            goal,
            groups=self._shared.groups_of(groups, len(X)),
            own_map=self._goal_map(goals, goal, calibration),
        )

    def _goal_map(
        self, goals: GoalContracts, goal: Goal, calibration: Calibration
    ) -> TargetMap | None:
        if calibration not in ("target", "common"):
            raise InputError(
                "a goal over several behaviors needs calibration 'target' or 'common', got "
                f"{calibration!r}"
            )
        return goals.map_of(goal) if calibration == "target" else None

    def _no_goal(self, goal: object) -> InputError:
        return InputError(
            "this monitor has a single behavior without a name, so target needs a Target and "
            f"behavior a number, got {goal!r}; fit on episodes with behavior={{NAME: …}} for goals"
        )

    def box(
        self,
        t: int,
        states: ArrayLike,
        behavior: Mapping[str, ArrayLike],
        level: Level,
        *,
        groups: Any = None,
        all_steps: bool = False,
    ) -> dict[str, Interval]:
        """One box per run that contains the outcomes of all behaviors together (M21).

        Parameters
        ----------
        t, states, groups
            As for `outlook`.
        behavior
            The behavior so far of each behavior, by name.
        level
            The probability with which all outcomes lie inside together.
        all_steps
            By default the guarantee is for this one step. If True, the boxes of all steps hold
            together.
        """
        goals = self._goals
        if goals is None:
            raise InputError("a box needs several behaviors; use interval or band for a single one")
        X = self._states(states)
        return boxes_at(
            goals.joint,
            t,
            X,
            so_far_of(goals.joint, behavior, len(X)),
            self._shared.groups_of(groups, len(X)),
            level=level,
            all_steps=all_steps,
        )

    def calibrate_target(self, target: Target, episodes: Episodes) -> TargetCalibration:
        """An exact calibration of this one target, to be passed as ``calibration`` (M7).

        Without it, p comes from the learning episodes: the best estimate, which promises nothing.
        With it, ``low`` and ``high`` are the Venn–Abers pair, which has a guarantee, and ``p`` is a
        number between them, which has none.

        Pass episodes that the monitor has not seen: new ones, or the ``rest`` of a split. Those
        that it learned from, and its assure episodes, are refused. After a fit in the paper's way,
        its calibrate episodes may be passed too.
        """
        return calibrate_target(self.fitted, target, episodes)

    def interval(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        level: Level,
        *,
        groups: Any = None,
        confidence: Level | None = None,
    ) -> Interval:
        """One interval per run that contains its outcome with at least this level (M5).

        The guarantee is for this one step. Use `band` if you look at several. It is an average over
        assure sets; with ``confidence=0.95`` it holds for 95 in 100 of them (M20).
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            return step.pcqr().interval(X, level, confidence=confidence)

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
        confidence: Level | None = None,
    ) -> FloatArray:
        """The best one-sided bound on each run's outcome that can be promised at this level (M5).

        The guarantee needs a level and a step that were fixed beforehand. `confidence` is as for
        `interval`.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            bound = step.pcqr().promise(X, level, side, confidence=confidence)
            return Interval(bound, bound)

        return self._outcomes(t, states, behavior, groups, find).lower

    def band(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        level: Level,
        *,
        groups: Any = None,
        confidence: Level | None = None,
    ) -> Interval:
        """One range of outcomes per run that holds at **all** steps together, at the level (M9).

        `confidence` is as for `interval`.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            depth = band_depth(self.fitted.sorted_excess[group], level, confidence)
            return band_interval(step, X, depth)

        return self._outcomes(t, states, behavior, groups, find)

    def path_band(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike,
        level: Level,
        *,
        all_steps: bool = False,
        groups: Any = None,
        confidence: Level | None = None,
    ) -> PathBand:
        """Where each run will be at every later step: a band that holds its whole path to come.

        With at least the probability ``level``, the behavior of a run that is still going at step t
        stays inside at every step from then on; a run that ends stays where it ended (M22). With
        ``all_steps``, the bands of all steps together hold with that probability, so that you may
        look at every step and trust each band.

        Parameters
        ----------
        t, states, behavior, groups
            As for `interval`.
        level
            The probability, such as 0.9.
        all_steps
            Whether to promise it for all steps at once. After a recalibration, the first such call
            takes some seconds.
        confidence
            As for `interval`.

        Notes
        -----
        The promise rests on the assure episodes and is an average over them. Bands come from the
        paths of the recorded runs that the forests weigh, so the model must be a forest, and the
        fit must have kept the paths (``paths=True``).

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(300, 4, 1)), rng.normal(size=(300, 4)))
        >>> band = GoalMonitor().fit(walks, progress=False).path_band(1, [[0.1]], 2.0, 0.8)
        >>> band.steps, bool((band.lower < 2.0).all() and (band.upper > 2.0).all())
        (array([2, 3, 4]), True)
        """
        fitted, t = self.fitted, whole_number("t", t, least=0)
        fitted.refuse_weights("path band", "read low, high and plausibility of an outlook")
        X, so_far = self._runs(states, behavior)
        which = fitted.groups_of(groups, len(X))
        steps = np.arange(t + 1, fitted.horizon + 1)
        lower, upper = np.empty((2, len(X), steps.size))
        for g in np.unique(which).tolist():
            own = np.flatnonzero(which == g)
            self._check_known(t, g, X[own], so_far[own])
            lower[own], upper[own] = self._kept.paths.band(
                t, X[own], so_far[own], g, level=level, all_steps=all_steps, confidence=confidence
            )
        return PathBand(t, steps, lower, upper, float(exact_level(level)), all_steps)

    def explain(
        self,
        t: int,
        state: ArrayLike | Mapping[str, object],
        behavior: float,
        target: Target,
        *,
        before: tuple[ArrayLike | Mapping[str, object], float] | None = None,
        group: Any = None,
        calibration: Calibration = "target",
        weight: float | None = None,
    ) -> Explanation:
        """Why p is what it is at step t of a run: what moved it, and the runs that it rests on.

        What moved p since the step before is shared out among the reward earned, each feature that
        changed, and the passing of time. The shares are Shapley values, which add up to the change.
        With more than eight causes they are sampled, and their standard errors are given. The
        precedents are the recorded runs that the model's forests weigh most (M28).

        Parameters
        ----------
        t
            The step.
        state, behavior
            The state there, and the behavior so far.
        target
            What the run should end in.
        before
            State and behavior at step t − 1. Without it, only precedents are given.
        group
            The run's group, if the monitor is calibrated by group.
        calibration
            As for `watch`, so that p is that of a watch.
        weight
            The run's weight, if the monitor's assure episodes have weights.

        Notes
        -----
        It explains the model, not the world: to share out a change, p is asked about states that
        mix both steps, and some of those may be impossible.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor, Target
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(300, 3, 1)), rng.normal(size=(300, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> why = monitor.explain(1, [0.1], -2.0, Target.at_least(0.0), before=([0.1], 0.0))
        >>> print(why.contributions[0].cause, why.missed > 0.8)
        reward earned True
        """
        fitted, t = self.fitted, whole_number("t", t, least=0)
        _check_target(target)

        def reading(step: int, given: Any, so_far: Any) -> StepReading:
            X, b = self._runs(np.array([fitted.state_schema.encode(given)]), so_far)
            return StepReading(step, X[0], float(b[0]))

        if before is not None and t == 0:
            raise InputError("before needs a step before t, got t=0; leave it out")
        return explained(
            fitted,
            reading(t, state, behavior),
            None if before is None else reading(t - 1, *before),
            target,
            calibration=self._calibration(target, calibration),
            group=fitted.group_of(group),
            weight=float(fitted.checked_weights(weight, 1)[0]),
        )

    @overload
    def watch(
        self,
        target: Target,
        *,
        group: Any = ...,
        on_bad: OnBad = ...,
        weight: float | None = ...,
        **alarm: Unpack[AlarmOptions],
    ) -> Watch: ...

    @overload
    def watch(
        self,
        target: Goal,
        *,
        group: Any = ...,
        on_bad: OnBad = ...,
        **alarm: Unpack[AlarmOptions],
    ) -> GoalWatch | SignalWatch: ...

    def watch(
        self,
        target: Target | Goal,
        *,
        group: Any = None,
        on_bad: OnBad = "unknown",
        weight: float | None = None,
        **alarm: Unpack[AlarmOptions],
    ) -> Watch | GoalWatch:
        """A watch that follows one run live.

        All models are opened and all code is compiled here, so that the first `step` is fast.

        Parameters
        ----------
        target
            The outcomes that the run should end in. With a monitor of several behaviors, a goal:
            the watch is then a `GoalWatch`, whose steps take a mapping of signals as the reward.
        group
            The run's group, if the monitor is calibrated by group.
        on_bad
            What a bad reading does: ``"unknown"`` gives the status UNKNOWN, ``"raise"`` an error.
        weight
            The run's weight, if the monitor's assure episodes have weights; see `Watch.reset`.
        **alarm
            When to raise an alarm. ``alarm`` is a rule such as ``Below(0.9)``, ``Promised(0.05)``
            or ``RuledOut(0.05)``. The shorthands are ``alarm_below``, a threshold for p (0.9 by
            default); ``false_alarm_rate``, the promised probability that a successful run raises
            any alarm (M8), in a monitor without assure episodes measured, not promised;
            ``confidence``, with which that rate holds for this very monitor and not on average
            (M20);
            ``for_steps``, how many steps in a row p must stay below the threshold; and
            ``clear_above``, where an alarm ends.

            ``calibration`` says what p is. ``"target"``, the default: learned for this one target,
            from the learning episodes. ``"common"``: by one map for all targets, so that watches
            on several targets never contradict each other. What `calibrate_target` gave: exact.
        """
        fitted = self._shared
        fitted.checked_weights(weight, 1)
        number = fitted.group_of(group)
        if self._goals is not None:
            contract, alone = self._goal_contract(self._goals, target, alarm)
            if alone is None:
                return GoalWatch(contract, self.readings, group=number, on_bad=on_bad)
            reading = self.readings[alone]
            return SignalWatch(contract, alone, reading, group=number, on_bad=on_bad)
        contract = self._contract(target, alarm)
        return Watch(contract, group=number, on_bad=on_bad, weight=weight)

    def watch_own(
        self, *, group: Any = None, on_bad: OnBad = "unknown", **alarm: Unpack[AlarmOptions]
    ) -> OwnWatch:
        """A watch over runs that each have a target of their own, given to its ``reset`` (M21).

        The assure episodes need targets: fit on `Episodes.aimed`, or read the log with
        ``target=COLUMN``.

        Parameters
        ----------
        group, on_bad
            As for `watch`.
        **alarm
            As for `watch`. p is the common one, so ``calibration`` is not for these watches.

        Notes
        -----
        A promised rate holds for pairs of a run and its target that are exchangeable with the
        assure pairs: on average over them. For easy targets alone it may be far lower, and for hard
        ones far higher; calibrate groups to promise it for each. Targets that are mixed otherwise
        than in the recording, or chosen after looking at the run, void it.
        """
        fitted = self.fitted
        rest = _checked_options(alarm)
        if rest.pop("calibration", "common") != "common":
            raise InputError("targets that differ from run to run have the common p alone")
        own = OwnTargets(fitted, rule_of(**rest))
        return OwnWatch(own, group=fitted.group_of(group), on_bad=on_bad)

    @overload
    def fleet(
        self,
        target: Target,
        agents: int | Iterable[Hashable] = ...,
        *,
        groups: Any = ...,
        **alarm: Unpack[AlarmOptions],
    ) -> FleetWatch: ...

    @overload
    def fleet(
        self,
        target: Goal,
        agents: int | Iterable[Hashable] = ...,
        *,
        groups: Any = ...,
        **alarm: Unpack[AlarmOptions],
    ) -> GoalFleet | FleetWatch: ...

    def fleet(
        self,
        target: Target | Goal,
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
        **alarm: Unpack[AlarmOptions],
    ) -> FleetWatch | GoalFleet:
        """A watch that follows many runs live, with one call per step for all of them.

        Parameters
        ----------
        target
            The outcomes that every run should end in. With a monitor of several behaviors, a goal:
            the fleet is then a `GoalFleet`.
        agents
            How many agents there are, or their names; more may join later.
        groups
            One group for all agents, or one per agent, if the monitor is calibrated by group.
        **alarm
            As for `watch`.
        """
        if self._goals is not None:
            contract, alone = self._goal_contract(self._goals, target, alarm)
            if alone is None:
                return GoalFleet(contract, self.readings, agents, groups=groups)
            return FleetWatch(contract, agents, groups=groups)
        self.fitted.refuse_weights("common alarm for many runs", _ONE_BY_ONE)
        return FleetWatch(self._contract(target, alarm), agents, groups=groups)

    def sessions(
        self,
        target: Target | Goal,
        *,
        max_agents: int = 10_000,
        idle_seconds: float | None = None,
        **alarm: Unpack[AlarmOptions],
    ) -> Sessions:
        """Watches for agents that come and go, by name; see `Sessions`.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor, Target
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(300, 3, 1)), rng.normal(size=(300, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> sessions = monitor.sessions(Target.at_least(0.0), alarm_below=0.1)
        >>> sessions.answer({"agent": "left", "state": [0.1]})["status"]
        'OK'
        """
        self._shared.refuse_weights("common alarm for many runs", _ONE_BY_ONE)
        contract: Any
        make: Callable[[int], Watch | GoalWatch] | None = None
        if self._goals is not None:
            contract, alone = self._goal_contract(self._goals, target, alarm)
            readings = self.readings
            if alone is None:
                make = partial(_goal_watch, contract, readings)
            else:
                make = partial(_signal_watch, contract, alone, readings[alone])
        else:
            contract = self._contract(target, alarm)
        return Sessions(contract, max_agents=max_agents, idle_seconds=idle_seconds, make=make)

    def drift_guard(
        self,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard that tells from finished episodes whether the process has changed (M10).

        It compares them with the assure episodes at step t. With probability ``level`` it never
        raises a false alarm, however long it watches. Pass it each run once, under its own id, in
        the order in which the runs started, and only runs in which nobody acted on an alarm.
        ``resume`` goes on from a file that `DriftGuard.save` wrote.
        """
        self._refuse_weighted_guard()
        found = self.fitted.group_of(group)
        return guard_of(self.fitted, t=t, level=level, group=found, resume=resume)

    def harm_guard(
        self,
        target: Target,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        calibration: Calibration = "target",
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard that tells whether p of a target now promises more than it did (M26).

        `drift_guard` alarms on any change, also where runs have become better. This one is silent
        then. It bets only that p at step t has become too high, compared with the assure episodes:
        a bias that was always there is no change. The rest is as for `drift_guard`.
        """
        self._refuse_weighted_guard()
        return harm_guard_of(
            self.fitted,
            target,
            self._calibration(target, calibration),
            t=t,
            level=level,
            group=self.fitted.group_of(group),
            resume=resume,
        )

    def follow_interval(
        self,
        level: Level,
        *,
        t: int = 0,
        pace: float = 0.02,
        window: int = 200,
        group: Any = None,
        resume: str | Path | None = None,
    ) -> FollowingInterval:
        """Intervals at step t for a process that keeps changing; see `FollowingInterval` (M26).

        ``resume`` goes on from a file that `FollowingInterval.save` wrote.
        """
        self._refuse_weighted_guard()
        found = self.fitted.group_of(group)
        return FollowingInterval(
            self.fitted, level, t=t, group=found, pace=pace, window=window, resume=resume
        )

    def _refuse_weighted_guard(self) -> None:
        self.fitted.refuse_weights(
            "drift guard", "guard a monitor that was fitted on recent episodes without weights"
        )

    def drift(
        self,
        new_episodes: Episodes,
        target: Target,
        *,
        order: ArrayLike | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        t: int = 0,
        level: Level = 0.99,
        calibration: Calibration = "target",
    ) -> Drift:
        """What new episodes say of drift: has anything changed, and for the worse (M10, M26).

        Print the result. It compares finished episodes with the assure episodes at step t.

        Parameters
        ----------
        new_episodes
            Episodes that the monitor has not seen, in which nobody acted on an alarm.
        target
            The target that harm is about.
        order
            One value per episode by which they are put in the order in which they started, such as
            a time. Without it they are taken by lot, so that a file sorted by result does not look
            like a change, and nothing is said about when.
        by
            Columns by name, one value per episode each: how far p is off for each of their values.
        t, level, calibration
            As for `harm_guard`.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor, Target
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(500, 3, 1)), rng.normal(size=(500, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> rewards = rng.normal(-0.8, size=(200, 3))
        >>> lower = Episodes.from_arrays(rng.normal(size=(200, 3, 1)), rewards)
        >>> found = monitor.drift(lower, Target.at_least(0.0), order=np.arange(200))
        >>> str(found.judgement), found.bias.too_high > 0.2
        ('changed for the worse', True)
        """
        self._refuse_weighted_guard()
        _check_target(target)
        return drift_of(
            self.fitted,
            new_episodes,
            target,
            calibration=self._calibration(target, calibration),
            order=order,
            by=by,
            t=whole_number("t", t, least=0),
            level=level,
        )

    def alarm_curve(
        self,
        target: Target | Goal,
        *,
        rates: Sequence[Level] | None = None,
        for_steps: int = 1,
        confidence: Level = 0.95,
        group: Any = None,
        calibration: Calibration = "target",
    ) -> PromisedAlarms:
        """What each promised false-alarm rate gives: threshold, detections, lead time (M8).

        A rate that was picked from this table is optimistic, because the same assure episodes chose
        it. ``rate_at_most`` is not: with the confidence, it bounds the rates of all rows at once
        (M20). Without assure episodes the learning episodes
        stand in for them, and the rates are measured, not promised.
        """
        number = self._shared.group_of(group)
        if self._goals is not None:
            goal = self._goals.joint.checked(target)
            if goal.only is not None:
                name, target = goal.only
                alone = self.only(name)
                own = alone._calibration(target, calibration)
                assured = self._goals.parts[name].assured(target, own, number)
            else:
                own_map = self._goal_map(self._goals, goal, calibration)
                assured = self._goals.assured(goal, own_map, number)
            return promised_alarms(assured, rates=rates, for_steps=for_steps, confidence=confidence)
        _check_target(target)
        assert isinstance(target, Target)
        self.fitted.refuse_weights(
            "alarm curve for all runs", "watch.trigger has the threshold of each run"
        )
        own = self._calibration(target, calibration)
        assured = self._kept.assured(target, own, number)
        return promised_alarms(assured, rates=rates, for_steps=for_steps, confidence=confidence)

    def evaluate(
        self,
        episodes: Episodes,
        target: Target | Goal,
        *,
        calibration: Calibration = "target",
        resamples: int = 200,
        seed: int = 0,
        progress: bool = False,
    ) -> Evaluation:
        """Measures of how good the monitor is on episodes that it has never seen.

        ``print(found.summary())`` shows the main numbers, and ``found.report(path)`` writes a page
        with figures. ``resamples`` is how many times whole episodes are resampled for the
        intervals. ``calibration`` is as for `watch`. If you use the result to choose a seed, a
        preset or a target, report another evaluation, on episodes that played no part in the
        choice. Of a goal, ``found.parts`` measures each behavior by itself.

        Of prepared episodes (`PreparedEpisodes`) as many are measured as have a million steps
        together, chosen by a hash of their ids.
        """
        if episodes.is_prepared:
            most = _EVALUATED_STEPS / float(episodes.lengths.mean())
            episodes = episodes.sample(max(1, int(most)), seed=seed).compact()
        bar = progress_bar("evaluating", self.horizon, unit="steps", shown=progress)
        resampling = Resampling(resamples, seed=seed)
        if self._goals is not None:
            goal = self._goals.joint.checked(target)
            if goal.only is not None:
                name, target = goal.only
                alone, episodes = self.only(name), episodes.only(name)
                return alone.evaluate(
                    episodes,
                    target,
                    calibration=calibration,
                    resamples=resamples,
                    seed=seed,
                    progress=progress,
                )
            own_map = self._goal_map(self._goals, goal, calibration)
            with bar as reached:
                return evaluate_goal(
                    self._goals,
                    episodes,
                    goal,
                    resampling=resampling,
                    own_map=own_map,
                    reached=reached,
                )
        if isinstance(target, Goal):
            raise self._no_goal(target)
        _check_target(target)
        self.fitted.refuse_weights(
            "evaluation of its promises",
            "p is the same without weights: evaluate a monitor fitted without them",
        )
        with bar as reached:
            return evaluate(
                self._kept,
                episodes,
                target,
                resampling=resampling,
                calibration=self._calibration(target, calibration),
                reached=reached,
            )

    def evaluate_own(
        self, episodes: Episodes, *, resamples: int = 200, seed: int = 0
    ) -> OwnEvaluation:
        """Measures on episodes that it has never seen, each judged by its own target (M21).

        The episodes need targets, as for `watch_own`; those without one are left out. The result
        has ``ece``, ``brier``, ``alarms`` and the other measures of `evaluate`. The rate of an
        alarm is promised on average over pairs of a run and its target.
        """
        self.fitted.refuse_weights("evaluation of its promises", "leave them out")
        return evaluate_own(self._kept, episodes, resampling=Resampling(resamples, seed=seed))

    def _contract(self, target: Target | Goal, options: AlarmOptions) -> Contract:
        if isinstance(target, Goal):
            raise self._no_goal(target)
        _check_target(target)
        rest = _checked_options(options)
        calibration = self._calibration(target, rest.pop("calibration", "target"))
        return self._kept.of(target, rule_of(**rest), calibration)

    def _goal_contract(
        self, goals: GoalContracts, goal: Any, options: AlarmOptions
    ) -> tuple[Any, str | None]:
        """The contract over a goal; over its target and the behavior's name, if it has only one."""
        goal = goals.joint.checked(goal)
        if goal.only is not None:
            name, target = goal.only
            return self.only(name)._contract(target, options), name
        rest = _checked_options(options)
        own_map = self._goal_map(goals, goal, rest.pop("calibration", "target"))
        return goals.of(goal, rule_of(**rest), own_map), None

    def _calibration(
        self, target: Target | Sequence[Target], asked: Calibration
    ) -> Calibrated | None:
        """What makes p of this target, beyond what makes p of all targets."""
        if isinstance(asked, TargetCalibration):
            return asked
        if asked not in ("target", "common"):
            raise InputError(
                f"calibration needs 'target', 'common' or what calibrate_target gave, got {asked!r}"
            )
        if asked == "common":
            return None
        _check_target(target)
        assert isinstance(target, Target)
        return self._kept.map_of(target)

    def _outcomes(
        self, t: int, states: ArrayLike, behavior: ArrayLike, groups: Any, find: Any
    ) -> Interval:
        """The intervals that `find` returns for each run's remainder, as outcomes on the grid."""
        fitted, t = self.fitted, whole_number("t", t, least=0)
        fitted.refuse_weights(
            "interval, promise or band", "read low, high and plausibility of an outlook"
        )
        X, so_far = self._runs(states, behavior)
        which = fitted.groups_of(groups, len(X))
        lower, upper = np.empty(len(X)), np.empty(len(X))
        for g in np.unique(which).tolist():
            own = np.flatnonzero(which == g)
            step = fitted.at(t, g)
            self._check_known(t, g, X[own], so_far[own])
            found = find(step, step.inputs(X[own], so_far[own]), g)
            lower[own], upper[own] = step.outcomes(so_far[own], found)
        return Interval(snap(lower, fitted.grid), snap(upper, fitted.grid))

    def _check_known(self, t: int, group: int, states: FloatArray, so_far: FloatArray) -> None:
        """Refuse a step that is unknown by structure, and bad readings."""
        if t >= self.horizon:
            raise InputError(f"t needs a step from 0 to {self.horizon - 1}, got {t}")
        trouble = self.fitted.unknown(t, group)
        if trouble:
            raise CalibrationError(f"step {t} is unknown: {trouble}")
        self.fitted.check_readings(states, so_far)

    def _states(self, states: ArrayLike) -> FloatArray:
        X = np.asarray(states, dtype=np.float64)
        fitted = self._shared
        width, history = fitted.state_width, fitted.history
        if X.ndim != 2 or X.shape[1] != width:
            hint = f"; episodes.with_history({history}).at(t).states are such" if history else ""
            raise InputError(f"states need shape (runs, {width}), got {X.shape}{hint}")
        return X

    def _runs(self, states: ArrayLike, behavior: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The states as a matrix and the behavior so far of each run, on the grid."""
        X = self._states(states)
        so_far = np.asarray(behavior, dtype=np.float64)
        if so_far.shape not in ((), (len(X),)):
            raise InputError(
                f"behavior needs one number or one for each of {len(X)} runs, got {so_far.shape}"
            )
        return X, snap(np.broadcast_to(so_far, (len(X),)), self.fitted.grid)


def _goal_watch(contract: GoalContract, readings: Mapping[str, Reading], group: int) -> GoalWatch:
    return GoalWatch(contract, readings, group=group)


def _signal_watch(contract: Contract, name: str, reading: Reading, group: int) -> SignalWatch:
    return SignalWatch(contract, name, reading, group=group, on_bad="unknown")


def _checked_options(options: AlarmOptions) -> dict[str, Any]:
    """The options of an alarm; one that there is none of is refused."""
    known = AlarmOptions.__annotations__.keys() | RuleOptions.__annotations__.keys()
    for name in options.keys() - known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; the options are {sorted(known)}"
        raise InputError(f"there is no option {name!r}{hint}")
    return dict(options)


def _check_target(target: object) -> None:
    if not isinstance(target, Target):
        raise InputError(
            f"target needs a Target, got {target!r}; Target.at_least(60), Target.at_most(60) and "
            'Target.parse("60:") make one'
        )
