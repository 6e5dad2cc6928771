"""What runs add to their behavior after a step, and the curves that calibrate path bands (M22)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ontarget._arrays import read_only
from ontarget._grid import snap, typical_size
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, FloatArray, IndexArray, IntArray
from ontarget.episodes import Behavior, Translation
from ontarget.errors import ModelFileError
from ontarget.fitted.paths._gains_kernel import even_samples, gains_of_samples
from ontarget.models.forest.base import Members
from ontarget.models.stored import flat_array

MOST_CELLS = 50
TAIL = 1e-6
# This many scales from its centre, a logistic distribution function is 0 or 1 in float64.
_ALL_OF_A_TAIL = 800.0
# This many recorded rows, evenly spread over their outcomes, stand for a predicted distribution.
_SAMPLES = 256
_BLOCK = 32


class Tail(NamedTuple):
    """A logistic distribution that gets a millionth of the probability: its centre and scale."""

    centre: FloatArray
    scale: FloatArray

    def at(self, which: Any) -> Tail:
        """The tails of these cells only; a cell is a range of later steps, given by its number."""
        return Tail(self.centre[which], self.scale[which])

    def mixed_in(self, limits: FloatArray, values: FloatArray) -> FloatArray:
        """Values of a distribution function at these points, after mixing in the tail."""
        reach = _ALL_OF_A_TAIL * self.scale  # beyond it a quotient might overflow
        away = np.clip(values - self.centre, -reach, reach)
        tail: FloatArray = expit(away / self.scale)
        return (1.0 - TAIL) * limits + TAIL * tail

    def reaching(self, level: float, before: FloatArray) -> FloatArray:
        """The point at which the mixture with the tail reaches the probability ``level``."""
        share = np.clip((level - (1.0 - TAIL) * before) / TAIL, 0.0, 1.0)
        found: FloatArray = self.centre + self.scale * logit(share)
        return found


class Cells(NamedTuple):
    """The later steps, divided into at most fifty ranges of steps (*cells*).

    The steps of a cell share one predicted distribution. ``leads`` is the number of steps ahead at
    which each cell's distribution is computed; ``starts`` says where each cell begins, and then
    where the last one ends.
    """

    leads: IndexArray
    starts: IndexArray

    @classmethod
    def of(cls, n_leads: int) -> Cells:
        """The cells (ranges of later steps) for this many later steps; at most fifty."""
        n_cells = min(n_leads, MOST_CELLS)
        starts = np.rint(np.linspace(0, n_leads, n_cells + 1)).astype(np.intp)
        return cls(read_only((starts[:-1] + starts[1:] + 1) // 2), read_only(starts))

    @property
    def of_lead(self) -> IndexArray:
        """(later steps,): the number of the cell (range of steps) that each step belongs to."""
        return np.repeat(np.arange(self.leads.size), np.diff(self.starts))


@dataclass(frozen=True, eq=False)
class Gains:
    """The paths of the learning episodes, from which gains (what a run adds after a step) are read.

    Attributes
    ----------
    paths
        (episodes, steps + 1): the behavior before every step and, from the end on, the outcome.
    scales
        The factor by which a remainder (what is still to earn) at each step is multiplied for the
        models (method M18 in docs/methods.md).
    translation
        A code for the kind of behavior, such as a sum or a maximum. For a sum, a gain is the
        difference of two values of the behavior; otherwise it is the later value itself.
    amounts
        How outcomes are rounded (the grid), as the kernels take it.
    """

    paths: FloatArray
    scales: FloatArray
    translation: Translation
    amounts: FloatArray

    @classmethod
    def of(cls, paths: FloatArray, behavior: Behavior, horizon: int, amounts: FloatArray) -> Gains:
        """The gains along these paths: what runs add to their behavior after each step."""
        scales = np.array([behavior.scale(t) for t in range(horizon)], dtype=np.float64)
        return cls(read_only(paths), read_only(scales), behavior.translation, read_only(amounts))

    @property
    def adds_up(self) -> bool:
        """Whether a gain is a difference, because the behavior is a sum."""
        return self.translation is Translation.SHIFT

    def own(self, paths: FloatArray, t: int, leads: IndexArray) -> FloatArray:
        """(paths, leads): what these paths gained up to each of some later steps."""
        last = paths.shape[1] - 1
        later = paths[:, np.minimum(t + leads, last)]
        if not self.adds_up:
            return later
        now = paths[:, min(t, last)]
        return snap(later - now[:, None], float(self.amounts[0]))

    def ends(self, paths: FloatArray, t: int, cells: Cells) -> FloatArray:
        """(paths, cells × 2): the least and the greatest gain in each cell after step t."""
        last = paths.shape[1] - 1
        # After the end of the longest run, every cell reads its last step again.
        later = np.concatenate([paths[:, min(t + 1, last) :], paths[:, last:]], axis=1)
        starts = np.minimum(cells.starts[:-1], later.shape[1] - 1)
        both = [one.reduceat(later, starts, axis=1) for one in (np.minimum, np.maximum)]
        found: FloatArray = np.stack(both, axis=2).reshape(len(paths), -1)
        if not self.adds_up:
            return found
        return snap(found - paths[:, min(t, last)][:, None], float(self.amounts[0]))

    def kept(
        self, left: FloatArray, right: FloatArray, values: FloatArray, now: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The limits at each value, given the run's maximum or minimum so far."""
        here = values == now[:, None]
        if self.translation is Translation.FLOOR:
            return np.where(here, 0.0, left), right
        if self.translation is Translation.CEILING:
            return left, np.where(here, 1.0, right)
        return left, right

    def tail(self, t: int, leads: IndexArray) -> Tail:
        """The tail of the prediction for each number of steps ahead (``leads``), from step t."""
        found = self.own(self.paths, t, leads)
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75], axis=0)
        scale = np.maximum((high - low) / (2.0 * np.log(3.0)), np.abs(found - middle).mean(axis=0))
        least = max(1e-9 * typical_size(self.paths[:, -1]), float(np.finfo(np.float64).tiny))
        return Tail(middle, np.maximum(scale, least))

    def samples(self, model: Any, members: Members) -> IntArray:
        """(runs, samples): training rows of equal weight that represent each run's prediction."""
        found = np.zeros((members.counts.size, _SAMPLES), dtype=np.int64)
        n_rows = model.training_episodes_.size

        def answer(a: int, b: int) -> None:
            even_samples(members.between(a, b).parts, n_rows, found[a:b])

        run_blocks(answer, len(found), block=_BLOCK)
        return found

    def limits(
        self, model: Any, samples: IntArray, t: int, cells: Cells, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(runs, values), twice: P(gain < value) and P(gain <= value) by one model."""
        left, right = np.empty((2, *values.shape))

        def answer(a: int, b: int) -> None:
            gains = self.gains(model, samples[a:b], t, cells.leads)[:, cells.of_lead]
            left[a:b] = (gains < values[a:b, :, None]).mean(axis=2)
            right[a:b] = (gains <= values[a:b, :, None]).mean(axis=2)

        run_blocks(answer, len(values), block=_BLOCK)
        return left, right

    def gains(self, model: Any, samples: IntArray, t: int, leads: IndexArray) -> FloatArray:
        """(runs, leads, samples): the recorded gains that make up one model's prediction."""
        found = np.empty((len(samples), leads.size, samples.shape[1]))
        recorded, way = self._recorded(model), self._way(t)
        gains_of_samples(samples, recorded, leads, way, self.amounts, found)
        return found

    def _recorded(self, model: Any) -> tuple[IndexArray, IndexArray, FloatArray]:
        episode, step = model.training_episodes_, model.training_steps_
        return read_only(episode.astype(np.intp)), read_only(step.astype(np.intp)), self.paths

    def _way(self, t: int) -> tuple[bool, FloatArray, float]:
        return self.adds_up, self.scales, float(self.scales[t])


MOST_STEPS = 12  # enough, because these curves change slowly from step to step
# A rank is stored in two bytes by its log odds, up to ±21, so that ranks very close to 0 or 1 stay
# distinct from 0 and 1.
_TOP, _FARTHEST = 65_535, 21.0
LEVELS: FloatArray = read_only(np.sin(np.linspace(0.0, np.pi / 2.0, 65)) ** 2)


@dataclass(frozen=True, eq=False)
class PathMaps:
    """Calibration curves for path bands, for some steps and for every cell of later steps.

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
        """The calibration curves that follow from ranks, one sorted array per step and cell."""
        table = np.broadcast_to(LEVELS, (len(found), MOST_CELLS, LEVELS.size)).copy()
        for place, cells in enumerate(found.values()):
            for cell, ranks in enumerate(cells):
                knots = np.concatenate([[0.0], ranks, [1.0]])
                table[place, cell] = np.interp(LEVELS, np.linspace(0.0, 1.0, knots.size), knots)
        stored = _ranks(_codes(table))
        return cls(np.array(list(found), dtype=np.intp), read_only(stored))

    def at(self, t: int, horizon: int) -> FloatArray:
        """(cells, levels): the calibration curve of each cell (range of later steps) at step t."""
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
        inside = (ranks[..., 0] == 0) & (ranks[..., -1] == _TOP)
        if not (inside.all() and (ranks[..., 1:] >= ranks[..., :-1]).all()):
            raise ModelFileError(f"path maps need ranks that rise from 0 to {_TOP}")
        return cls(steps.astype(np.intp), read_only(_ranks(ranks)))


def _codes(ranks: FloatArray) -> AnyArray:
    """Ranks from 0 to 1 as two-byte whole numbers, spaced evenly in log odds."""
    share = (np.clip(logit(ranks), -_FARTHEST, _FARTHEST) / _FARTHEST + 1.0) / 2.0
    between = 1 + np.round(share * (_TOP - 2))
    return np.where(ranks <= 0.0, 0, np.where(ranks >= 1.0, _TOP, between)).astype(np.uint16)


def _ranks(codes: AnyArray) -> FloatArray:
    """The ranks (from 0 to 1) that these two-byte codes stand for; the inverse of `_codes`."""
    share = (codes.astype(np.float64) - 1.0) / (_TOP - 2)
    found = expit(_FARTHEST * (2.0 * share - 1.0))
    ranks: FloatArray = np.where(codes == 0, 0.0, np.where(codes == _TOP, 1.0, found))
    return ranks


NO_MAPS = PathMaps(np.empty(0, np.intp), np.empty((0, MOST_CELLS, LEVELS.size)))
