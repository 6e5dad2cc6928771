"""How much the behavior of recorded runs rose after each step: the basis of predicted paths.

See method M22 in docs/methods.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ontarget._arrays import read_only
from ontarget._grid import snap, typical_size
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.episodes import Behavior, Translation
from ontarget.fitted.paths._gains_kernel import even_samples, gains_of_samples, limits_of_paths
from ontarget.models.forest._members import Members

MOST_CELLS = 50
TAIL = 1e-6
# This many scales from its centre, a logistic distribution function is 0 or 1 in float64.
_ALL_OF_A_TAIL = 800.0
# This many recorded rows, evenly spread over their outcomes, stand for a predicted distribution.
_SAMPLES = 256
_BLOCK = 32


class Tail(NamedTuple):
    """A logistic distribution that gets a millionth of the probability: its centre and scale.

    It is mixed into every predicted distribution. So no path has probability 0, and of two paths,
    the one farther from the median is also farther from it in probability. See method M2 in
    docs/methods.md.
    """

    centre: FloatArray
    scale: FloatArray

    def at(self, which: Any) -> Tail:
        """The tails of these cells only; a cell is a range of later steps, given by its number."""
        return Tail(self.centre[which], self.scale[which])

    def mixed_in(self, limits: FloatArray, values: FloatArray) -> FloatArray:
        """Values of a distribution function at these points, after mixing in the tail.

        The tail is a logistic distribution that gets a millionth of the probability.
        """
        reach = _ALL_OF_A_TAIL * self.scale  # beyond it a quotient might overflow
        away = np.clip(values - self.centre, -reach, reach)
        tail: FloatArray = expit(away / self.scale)
        return (1.0 - TAIL) * limits + TAIL * tail

    def reaching(self, level: float, before: FloatArray) -> FloatArray:
        """The point at which the mixture with the tail reaches the probability ``level``.

        ``before`` is the probability that the other part of the mixture has below this point.
        """
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
        """The cells (ranges of later steps) for this many later steps; at most fifty.

        If there are up to fifty later steps, each has its own cell.
        """
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
        """(paths, leads): what these paths gained up to each of some later steps.

        ``leads`` are the numbers of steps after step t. Paths are stored up to the end of the
        longest run; after that, nothing more is gained.
        """
        last = paths.shape[1] - 1
        later = paths[:, np.minimum(t + leads, last)]
        if not self.adds_up:
            return later
        now = paths[:, min(t, last)]
        return snap(later - now[:, None], float(self.amounts[0]))

    def ends(self, paths: FloatArray, t: int, cells: Cells) -> FloatArray:
        """(paths, cells × 2): the least and the greatest gain in each cell of steps after step t.

        A cell is a range of later steps; a gain is what a path adds after step t. The numbers equal
        the minimum and maximum of `own` in each cell, but need less memory.
        """
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
        """The probabilities below and up to each value, given the run's maximum or minimum so far.

        A maximum never falls and a minimum never rises. So a recorded value below the run's present
        maximum (or above its present minimum) counts as equal to that maximum (or minimum). ``now``
        is (runs,), the present value of the behavior.
        """
        here = values == now[:, None]
        if self.translation is Translation.FLOOR:
            return np.where(here, 0.0, left), right
        if self.translation is Translation.CEILING:
            return left, np.where(here, 1.0, right)
        return left, right

    def tail(self, t: int, leads: IndexArray) -> Tail:
        """The tail of the prediction for each number of steps ahead (``leads``), from step t.

        The tail is a wide distribution with a millionth of the probability; its centre and scale
        come from the gains of the learning episodes.
        """
        found = self.own(self.paths, t, leads)
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75], axis=0)
        scale = np.maximum((high - low) / (2.0 * np.log(3.0)), np.abs(found - middle).mean(axis=0))
        least = max(1e-9 * typical_size(self.paths[:, -1]), float(np.finfo(np.float64).tiny))
        return Tail(middle, np.maximum(scale, least))

    def samples(self, model: Any, members: Members) -> IntArray:
        """(runs, samples): training rows of equal weight that represent each run's prediction.

        ``members`` are the training rows that each run's prediction is made from, with their
        weights. A training row of large weight is repeated in the samples.
        """
        found = np.zeros((members.counts.size, _SAMPLES), dtype=np.int64)
        n_rows = model.training_episodes_.size

        def answer(a: int, b: int) -> None:
            even_samples(members.between(a, b).parts, n_rows, found[a:b])

        run_blocks(answer, len(found), block=_BLOCK)
        return found

    def limits(
        self, model: Any, samples: IntArray, t: int, cells: Cells, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(runs, values), twice: P(gain < value) and P(gain <= value) by one model.

        A gain is what a recorded run added after a step. ``values`` are grouped by cell (range of
        later steps), and each value is compared with the gains in its own cell.
        """
        out = np.empty(values.shape), np.empty(values.shape)
        recorded, way = self._recorded(model), self._way(t)

        def answer(a: int, b: int) -> None:
            sides = out[0][a:b], out[1][a:b]
            limits_of_paths(samples[a:b], recorded, cells, way, self.amounts, values[a:b], sides)

        run_blocks(answer, len(values), block=_BLOCK)
        return out

    def gains(self, model: Any, samples: IntArray, t: int, leads: IndexArray) -> FloatArray:
        """(runs, leads, samples): the recorded gains that make up one model's prediction.

        A gain is what a recorded run added to its behavior up to a later step; ``leads`` says how
        many steps later.
        """
        found = np.empty((len(samples), leads.size, samples.shape[1]))
        recorded, way = self._recorded(model), self._way(t)
        gains_of_samples(samples, recorded, leads, way, self.amounts, found)
        return found

    def _recorded(self, model: Any) -> tuple[IndexArray, IndexArray, FloatArray]:
        episode, step = model.training_episodes_, model.training_steps_
        return read_only(episode.astype(np.intp)), read_only(step.astype(np.intp)), self.paths

    def _way(self, t: int) -> tuple[bool, FloatArray, float]:
        return self.adds_up, self.scales, float(self.scales[t])
