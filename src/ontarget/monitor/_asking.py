"""What a monitor answers about runs at one step, as plain functions of what was fitted.

Boxes of outcomes of several behaviors are method M21 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.conformal.levels import Level, exact_level
from ontarget.conformal.ranks import Interval
from ontarget.drift.comparing import Order
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint, assured_limits
from ontarget.fitted.kernels import excess_of_rows
from ontarget.fitted.law import StepLaw
from ontarget.fitted.paths.bands import PathBand
from ontarget.live.contracts import Contracts
from ontarget.live.explaining import Reading

# Intervals for what each run still earns, from a step's law, the models' inputs and the group.
Find = Callable[[StepLaw, FloatArray, int], Interval]


def states_of(fitted: Fitted, states: ArrayLike) -> FloatArray:
    """The states as (runs, features); an error if they have another shape."""
    X, width = np.asarray(states, dtype=np.float64), fitted.state_width
    if X.ndim != 2 or X.shape[1] != width:
        hint = ""
        if fitted.history:
            stored = fitted.history.to_json()
            given = stored if isinstance(stored, int) else "monitor.fitted.history"
            hint = (
                f", because the models also read the run so far; "
                f"episodes.with_history({given}).at(t).states have that shape"
            )
        raise InputError(Argument("states"), f" need shape (runs, {width}), got {X.shape}{hint}")
    return fitted.state_schema.settled(X)


def _one_so_far(fitted: Fitted, behavior: Any, n: int) -> FloatArray:
    """(n,): the behavior so far of n runs, rounded to the grid."""
    so_far = np.asarray(behavior, dtype=np.float64)
    if so_far.shape not in ((), (n,)):
        raise InputError(
            Argument("behavior"),
            f" needs one number or one for each of {n} runs, got {so_far.shape}",
        )
    return snap(np.broadcast_to(so_far, (n,)), fitted.grid)


def so_far_of(joint: Joint, behavior: Any, n: int) -> dict[str, FloatArray]:
    """The value so far of each behavior for n runs, by the behavior's name, each (n,)."""
    if not isinstance(behavior, Mapping) or set(behavior) != set(joint.parts):
        known = ", ".join(joint.parts)
        got = ", ".join(map(str, behavior)) if isinstance(behavior, Mapping) else repr(behavior)
        raise InputError(
            Argument("behavior"), f" needs a mapping from the names {known}, got {got}"
        )
    found = {}
    for name, fitted in joint.parts.items():
        values = np.asarray(behavior[name], dtype=np.float64)
        if values.shape not in ((), (n,)):
            raise InputError(
                f"behavior {name!r} needs one number or one for each of {n} runs, got "
                f"{values.shape}"
            )
        found[name] = snap(np.broadcast_to(values, (n,)), fitted.grid)
    return found


def each_so_far(asked: Asked, behavior: Any, n: int) -> list[FloatArray]:
    """The value so far of each behavior that the target is about, rounded to its grid."""
    if asked.joint.is_single:
        return [_one_so_far(asked.fitted, behavior, n)]
    had = so_far_of(asked.joint, behavior, n)
    return [had[name] for name in asked.names]


def reading_of(asked: Asked, t: int, state: Any, behavior: Any) -> Reading:
    """What is known of one run at step t, from what a caller passed."""
    fitted = asked.fitted
    schema = fitted.state_schema
    X = states_of(fitted, np.array([schema.encode(state)]))
    had = [float(one[0]) for one in each_so_far(asked, behavior, 1)]
    return Reading(t, X[0], tuple(had), schema.unseen_in(state))


def outcomes_of(
    fitted: Fitted, t: int, states: ArrayLike, behavior: ArrayLike, groups: Any, find: Find
) -> Interval:
    """For each run, the interval of its outcome that follows from what ``find`` returns."""
    t, X = whole_number("t", t, least=0), states_of(fitted, states)
    so_far, which = _one_so_far(fitted, behavior, len(X)), fitted.groups_of(groups, len(X))
    lower, upper = np.empty(len(X)), np.empty(len(X))
    for g in np.unique(which).tolist():
        own = np.flatnonzero(which == g)
        step = fitted.at(t, g)
        _check_known(fitted, t, g, X[own], so_far[own])
        found = find(step, step.inputs(X[own], so_far[own]), g)
        lower[own], upper[own] = step.outcomes(so_far[own], found)
    return Interval(snap(lower, fitted.grid), snap(upper, fitted.grid))


def path_band_of(
    fitted: Fitted,
    contracts: Contracts,
    t: int,
    states: ArrayLike,
    behavior: ArrayLike,
    groups: Any,
    options: dict[str, Any],
) -> PathBand:
    """Where each run will be at every later step; ``options`` are those of `PathBands.band`."""
    t, X = whole_number("t", t, least=0), states_of(fitted, states)
    so_far, which = _one_so_far(fitted, behavior, len(X)), fitted.groups_of(groups, len(X))
    steps = np.arange(t + 1, fitted.horizon + 1)
    lower, upper = np.empty((2, len(X), steps.size))
    for g in np.unique(which).tolist():
        own = np.flatnonzero(which == g)
        _check_known(fitted, t, g, X[own], so_far[own])
        lower[own], upper[own] = contracts.paths.band(t, X[own], so_far[own], g, **options)
    level = float(exact_level(options["level"]))
    return PathBand(t, steps, lower, upper, level, options["all_steps"])


def _check_known(
    fitted: Fitted, t: int, group: int, states: FloatArray, so_far: FloatArray
) -> None:
    """Raise an error if no model answers at step t, or a value in the state is bad."""
    if t >= fitted.horizon:
        raise InputError(Argument("t"), f" needs a step from 0 to {fitted.horizon - 1}, got {t}")
    trouble = fitted.unknown(t, group)
    if trouble:
        raise CalibrationError(f"step {t} is unknown: {trouble}")
    fitted.check_readings(states, so_far)


def one_step_depth(joint: Joint, t: int, group: int, level: Level) -> float:
    """How far a box of outcomes must reach from the median of each behavior, in probability."""
    farthest: FloatArray | None = None
    for fitted in joint.parts.values():
        limits = assured_limits(fitted, t, group)
        if limits is None:
            raise CalibrationError(
                "a box needs assure episodes, and this monitor has none; fit it with assure=0.2"
            )
        law, found = fitted.at(t, group), np.empty(limits.left.size)
        excess_of_rows(law.ranks.values, law.curve, limits.left, limits.right, found)
        farthest = found if farthest is None else np.maximum(farthest, found)
    assert farthest is not None
    # The worst case for an episode that was cut off: its outcome is outside every box (M24).
    worst = np.full(joint.first.stopped[group], np.inf)
    return band_depth(np.concatenate([farthest, worst]), level)


def boxes_at(
    joint: Joint,
    t: int,
    states: FloatArray,
    so_far: Mapping[str, FloatArray],
    groups: IndexArray,
    *,
    level: Level,
    all_steps: bool,
) -> dict[str, Interval]:
    """For each behavior, by name, one interval per run."""
    t = whole_number("t", t, least=0)
    if t >= joint.first.horizon:
        raise InputError(
            Argument("t"), f" needs a step from 0 to {joint.first.horizon - 1}, got {t}"
        )
    ends = {name: np.empty((2, len(states))) for name in joint.parts}
    for g in np.unique(groups).tolist():
        own = np.flatnonzero(groups == g)
        depth = (
            band_depth(joint.sorted_excess[g], level)
            if all_steps
            else one_step_depth(joint, t, g, level)
        )
        for name, fitted in joint.parts.items():
            trouble = fitted.unknown(t, g)
            if trouble:
                raise CalibrationError(f"step {t} is unknown: {trouble}")
            fitted.check_readings(states[own], so_far[name][own])
            law, had = fitted.at(t, g), so_far[name][own]
            band = band_interval(law, law.inputs(states[own], had), depth)
            ends[name][:, own] = law.outcomes(had, band)
    return {name: Interval(*snap(found, joint.parts[name].grid)) for name, found in ends.items()}


def of_the_sample(
    every: AnyArray, chosen: AnyArray, order: Order | None, by: Mapping[str, ArrayLike] | None
) -> tuple[Order | None, dict[str, ArrayLike]]:
    """``order`` and ``by`` of all prepared episodes, reduced to the episodes in the sample."""
    place = {name: i for i, name in enumerate(every.tolist())}
    own = [place[name] for name in chosen.tolist()]

    def cut(columns: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
        whole = {name: np.asarray(values) for name, values in columns.items()}
        fits = {name: values.shape == every.shape for name, values in whole.items()}
        return {name: values[own] if fits[name] else values for name, values in whole.items()}

    if order is not None and not isinstance(order, Mapping):
        return cut({"": order})[""], cut(by or {})
    return None if order is None else cut(order), cut(by or {})
