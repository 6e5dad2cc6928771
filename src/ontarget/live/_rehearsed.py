"""Learning episodes asked as if each were a new run, where none assures an alarm (M16)."""

from __future__ import annotations

import numpy as np

from ontarget.errors import FewEpisodesError
from ontarget.fitted._kernels import DECIDED, NUMBERS, RAW, P
from ontarget.fitted._rehearsed import rehearsed_steps
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.question import Question
from ontarget.fitted.recorded import check_room
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.fitted.target_map import Calibrated, TargetMap
from ontarget.live.batch import Answers
from ontarget.live.rules import NO_ASSURE
from ontarget.target import Target

__all__ = ["rehearsed_answers"]


def rehearsed_answers(
    fitted: Fitted, target: Target, *, calibration: Calibrated | None = None
) -> Answers:
    """What the monitor would say of its own learning episodes, had it not learned from each.

    They were asked at a ladder of values, so p is interpolated between those. There are no bounds,
    and no plausibility.
    """
    rehearsal = fitted.rehearsal
    if rehearsal is None:
        raise FewEpisodesError(NO_ASSURE)
    if calibration is not None:
        calibration.check(target, fitted.grid)
    exact = calibration if isinstance(calibration, TargetCalibration) else None
    own_map = calibration if isinstance(calibration, TargetMap) else None
    question = Question.of(target, fitted.grid)
    check_room(rehearsal.lengths, fitted.horizon)
    shape = (fitted.horizon, len(rehearsal))
    numbers = np.full((NUMBERS, *shape), np.nan)
    n = np.ones(shape, dtype=np.intp)
    places = range(rehearsal.steps.size)
    for t, g, episodes, found in rehearsed_steps(fitted, question, places, calibration=exact):
        if own_map is not None:
            undecided = found[:, DECIDED] < 0.0
            mapped = own_map.held_out(t, g, episodes[undecided], found[undecided, P])
            found[undecided, P] = mapped
        numbers[:, t, episodes] = found.T
        n[t, episodes] = fitted.learned[t, g]
    if exact is None:
        numbers[RAW] = np.nan  # the law is the calibrated one already
    met = question.targets[0].contains(rehearsal.outcomes, fitted.grid)
    # No reading of a learning episode is bad: what it misses may be missing.
    broken = np.zeros(shape, dtype=np.bool_)
    return Answers(numbers, broken, n, met, rehearsal.lengths, promises=False)
