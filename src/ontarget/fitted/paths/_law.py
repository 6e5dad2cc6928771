"""Predicts a run's path from one step on, and how unusual a path is (M22)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IntArray
from ontarget.fitted.paths._gains import Cells, Gains, Tail
from ontarget.fitted.paths._maps import LEVELS

_SLACK = 1e-12
# Runs per batch: each needs some ten kilobytes.
_ROWS, _FEW_ROWS = 256, 32


@dataclass(frozen=True, eq=False)
class PathLaw:
    """Predicts what a run adds to its behavior (gains) up to every later step, given step t.

    Attributes
    ----------
    t
        The step at which the prediction is made.
    parts
        The (weight, forest) pairs; the predicted distribution consists of the recorded rows in the
        leaves of these forests.
    gains
        What recorded runs gained after each step.
    cells
        The later steps, divided into ranges (cells) that share one predicted distribution.
    maps
        (cells, levels): the calibration curve of each cell; see `PathMaps`.
    """

    t: int
    parts: tuple[tuple[float, Any], ...]
    gains: Gains
    cells: Cells
    maps: FloatArray

    @cached_property
    def _tail(self) -> Tail:
        return self.gains.tail(self.t, self.cells.leads)

    def depths(self, X: FloatArray, paths: FloatArray) -> FloatArray:
        """(paths,): the largest distance of each path from later steps' predicted medians."""
        ends = self.gains.ends(paths, self.t, self.cells)
        pairs = np.arange(0, 2 * self.cells.leads.size + 1, 2)
        judged = self._judged(X, ends, Cells(self.cells.leads, pairs), paths)
        deepest: FloatArray = judged.max(axis=1)
        return deepest

    def _judged(
        self, X: FloatArray, values: FloatArray, cells: Cells, paths: FloatArray
    ) -> FloatArray:
        """(paths, values): how far each gain is from the median predicted for its cell."""
        found, tail = np.empty(values.shape), self._tail.at(cells.of_lead)
        for a in range(0, len(X), _ROWS):
            here = slice(a, a + _ROWS)
            left, right = np.zeros(values[here].shape), np.zeros(values[here].shape)
            for weight, model, samples in self._sampled(X[here]):
                sides = self.gains.limits(model, samples, self.t, cells, values[here])
                left += weight * sides[0]
                right += weight * sides[1]
            left, right = self.gains.kept(left, right, values[here], paths[here, self.t])
            sides = tail.mixed_in(left, values[here]), tail.mixed_in(right, values[here])
            above, below = self._shares(np.stack(sides), cells)
            found[here] = np.maximum(np.maximum(above - 0.5, 0.5 - below), 0.0)
        return found

    def band(self, X: FloatArray, depth: float) -> tuple[FloatArray, FloatArray]:
        """(runs, later steps), twice: the lower and upper end of each run's band, as gains."""
        shape = (len(X), self.cells.leads.size)
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        if np.isfinite(depth):
            reach = np.array([0.5 - depth - _SLACK, 0.5 + depth + _SLACK])
            levels = [np.interp(reach, LEVELS, one) for one in self.maps]
            for a in range(0, len(X), _FEW_ROWS):
                here = slice(a, a + _FEW_ROWS)
                values, mass = self._laws(X[here])
                for c, (low, high) in enumerate(levels):
                    law = values[:, c], mass[:, c]
                    lower[here, c] = self._quantile(law, c, low, strictly=False)
                    upper[here, c] = self._quantile(law, c, high, strictly=True)
        of_lead = self.cells.of_lead
        return lower[:, of_lead], upper[:, of_lead]

    def _sampled(self, X: FloatArray) -> list[tuple[float, Any, IntArray]]:
        return [
            (weight, model, self.gains.samples(model, model.members(X)))
            for weight, model in self.parts
        ]

    def _shares(self, limits: FloatArray, cells: Cells) -> FloatArray:
        """These probabilities after calibration, each by the calibration curve of its cell."""
        found = np.empty_like(limits)
        for c, ranks in enumerate(self.maps):
            here = slice(cells.starts[c], cells.starts[c + 1])
            found[..., here] = np.interp(limits[..., here], ranks, LEVELS)
        return found

    def _laws(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(runs, cells, gains), twice: sorted gains, and the total probability up to each gain."""
        sampled, leads = self._sampled(X), self.cells.leads
        found = [self.gains.gains(model, own, self.t, leads) for _, model, own in sampled]
        weights = [np.full(own.shape[1], w / own.shape[1]) for w, _, own in sampled]
        values, each = np.concatenate(found, axis=2), np.concatenate(weights)
        order = np.argsort(values, axis=2, kind="stable")
        return np.take_along_axis(values, order, axis=2), np.cumsum(each[order], axis=2)

    def _quantile(
        self, law: tuple[FloatArray, FloatArray], cell: int, level: float, *, strictly: bool
    ) -> FloatArray:
        """(runs,): the first gain at which the distribution function reaches a level."""
        values, mass = law
        if level >= 1.0 and strictly:
            return np.full(len(values), np.inf)
        tail = self._tail.at(cell)
        whole = tail.mixed_in(mass, values)
        # Equal gains count together: the level is reached there if the last of them reaches it.
        reached: BoolArray = whole > level if strictly else whole >= level
        first = np.argmax(reached, axis=1)
        none = ~reached.any(axis=1)
        rows = np.arange(len(values))
        before = np.where(first > 0, mass[rows, np.maximum(first - 1, 0)], 0.0)
        before = np.where(none, mass[:, -1], before)
        in_tail = tail.reaching(level, before)
        return np.where(none, in_tail, np.minimum(values[rows, first], in_tail))
