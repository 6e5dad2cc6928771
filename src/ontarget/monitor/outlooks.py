"""The outlook of many runs at one step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ontarget.conformal.limits import TargetEnds
from ontarget.monitor.calibrated import Calibrated, ends_with_complements
from ontarget.monitor.state import Outlooks, State
from ontarget.target import Target
from ontarget.typing import BoolArray, FloatArray, IndexArray

__all__ = ["outlooks_at"]


def outlooks_at(
    fitted: Calibrated,
    t: int,
    states: FloatArray,
    behavior: FloatArray,
    target: Target | Sequence[Target],
    groups: IndexArray,
    *,
    ends: TargetEnds | None = None,
) -> Outlooks:
    """The outlook of each run; states and behavior are checked and on the grid.

    ``ends`` are the targets' `ends_with_complements`, for a caller that asks again and again.
    """
    targets = [target] if isinstance(target, Target) else list(target)
    if t == fitted.horizon:
        numbers, state, n_calibration, reason = _at_the_end(fitted, behavior, targets)
        bad = ~np.isfinite(behavior)
    else:
        bad = fitted.bad_readings(states)
        if fitted.behavior.additive:
            bad |= ~np.isfinite(behavior)
        if ends is None:
            ends = ends_with_complements(targets, fitted.grid)
        numbers, state, n_calibration, reason = _before(
            fitted, t, (states, behavior), ends, groups, bad
        )
    if bad.any():
        numbers[bad], state[bad] = np.nan, State.UNKNOWN
        reason = reason or f"run {int(np.argmax(bad))} has a bad reading"
    fields = numbers[:, 0] if isinstance(target, Target) else numbers
    low, p, high, plausibility, assurance = np.moveaxis(fields, -1, 0)
    return Outlooks(t, low, p, high, plausibility, assurance, n_calibration, state, reason)


def _at_the_end(
    fitted: Calibrated, behavior: FloatArray, targets: Sequence[Target]
) -> tuple[FloatArray, NDArray[np.int8], NDArray[np.intp], str]:
    """At the horizon everything is known: exactly 0 or 1."""
    met = [one.contains(behavior, fitted.grid).astype(np.float64) for one in targets]
    numbers = np.repeat(np.stack(met, axis=1)[:, :, None], 5, axis=2)
    state = np.full(behavior.size, State.DONE, dtype=np.int8)
    return numbers, state, np.zeros(behavior.size, dtype=np.intp), ""


def _before(
    fitted: Calibrated,
    t: int,
    runs: tuple[FloatArray, FloatArray],
    ends: TargetEnds,
    groups: IndexArray,
    bad: BoolArray,
) -> tuple[FloatArray, NDArray[np.int8], NDArray[np.intp], str]:
    states, behavior = runs
    numbers = np.full((behavior.size, len(ends.targets) // 2, 5), np.nan)
    state = np.full(behavior.size, State.UNKNOWN, dtype=np.int8)
    n_calibration = np.zeros(behavior.size, dtype=np.intp)
    reason = ""
    for g in np.unique(groups):
        step = fitted.at(t, int(g))
        n_calibration[groups == g] = step.ranks.n
        trouble = fitted.unknown(step)
        rows = np.flatnonzero((groups == g) & ~bad)
        if trouble:
            reason = trouble
        elif rows.size:
            numbers[rows] = step.outlook(
                states[rows], behavior[rows], ends, fitted.sorted_excess[int(g)]
            )
            state[rows] = State.OK
    return numbers, state, n_calibration, reason
