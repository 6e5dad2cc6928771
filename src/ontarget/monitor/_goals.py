"""What a monitor of several behaviors answers at one step: p of a goal, and boxes of outcomes.

See method M21 in docs/methods.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal.levels import Level
from ontarget.conformal.ranks import Interval
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
    excess_of_rows,
)
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.joint.joint import Joint, assured_limits
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live.goals._answers import map_at
from ontarget.live.goals.contract import GoalContracts
from ontarget.live.outlook import Outlooks, Status


def goal_outlooks(
    contracts: GoalContracts,
    t: int,
    states: FloatArray,
    so_far: Mapping[str, FloatArray],
    goal: Goal,
    *,
    groups: IndexArray,
    own_map: TargetMap | None,
) -> Outlooks:
    """The monitor's answer for each run (`Outlooks`) about a goal at step t.

    The arguments must be checked already. ``so_far`` has the value so far of each behavior by name,
    each (runs,) and rounded to the behavior's grid (a fixed number of decimals).
    """
    joint, question = contracts.joint, contracts.question(goal)
    first, rows = joint.first, len(states)
    numbers = np.full((rows, NUMBERS), np.nan)
    status = np.full(rows, Status.UNKNOWN, dtype=np.int8)
    n, said = np.zeros(rows, dtype=np.intp), np.full(rows, "", dtype=object)
    had = [so_far[name] for name in question.names]
    lost = ~np.all([_is_known(joint.parts[name], so_far[name]) for name in question.names], axis=0)
    if t >= first.horizon:
        ended = np.all([np.isfinite(one) for one in had], axis=0) & first.horizon_declared
        met = goal.contains(dict(zip(question.names, had, strict=True)), joint.grids)
        numbers[ended], status[ended] = met[ended, None], Status.DONE
        said[~ended] = "this step is past the longest run learned from, or an outcome is unknown"
    else:
        bad = first.bad_readings(states)
        for i in np.flatnonzero(bad).tolist():
            found = first.bad_feature(states[i])
            assert found is not None
            said[i] = first.feature_in_words(*found)
        said[lost & ~bad] = "the value so far of a behavior is unknown"
        for g in np.unique(groups).tolist():
            own = np.flatnonzero((groups == g) & ~bad & ~lost)
            n[groups == g] = first.counts[t, g]
            if not own.size:
                continue
            mapped, here = map_at(own_map, t, g), [one[own] for one in had]
            numbers[own] = joint.outlook(question, t, g, states[own], here, mapped).numbers
            known = ~np.isnan(numbers[own, P])
            status[own[known]] = Status.OK
            said[own[~known]] = joint.trouble(t, g)
    guesses = numbers[:, DECIDED] < 0.0  # NaN, where there is no answer, is none
    notes = functools.cache(lambda: contracts.one_sided(goal))
    return Outlooks(
        t=np.full(rows, t, dtype=np.intp),
        p=numbers[:, P],
        spread=numbers[:, SPREAD_LOW : SPREAD_HIGH + 1],
        low=numbers[:, LOW],
        high=numbers[:, HIGH],
        plausibility=numbers[:, PLAUSIBILITY],
        assurance=numbers[:, ASSURANCE],
        n=n,
        status=status,
        words=lambda run: notes()[groups[run]] if guesses[run] else str(said[run]),
    )


def _is_known(fitted: Fitted, so_far: FloatArray) -> Any:
    return np.isfinite(so_far) | fitted.behavior.reads_so_far


def so_far_of(joint: Joint, behavior: Any, n: int) -> dict[str, FloatArray]:
    """The value so far of each behavior for n runs, by the behavior's name, each (n,).

    The values are rounded to the behavior's grid (a fixed number of decimals). ``behavior`` is a
    mapping from each name to one number for all runs, or to one per run.
    """
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


def one_step_depth(joint: Joint, t: int, group: int, level: Level) -> float:
    """How far a box of outcomes must reach from the median of each behavior, in probability.

    A depth of 0.4 means from the 10 % to the 90 % quantile of every behavior. The depth is chosen
    such that the box contains all outcomes of a run with at least the probability ``level``, at
    step t alone. See method M21 in docs/methods.md.
    """
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
    """For each behavior, by name, one interval per run.

    Together, the intervals of all behaviors are the run's box: it contains all outcomes at once
    with the probability ``level``.
    """
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
