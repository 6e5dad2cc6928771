"""`GoalMonitor`: it is fitted to recorded episodes, then answers about new runs."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np

from ontarget._arguments import whole_number
from ontarget._progress import announce_compiling, progress_bar
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal.levels import Level
from ontarget.conformal.ranks import Interval
from ontarget.drift.change import Drift
from ontarget.drift.comparing import Order, drift_of
from ontarget.drift.guard import DriftGuard, guard_of, harm_guard_of
from ontarget.episodes import Behavior, Episodes, PaperSplit, Schema, Split
from ontarget.episodes.behavior import Bounds
from ontarget.episodes.judged import Reading
from ontarget.episodes.schema import Unseen
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, InputError, ModelFileError, UnfittedError
from ontarget.evaluation import Resampling
from ontarget.fitted.blocks import StepsPerModel
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.law import StepLaw
from ontarget.fitted.paths.bands import PathBand
from ontarget.fitted.target_map import TargetMap
from ontarget.fitting.engines import Engine
from ontarget.fitting.fit import Preset
from ontarget.goal import Goal
from ontarget.live.alarms import PromisedAlarms, promised_alarms
from ontarget.live.answering import outlooks_at
from ontarget.live.contract import Contract
from ontarget.live.contracts import Contracts
from ontarget.live.explaining import explained
from ontarget.live.explanation import Explanation
from ontarget.live.fleet import FleetWatch
from ontarget.live.outlook import Outlooks
from ontarget.live.own_targets import OwnTargets, OwnWatch
from ontarget.live.rules import AlarmOptions, Calibration, checked_options, rule_of
from ontarget.live.sessions import Sessions
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor._asking import (
    boxes_at,
    each_so_far,
    of_the_sample,
    outcomes_of,
    path_band_of,
    reading_of,
    so_far_of,
    states_of,
)
from ontarget.monitor._fitting import (
    MAX_LEARN,
    FitOptions,
    check_settings,
    divide,
    fit_parts,
    recalibrated_parts,
    restored_parameters,
)
from ontarget.monitor._summary import reach_in_words
from ontarget.report.evaluation import Evaluation, OwnEvaluation, evaluate, evaluate_own
from ontarget.target import Target

if TYPE_CHECKING:
    from ontarget.reading.prepared.preparing import PreparedEpisodes

_EVALUATED_STEPS = 1_000_000  # of prepared episodes; their answers take some 80 bytes each


class GoalMonitor:
    """The calibrated probability, at every step of a run, that it ends inside a target.

    Parameters
    ----------
    model
        An unfitted model that predicts a distribution: one of `ontarget.models`, a scikit-learn
        pipeline that ends in one, or your own object with ``fit``, ``cdf_limits`` and ``quantile``.
        A kind of model may also be given by its name, such as ``"quantile_network"``. By default
        the preset chooses the model.
    preset
        ``"default"``: steps are grouped into long, overlapping blocks; each block has a
        `StackedForest`, and the answer at a step is a mixture of the two blocks around it (method
        M16 in docs/methods.md). ``"paper"``: one plain forest per step, as in the paper, with
        leaves of 15 episodes (the paper gives no size); episodes are divided into train, calibrate
        and assure. On the Tamarisk river, the p of ``"paper"`` is more than twice as far from the
        true probability as the p of ``"default"``.
    window
        Only for blocks (ranges of steps that share a model) that do not overlap: each block also
        learns from this many steps before and after it.
    steps_per_model
        ``"auto"``, the default: blocks overlap, and the distance between them is chosen on the
        learning episodes. (A `QuantileNetwork` is one model for the whole run.) A whole number:
        blocks of that many steps that do not overlap.
    group
        The name of the group column, to calibrate and assure each group separately (method M11).
    min_calibration
        How many learning episodes p needs. Steps that fewer reach share the model and the
        calibration of earlier ones; with ``steps_per_model`` they are UNKNOWN, as are steps that
        fewer calibrate episodes reach with ``preset="paper"``.
    reward_bounds
        The least and the most that one step can ever earn; None for no bound. As soon as these
        bounds alone decide whether the target is met, p is exactly 0 or 1 (method M18). For several
        behaviors: a mapping from each name to its bounds.
    policy
        A name for the policy that was recorded. The model file keeps it.
    unseen
        How to treat a category of a text feature that no learning episode had. ``"missing"`` treats
        it as a missing value, if the model can handle missing values. With ``"error"``, a file that
        contains it raises an error, and in a live run the step is UNKNOWN (method M18).
    history
        What the models read besides the present state, for logs whose state alone does not say
        enough. By default, where categories change within runs, as the activities of an event log
        do, the learn episodes decide: either nothing, or how often each category has occurred in
        the run so far, and of each number its change since the last step and its mean so far. A
        whole number: the features and rewards of that many earlier steps, and the mean of each over
        the run so far; 0 for nothing.

    Notes
    -----
    The models and p are learned from the learn episodes; p is the best estimate, and nothing is
    promised about it (method M17). The promises come from the assure episodes. They hold if the new
    run is exchangeable with these episodes, for example drawn from the same process. Then intervals
    and promises are valid at each step by itself, and so is the calibrated distribution that
    ``low`` and ``high`` are read from (methods M3 and M5). The promised false-alarm rate of an
    alarm (method M8) holds for a whole run at once, as a share of the runs that meet the target.
    Plausibility and assurance (method M9) also hold for a whole run at once, as a share of all
    runs.

    A fitted monitor never changes, so threads may share it, and copies share its contents.

    Examples
    --------
    >>> import numpy as np
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
        reward_bounds: Bounds | Mapping[str, Bounds] | None = None,
        policy: str = "",
        unseen: Unseen = "missing",
        history: int | None = None,
    ) -> None:
        if preset not in ("default", "paper"):
            raise InputError(Argument("preset"), f" needs 'default' or 'paper', got {preset!r}")
        if unseen not in ("missing", "error"):
            raise InputError(Argument("unseen"), f" needs 'missing' or 'error', got {unseen!r}")
        self.model = model
        self.preset = preset
        self.window = window
        self.steps_per_model = steps_per_model
        self.group = group
        self.min_calibration = min_calibration
        self.reward_bounds = reward_bounds
        self.policy = policy
        self.unseen = unseen
        self.history = history
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
        """Change arguments of the constructor; returns the monitor, which must be fitted again."""
        own, model = self.get_params(deep=False), cast(Any, self.model)
        for name, value in parameters.items():
            if name.startswith("model__") and hasattr(model, "set_params"):
                model.set_params(**{name.removeprefix("model__"): value})
            elif name in own:
                setattr(self, name, value)
            else:
                raise InputError(
                    f"GoalMonitor has no parameter {name!r}; its parameters are {', '.join(own)}"
                )
        return self

    def fit(
        self,
        episodes: Episodes | PreparedEpisodes | str | Path | None = None,
        *,
        target: Target | Goal | None = None,
        split: Split | PaperSplit | None = None,
        assure: float | None = None,
        seed: int = 0,
        engine: Engine = "local",
        progress: bool = True,
        checkpoint: str | Path | None = None,
        steps: Collection[int] | None = None,
        warm: GoalMonitor | None = None,
        precedents: bool = True,
        paths: bool | None = None,
        max_learn: int = MAX_LEARN,
    ) -> GoalMonitor:
        """Fit the monitor to recorded episodes; returns the monitor itself.

        Parameters
        ----------
        episodes
            Recorded episodes. They are divided at random, by ``seed``, into learn (80 %, for the
            models and p) and assure (20 %, held out for promises); with ``preset="paper"`` into
            train, calibrate and assure (40, 40 and 20 %). `PreparedEpisodes`, or the path of their
            folder, are divided already and are read from disk as needed. Any other path is read by
            `Episodes.read`.
        target
            The outcomes that a run should end in; for several behaviors, a goal. The monitor and
            its model file keep it, as the default of every method that takes a target. It also
            decides the share that is held out (``assure``). The models are the same for all
            targets, so any other target can still be asked about.
        split
            A split that you made with `Episodes.split`, instead of ``episodes``. With a
            `PaperSplit`, any model is calibrated as in the paper.
        assure
            The share of ``episodes`` that is held out for promises, 0.2 by default. With 0, which
            is meant for very few episodes, the monitor learns from all of them; a false-alarm rate
            is then measured, not promised. With a ``target``, the default is the smallest share
            from 0.2 to 0.5 with which 5 % false alarms can probably be promised, or 0 if even half
            of the episodes would not do (method M34 in docs/methods.md).
        seed
            The same data and seed give the same model file, bit for bit.
        engine
            Where the models are fitted: ``"local"``, ``"dask"``, ``"ray"``, an executor (anything
            with ``submit``), or an object that is called like ``joblib.Parallel``.
        progress
            Whether to show a progress bar.
        checkpoint
            A folder that keeps each fitted model, so that a fit that was killed can resume.
        steps
            The steps that you will ask about, all by default. Models that these steps do not need
            are not fitted, which saves time; all other steps are UNKNOWN.
        warm
            An earlier monitor to fit again, usually on old and new episodes together
            (`Episodes.concat`). Its settings are used. Old episodes stay in the part (learn or
            assure) that they were in, so that the monitor never learns from an episode that a
            promise was based on; new episodes are divided as usual. All models are fitted from the
            beginning.
        precedents
            Whether to keep the ids of the learning episodes, so that `explain` can name the
            recorded runs behind p. False leaves the ids out of the model file, for privacy.
        paths
            Whether to keep the behavior of each learning episode step by step, which `path_band`
            needs to predict later steps. By default these paths are kept if they have at most five
            million steps, which take 40 MB in the model file.
        max_learn
            How many episodes to learn from at most; a hash of the ids chooses them. All other
            episodes are assure episodes. More of these bring the true false-alarm rates closer to
            the promised ones, and do not enlarge the model file. It has no effect with ``split``,
            ``assure=0`` or ``preset="paper"``.
        """
        announce_compiling()
        if warm is not None:
            self._take_over(warm)
            target = warm.target if target is None else target
        settings = self.get_params(deep=False)
        parts, held_out = divide(
            settings,
            episodes,
            split,
            target,
            assure=assure,
            seed=seed,
            warm=None if warm is None else warm.fitted,
            max_learn=max_learn,
        )
        options = FitOptions(seed, engine, progress, checkpoint, steps, precedents, paths)
        self._contracts = Contracts(fit_parts(settings, parts, options, target, held_out))
        return self

    def _take_over(self, warm: GoalMonitor) -> None:
        """Use the settings of the earlier monitor ``warm``; an error if this monitor has others."""
        if not isinstance(warm, GoalMonitor):
            raise InputError(Argument("warm"), f" needs a fitted GoalMonitor, got {warm!r}")
        kept = warm.get_params(deep=False)
        default = GoalMonitor().get_params(deep=False)
        check_settings(self.get_params(deep=False), default, kept)
        self.set_params(**kept)

    def recalibrate(
        self, new_episodes: Episodes, *, renew_p: bool = False, seed: int = 0
    ) -> GoalMonitor:
        """A new monitor with the same models, whose promises come from the new episodes alone.

        Use it when the process has changed a little, and there are too few new episodes to fit a
        new monitor. ``low``, ``high``, intervals, bands, plausibility, promised alarms and the
        drift guard (a test for a change) are then valid for runs like the new episodes, even if the
        models are wrong about such runs. `summary` says what so few episodes can promise. p remains
        an estimate.

        Parameters
        ----------
        new_episodes
            Episodes that the monitor has not seen, recorded after the change. After an alarm of a
            drift guard (a test for a change), use runs that started after that alarm, never earlier
            ones (method M26 in docs/methods.md).
        renew_p
            By default p is unchanged, and all new episodes are used for promises. With True, half
            of the new episodes, chosen by a hash of their ids, are used to correct p, so that p
            follows the change; only the other half is used for promises. With ``preset="paper"``,
            half of the new episodes are always used to correct p.
        seed
            The seed for choosing that half, and for the random numbers that break ties.
        """
        found = recalibrated_parts(self._joint, new_episodes, seed=seed, renew_p=renew_p)
        twin = type(self)(**self.get_params(deep=False))
        twin._contracts = Contracts(found)
        return twin

    @property
    def contracts(self) -> Contracts:
        """What makes and keeps contracts, and holds the result of the fit."""
        if self._contracts is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._contracts

    @property
    def _joint(self) -> Joint:
        return self.contracts.joint

    @property
    def fitted(self) -> Fitted:
        """The result of the fit: models, calibration, and the assure (held-out) episodes."""
        if not self._joint.is_single:
            names = tuple(self._joint.parts)
            raise InputError(
                f"this monitor has several behaviors ({', '.join(names)}); ask about one of them: "
                f"monitor.only({names[0]!r})"
            )
        return self._joint.first

    @property
    def horizon(self) -> int:
        """The number of steps of a complete run."""
        return self._joint.first.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the horizon was declared; otherwise it is that of the longest learning run."""
        return self._joint.first.horizon_declared

    @property
    def roles(self) -> Roles:
        """What each column of the log was used for when the monitor was fitted."""
        return self._joint.first.trained.roles

    @property
    def sizes(self) -> dict[str, int]:
        """How many episodes are in each part of the data, such as learn and assure."""
        return dict(self._joint.first.trained.sizes)

    @property
    def grid(self) -> float:
        """Outcomes are rounded to multiples of this number (method M1 in docs/methods.md)."""
        return self.fitted.grid

    @property
    def schema(self) -> Schema:
        """The names and types of the features of a state.

        `Episodes.read` takes the monitor itself as ``like=``.
        """
        return self._joint.first.schema

    @property
    def behavior(self) -> Behavior:
        """The number that a run is judged by, such as the sum of its rewards."""
        return self.fitted.behavior

    @property
    def target(self) -> Target | Goal | None:
        """The target that was named at `fit`, the default of every method; None without one."""
        return self._joint.target

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior, how it is computed, and from which signal (reward or column)."""
        return self._joint.readings

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """The names of the groups of runs, each calibrated by itself; None without groups."""
        return self._joint.first.groups

    def only(self, name: str) -> GoalMonitor:
        """The monitor of the behavior ``name`` alone, from a monitor of several behaviors."""
        if self._joint.is_single:
            raise InputError(
                f"this monitor has a single behavior without a name, got the name {name!r}; use "
                "the monitor itself"
            )
        if name not in self._joint.parts:
            known = ", ".join(self._joint.parts)
            raise InputError(Argument("name"), f" needs one of the behaviors {known}, got {name!r}")
        twin = copy(self)
        twin._contracts = self.contracts.parts[name]
        if isinstance(twin.reward_bounds, Mapping):
            twin.reward_bounds = twin.reward_bounds.get(name)
        return twin

    def _wanted(self, target: Target | Goal | None) -> Target | Goal:
        """The target of a call: the one that was passed, otherwise the one named at `fit`."""
        found = self.target if target is None else target
        if found is None:
            raise InputError(
                Argument("target"),
                " is needed, because none was named at fit; pass one, for example "
                "Target.at_least(60), or name it at fit",
            )
        return self._joint.checked(found)

    def _narrowed(self, target: Target | Goal | None) -> tuple[GoalMonitor, Target | Goal, str]:
        """The monitor to ask, its target, and the name of the behavior that it is about."""
        wanted = self._wanted(target)
        if isinstance(wanted, Goal) and wanted.only is not None:
            name, alone = wanted.only
            return self.only(name), alone, name
        return self, wanted, ""

    def _contract(self, target: Target | Goal | None, alarm: AlarmOptions) -> Contract:
        """The contract for a target: the target and an alarm rule, prepared for watching runs."""
        alone, wanted, _ = self._narrowed(target)
        rest = checked_options(alarm)
        own_map = alone._map(wanted, rest.pop("calibration", "target"))
        return alone.contracts.of(wanted, rule_of(**rest), own_map)

    def _asked(self, target: Target | Goal, calibration: Calibration) -> Asked:
        """The target, asked of this monitor, with p calibrated as the caller wants."""
        return self.contracts.asked(target, self._map(target, calibration))

    def _map(self, target: Target | Goal, calibration: Calibration) -> TargetMap | None:
        """The calibration of p for this target alone; None if it is the same for all targets."""
        self.contracts.check_sides(target)
        if calibration not in ("target", "common"):
            raise InputError(
                Argument("calibration"), f" needs 'target' or 'common', got {calibration!r:.80}"
            )
        return self.contracts.map_of(target) if calibration == "target" else None

    def watch(
        self,
        target: Target | Goal | None = None,
        *,
        group: Any = None,
        on_bad: OnBad = "unknown",
        **alarm: Unpack[AlarmOptions],
    ) -> Watch:
        """A watch that follows one run live.

        This call opens all models and compiles all code, so that the first `step` is fast.

        Parameters
        ----------
        target
            The outcomes that the run should end in. With a monitor of several behaviors, a goal;
            steps then take a mapping of signals as the reward. By default the target named at
            `fit`.
        group
            The run's group, if the monitor is calibrated by group.
        on_bad
            What a bad reading (a state or reward that is missing or cannot be read) does:
            ``"unknown"`` gives the status UNKNOWN, ``"raise"`` raises an error.
        **alarm
            When to raise an alarm. ``alarm`` is a rule such as ``Below(0.9)``, ``Promised(0.05)``
            or ``RuledOut(0.05)``. Instead of a rule you can pass ``alarm_below``, a threshold for p
            (0.9 by default); or ``false_alarm_rate``, the highest allowed probability that a run
            which meets its target raises any alarm (method M8 in docs/methods.md). This rate is
            promised if the monitor has assure episodes, and only measured if it has none. With them
            you can pass ``confidence``: with 0.95, the rate holds for at least 95 in 100 of the
            sets of assure episodes that might have been recorded, and not only on average over
            these sets (method M20). You can also pass ``for_steps``, how many steps in a row p must
            stay below the threshold; and ``clear_above``, the p at which an alarm ends.

            ``calibration`` says how p is calibrated. ``"target"``, the default: corrected for this
            one target. ``"common"``: in the same way for all targets, so that watches on several
            targets never contradict each other.
        """
        number = self._joint.first.group_of(group)
        return Watch(self._contract(target, alarm), group=number, on_bad=on_bad)

    def watch_own(
        self, *, group: Any = None, on_bad: OnBad = "unknown", **alarm: Unpack[AlarmOptions]
    ) -> OwnWatch:
        """A watch for runs that each have their own target; `reset` of the watch takes the target.

        The assure episodes (held out for promises) need targets: fit on `Episodes.aimed`, or read
        the log with ``target=COLUMN``.

        Parameters
        ----------
        group, on_bad
            As for `watch`.
        **alarm
            As for `watch`, but without ``calibration``: p is always calibrated in the same way for
            all targets.

        Notes
        -----
        A promised false-alarm rate holds on average over pairs of a run and its target that are
        like the recorded pairs. For easy targets alone the rate may be far lower, and for hard
        targets far higher; calibrate by groups to promise it for each group. The promise no longer
        holds if the mix of targets differs from the recording, or if a target is chosen after
        looking at the run.
        """
        fitted = self.fitted
        rest = checked_options(alarm)
        if rest.pop("calibration", "common") != "common":
            raise InputError(
                Argument("calibration"),
                " needs 'common' if targets differ from run to run, got "
                f"{alarm['calibration']!r}; leave it out",
            )
        own = OwnTargets(fitted, rule_of(**rest))
        return OwnWatch(own, group=fitted.group_of(group), on_bad=on_bad)

    def fleet(
        self,
        target: Target | Goal | None = None,
        agents: int | Iterable[Hashable] = (),
        *,
        groups: Any = None,
        **alarm: Unpack[AlarmOptions],
    ) -> FleetWatch:
        """A watch that follows many runs live, with one call per step for all of them.

        Parameters
        ----------
        target
            The outcomes that every run should end in. With a monitor of several behaviors, a goal;
            by default the target named at `fit`.
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
        target: Target | Goal | None = None,
        *,
        max_agents: int = 10_000,
        idle_seconds: float | None = None,
        **alarm: Unpack[AlarmOptions],
    ) -> Sessions:
        """Watches for agents that come and go; each agent is known by its name. See `Sessions`.

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
        contract = self._contract(target, alarm)
        return Sessions(contract, max_agents=max_agents, idle_seconds=idle_seconds)

    def alarm_curve(
        self,
        target: Target | Goal | None = None,
        *,
        rates: Sequence[Level] | None = None,
        for_steps: int = 1,
        confidence: Level = 0.95,
        group: Any = None,
        calibration: Calibration = "target",
    ) -> PromisedAlarms:
        """For each promised false-alarm rate: the alarm threshold, failures found, and lead times.

        All are measured on the assure episodes (held out for promises). A rate that you pick from
        this table after looking is optimistic, because the same assure episodes were used to pick
        it. ``rate_at_most`` is not optimistic: with the given confidence, it bounds the rates of
        all rows at once (method M20). If there are no assure episodes, the learning episodes are
        used instead, and the rates are measured, not promised. See method M8 in docs/methods.md.
        """
        alone, wanted, _ = self._narrowed(target)
        own_map, number = alone._map(wanted, calibration), self._joint.first.group_of(group)
        assured = alone.contracts.assured(wanted, own_map, number)
        return promised_alarms(assured, rates=rates, for_steps=for_steps, confidence=confidence)

    def outlook(
        self,
        t: int,
        states: ArrayLike,
        behavior: ArrayLike | Mapping[str, ArrayLike],
        target: Target | Goal | Sequence[Target] | None = None,
        *,
        groups: Any = None,
        calibration: Calibration = "common",
    ) -> Outlooks:
        """The monitor's answer for each of many runs at one step (`Outlooks`).

        By default p is calibrated in the same way for all targets (``calibration="common"``), so
        that targets can be compared: a wider target never has a lower p. A watch calibrates p for
        its one target, which is more accurate; ``calibration="target"`` does the same here.

        Parameters
        ----------
        t
            The step, from 0 up. At a declared horizon every run is over, so p is exactly 0 or 1.
        states
            The state of each run at that step, (runs, features).
        behavior
            The behavior so far, such as the sum of the rewards: one number for all runs, or one per
            run. For a monitor of several behaviors: a mapping from each behavior's name to such
            numbers.
        target
            One target gives arrays of shape (runs,); a sequence of k targets gives (runs, k). A
            monitor of several behaviors takes a goal. By default the target named at `fit`.
        groups
            One group for all runs, or one per run, if the monitor is calibrated by group.
        calibration
            ``"common"`` or ``"target"``, as for `watch`.
        """
        fitted = self._joint.first
        t = whole_number("t", t, least=0)
        if t > fitted.horizon and fitted.horizon_declared:
            raise InputError(
                Argument("t"), f" needs a step up to the horizon {fitted.horizon}, got {t}"
            )
        X = states_of(fitted, states)
        if isinstance(target, list | tuple) and calibration == "common":
            several = [self._wanted(one) for one in target]
            _ = self.fitted  # of a single behavior
            for one in several:
                self.contracts.check_sides(one)
            asked = Asked(self._joint, tuple(several))  # type: ignore[arg-type]
        else:
            alone, one, name = self._narrowed(target)  # type: ignore[arg-type]
            if name:
                own = so_far_of(self._joint, behavior, len(X))[name]
                return alone.outlook(t, states, own, one, groups=groups, calibration=calibration)
            asked = self._asked(one, calibration)
        so_far = each_so_far(asked, behavior, len(X))
        return outlooks_at(asked, t, X, so_far, fitted.groups_of(groups, len(X)))

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
        """For each run, a box: one interval per behavior; together they contain all its outcomes.

        See method M21 in docs/methods.md.

        Parameters
        ----------
        t, states, groups
            As for `outlook`.
        behavior
            The value so far of each behavior, by name.
        level
            The probability with which all outcomes are inside their intervals at once.
        all_steps
            By default the guarantee is for step t alone. If True, it is for the boxes of all steps
            of a run together.
        """
        if self._joint.is_single:
            raise InputError(
                "a box needs a monitor of several behaviors, and this one has a single behavior; "
                "use interval or band"
            )
        joint, X = self._joint, states_of(self._joint.first, states)
        so_far, which = so_far_of(joint, behavior, len(X)), joint.first.groups_of(groups, len(X))
        return boxes_at(joint, t, X, so_far, which, level=level, all_steps=all_steps)

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
        """For each run, an interval that contains its outcome with the probability ``level``.

        The guarantee ("with at least this probability") is for the runs still going at step t, if t
        was fixed beforehand; use `band` if you look at several steps. It holds on average over all
        the sets of assure episodes (held out for promises) that you might have recorded. With
        ``confidence=0.95`` it holds for at least 95 in 100 of these sets (method M20). See method
        M5 in docs/methods.md.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            return step.pcqr().interval(X, level, confidence=confidence)

        return outcomes_of(self.fitted, t, states, behavior, groups, find)

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
        """(runs,): a one-sided bound on the outcome that is promised at this level.

        With ``side="lower"``, the outcome is at least this bound with probability ``level`` or
        more, on average over runs. With ``side="upper"``, it is at most this bound. The bound of a
        run is the model's quantile for it, at one quantile level for all runs. Among bounds of this
        form it is the best one that can be promised. The level and the step must be chosen before
        looking at the run. ``confidence`` is as for `interval`. See method M5 in docs/methods.md.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            bound = step.pcqr().promise(X, level, side, confidence=confidence)
            return Interval(bound, bound)

        return outcomes_of(self.fitted, t, states, behavior, groups, find).lower

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
        """For each run, a range for its outcome (a band) that holds at **all** steps at once.

        With probability ``level``, the bands of all steps of a run contain the run's outcome.
        ``confidence`` is as for `interval`. See method M9 in docs/methods.md.
        """

        def find(step: StepLaw, X: FloatArray, group: int) -> Interval:
            depth = band_depth(self.fitted.sorted_excess[group], level, confidence)
            return band_interval(step, X, depth)

        return outcomes_of(self.fitted, t, states, behavior, groups, find)

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
        """Where each run will be at every later step: a range for each of these steps.

        With at least the probability ``level``, the behavior of a run that is still going at step t
        stays inside these ranges at every step from then on; after its end, a run keeps its last
        value (method M22 in docs/methods.md). With ``all_steps``, the bands that you ask for at all
        steps of a run hold together with that probability, so you may ask at every step and trust
        each band.

        Parameters
        ----------
        t, states, behavior, groups
            As for `interval`.
        level
            The probability with which a run stays inside the ranges, such as 0.9.
        all_steps
            Whether to promise the bands of all steps at once. The first such call takes some
            seconds. Runs of more than 2,000 steps raise an error.
        confidence
            As for `interval`.

        Notes
        -----
        The promise comes from the assure episodes (held out for promises). It holds on average over
        the sets of assure episodes that you might have recorded. Bands come from the paths of
        recorded runs, weighted as the forests weigh these runs. So the model must be a forest, and
        the fit must have kept the paths (``paths=True``).
        """
        options = {"level": level, "all_steps": all_steps, "confidence": confidence}
        return path_band_of(self.fitted, self.contracts, t, states, behavior, groups, options)

    def explain(
        self,
        t: int,
        state: ArrayLike | Mapping[str, object],
        behavior: float | Mapping[str, float],
        target: Target | Goal | None = None,
        *,
        before: tuple[ArrayLike | Mapping[str, object], float | Mapping[str, float]] | None = None,
        since: int | None = None,
        group: Any = None,
        calibration: Calibration = "target",
    ) -> Explanation:
        """Why p is what it is at step t of a run: what changed p, and the recorded runs behind p.

        The change of p since an earlier step is divided among the reward earned, each feature that
        changed, and the passing of time. The parts are Shapley values, which add up to the change.
        With more than eight causes the parts are estimated by sampling, and their standard errors
        are given. The result also has precedents: the recorded runs that count most for p in the
        model's forests (method M28 in docs/methods.md).

        Parameters
        ----------
        t
            The step.
        state, behavior
            The state at step t, and the behavior so far; for several behaviors, a mapping from
            their names.
        target
            The outcomes that the run should end in; for a monitor of several behaviors, a goal. By
            default the target named at `fit`.
        before
            State and behavior at an earlier step, as a pair. Without this pair, the result has only
            the precedents, and no parts of a change.
        since
            The step that ``before`` belongs to; by default t − 1.
        group
            The run's group, if the monitor is calibrated by group.
        calibration
            As for `watch`, so that p is the same as a watch's.
        """
        t = whole_number("t", t, least=0)
        alone, target, name = self._narrowed(target)
        if before is not None and t == 0:
            raise InputError(
                Argument("before"),
                " needs a step earlier than t, and there is none for t=0; leave it out",
            )
        earlier = t - 1 if since is None else whole_number("since", since, least=0)
        if since is not None and before is None:
            raise InputError(
                Argument("since"),
                " needs ",
                Argument("before"),
                " too, as (state, behavior) at that step",
            )
        if before is not None and earlier >= t:
            raise InputError(Argument("since"), f" needs a step earlier than t={t}, got {earlier}")
        if name:
            given = [behavior] if before is None else [behavior, before[1]]
            had = [so_far_of(self._joint, one, 1)[name].item() for one in given]
            return alone.explain(
                t,
                state,
                had[0],
                target,
                before=None if before is None else (before[0], had[1]),
                since=since,
                group=group,
                calibration=calibration,
            )
        asked = self._asked(target, calibration)
        return explained(
            asked,
            reading_of(asked, t, state, behavior),
            None if before is None else reading_of(asked, earlier, *before),
            group=self._joint.first.group_of(group),
        )

    def drift_guard(
        self,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard: a test that detects from finished episodes that the process has changed.

        The guard compares new episodes with the assure episodes (held out for promises) at step t.
        With probability ``level`` it never raises a false alarm, however long it watches. Pass each
        run to the guard once, with a unique id, in the order in which the runs started. Leave out
        runs in which somebody acted on an alarm. ``resume`` is a file that `DriftGuard.save` wrote;
        the guard continues from there. See method M10 in docs/methods.md.
        """
        found = self.fitted.group_of(group)
        return guard_of(self.fitted, t=t, level=level, group=found, resume=resume)

    def harm_guard(
        self,
        target: Target | Goal | None = None,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        calibration: Calibration = "target",
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard: a test that detects that p of a target has become too high.

        It learns from finished episodes. `drift_guard` raises an alarm on any change, even if runs
        have become better. A harm guard raises one only if p at step t has become too high,
        compared with the assure episodes (held out for promises). A bias that was there from the
        beginning does not count. All else is as for `drift_guard`. See method M26 in
        docs/methods.md.
        """
        alone, wanted, name = self._narrowed(target)
        if name:
            raise InputError(
                f"the goal {target} is about one behavior, so use the monitor of that behavior: "
                f"call monitor.only({name!r}).harm_guard"
            )
        number = self._joint.first.group_of(group)
        asked = alone._asked(wanted, calibration)
        return harm_guard_of(asked, t=t, level=level, group=number, resume=resume)

    def drift(
        self,
        new_episodes: Episodes,
        target: Target | Goal | None = None,
        *,
        order: Order | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        t: int = 0,
        level: Level = 0.99,
        calibration: Calibration = "target",
    ) -> Drift:
        """Whether new episodes show drift: has anything changed, and has p become too high.

        Finished episodes are compared with the assure episodes (held out for promises) at step t.
        Print the result to read it.

        Parameters
        ----------
        new_episodes
            Episodes that the monitor has not seen, in which nobody acted on an alarm.
        target
            The target for which p may have become too high; for several behaviors, a goal. By
            default the target named at `fit`.
        order
            When each episode started: one value per episode, such as a time, to sort them by. A
            mapping from a name to these values also names the column. The test then also looks for
            a change that began midway, and the result says when. Without ``order``, the order of
            the episodes plays no part.
        by
            Columns by name, with one value per episode. The result says how far p is off for each
            value of each column.
        level
            If nothing has changed, no change is reported with at least this probability, whichever
            test is used (methods M10 and M36 in docs/methods.md).
        t, calibration
            As for `harm_guard`.
        """
        t = whole_number("t", t, least=0)
        alone, wanted, name = self._narrowed(target)
        runs = new_episodes.only(name) if name else new_episodes
        asked = alone._asked(wanted, calibration)
        return drift_of(asked, runs, order=order, by=by, t=t, level=level)

    def evaluate(
        self,
        episodes: Episodes,
        target: Target | Goal | None = None,
        *,
        calibration: Calibration = "target",
        order: Order | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        resamples: int = 200,
        seed: int = 0,
        progress: bool = False,
    ) -> Evaluation:
        """How good the monitor is on episodes that it has never seen.

        ``print(found.summary())`` shows the main numbers, and ``found.report(path)`` writes a page
        with figures. ``resamples`` is how many times whole episodes are resampled to compute
        confidence intervals. ``calibration`` is as for `watch`. If you use the result to choose a
        seed, a preset or a target, evaluate once more before you report: on episodes that played no
        part in the choice. For a goal, ``found.parts`` measures each behavior by itself.

        The summary and the page contain the verdict of `drift`. ``order`` and ``by`` are as for
        `drift`: they let the verdict say since when the process has changed, and for which values
        of a column p is off.

        If the episodes are prepared ones (`PreparedEpisodes`), only a sample of about a million
        steps is measured, chosen by a hash of the episodes' ids.
        """
        alone, wanted, name = self._narrowed(target)
        if episodes.is_prepared:
            most, every = _EVALUATED_STEPS / float(episodes.lengths.mean()), episodes.ids
            episodes = episodes.sample(max(1, int(most)), seed=seed).compact()
            order, by = of_the_sample(every, episodes.ids, order, by)
        bar = progress_bar("evaluating", self.horizon, unit="steps", shown=progress)
        resampling = Resampling(resamples, seed=seed)
        with bar as reached:
            return evaluate(
                alone.contracts,
                episodes.only(name) if name else episodes,
                wanted,
                resampling=resampling,
                own_map=alone._map(wanted, calibration),
                reached=reached,
                order=order,
                by=by,
            )

    def evaluate_own(
        self, episodes: Episodes, *, resamples: int = 200, seed: int = 0
    ) -> OwnEvaluation:
        """How good the monitor is on new episodes, each judged by its own target.

        The episodes need targets, as for `watch_own`; an episode without a target is left out. The
        result has ``ece``, ``brier``, ``alarms`` and the other measures of `evaluate`. A promised
        false-alarm rate holds on average over pairs of a run and its target.
        """
        _ = self.fitted  # of a single behavior
        return evaluate_own(self.contracts, episodes, resampling=Resampling(resamples, seed=seed))

    def summary(self) -> str:
        """Text: how far chance may put p off, and what so few episodes cannot promise.

        The line ``accuracy`` is about chance in the calibration curve alone, which turns the
        model's probabilities into p. The model's own error is not included.
        """
        return reach_in_words(self._joint.first)

    def save(self, path: str | Path) -> None:
        """Write the monitor to a model file; the same fit gives the same bytes.

        The file is written under another name and then renamed, so a process that has the old file
        open can continue to read the old file.
        """
        from ontarget.modelfile.several import save_any

        save_any(self._joint, Path(path))

    @classmethod
    def load(
        cls, path: str | Path, *, copy: bool | None = None, behavior: Behavior | None = None
    ) -> GoalMonitor:
        """The monitor in a model file, with the parameters that it was fitted with.

        Parameters
        ----------
        path
            A file that `save` wrote.
        copy
            True reads the file into memory. False maps it into memory, so that several processes
            share one copy. By default files up to 64 MB are read and larger ones are mapped.
        behavior
            The behavior that the monitor was fitted with, if you wrote its class yourself: the file
            contains only its name.

        Notes
        -----
        To replace a model file that is in use, rename the new file to its name, as `save` does.
        Never copy over it (``cp new old``): that changes the file while a running watch reads it,
        and the system may kill the process.
        """
        from ontarget.modelfile.several import load_any

        announce_compiling()
        contents = load_any(Path(path), copy=copy, behavior=behavior)
        try:
            return cls._of(contents)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{path}: GoalMonitor does not accept the parameters in this file: {error}"
            ) from error

    @classmethod
    def _of(cls, joint: Joint) -> GoalMonitor:
        monitor = cls(**restored_parameters(joint.first.trained.parameters))
        if not joint.is_single:
            each = {name: one.reward_bounds for name, one in joint.parts.items()}
            monitor.reward_bounds = each if np.isfinite(list(each.values())).any() else None
            monitor.history = None
        monitor._contracts = Contracts(joint)
        return monitor

    def __repr__(self) -> str:
        if self._contracts is None:
            return "<GoalMonitor: not fitted>"
        found = self._joint.first
        sizes = ", ".join(f"{size:,} {part}" for part, size in found.trained.sizes.items())
        each = ", ".join(f"{name} ({one.spec})" for name, one in self.readings.items())
        return (
            f"<GoalMonitor: horizon {found.horizon}, {len(found.schema)} "
            f"feature{'s' * (len(found.schema) != 1)}, "
            f"{f'behaviors {each}' if each else f'behavior {found.behavior.spec}'}; {sizes}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        contents = None if self._contracts is None else self._contracts.joint
        return {**self.get_params(deep=False), "contents": contents}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        contents = kept.pop("contents")
        self.__init__(**kept)  # type: ignore[misc]
        self._contracts = None if contents is None else Contracts(contents)

    def __deepcopy__(self, memo: dict[int, Any]) -> GoalMonitor:
        from copy import deepcopy

        twin = type(self)(**deepcopy(self.get_params(deep=False), memo))
        twin._contracts = None if self._contracts is None else Contracts(self._contracts.joint)
        return twin
