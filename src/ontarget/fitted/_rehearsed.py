"""The monitor's answers (outlooks) about learning episodes, each as if it were a new run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.law import NO_CURVE, StepLaw


class RehearsedStep(NamedTuple):
    """The monitor's answers (outlooks) about some learning episodes of one group at one step."""

    t: int
    group: int
    episodes: IndexArray
    numbers: FloatArray


class AskedStep(NamedTuple):
    """The predicted distributions of some learning episodes of one group at one step."""

    step: StepLaw
    group: int
    episodes: IndexArray
    before: FloatArray


def rehearsed_laws(fitted: Fitted, places: Iterable[int]) -> Iterator[AskedStep]:
    """Predicted distributions of learning episodes as if they were new, by step and group."""
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
            n = int(fitted.learned[t, g])
            law = rehearsal.law(place, rows.start + own, curves.at(t, g), n)
            # The stored distributions already give impossible outcomes probability 0.
            plain = replace(fitted.at(t, g), impossible=NO_CURVE)
            step = replace(plain, parts=((1.0, law),), curve=KNOTS)
            yield AskedStep(step, g, index[own], rehearsal.before[rows][own])
