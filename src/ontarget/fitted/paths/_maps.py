"""Calibrates path bands, from where the paths of learning episodes fell in their predictions.

See methods M19 and M22 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.errors import ModelFileError
from ontarget.fitted.paths._gains import MOST_CELLS, Cells
from ontarget.models._stored import flat_array

MOST_STEPS = 12  # enough, because these curves change slowly from step to step
# A rank is stored in two bytes by its log odds, up to ±21, so that ranks very close to 0 or 1 stay
# distinct from 0 and 1.
_MOST, _FARTHEST = 65_535, 21.0
LEVELS: FloatArray = read_only(np.sin(np.linspace(0.0, np.pi / 2.0, 65)) ** 2)


@dataclass(frozen=True, eq=False)
class PathMaps:
    """Calibration curves for path bands, for some steps and for every cell of later steps.

    A *cell* is a range of later steps that share one predicted distribution; see `Cells`.

    Attributes
    ----------
    steps
        The steps that have curves, ascending; a step in between uses those of the nearest one.
    ranks
        (steps, 50 cells, levels): the quantile at each of `LEVELS` of the learning episodes' ranks
        (where their paths fell in their predictions), ascending from 0 to 1, rounded to what two
        bytes can store. Cells that a step does not have are not used.
    """

    steps: IndexArray
    ranks: FloatArray

    @classmethod
    def of(cls, found: Mapping[int, list[FloatArray]]) -> PathMaps:
        """The calibration curves that follow from ranks, one sorted array per step and cell.

        A rank is where an episode's path fell in its prediction; a cell is a range of later steps.
        """
        table = np.broadcast_to(LEVELS, (len(found), MOST_CELLS, LEVELS.size)).copy()
        for place, cells in enumerate(found.values()):
            for cell, ranks in enumerate(cells):
                knots = np.concatenate([[0.0], ranks, [1.0]])
                table[place, cell] = np.interp(LEVELS, np.linspace(0.0, 1.0, knots.size), knots)
        stored = _ranks(_codes(table))
        return cls(np.array(list(found), dtype=np.intp), read_only(stored))

    def at(self, t: int, horizon: int) -> FloatArray:
        """(cells, levels): the calibration curve of each cell (range of later steps) at step t.

        It is taken from the nearest step that has curves.
        """
        leads = Cells.of(horizon - t).leads
        if not self.steps.size:
            return np.broadcast_to(LEVELS, (leads.size, LEVELS.size))
        place = int(np.abs(self.steps - t).argmin())
        known = Cells.of(horizon - int(self.steps[place])).leads
        found: FloatArray = self.ranks[place, np.abs(known - leads[:, None]).argmin(axis=1)]
        return found

    def to_arrays(self) -> dict[str, AnyArray]:
        """The calibration curves of path bands as arrays for the model file."""
        return {"steps": self.steps.astype(np.int64), "ranks": _codes(self.ranks)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], horizon: int) -> PathMaps:
        """The curves that `to_arrays` wrote; a `ModelFileError` if the arrays are damaged."""
        steps, ranks = flat_array(arrays, "steps", np.int64), arrays["ranks"]
        rising = bool((steps[1:] > steps[:-1]).all()) and steps.size <= MOST_STEPS
        if not (rising and bool(((steps >= 0) & (steps < horizon)).all())):
            raise ModelFileError(f"path maps need up to {MOST_STEPS} steps below {horizon}")
        shape = (steps.size, MOST_CELLS, LEVELS.size)
        if ranks.shape != shape or ranks.dtype != np.uint16:
            raise ModelFileError(f"path maps need ranks of shape {shape}")
        inside = (ranks[..., 0] == 0) & (ranks[..., -1] == _MOST)
        if not (inside.all() and (ranks[..., 1:] >= ranks[..., :-1]).all()):
            raise ModelFileError(f"path maps need ranks that rise from 0 to {_MOST}")
        return cls(steps.astype(np.intp), read_only(_ranks(ranks)))


def _codes(ranks: FloatArray) -> AnyArray:
    """Ranks from 0 to 1 as two-byte whole numbers, spaced evenly in log odds.

    A rank is where a path fell in its prediction. The ranks 0 and 1 get the lowest and the highest
    number.
    """
    share = (np.clip(logit(ranks), -_FARTHEST, _FARTHEST) / _FARTHEST + 1.0) / 2.0
    between = 1 + np.round(share * (_MOST - 2))
    return np.where(ranks <= 0.0, 0, np.where(ranks >= 1.0, _MOST, between)).astype(np.uint16)


def _ranks(codes: AnyArray) -> FloatArray:
    """The ranks (from 0 to 1) that these two-byte codes stand for; the inverse of `_codes`."""
    share = (codes.astype(np.float64) - 1.0) / (_MOST - 2)
    found = expit(_FARTHEST * (2.0 * share - 1.0))
    ranks: FloatArray = np.where(codes == 0, 0.0, np.where(codes == _MOST, 1.0, found))
    return ranks


NO_MAPS = PathMaps(np.empty(0, np.intp), np.empty((0, MOST_CELLS, LEVELS.size)))
