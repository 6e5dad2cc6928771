"""Outlooks on the learning episodes, each as if it were a new run (M16, M17)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.law import NO_CURVE, StepLaw
from ontarget.fitted.question import Question
from ontarget.fitted.target_calibration import TargetCalibration

__all__ = ["AskedStep", "RehearsedStep", "rehearsed_laws", "rehearsed_steps"]


class RehearsedStep(NamedTuple):
    """The monitor's answers about some episodes of one group at one step.

    ``episodes`` are positions in the rehearsal, and ``numbers`` are (episodes, numbers). There are
    no bounds and no plausibility. p is interpolated between the values of the ladder.
    """

    t: int
    group: int
    episodes: IndexArray
    numbers: FloatArray


class AskedStep(NamedTuple):
    """The law of one step for some rehearsed episodes of one group.

    The law's only feature is the number of the episode among these; ``before`` is the behavior so
    far of each.
    """

    step: StepLaw
    group: int
    episodes: IndexArray
    before: FloatArray


def rehearsed_laws(
    fitted: Fitted, places: Iterable[int], *, calibration: TargetCalibration | None = None
) -> Iterator[AskedStep]:
    """The laws of the rehearsed episodes at these places among the rehearsed steps.

    These are the calibrated laws, with each episode's own rank left out of the curve. For a target
    with its own calibration the laws are not calibrated.
    """
    rehearsal, curves = fitted.rehearsal, fitted.curves
    assert rehearsal is not None
    assert curves is not None
    for place in places:
        t, (rows, index) = int(rehearsal.steps[place]), rehearsal.rows_at(place)
        known = ~np.isnan(rehearsal.ranks[rows])
        for g in range(fitted.n_groups):
            own = np.flatnonzero(known & (rehearsal.groups[index] == g))
            if not own.size or fitted.unknown(t, g):
                continue
            # The target's own calibration starts from the law, p from the calibrated law.
            curve = NO_CURVE if calibration is not None else curves.at(t, g)
            law = rehearsal.law(place, rows.start + own, curve, int(fitted.learned[t, g]))
            # What the rehearsal keeps of the law has no mass on impossible outcomes already.
            plain = replace(fitted.at(t, g, calibration), impossible=NO_CURVE)
            step = replace(plain, parts=((1.0, law),), curve=KNOTS)
            yield AskedStep(step, g, index[own], rehearsal.before[rows][own])


def rehearsed_steps(
    fitted: Fitted,
    question: Question,
    places: Iterable[int],
    *,
    calibration: TargetCalibration | None = None,
) -> Iterator[RehearsedStep]:
    """Outlooks on the rehearsed episodes at these places among the rehearsed steps.

    p comes from the step's curve, with each episode's own rank left out, or from Venn–Abers.
    """
    for step, group, episodes, before in rehearsed_laws(fitted, places, calibration=calibration):
        who = np.arange(episodes.size, dtype=np.float64)[:, None]
        found = step.outlook(who, before, question, np.empty(0))
        yield RehearsedStep(step.t, group, episodes, found[:, 0])
