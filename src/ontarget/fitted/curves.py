"""Ranks and calibration curves of every step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.conformal.ranks import Ranks
from ontarget.errors import ModelFileError
from ontarget.fitted.kernels import KNOTS
from ontarget.models.stored import flat_array


@dataclass(frozen=True, eq=False)
class RankTable:
    """The sorted ranks of each step and group, one set after the other in one flat array.

    Attributes
    ----------
    values
        All ranks, numbers from 0 to 1; ascending within each set.
    spans
        (steps, groups, 2): where each set begins and ends in ``values``.
    """

    values: FloatArray
    spans: IndexArray

    @classmethod
    def of(cls, sets: Sequence[FloatArray], n_groups: int) -> RankTable:
        """The table of these sets of ranks, ordered by step and, within a step, by group."""
        ends = np.cumsum([one.size for one in sets])
        return cls._spanned(np.concatenate(sets), ends, n_groups)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], horizon: int, n_groups: int) -> RankTable:
        """The table that `to_arrays` wrote; a `ModelFileError` if the arrays are damaged."""
        values = flat_array(arrays, "values", np.float64)
        ends = flat_array(arrays, "ends", np.int64)
        if ends.size != horizon * n_groups or not ends.size:
            raise ModelFileError(
                f"ranks need one end for each of {horizon} steps and {n_groups} groups, "
                f"got {ends.size}"
            )
        if ends[0] < 0 or ends[-1] != values.size or not np.all(ends[1:] >= ends[:-1]):
            raise ModelFileError(
                f"'ends' of the ranks need to rise from 0 to the number of ranks, {values.size}"
            )
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise ModelFileError("ranks need to be numbers from 0 to 1")
        descents = np.flatnonzero(values[1:] < values[:-1]) + 1
        if not np.all(np.isin(descents, ends)):
            raise ModelFileError("the ranks of a step need to be in ascending order")
        return cls._spanned(values, ends, n_groups)

    @classmethod
    def _spanned(cls, values: FloatArray, ends: AnyArray, n_groups: int) -> RankTable:
        starts = np.concatenate([[0], ends[:-1]])
        spans = np.stack([starts, ends], axis=1).reshape(-1, n_groups, 2).astype(np.intp)
        return cls(read_only(values), read_only(spans))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The table as flat arrays for the model file."""
        return {"values": self.values, "ends": self.spans[:, :, 1].ravel().astype(np.int64)}

    @property
    def counts(self) -> IndexArray:
        """(steps, groups): how many episodes have a rank at each step, in each group."""
        return self.spans[:, :, 1] - self.spans[:, :, 0]

    def at(self, t: int, group: int) -> Ranks:
        """The sorted ranks of one step and group, without copying them."""
        start, stop = self.spans[t, group].tolist()
        return Ranks(self.values[start:stop])


# With this many episodes, the ranks and the uncalibrated model count half each (M17).
_PRIOR = 300.0
# If the curve of the ranks is this many times farther from the identity than chance puts it on
# average, chance does not explain it: about the 98.5th percentile of Cramér and von Mises'
# statistic, whose mean is 1/6.
_BEYOND_CHANCE = 4.0
_MOST_TRUST = 0.999  # short of 1, so that a curve rises strictly
# Steps up to this share of the horizon away help to calibrate a step.
_REACH = 1.0 / 20.0


@dataclass(frozen=True, eq=False)
class CurveTable:
    """The calibration curve of each step and group, and how many episodes it was learned from.

    Attributes
    ----------
    values
        (steps, groups, knots): the calibrated probability for each predicted probability in `KNOTS`
        (129 fixed numbers from 0 to 1), rising from 0 to 1.
    counts
        (steps, groups): how many learning episodes each curve comes from: those with a usable state
        at the step.
    """

    values: FloatArray
    counts: IndexArray

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], horizon: int, n_groups: int) -> CurveTable:
        """The table that `to_arrays` wrote; a `ModelFileError` if the arrays are damaged."""
        values, counts = arrays["curves"], arrays["learned"]
        shape = (horizon, n_groups, KNOTS.size)
        if values.dtype != np.float64 or values.shape != shape:
            raise ModelFileError(f"'curves' need numbers of shape {shape}, got {values.shape}")
        if counts.dtype != np.int64 or counts.shape != shape[:2] or not np.all(counts >= 0):
            raise ModelFileError(f"'learned' needs counts of at least 0, of shape {shape[:2]}")
        rising = np.all(values[..., 1:] > values[..., :-1])
        if not (rising and np.all(values[..., 0] == 0.0) and np.all(values[..., -1] == 1.0)):
            raise ModelFileError("each of the 'curves' needs to rise from 0 to 1")
        return cls(read_only(values), read_only(counts.astype(np.intp)))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The table as arrays for the model file."""
        return {"curves": self.values, "learned": self.counts.astype(np.int64)}

    def at(self, t: int, group: int) -> FloatArray:
        """(knots,): the calibration curve of one step and group, as a view that copies nothing."""
        found: FloatArray = self.values[t, group]
        return found


def calibrating_curve(ranks: FloatArray) -> FloatArray:
    """(knots,): the calibration curve of these sorted ranks, at 129 fixed probabilities (`KNOTS`).

    A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1. The curve
    is the distribution function of the ranks, linear between two ranks (method M19 in
    docs/methods.md). If the ranks are evenly spread, the curve is the identity: it changes no
    probability.

    Examples
    --------
    >>> float(np.abs(calibrating_curve(np.array([0.25, 0.5, 0.75])) - KNOTS).max())
    0.0
    """
    heights = np.arange(ranks.size + 2) / (ranks.size + 1)
    found: FloatArray = np.interp(KNOTS, np.concatenate([[0.0], ranks, [1.0]]), heights)
    # Ranks may lie at 0 or 1 themselves; a curve begins and ends there whatever they are.
    found[0], found[-1] = 0.0, 1.0
    return found


def learned_curves(ranks: RankTable, least: int = 0) -> CurveTable:
    """The calibration curve of each step, from the ranks of the learning episodes."""
    # The curves of a step and its neighbours are averaged, with larger weights for nearer steps.
    # The fewer episodes a step has, the nearer its curve stays to the identity, which leaves the
    # model's probabilities as they are. A step with fewer than ``least`` episodes has the curve of
    # the last earlier step with as many.
    horizon, n_groups = ranks.counts.shape
    reach = max(1.0, horizon * _REACH) + 1.0  # where a neighbour's weight has fallen to 0
    own = np.stack(
        [
            [calibrating_curve(ranks.at(t, g).values) for g in range(n_groups)]
            for t in range(horizon)
        ]
    )
    known = ranks.counts > 0
    values = np.empty_like(own)
    for t in range(horizon):
        near = np.flatnonzero(np.abs(np.arange(horizon) - t) < reach)
        weights = (1.0 - np.abs(near - t) / reach)[:, None] * known[near]
        total = weights.sum(axis=0)
        for g in range(n_groups):
            if total[g] > 0.0:
                mean = weights[:, g] @ own[near, g] / total[g]
                values[t, g] = KNOTS + _trust(mean, int(ranks.counts[t, g])) * (mean - KNOTS)
            else:
                values[t, g] = KNOTS
    values[..., 0], values[..., -1] = 0.0, 1.0
    counts = ranks.counts.copy()
    for t, g in np.argwhere(counts[1:] < least):
        if counts[t, g] >= least:
            values[t + 1, g], counts[t + 1, g] = values[t, g], counts[t, g]
    return CurveTable(read_only(values), read_only(counts))


def without_one(curve: FloatArray, n: int, own: FloatArray, a: FloatArray) -> FloatArray:
    """The calibration curve at the probabilities a, as if one of its n episodes had been left out.

    ``own`` is the rank of that episode: where its outcome fell in its predicted distribution. If G
    is the curve of n ranks, the curve without this rank is ((n + 1) G − 1[own < a])/n. This is
    exact except between the two ranks next to ``own``. The episode is assumed to have the same rank
    at neighbouring steps. See method M17 in docs/methods.md.

    Examples
    --------
    >>> float(without_one(KNOTS, 99, np.float64(0.2), np.float64(0.6)) < 0.6)
    1.0
    """
    trust = _trust_in(curve, n)
    rest = (n - 1) / (n - 1 + _PRIOR) if trust == n / (n + _PRIOR) else trust
    learned = (np.interp(a, KNOTS, curve) - a) / trust
    # At a = 1 every rank is counted, the episode's own too, even if it is 1.
    counted = (own < a) | (a >= 1.0)
    found: FloatArray = np.clip(a + rest * ((n + 1) * learned + a - counted) / n, 0.0, 1.0)
    return found


def _trust(mean: FloatArray, n: int) -> float:
    """How much the ranks of n episodes count in a calibration curve, from 0 to 1."""
    apart = _apart(mean)
    surely = 1.0 - _BEYOND_CHANCE / (6.0 * n * apart) if n * apart > 0.0 else 0.0
    return min(max(n / (n + _PRIOR), surely), _MOST_TRUST)


def _trust_in(curve: FloatArray, n: int) -> float:
    """How much the ranks of n episodes counted when a curve was learned, from 0 to 1."""
    apart = _apart(curve)
    if n * apart == 0.0:
        return n / (n + _PRIOR)
    chance = _BEYOND_CHANCE / (6.0 * n * apart)
    surely = (math.sqrt(1.0 + 4.0 * chance) - 1.0) / (2.0 * chance)
    return min(max(n / (n + _PRIOR), surely), _MOST_TRUST)


def _apart(curve: FloatArray) -> float:
    """The mean squared distance of a calibration curve from the identity, which changes nothing."""
    return float(np.trapezoid(np.square(curve - KNOTS), KNOTS))
