"""Questions to a fitted monitor about runs at one step: p, ranges, paths and explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import ArrayLike, FloatArray
from ontarget.conformal.levels import Level, exact_level
from ontarget.conformal.ranks import Interval
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.law import StepLaw
from ontarget.fitted.paths.bands import PathBand
from ontarget.goal import Goal
from ontarget.live._batch import outlooks_at
from ontarget.live._explaining import Reading, explained
from ontarget.live.explanation import Explanation
from ontarget.live.outlook import Outlooks
from ontarget.monitor._goals import boxes_at, so_far_of
from ontarget.monitor._held import Calibration, Held
from ontarget.target import Target


class Asking(Held):
    """The methods of a fitted `GoalMonitor` that answer about runs at one step."""

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
        fitted = self._shared
        t = whole_number("t", t, least=0)
        if t > fitted.horizon and fitted.horizon_declared:
            raise InputError(
                Argument("t"), f" needs a step up to the horizon {fitted.horizon}, got {t}"
            )
        if isinstance(target, list | tuple) and calibration == "common":
            several = [self._wanted(one) for one in target]
            for one in several:
                self._kept.check_sides(one)
            asked = Asked(self._joint, tuple(several))  # type: ignore[arg-type]
        else:
            alone, one, name = self._narrowed(target)  # type: ignore[arg-type]
            if name:
                own = so_far_of(self._joint, behavior, len(self._states(states)))[name]
                return alone.outlook(t, states, own, one, groups=groups, calibration=calibration)
            asked = self._asked(one, calibration)
        X = self._states(states)
        so_far = self._each_so_far(asked, X, behavior)
        return outlooks_at(asked, t, X, so_far, fitted.groups_of(groups, len(X)))

    def _each_so_far(self, asked: Asked, X: FloatArray, behavior: Any) -> list[FloatArray]:
        """The value so far of each behavior that the target is about, rounded to its grid."""
        if self._joint.is_single:
            return [self._runs(X, behavior)[1]]
        had = so_far_of(self._joint, behavior, len(X))
        return [had[name] for name in asked.names]

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
        X = self._states(states)
        return boxes_at(
            self._joint,
            t,
            X,
            so_far_of(self._joint, behavior, len(X)),
            self._shared.groups_of(groups, len(X)),
            level=level,
            all_steps=all_steps,
        )

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
        """For each run, a range for its outcome (a band) that holds at **all** steps at once.

        With probability ``level``, the bands of all steps of a run contain the run's outcome.
        ``confidence`` is as for `interval`. See method M9 in docs/methods.md.
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

        Notes
        -----
        This explains the model, not the world. To divide a change among its causes, the model is
        asked about states that mix the two steps, and some of these states may be impossible.

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

        def reading(step: int, given: Any, so_far: Any) -> Reading:
            schema = self._shared.state_schema
            X = self._states(np.array([schema.encode(given)]))
            had = [float(one[0]) for one in self._each_so_far(asked, X, so_far)]
            return Reading(step, X[0], tuple(had), schema.unseen_in(given))

        return explained(
            asked,
            reading(t, state, behavior),
            None if before is None else reading(earlier, *before),
            group=self._shared.group_of(group),
        )

    def _outcomes(
        self, t: int, states: ArrayLike, behavior: ArrayLike, groups: Any, find: Any
    ) -> Interval:
        """For each run, an interval of its outcome, rounded to a fixed number of decimals.

        ``find`` returns intervals for the remainder, which is what the run still earns.
        """
        fitted, t = self.fitted, whole_number("t", t, least=0)
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
        """Raise an error if no model answers at step t, or a value in the state is bad."""
        if t >= self.horizon:
            raise InputError(Argument("t"), f" needs a step from 0 to {self.horizon - 1}, got {t}")
        trouble = self.fitted.unknown(t, group)
        if trouble:
            raise CalibrationError(f"step {t} is unknown: {trouble}")
        self.fitted.check_readings(states, so_far)
