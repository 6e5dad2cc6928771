"""`GoalMonitor`: it is fitted to recorded episodes, then answers about new runs."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ontarget._arguments import whole_number
from ontarget._progress import announce_compiling
from ontarget.episodes import Behavior, Episodes, PaperSplit, Split
from ontarget.episodes.behavior import Bounds
from ontarget.episodes.rounding import outliers_in_words
from ontarget.episodes.schema import Unseen
from ontarget.errors import (
    Argument,
    EpisodesWarning,
    FewEpisodesError,
    InputError,
    ModelFileError,
)
from ontarget.fitted.blocks import StepsPerModel, plan_blocks
from ontarget.fitted.choices import HeldOut
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import Joint, checked_target, goal_over
from ontarget.fitting.engines import Engine
from ontarget.fitting.fit import Preset, fit_monitor, preset_model
from ontarget.fitting.ground import with_learned_horizon
from ontarget.fitting.recipe import Recipe
from ontarget.goal import Goal
from ontarget.live._assured import Contracts
from ontarget.models.registry import model_named
from ontarget.monitor._dividing import USUAL_SHARE, chosen_share, divided
from ontarget.monitor._judging import Judging
from ontarget.monitor._keeping import kept_parameters, restored_parameters
from ontarget.monitor._reach import reach_in_words
from ontarget.monitor._warm import check_settings, warm_split
from ontarget.reading.prepared.manifest import is_prepared
from ontarget.target import Target

if TYPE_CHECKING:
    from ontarget.reading.prepared.preparing import PreparedEpisodes

_MAX_LEARN = 20_000


class GoalMonitor(Judging):
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
        max_learn: int = _MAX_LEARN,
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
        held_out: HeldOut | None = None
        if isinstance(episodes, str | Path) and not is_prepared(Path(episodes)):
            episodes = Episodes.read(episodes)
        if episodes is not None and not isinstance(episodes, Episodes):
            settled = None if max_learn == _MAX_LEARN else max_learn
            _refuse_division(self, split, assure, warm, settled)
            split = _prepared_split(episodes)
        elif split is None:
            if episodes is None:
                raise InputError(
                    "fit needs ", Argument("episodes"), " or ", Argument("split"), ", got neither"
                )
            _check_default(target, episodes.names)
            most = whole_number("max_learn", max_learn, least=1)
            before = 0 if warm is None else warm.sizes["assure"]

            def divide(some: Episodes) -> Split | PaperSplit:
                nonlocal held_out
                share, in_groups = assure, self.group is not None
                chooses = self.preset != "paper" and some.censoring != "worst-case"
                if assure is None and target is not None and chooses:
                    held_out = chosen_share(
                        some, target, seed=seed, most=most, in_groups=in_groups, before=before
                    )
                    share = None if held_out is None else held_out.share
                return divided(
                    some,
                    USUAL_SHARE if share is None else share,
                    seed=seed,
                    most=most,
                    in_groups=in_groups,
                    as_in_paper=self.preset == "paper",
                )

            split = divide(episodes) if warm is None else warm_split(warm.fitted, episodes, divide)
        elif warm is not None:
            raise InputError(
                "pass ",
                Argument("warm"),
                " with episodes, not with a split, which is already divided",
            )
        elif assure is not None:
            raise InputError(
                "pass ",
                Argument("assure"),
                " with episodes, not with a split, which is already divided",
            )
        if self.preset == "paper" and isinstance(split, Split):
            raise InputError(
                "preset='paper' needs episodes split into train, calibrate and assure, got learn "
                "and assure; split with split(train=0.4, calibrate=0.4, assure=0.2)"
            )
        if self.history is not None:
            recalling: list[Any] = [
                None if part is None else part.with_history(self.history) for part in split
            ]
            split = type(split)(*recalling)
        split = with_learned_horizon(split)
        _check_default(target, split[0].names)
        if split[0].names:
            return self._fit_several(
                split,
                target,
                held_out,
                seed=seed,
                engine=engine,
                progress=progress,
                checkpoint=checkpoint,
                steps=steps,
                precedents=precedents,
                paths=paths,
            )
        horizon = split[0].horizon
        blocks, law = plan_blocks(
            horizon,
            steps_per_model=self.steps_per_model or (1 if self.preset == "paper" else "auto"),
            window=self.window,
        )
        recipe = Recipe(
            model=self._unfitted(),
            blocks=blocks,
            law=law,
            group=self.group,
            min_calibration=whole_number("min_calibration", self.min_calibration, least=1),
            reward_bounds=_bounds(_bounds_of(self.reward_bounds, "", ())),
            seed=seed,
            parameters=kept_parameters(self.get_params(deep=False)),
            steps=_asked_steps(steps, horizon),
            unseen=self.unseen,
            chooses_spacing=self.steps_per_model in (None, "auto") and self.preset != "paper",
            chooses_history=self.history is None and not split[0].history,
            precedents=precedents,
            paths=paths,
        )
        for name, part in split._asdict().items():
            used = part is not None and name != "rest"
            huge = outliers_in_words(part._unrounded) if used else ""
            if huge:
                warnings.warn(huge, EpisodesWarning, stacklevel=2)
        fitted = fit_monitor(recipe, split, engine=engine, progress=progress, checkpoint=checkpoint)
        _refuse_unknown(fitted)
        aim = target if isinstance(target, Target) else None
        self._contracts = Contracts(Joint.of(_recorded(fitted, aim, held_out)))
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

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(360, 3, 1)), rng.normal(size=(360, 3)))
        >>> monitor = GoalMonitor().fit(walks.take(range(300)), progress=False)
        >>> monitor.recalibrate(walks.take(range(300, 360)))
        <GoalMonitor: horizon 3, 1 feature, behavior sum; 240 learn, 60 assure>
        """
        from ontarget.fitting.recalibrating import recalibrated

        whole = whole_number("seed", seed, least=0)

        def anew(fitted: Fitted, episodes: Episodes) -> Fitted:
            found = recalibrated(fitted, episodes, seed=whole, renew_p=renew_p)
            _refuse_unknown(found)
            return found

        twin = type(self)(**self.get_params(deep=False))
        joint = self._joint
        each = {"": new_episodes} if joint.is_single else joint.alike(new_episodes)
        parts = {name: anew(one, each[name]) for name, one in joint.parts.items()}
        twin._contracts = Contracts(Joint(parts, joint.signals, joint.target))
        return twin

    def _unfitted(self) -> Any:
        """The model to fit, before it is fitted."""
        if self.model is None:
            return preset_model(self.preset)
        if isinstance(self.model, str):
            return model_named(self.model)
        return self.model

    def _fit_several(
        self,
        split: Split | PaperSplit,
        goal: Any,
        held_out: HeldOut | None,
        *,
        checkpoint: str | Path | None,
        **options: Any,
    ) -> GoalMonitor:
        """Fit one monitor for each of several behaviors; returns this monitor, which joins them."""
        if split[0].history:
            raise InputError(
                Argument("history"),
                f" needs episodes with a single behavior, got {', '.join(split[0].names)}; fit a "
                "monitor for each: episodes.only(…)",
            )
        parts = {}
        for name in split[0].names:
            alone = type(self)(**self.get_params(deep=False))
            alone.reward_bounds = _bounds_of(self.reward_bounds, name, split[0].names)
            alone.history = 0  # the behaviors are joined by rows of the same states
            own: list[Any] = [None if part is None else part.only(name) for part in split]
            folder = None if checkpoint is None else Path(checkpoint) / name
            chosen = type(split)(*own)
            fitted = alone.fit(split=chosen, checkpoint=folder, **options).fitted
            parts[name] = _recorded(fitted, None, held_out)
        signals = {name: one.signal for name, one in split[0].readings.items()}
        self._contracts = Contracts(Joint(parts, signals, goal))
        return self

    def only(self, name: str) -> GoalMonitor:  # noqa: D102
        alone = super().only(name)
        if isinstance(alone.reward_bounds, Mapping):
            alone.reward_bounds = alone.reward_bounds.get(name)
        return alone

    def __repr__(self) -> str:
        if self._contracts is None:
            return "<GoalMonitor: not fitted>"
        found = self._shared
        sizes = ", ".join(f"{size:,} {part}" for part, size in found.trained.sizes.items())
        each = ", ".join(f"{name} ({one.spec})" for name, one in self.readings.items())
        return (
            f"<GoalMonitor: horizon {found.horizon}, {len(found.schema)} "
            f"feature{'s' * (len(found.schema) != 1)}, "
            f"{f'behaviors {each}' if each else f'behavior {found.behavior.spec}'}; {sizes}>"
        )

    def summary(self) -> str:
        """Text: how far chance may put p off, and what so few episodes cannot promise.

        The line ``accuracy`` is about chance in the calibration curve alone, which turns the
        model's probabilities into p. The model's own error is not included.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(40, 3, 1)), rng.normal(size=(40, 3)))
        >>> parts = walks.split(assure=0)
        >>> print(GoalMonitor().fit(split=parts, progress=False).summary().splitlines()[0][11:86])
        by chance in the calibration curve alone, p may be off by about ± 14 points
        """
        return reach_in_words(self._shared)

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


def _prepared_split(episodes: PreparedEpisodes | str | Path) -> Split:
    """The two parts of prepared episodes, learn and assure (held out); they stay on disk."""
    from ontarget.reading.prepared.preparing import PreparedEpisodes

    if not isinstance(episodes, PreparedEpisodes | str | Path):
        raise InputError(f"fit needs Episodes or a path, got {type(episodes).__name__}")
    if not isinstance(episodes, PreparedEpisodes):
        episodes = PreparedEpisodes(episodes)
    return episodes.split


def _refuse_division(monitor: GoalMonitor, *divisions: Any) -> None:
    """Raise an `InputError` if an argument of `fit` would divide prepared episodes again."""
    if any(one is not None for one in divisions) or monitor.preset == "paper":
        raise InputError(
            "prepared episodes are divided already; fit them without split, assure, max_learn, "
            "warm and preset='paper', or prepare them again"
        )


def _check_default(target: object, behaviors: Sequence[str]) -> None:
    """Raise an `InputError` if a monitor of these behaviors cannot keep this target."""
    if target is None:
        return
    if not behaviors:
        checked_target(target)
    elif goal_over(behaviors, target).is_function:
        raise InputError(
            Argument("target"),
            f" at fit needs a goal without a function, which a model file cannot hold, got "
            f"{target}; pass this goal to the methods instead",
        )


def _recorded(fitted: Fitted, target: Target | None, held_out: HeldOut | None) -> Fitted:
    """The result of a fit, with the target that was named and the share that was chosen by it."""
    chosen = replace(fitted.trained.chosen, held_out=held_out)
    return replace(fitted, trained=replace(fitted.trained, target=target, chosen=chosen))


def _bounds_of(bounds: Any, name: str, names: Sequence[str]) -> Any:
    """The reward bounds of the behavior ``name``.

    ``names`` are the names of all behaviors; it is empty for a single behavior.
    """
    if bounds is None:
        return None
    if not names:
        if isinstance(bounds, Mapping):
            raise InputError(
                Argument("reward_bounds"),
                " as a mapping needs episodes with several behaviors, got a single one; pass a "
                "pair",
            )
        return bounds
    if not isinstance(bounds, Mapping) or not set(bounds) <= set(names):
        raise InputError(
            Argument("reward_bounds"),
            f" needs a mapping from the names of the behaviors ({', '.join(names)}) to pairs, got "
            f"{bounds!r}",
        )
    return bounds.get(name)


def _refuse_unknown(fitted: Fitted) -> None:
    """Raise a `FewEpisodesError` if the monitor could not answer at any step."""
    everywhere = ((t, g) for t in range(fitted.horizon) for g in range(fitted.n_groups))
    if all(fitted.unknown(t, g) for t, g in everywhere):
        trained = [t for t in range(fitted.horizon) if fitted.is_trained(t)]
        n = int(fitted.learned[trained].max(initial=0))  # at the step with the most
        raise FewEpisodesError(
            f"too few episodes: {n:,} can be used to calibrate p, and a "
            f"step needs {fitted.min_calibration} (min_calibration); record more. `ontarget plan` "
            f"says how many"
        )


def _asked_steps(steps: Collection[int] | None, horizon: int) -> frozenset[int] | None:
    if steps is None:
        return None
    asked = frozenset(whole_number("steps", t, least=0) for t in steps)
    if not asked or max(asked) >= horizon:
        raise InputError(
            Argument("steps"), f" needs step numbers from 0 to {horizon - 1}, got {sorted(asked)}"
        )
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
            f" needs a pair, the least and the most that one step can earn, got {given!r}",
        ) from error
    if not least <= most:
        raise InputError(
            Argument("reward_bounds"),
            f" needs the least reward first and the most second, got {given!r}",
        )
    return least, most
