"""What a monitor of several behaviors answers at one step: boxes of outcomes.

See method M21 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import snap
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal.levels import Level
from ontarget.conformal.ranks import Interval
from ontarget.errors import Argument, CalibrationError, InputError
from ontarget.fitted.guarantee import band_depth, band_interval
from ontarget.fitted.joint.joint import Joint, assured_limits
from ontarget.fitted.kernels import excess_of_rows


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
