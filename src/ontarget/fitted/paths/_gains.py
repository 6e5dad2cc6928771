"""What recorded runs gained after each step, which gives the law of a run's later path (M22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ontarget._grid import snap
from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.episodes import Behavior, Translation
from ontarget.fitted.paths._gains_kernel import even_samples, gains_of_samples, limits_of_paths
from ontarget.models.forest._members import Members

__all__ = ["MOST_CELLS", "Cells", "Gains", "Tail"]

MOST_CELLS = 50
TAIL = 1e-6
# So many scales from its centre, a logistic law is 0 or 1 in float64.
_ALL_OF_A_TAIL = 800.0
# So many recorded rows stand for a law, evenly spread over their outcomes.
_SAMPLES = 256
_BLOCK = 32


class Tail(NamedTuple):
    """The centre and the scale of a logistic law that has a millionth of the mass (M2).

    So no path has probability 0, and a path farther out has a larger depth.
    """

    centre: FloatArray
    scale: FloatArray

    def at(self, which: Any) -> Tail:
        """The tails of some of the cells."""
        return Tail(self.centre[which], self.scale[which])

    def mixed_in(self, limits: FloatArray, values: FloatArray) -> FloatArray:
        """The limits of a law at these values, with the tail mixed in."""
        reach = _ALL_OF_A_TAIL * self.scale  # beyond it a quotient might overflow
        away = np.clip(values - self.centre, -reach, reach)
        tail: FloatArray = expit(away / self.scale)
        return (1.0 - TAIL) * limits + TAIL * tail

    def reaching(self, level: float, before: FloatArray) -> FloatArray:
        """Where a law that has this mass so far reaches the level by its tail alone."""
        share = np.clip((level - (1.0 - TAIL) * before) / TAIL, 0.0, 1.0)
        found: FloatArray = self.centre + self.scale * logit(share)
        return found


class Cells(NamedTuple):
    """The steps ahead, in at most fifty cells that share a law: its lead, and where each begins."""

    leads: IndexArray
    starts: IndexArray

    @classmethod
    def of(cls, n_leads: int) -> Cells:
        """The cells for this many steps ahead; up to fifty steps have a cell each."""
        n_cells = min(n_leads, MOST_CELLS)
        starts = np.rint(np.linspace(0, n_leads, n_cells + 1)).astype(np.intp)
        return cls(read_only((starts[:-1] + starts[1:] + 1) // 2), read_only(starts))

    @property
    def of_lead(self) -> IndexArray:
        """The cell of each lead."""
        return np.repeat(np.arange(self.leads.size), np.diff(self.starts))


@dataclass(frozen=True, eq=False)
class Gains:
    """The paths of the learning episodes, and how a gain is read from them.

    Attributes
    ----------
    paths
        (episodes, steps + 1): the behavior before every step and, from the end on, the outcome.
    scales
        What a remainder at each step is multiplied by where models see it (M18).
    translation
        Of the behavior. If it adds up, a gain is a difference; else it is what the behavior comes
        to.
    amounts
        The grid, as the kernels take it.
    """

    paths: FloatArray
    scales: FloatArray
    translation: Translation
    amounts: FloatArray

    @classmethod
    def of(cls, paths: FloatArray, behavior: Behavior, horizon: int, amounts: FloatArray) -> Gains:
        """The gains of these paths."""
        scales = np.array([behavior.scale(t) for t in range(horizon)], dtype=np.float64)
        return cls(read_only(paths), read_only(scales), behavior.translation, read_only(amounts))

    @property
    def adds_up(self) -> bool:
        """Whether a gain is a difference."""
        return self.translation is Translation.SHIFT

    def own(self, paths: FloatArray, t: int, leads: IndexArray) -> FloatArray:
        """(paths, leads): what these paths gained from step t on, after each number of steps.

        All paths have the length of the longest one; after that all runs are over and gain nothing.
        """
        last = paths.shape[1] - 1
        later = paths[:, np.minimum(t + leads, last)]
        if not self.adds_up:
            return later
        now = paths[:, min(t, last)]
        return snap(later - now[:, None], float(self.amounts[0]))

    def ends(self, paths: FloatArray, t: int, cells: Cells) -> FloatArray:
        """(paths, cells × 2): the least and the greatest gain of each cell of steps after step t.

        Both are among `own` at all steps, of which nothing is written out.
        """
        last = paths.shape[1] - 1
        # Once all are over, every cell reads the last step again.
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
        """Both limits, given what each run has now: a maximum never falls, a minimum never rises.

        So values of recorded runs on the wrong side of what the run has now count as that value.
        """
        here = values == now[:, None]
        if self.translation is Translation.FLOOR:
            return np.where(here, 0.0, left), right
        if self.translation is Translation.CEILING:
            return left, np.where(here, 1.0, right)
        return left, right

    def tail(self, t: int, leads: IndexArray) -> Tail:
        """The tail of the law at each lead, from what the learning episodes gained."""
        found = self.own(self.paths, t, leads)
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75], axis=0)
        scale = np.maximum((high - low) / (2.0 * np.log(3.0)), np.abs(found - middle).mean(axis=0))
        return Tail(middle, np.maximum(scale, float(self.amounts[0])))

    def samples(self, model: Any, members: Members) -> IntArray:
        """(rows, samples): training rows that stand for equal shares of each row's members."""
        found = np.zeros((members.counts.size, _SAMPLES), dtype=np.int64)
        n_rows = model.training_episodes_.size

        def answer(a: int, b: int) -> None:
            even_samples(members.between(a, b).parts, n_rows, found[a:b])

        run_blocks(answer, len(found), block=_BLOCK)
        return found

    def limits(
        self, model: Any, samples: IntArray, t: int, cells: Cells, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Both limits of one model's law at each value; the cells say which law judges which."""
        out = np.empty(values.shape), np.empty(values.shape)
        recorded, way = self._recorded(model), self._way(t)

        def answer(a: int, b: int) -> None:
            sides = out[0][a:b], out[1][a:b]
            limits_of_paths(samples[a:b], recorded, cells, way, self.amounts, values[a:b], sides)

        run_blocks(answer, len(values), block=_BLOCK)
        return out

    def gains(self, model: Any, samples: IntArray, t: int, leads: IndexArray) -> FloatArray:
        """(rows, leads, samples): the gains that one model's law consists of."""
        found = np.empty((len(samples), leads.size, samples.shape[1]))
        recorded, way = self._recorded(model), self._way(t)
        gains_of_samples(samples, recorded, leads, way, self.amounts, found)
        return found

    def _recorded(self, model: Any) -> tuple[IndexArray, IndexArray, FloatArray]:
        episode, step = model.training_episodes_, model.training_steps_
        return read_only(episode.astype(np.intp)), read_only(step.astype(np.intp)), self.paths

    def _way(self, t: int) -> tuple[bool, FloatArray, float]:
        return self.adds_up, self.scales, float(self.scales[t])
