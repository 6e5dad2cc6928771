"""What all methods of a fitted monitor share: access to the result of the fit, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from ontarget._grid import snap
from ontarget._typing import ArrayLike, FloatArray
from ontarget.episodes import Behavior, Schema
from ontarget.episodes.judged import Reading
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, InputError, UnfittedError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live._assured import Contracts
from ontarget.live.contract import Contract
from ontarget.live.goals.contract import GoalContracts
from ontarget.live.rules import AlarmRule, RuleOptions, rule_of
from ontarget.target import Target

# How p of one target is calibrated: corrected for this target, or in the same way for all targets.
Calibration: TypeAlias = Literal["target", "common"]


class AlarmOptions(RuleOptions, total=False):
    """The options for alarms: a rule, or arguments that describe one, and how p is calibrated."""

    alarm: AlarmRule | None
    calibration: Calibration


class Held:
    """The part of a fitted `GoalMonitor` that gives access to the result of the fit."""

    _contracts: Contracts | GoalContracts | None

    @property
    def _held(self) -> Contracts | GoalContracts:
        if self._contracts is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._contracts

    @property
    def _goals(self) -> GoalContracts | None:
        """The contracts (prepared goals and alarm rules) of a monitor of several behaviors.

        It is None if the monitor has a single behavior.
        """
        return self._held if isinstance(self._held, GoalContracts) else None

    @property
    def _kept(self) -> Contracts:
        if isinstance(self._held, GoalContracts):
            names = tuple(self._held.joint.parts)
            raise InputError(
                f"this monitor has several behaviors ({', '.join(names)}); ask about one of them: "
                f"monitor.only({names[0]!r})"
            )
        return self._held

    @property
    def fitted(self) -> Fitted:
        """The result of the fit: models, calibration, and the assure (held-out) episodes."""
        return self._kept.fitted

    @property
    def contracts(self) -> Contracts | GoalContracts:
        """The object that makes and keeps contracts (a target and an alarm rule, prepared for use).

        It also holds the result of the fit. Most users do not need it.
        """
        return self._held

    @property
    def _shared(self) -> Fitted:
        """The result of the fit; for several behaviors, that of the first one.

        Use it for what all behaviors have in common.
        """
        return self._held.fitted

    @property
    def horizon(self) -> int:
        """The number of steps of a complete run."""
        return self._shared.horizon

    @property
    def horizon_declared(self) -> bool:
        """Whether the horizon was declared; otherwise it is that of the longest learning run."""
        return self._shared.horizon_declared

    @property
    def grid(self) -> float:
        """Outcomes, intervals and promised bounds are rounded to multiples of this number.

        See method M1 in docs/methods.md.
        """
        return self.fitted.grid

    @property
    def schema(self) -> Schema:
        """The names and types of the features of a state.

        `Episodes.read` takes the monitor itself as ``like=``.
        """
        return self._shared.schema

    @property
    def behavior(self) -> Behavior:
        """The number that a run is judged by, such as the sum of its rewards."""
        return self.fitted.behavior

    @property
    def target(self) -> Target | Goal | None:
        """The target that was named at `fit`, the default of every method; None without one."""
        return self.fitted.trained.target if self._goals is None else self._goals.joint.target

    def _asked(self, target: Target | Goal | None) -> Target | Goal:
        """The target of a call: the one that was passed, otherwise the one named at `fit`."""
        found = self.target if target is None else target
        if found is None:
            raise InputError(
                Argument("target"),
                " is needed, because none was named at fit; pass one, for example "
                "Target.at_least(60), or name it at fit",
            )
        return found

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior, how it is computed, and from which signal (reward or column).

        It is empty for a single behavior without a name.
        """
        return {} if self._goals is None else self._goals.joint.readings

    def only(self, name: str) -> Self:
        """The monitor of the behavior ``name`` alone, from a monitor of several behaviors."""
        goals = self._goals
        if goals is None:
            raise InputError(
                f"this monitor has a single behavior without a name, got the name {name!r}; use "
                "the monitor itself"
            )
        if name not in goals.parts:
            known = ", ".join(goals.parts)
            raise InputError(Argument("name"), f" needs one of the behaviors {known}, got {name!r}")
        twin = copy(self)
        twin._contracts = goals.parts[name]
        return twin

    @property
    def roles(self) -> Roles:
        """What each column of the log was used for when the monitor was fitted."""
        return self._shared.trained.roles

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """The names of the groups of runs, each calibrated by itself; None without groups."""
        return self._shared.groups

    @property
    def sizes(self) -> dict[str, int]:
        """How many episodes are in each part of the data.

        The parts are learn and assure (held out for promises), or train, calibrate and assure.
        """
        return dict(self._shared.trained.sizes)

    def _goal_map(
        self, goals: GoalContracts, goal: Goal, calibration: Calibration
    ) -> TargetMap | None:
        if calibration not in ("target", "common"):
            raise InputError(
                "a goal over several behaviors needs calibration 'target' or 'common', got "
                f"{calibration!r}"
            )
        goals.check_sides(goal)
        return goals.map_of(goal) if calibration == "target" else None

    def _no_goal(self, goal: object) -> InputError:
        return InputError(
            "this monitor has a single behavior without a name, so target needs a Target and "
            f"behavior a number, got {goal!r}; fit on episodes with behavior={{NAME: …}} for goals"
        )

    def _contract(self, target: Target | Goal, options: AlarmOptions) -> Contract:
        if isinstance(target, Goal):
            raise self._no_goal(target)
        check_target(target)
        rest = checked_options(options)
        calibration = self._calibration(target, rest.pop("calibration", "target"))
        return self._kept.of(target, rule_of(**rest), calibration)

    def _goal_contract(
        self, goals: GoalContracts, goal: Any, options: AlarmOptions
    ) -> tuple[Any, str | None]:
        """The contract for a goal, and the name of its behavior if the goal has only one.

        A contract is a goal and an alarm rule, prepared for watching runs.
        """
        goal = goals.joint.checked(goal)
        if goal.only is not None:
            name, target = goal.only
            return self.only(name)._contract(target, options), name
        rest = checked_options(options)
        own_map = self._goal_map(goals, goal, rest.pop("calibration", "target"))
        return goals.of(goal, rule_of(**rest), own_map), None

    def _calibration(
        self, target: Target | Sequence[Target], asked: Calibration
    ) -> TargetMap | None:
        """The calibration of p for this target alone; None if it is the same for all targets.

        ``asked`` is the argument ``calibration=``. A `TargetError` is raised if rounding changes
        whether a recorded run meets the target.
        """
        for one in target if isinstance(target, list | tuple) else [target]:
            check_target(one)
            assert isinstance(one, Target)
            self._kept.check_sides(one)
        if asked not in ("target", "common"):
            raise InputError(
                Argument("calibration"), f" needs 'target' or 'common', got {asked!r:.80}"
            )
        if asked == "common":
            return None
        check_target(target)
        assert isinstance(target, Target)
        return self._kept.map_of(target)

    def _states(self, states: ArrayLike) -> FloatArray:
        X = np.asarray(states, dtype=np.float64)
        fitted = self._shared
        width = fitted.state_width
        if X.ndim != 2 or X.shape[1] != width:
            hint = ""
            if fitted.history:
                stored = fitted.history.to_json()
                given = stored if isinstance(stored, int) else "monitor.fitted.history"
                hint = (
                    f", because the models also read the run so far; "
                    f"episodes.with_history({given}).at(t).states have that shape"
                )
            raise InputError(
                Argument("states"), f" need shape (runs, {width}), got {X.shape}{hint}"
            )
        return fitted.state_schema.settled(X)

    def _runs(self, states: ArrayLike, behavior: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The states, (runs, features), and the behavior so far of each run, (runs,).

        The behavior so far is rounded to the grid (a fixed number of decimals).
        """
        X = self._states(states)
        so_far = np.asarray(behavior, dtype=np.float64)
        if so_far.shape not in ((), (len(X),)):
            raise InputError(
                Argument("behavior"),
                f" needs one number or one for each of {len(X)} runs, got {so_far.shape}",
            )
        return X, snap(np.broadcast_to(so_far, (len(X),)), self.fitted.grid)


def checked_options(options: AlarmOptions) -> dict[str, Any]:
    """The options for an alarm as a dictionary; an unknown option raises an `InputError`."""
    known = AlarmOptions.__annotations__.keys() | RuleOptions.__annotations__.keys()
    for name in options.keys() - known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; the options are {sorted(known)}"
        raise InputError(f"there is no option {name!r}{hint}")
    return dict(options)


def check_target(target: object) -> None:
    if not isinstance(target, Target):
        raise InputError(
            Argument("target"),
            f" needs a Target, got {target!r}; Target.at_least(60), Target.at_most(60) and "
            'Target.parse("60:") make one',
        )
