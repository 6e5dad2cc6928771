"""The outlook of many runs at one step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted.fitted import Calibrated, ends_with_complements
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live._reasons import BEHAVIOR_LOST
from ontarget.live.outlook import Outlooks, State
from ontarget.target import Target

__all__ = ["outlooks_at"]


def outlooks_at(
    fitted: Calibrated,
    t: int,
    states: FloatArray,
    behavior: FloatArray,
    target: Target | Sequence[Target],
    groups: IndexArray,
    *,
    calibration: TargetCalibration | None = None,
) -> Outlooks:
    """The outlook of each run; states and behavior are checked and on the grid."""
    if calibration is not None:
        calibration.check(target, fitted.grid)
    targets = [target] if isinstance(target, Target) else list(target)
    n = behavior.size
    numbers = np.full((n, len(targets), 5), np.nan)
    state = np.full(n, State.UNKNOWN, dtype=np.int8)
    n_calibration = np.zeros(n, dtype=np.intp)
    reason: NDArray[np.object_] = np.full(n, "", dtype=np.object_)
    lost = ~np.isfinite(behavior)
    if t == fitted.horizon:
        met = np.stack([one.contains(behavior, fitted.grid) for one in targets], axis=1)
        numbers[~lost] = met[~lost, :, None]
        state[~lost] = State.DONE
    else:
        lost &= fitted.behavior.additive
        bad = fitted.bad_readings(states)
        for i in np.flatnonzero(bad):
            reason[i] = fitted.bad_feature(states[i])
        ends = ends_with_complements(targets, fitted.grid)
        for g in np.unique(groups).tolist():
            step, own = fitted.at(t, g, calibration), groups == g
            n_calibration[own] = step.ranks.n
            rows = np.flatnonzero(own & ~bad & ~lost)
            trouble = fitted.unknown(step)
            if trouble:
                reason[rows] = trouble
            elif rows.size:
                excess = fitted.sorted_excess[g]
                numbers[rows] = step.outlook(states[rows], behavior[rows], ends, excess)
                state[rows] = State.OK
    reason[lost] = BEHAVIOR_LOST
    fields = numbers[:, 0] if isinstance(target, Target) else numbers
    low, p, high, plausibility, assurance = np.moveaxis(fields, -1, 0)
    times = np.full(n, t, dtype=np.intp)
    return Outlooks(times, low, p, high, plausibility, assurance, n_calibration, state, reason)
