"""The live path: one target asked at any step, a row at a time or many at once.

A watch and a fleet ask the same lanes, and the batch runs the same kernels, so that all three give
the same bits.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.fitted._kernels import outlook_of_rows, shift_ends
from ontarget.fitted.fitted import Calibrated, ends_with_complements
from ontarget.fitted.law import NO_ENVELOPES, BlockDistribution, components_of
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.target import Target

__all__ = ["Lane", "Lanes"]

# Rows of one lane that one thread answers before it takes the next ones.
_BLOCK = 64


class _Question:
    """A target as the kernels read it, with what is the same for every step."""

    __slots__ = ("components", "envelopes", "excess", "grid", "values")

    def __init__(
        self, calibrated: Calibrated, target: Target, calibration: TargetCalibration | None
    ) -> None:
        ends = ends_with_complements(target, calibrated.grid)
        self.values = ends.values
        self.components = components_of(ends)
        self.envelopes = NO_ENVELOPES if calibration is None else calibration.table
        self.excess = read_only(np.concatenate(calibrated.sorted_excess))
        self.grid = calibrated.grid_table


class Lane:
    """The live path through one block of steps; trusts what it is given."""

    __slots__ = ("_live", "_model", "_question", "_ranks", "pooled")

    def __init__(self, opened: BlockDistribution, question: _Question) -> None:
        self._question = question
        self._ranks = opened.flat_ranks
        self._model = opened.model
        live = getattr(opened.model, "live", None)
        self._live = None if live is None else live()
        self.pooled = opened.block.pooled

    @property
    def takes_threads(self) -> bool:
        """Whether several threads may ask at once; a model without a live entry has its own."""
        return self._live is not None

    def answer(
        self, inputs: FloatArray, offset: FloatArray, spans: IndexArray, out: FloatArray
    ) -> None:
        """Write the outlook of each row, (rows, 1, 5).

        ``inputs`` are what the model reads, ``offset`` is what the target's ends shift by, and
        ``spans`` come from `Lanes.spans`.
        """
        asked = self._question
        ends = np.empty((offset.size, asked.values.size))
        left, right = np.empty_like(ends), np.empty_like(ends)
        shift_ends(asked.values, offset, asked.grid, ends)
        if self._live is not None:
            self._live.limits(inputs, ends, left, right)
        elif ends.size:
            assert self._model is not None
            left, right = self._model.cdf_limits(inputs, ends)
        stored = (self._ranks, asked.excess, asked.envelopes)
        outlook_of_rows(stored, spans, (left, right), asked.components, out)


class Lanes:
    """One lane per block of steps, all opened and checked.

    Attributes
    ----------
    unknown
        (steps, groups): why a step is UNKNOWN by structure; empty if it is not.
    n_calibration
        (steps, groups): how many calibration episodes reach each step.
    spans
        (steps, groups, 6): where a lane finds the ranks of a step, the excesses of a group, and the
        envelopes of a target that has its own calibration.
    """

    def __init__(
        self, calibrated: Calibrated, target: Target, calibration: TargetCalibration | None = None
    ) -> None:
        if calibration is not None:
            calibration.check(target, calibrated.grid)
        question = _Question(calibrated, target, calibration)
        opened = [calibrated.block(block.index) for block in calibrated.blocks]
        self._lanes = tuple(Lane(one, question) for one in opened)
        self._lane_of_step: IndexArray = np.array(calibrated.block_of_step)
        self._additive = calibrated.behavior.additive
        shape = (calibrated.horizon, calibrated.n_groups)
        self.unknown: AnyArray = np.full(shape, "", dtype=np.object_)
        self.spans: IndexArray = np.zeros((*shape, 6), dtype=np.intp)
        for g, t in np.ndindex(shape[::-1]):
            self.unknown[t, g] = calibrated.unknown(calibrated.at(t, g))
        sizes = [own.size for own in calibrated.sorted_excess]
        self.spans[:, :, 3] = np.cumsum(sizes)
        self.spans[:, :, 2] = self.spans[:, :, 3] - sizes
        for one in opened:
            here = slice(one.block.start, one.block.stop)
            counts = np.array([[ranks.n for ranks in groups] for groups in one.ranks])
            self.spans[here, :, 1] = np.cumsum(counts).reshape(counts.shape)
            self.spans[here, :, 0] = self.spans[here, :, 1] - counts
        if calibration is not None:
            self.spans[:, :, 4:] = calibration.spans
        self.n_calibration: IndexArray = self.spans[:, :, 1] - self.spans[:, :, 0]
        self.known: BoolArray = self.unknown == ""

    def at(self, t: int) -> Lane:
        """The lane of a step."""
        return self._lanes[int(self._lane_of_step[t])]

    def outlooks(
        self, states: FloatArray, so_far: FloatArray, times: IndexArray, groups: IndexArray
    ) -> FloatArray:
        """(rows, 5): the outlook of each row at its own step.

        Steps are not UNKNOWN, states are good readings, and the behavior so far is on the grid.
        """
        # Steps in order, so that a forest and ranks are read by all who need them while at hand.
        order = np.argsort(times, kind="stable")
        states, so_far, times, groups = states[order], so_far[order], times[order], groups[order]
        lanes = self._lane_of_step[times]
        spans = self.spans[times, groups]
        offset = so_far if self._additive else np.zeros(so_far.size)
        out = np.empty((so_far.size, 1, 5))
        borders = np.flatnonzero(np.diff(lanes, prepend=-1, append=-1))
        pieces: list[tuple[Lane, FloatArray, slice]] = []
        for a, b in pairwise(borders.tolist()):
            lane = self.at(times[a])
            columns = [states[a:b]]
            if not self._additive:
                columns.append(so_far[a:b, None])
            if lane.pooled:
                columns.append(times[a:b, None].astype(np.float64))
            inputs = np.concatenate(columns, axis=1)
            if not lane.takes_threads:
                lane.answer(inputs, offset[a:b], spans[a:b], out[a:b])
                continue
            for start in range(a, b, _BLOCK):
                here = slice(start, min(start + _BLOCK, b))
                pieces.append((lane, inputs[here.start - a : here.stop - a], here))

        def answer(first: int, last: int) -> None:
            for lane, inputs, here in pieces[first:last]:
                lane.answer(inputs, offset[here], spans[here], out[here])

        run_blocks(answer, len(pieces), block=1)
        found = np.empty((so_far.size, 5))
        found[order] = out[:, 0]
        return found
