"""p of a goal that is given by a function of the outcomes (M21).

Each learning episode's ranks are turned into outcomes of the new run: a rank is a level of the
behavior's law, and the quantile at that level is an outcome. p is the share of the episodes whose
outcomes, obtained in this way, meet the goal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.results import Interval
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    RAW,
    SPREAD_HIGH,
    SPREAD_LOW,
    UNPROVED,
    P,
)
from ontarget.fitted.law import StepLaw
from ontarget.goal import Goal

__all__ = ["AskedLaw", "answers_by_function"]

# Rows that are asked at a time: each has an outcome for every recorded episode.
_ROWS = 128


@dataclass(frozen=True, eq=False)
class AskedLaw:
    """One behavior's law at a step, and the runs that it is asked about.

    ``values`` are the remainders at which the law is known; between two of them it rises evenly.
    """

    law: StepLaw
    states: FloatArray
    so_far: FloatArray
    values: FloatArray

    def outcomes(self, a: int, b: int, levels: FloatArray) -> FloatArray:
        """(rows, levels): where the calibrated law of the rows from a to b reaches each level."""
        law, had = self.law, self.so_far[a:b]
        asked = np.broadcast_to(self.values, (b - a, self.values.size))
        sides = law.cdf_limits(law.inputs(self.states[a:b], had), asked)
        both = np.stack([np.interp(one, KNOTS, law.curve) for one in sides], axis=2)
        upto = np.maximum.accumulate(both.reshape(b - a, -1), axis=1)
        twice = np.repeat(
            self.values, 2
        )  # the law jumps at a value from its left limit to its right
        found = np.stack([np.interp(levels, one, twice) for one in upto])
        return law.outcomes(had[:, None], Interval(found, found)).lower


def answers_by_function(
    goal: Goal,
    asked: Mapping[str, AskedLaw],
    episodes: tuple[FloatArray, IndexArray, FloatArray],
    stored: tuple[float, FloatArray, FloatArray],
    grids: Mapping[str, float],
) -> FloatArray:
    """(rows, numbers): the outlooks on the goal.

    Parameters
    ----------
    goal
        The goal.
    asked
        The law of each behavior.
    episodes
        (behaviors, n): the places of the learning episodes among themselves, by their ranks; which
        of them each row is, -1 for none; and (m, behaviors) the ranks of the assure episodes.
    stored
        Which share of the assure episodes ended by themselves, the bounds of a share of their
        ranks, and the goal's own map at the knots, or nothing.
    grids
        The grid of each behavior's outcomes.

    Notes
    -----
    A goal that is a function has no guarantee over all steps together, so it is never ruled out or
    assured, and its bounds are 0 and 1.
    """
    ranks, own, assured = episodes
    n, laws = ranks.shape[1], list(asked.values())
    levels = [
        np.concatenate([(ranks[c] + 0.5) / n, np.interp(assured[:, c], KNOTS, one.law.curve)])
        for c, one in enumerate(laws)
    ]
    out = np.empty((own.size, NUMBERS))
    out[:, [LOW, HIGH, PLAUSIBILITY, ASSURANCE]] = 0.0, 1.0, 1.0, 0.0
    out[:, DECIDED] = -1.0
    for a in range(0, own.size, _ROWS):
        b = min(a + _ROWS, own.size)
        outcomes = {
            name: one.outcomes(a, b, levels[c]).reshape(-1)
            for c, (name, one) in enumerate(asked.items())
        }
        met = goal.contains(outcomes, grids).reshape(b - a, -1)
        out[a:b, RAW] = _shares(met[:, :n], own[a:b])
        _write(out[a:b], met[:, n:], stored)
    return out


def _shares(met: BoolArray, own: IndexArray) -> FloatArray:
    """The share of the learning episodes that meet the goal, each row's own left out."""
    counted = met.astype(np.float64)
    known = own >= 0
    counted[known, own[known]] = 0.0
    found: FloatArray = counted.sum(axis=1) / np.maximum(1, counted.shape[1] - known)
    return found


def _write(
    out: FloatArray, assured: BoolArray, stored: tuple[float, FloatArray, FloatArray]
) -> None:
    """Write p and its spread, from the law's own probability."""
    known, bounds, own_map = stored
    p = np.clip(out[:, RAW], UNPROVED, 1.0 - UNPROVED)
    if own_map.size:
        p = np.clip(np.interp(p, KNOTS, own_map), UNPROVED, 1.0 - UNPROVED)
    share = assured.sum(axis=1) / max(1, assured.shape[1]) * known
    at = np.linspace(0.0, 1.0, bounds.shape[1])
    out[:, P] = p
    out[:, SPREAD_LOW] = np.minimum(np.interp(share, at, bounds[0]), p)
    out[:, SPREAD_HIGH] = np.maximum(np.interp(share + (1.0 - known), at, bounds[1]), p)
