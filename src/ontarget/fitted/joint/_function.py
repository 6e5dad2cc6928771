"""p of a goal that is given by a Python function of the outcomes (M21)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.ranks import Interval
from ontarget.fitted.kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    KNOTS,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    RAW,
    SPREAD_HIGH,
    SPREAD_LOW,
    UNPROVED,
    P,
    share_bounds,
)
from ontarget.fitted.law import StepLaw
from ontarget.goal import Goal

# Runs per batch: each needs memory for one outcome per recorded episode.
_ROWS = 128


@dataclass(frozen=True, eq=False)
class AskedLaw:
    """One behavior's predicted distribution at a step, and the runs to ask it about.

    ``values`` are remainders (what a run may still earn). The distribution function is computed at
    these values, and taken as linear between two of them.
    """

    law: StepLaw
    states: FloatArray
    so_far: FloatArray
    values: FloatArray

    def outcomes(self, a: int, b: int, levels: FloatArray) -> FloatArray:
        """(runs, levels): calibrated quantiles of the outcome at these levels, for runs a to b."""
        law, had = self.law, self.so_far[a:b]
        asked = np.broadcast_to(self.values, (b - a, self.values.size))
        sides = law.cdf_limits(law.inputs(self.states[a:b], had), asked)
        both = np.stack([np.interp(one, KNOTS, law.curve) for one in sides], axis=2)
        upto = np.maximum.accumulate(both.reshape(b - a, -1), axis=1)
        twice = np.repeat(self.values, 2)  # at a value, the distribution function may jump
        found = np.stack([np.interp(levels, one, twice) for one in upto])
        return law.outcomes(had[:, None], Interval(found, found)).lower


def answers_by_function(
    goal: Goal,
    asked: Mapping[str, AskedLaw],
    episodes: tuple[FloatArray, IndexArray, FloatArray],
    stored: tuple[int, FloatArray],
    grids: Mapping[str, float],
) -> FloatArray:
    """(runs, numbers): the monitor's answer (p and other numbers) about the goal for each run."""
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
    """(rows,): the share of learning episodes that meet the goal, except the row's own episode."""
    counted = met.astype(np.float64)
    known = own >= 0
    counted[known, own[known]] = 0.0
    found: FloatArray = counted.sum(axis=1) / np.maximum(1, counted.shape[1] - known)
    return found


def _write(out: FloatArray, assured: BoolArray, stored: tuple[int, FloatArray]) -> None:
    """Write p and its spread; the raw probability, ``out[:, RAW]``, is already filled in."""
    # ``assured`` says, for each run and assure episode (held-out run), whether the run would meet
    # the goal if its outcomes fell at the same places in its predicted distributions as the
    # outcomes of the assure episode did in theirs.
    stopped, own_map = stored
    p = np.clip(out[:, RAW], UNPROVED, 1.0 - UNPROVED)
    if own_map.size:
        p = np.clip(np.interp(p, KNOTS, own_map), UNPROVED, 1.0 - UNPROVED)
    inside, n = assured.sum(axis=1), assured.shape[1] + stopped
    out[:, P] = p
    out[:, SPREAD_LOW] = np.minimum(share_bounds(inside, n)[0], p)
    out[:, SPREAD_HIGH] = np.maximum(share_bounds(inside + stopped, n)[1], p)
