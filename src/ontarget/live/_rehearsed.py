"""Learning episodes asked as if each were a new run, where none assures an alarm (M16)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ontarget.errors import FewEpisodesError
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import NUMBERS, RAW
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.question import Question
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live.batch import Answers
from ontarget.live.rules import NO_ASSURE
from ontarget.target import Target

__all__ = ["rehearsed_answers"]


def rehearsed_answers(
    fitted: Fitted, target: Target, *, calibration: TargetCalibration | None = None
) -> Answers:
    """What the monitor would say of its own learning episodes, had it not learned from each.

    They were asked at a ladder of values, so p is interpolated between those. There are no bounds,
    and no plausibility.
    """
    rehearsal = fitted.rehearsal
    if rehearsal is None or fitted.curves is None:
        raise FewEpisodesError(NO_ASSURE)
    if calibration is not None:
        calibration.check(target, fitted.grid)
    question = Question.of(target, fitted.grid)
    shape = (fitted.horizon, len(rehearsal))
    numbers = np.full((NUMBERS, *shape), np.nan)
    n = np.ones(shape, dtype=np.intp)
    for t in range(fitted.horizon):
        rows, index = rehearsal.rows_at(t)
        known = ~np.isnan(rehearsal.ranks[rows])
        for g in range(fitted.n_groups):
            own = np.flatnonzero(known & (rehearsal.groups[index] == g))
            if not own.size or fitted.unknown(t, g):
                continue
            count = int(fitted.learned[t, g])
            # The target's own calibration starts from the law, p from the calibrated law.
            curve = NO_CURVE if calibration is not None else fitted.curves.at(t, g)
            law = rehearsal.law(t, rows.start + own, curve, count)
            step = replace(fitted.at(t, g, calibration), parts=((1.0, law),), curve=KNOTS)
            who = np.arange(own.size, dtype=np.float64)[:, None]
            found = step.outlook(who, rehearsal.before[rows][own], question, np.empty(0))
            numbers[:, t, index[own]] = found[:, 0].T
            n[t, index[own]] = count
    if calibration is None:
        numbers[RAW] = np.nan  # the law is the calibrated one already
    met = question.targets[0].contains(rehearsal.outcomes, fitted.grid)
    # No reading of a learning episode is bad: what it misses may be missing.
    broken = np.zeros(shape, dtype=np.bool_)
    return Answers(numbers, broken, n, met, rehearsal.lengths, promises=False)
