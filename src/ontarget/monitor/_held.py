"""What all methods of a fitted monitor share: access to the result of the fit, and checks."""

from __future__ import annotations

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
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live._assured import Contracts
from ontarget.live.contract import Contract
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

    _contracts: Contracts | None

    @property
    def contracts(self) -> Contracts:
        """The object that makes and keeps contracts (a target and an alarm rule, prepared for use).

        It also holds the result of the fit. Most users do not need it.
        """
        if self._contracts is None:
            raise UnfittedError("this monitor is not fitted yet; call fit, or load a model file")
        return self._contracts

    @property
    def _joint(self) -> Joint:
        """The result of the fit, of one behavior or several."""
        return self.contracts.joint

    @property
    def _kept(self) -> Contracts:
        """The contracts of a monitor of a single behavior; an error if there are several."""
        if not self._joint.is_single:
            names = tuple(self._joint.parts)
            raise InputError(
                f"this monitor has several behaviors ({', '.join(names)}); ask about one of them: "
                f"monitor.only({names[0]!r})"
            )
        return self.contracts

    @property
    def fitted(self) -> Fitted:
        """The result of the fit: models, calibration, and the assure (held-out) episodes."""
        return self._kept.fitted

    @property
    def _shared(self) -> Fitted:
        """The result of the fit; for several behaviors, that of the first one.

        Use it for what all behaviors have in common.
        """
        return self._joint.first

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
        return self._joint.target

    def _wanted(self, target: Target | Goal | None) -> Target | Goal:
        """The target of a call: the one that was passed, otherwise the one named at `fit`.

        It is an error if this monitor does not take it.
        """
        found = self.target if target is None else target
        if found is None:
            raise InputError(
                Argument("target"),
                " is needed, because none was named at fit; pass one, for example "
                "Target.at_least(60), or name it at fit",
            )
        return self._joint.checked(found)

    def _narrowed(self, target: Target | Goal | None) -> tuple[Self, Target | Goal, str]:
        """The monitor to ask, its target, and the name of the behavior that it is about.

        For a goal about one of several behaviors, this is the monitor of that behavior alone; any
        other target is left to this monitor, and there is no name.
        """
        wanted = self._wanted(target)
        if isinstance(wanted, Goal) and wanted.only is not None:
            name, alone = wanted.only
            return self.only(name), alone, name
        return self, wanted, ""

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior, how it is computed, and from which signal (reward or column).

        It is empty for a single behavior without a name.
        """
        return self._joint.readings

    def only(self, name: str) -> Self:
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

    def _contract(self, target: Target | Goal, options: AlarmOptions) -> Contract:
        """The contract for this target: the target and an alarm rule, ready for watching runs."""
        rest = checked_options(options)
        own_map = self._map(target, rest.pop("calibration", "target"))
        return self.contracts.of(target, rule_of(**rest), own_map)

    def _asked(self, target: Target | Goal, calibration: Calibration) -> Asked:
        """The target, asked of this monitor, with p calibrated as the caller wants."""
        return self.contracts.asked(target, self._map(target, calibration))

    def _map(self, target: Target | Goal, calibration: Calibration) -> TargetMap | None:
        """The calibration of p for this target alone; None if it is the same for all targets.

        A `TargetError` is raised if rounding changes whether a recorded run meets the target.
        """
        self.contracts.check_sides(target)
        if calibration not in ("target", "common"):
            raise InputError(
                Argument("calibration"), f" needs 'target' or 'common', got {calibration!r:.80}"
            )
        return self.contracts.map_of(target) if calibration == "target" else None

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
