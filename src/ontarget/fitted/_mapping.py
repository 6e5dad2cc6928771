"""Learns the map of one target, which improves p: a weighted mean of several candidates (M17).

It is learned from p of learning episodes, each given by models that did not learn from that
episode, and from how these episodes ended. The candidates are the identity, logistic maps and
mixtures with Venn–Abers; their weights depend on how well they predict held-out episodes. Each
rises with p, and so does their weighted mean. A step's map is one table over `KNOTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.venn_abers import Envelopes
from ontarget.fitted._curve_kernel import KNOTS
from ontarget.fitted._map_kernel import fit_slopes

__all__ = ["FOLDS", "Maps", "StepAnswers", "fit_maps", "folds_of"]

FOLDS: Final = 5
_STRENGTHS: Final = (1.0, 10.0, 50.0, 250.0)  # of the penalty on a logistic map
_PER_UNIT: Final = 64.0  # a logistic map knows logits to a 64th
_MIXTURES: Final = np.array([0.25, 0.5, 0.75, 1.0])[:, None]  # the share of Venn–Abers
_N_LOGISTIC: Final = 2 * len(_STRENGTHS)
_N_CANDIDATES: Final = 1 + _N_LOGISTIC + len(_MIXTURES)
_IDENTITY: Final = 0.5  # how much the identity is believed beforehand; the others share the rest
_BESIDE: Final = 0.5  # how much the steps beside one count, compared with the step itself


class StepAnswers(NamedTuple):
    """p of some episodes at one step, as if each were a new run, without those already decided.

    ``episodes`` are positions among all of them.
    """

    episodes: IndexArray
    p: FloatArray


@dataclass(frozen=True, eq=False)
class Maps:
    """The map of each step.

    Attributes
    ----------
    tables
        (folds + 1, steps, knots): the mapped p at each of `KNOTS`, ascending: learned without the
        episodes of each fold, for those very episodes, and last from all.
    weights
        (steps, candidates): how much each candidate counts, the identity first; it alone where
        nothing can be learned.
    losses
        (steps, candidates): the cross-validated log loss by which they were weighed; NaN where
        nothing can be learned.
    """

    tables: FloatArray
    weights: FloatArray
    losses: FloatArray


def folds_of(met: BoolArray) -> IndexArray:
    """The fold of each episode, such that each fold has its share of those that met the target.

    Examples
    --------
    >>> print(folds_of(np.array([True, False, True, False, False, True])))
    [3 0 4 1 2 0]
    """
    fold = np.empty(met.size, dtype=np.intp)
    fold[np.argsort(met, kind="stable")] = np.arange(met.size) % FOLDS
    return fold


def fit_maps(steps: Sequence[StepAnswers], met: BoolArray, folds: IndexArray) -> Maps:
    """The map of each of these steps, for a target that these episodes met or missed."""
    labels = met.astype(np.float64)
    losses = np.full((len(steps), _N_CANDIDATES), np.nan)
    # The answers of the candidates at the knots: fitted without each fold, and last on all.
    answers = np.empty((FOLDS + 1, len(steps), _N_CANDIDATES, KNOTS.size))
    for place in range(len(steps)):
        window = _Window.of(steps, place, labels, folds)
        if window is not None:
            losses[place] = window.judge(answers[:, place])
    weights = np.stack([_weights(losses, steps, place) for place in range(len(steps))])
    # Where nothing was learned nothing was written either.
    answers[:, np.isnan(losses[:, 0])] = KNOTS
    return Maps(np.einsum("fskx,sk->fsx", answers, weights), weights, losses)


def _weights(losses: FloatArray, steps: Sequence[StepAnswers], place: int) -> FloatArray:
    """π_k exp(−n L_k), normalised; L_k is averaged over the step and those beside it."""
    found = np.zeros(_N_CANDIDATES)
    if np.isnan(losses[place, 0]):
        found[0] = 1.0
        return found
    near = [one for one in _near(len(steps), place) if not np.isnan(losses[one[0], 0])]
    shares = np.array([share for _, share in near])
    mean = shares @ losses[[at for at, _ in near]] / shares.sum()
    found[:] = (1.0 - _IDENTITY) / (_N_CANDIDATES - 1)
    found[0] = _IDENTITY
    found *= np.exp(-steps[place].p.size * (mean - mean.min()))
    return np.asarray(found / found.sum())


def _near(n_steps: int, place: int) -> list[tuple[int, float]]:
    """The step and its neighbours, each with its weight in what is learned for the step."""
    around = [(place, 1.0), (place - 1, _BESIDE), (place + 1, _BESIDE)]
    return [(at, share) for at, share in around if 0 <= at < n_steps]


@dataclass(frozen=True, eq=False)
class _Window:
    """The rows of a step and of those beside it; the step's own come first."""

    p: FloatArray
    met: FloatArray
    weights: FloatArray
    folds: IndexArray
    n: int  # of the step's own rows

    @classmethod
    def of(
        cls, steps: Sequence[StepAnswers], place: int, met: FloatArray, folds: IndexArray
    ) -> _Window | None:
        """The window around a step; None where it holds no successes or no failures."""
        near = [(steps[at], share) for at, share in _near(len(steps), place) if steps[at].p.size]
        if not steps[place].p.size:
            return None
        episodes = np.concatenate([one.episodes for one, _ in near])
        labels, total = met[episodes], sum(share for _, share in near)
        if labels.min() == labels.max():
            return None
        return cls(
            p=np.concatenate([one.p for one, _ in near]),
            met=labels,
            weights=np.concatenate([np.full(one.p.size, share / total) for one, share in near]),
            folds=folds[episodes],
            n=steps[place].p.size,
        )

    @property
    def least(self) -> float:
        """How near to 0 and 1 p may come in a logit or a log loss."""
        return 0.5 / (self.n + 1)

    def judge(self, answers: FloatArray) -> FloatArray:
        """The candidates' cross-validated log losses, and all their answers."""
        slopes = self._slopes()
        answers[FOLDS] = self._answers(slopes[FOLDS], slice(0, self.n), KNOTS)
        foretold = np.empty((_N_CANDIDATES, self.n))
        own = self.folds[: self.n]
        for fold in range(FOLDS):
            inside, others = np.flatnonzero(own == fold), np.flatnonzero(own != fold)
            asked = np.concatenate([KNOTS, self.p[inside]])
            found = self._answers(slopes[fold], others, asked)
            answers[fold], foretold[:, inside] = found[:, : KNOTS.size], found[:, KNOTS.size :]
        foretold = self._clipped(foretold)
        met = self.met[: self.n] > 0.0
        losses: FloatArray = -np.log(np.where(met, foretold, 1.0 - foretold)).mean(axis=1)
        return losses

    def _clipped(self, p: FloatArray) -> FloatArray:
        return np.clip(p, self.least, 1.0 - self.least)

    def _slopes(self) -> FloatArray:
        """(folds + 1, logistic candidates, 3): coefficients without each fold, and last from all.

        Rows with nearly equal logits are merged, which saves most of the time.
        """
        logits, place = np.unique(
            np.rint(logit(self._clipped(self.p)) * _PER_UNIT) / _PER_UNIT, return_inverse=True
        )
        cells, size = place * FOLDS + self.folds, logits.size * FOLDS
        weights = np.bincount(cells, self.weights, size).reshape(-1, FOLDS).T
        hits = np.bincount(cells, self.weights * self.met, size).reshape(-1, FOLDS).T
        found = np.tile([0.0, 1.0, 1.0], (FOLDS + 1, _N_LOGISTIC, 1))
        for fold in (FOLDS, *range(FOLDS)):
            kept = np.arange(FOLDS) != fold
            found[fold] = found[FOLDS]  # all but a fold say nearly what all do
            counts = hits[kept].sum(axis=0), weights[kept].sum(axis=0)
            for k, (design, strength) in enumerate(product(_designs(logits), _STRENGTHS)):
                penalty = strength * design.penalty
                fit_slopes(design.low, design.high, *counts, penalty, found[fold, k])
        return found

    def _answers(self, slopes: FloatArray, rows: IndexArray | slice, p: FloatArray) -> FloatArray:
        """(candidates, values): what each candidate makes of p; Venn–Abers learns from the rows."""
        one, two = _designs(logit(self._clipped(p)))
        half = _N_LOGISTIC // 2
        found = np.empty((_N_CANDIDATES, p.size))
        found[0] = p
        for design, at in ((one, slice(0, half)), (two, slice(half, None))):
            a, b, c = slopes[at].T[:, :, None]
            found[1 : 1 + _N_LOGISTIC][at] = expit(a + b * design.low + c * design.high)
        scores, labels = self.p[rows], self.met[rows]
        own = Envelopes.of(scores, labels).probability(p).p if scores.size else p
        found[1 + _N_LOGISTIC :] = p + _MIXTURES * (own - p)
        return found


class _Design(NamedTuple):
    """The design of a logistic map: what its slopes multiply, and the penalty on its parameters.

    With θ of M17 the slopes are 1 + (θ₁ ∓ θ₂)/2 below and above ½, so that |θ|² is
    a² + 2(b − 1)² + 2(c − 1)²; with one slope for both sides it is a² + 4(b − 1)².
    """

    low: FloatArray
    high: FloatArray
    penalty: FloatArray


def _designs(logits: FloatArray) -> tuple[_Design, _Design]:
    """One slope for all p, and one each below and above ½."""
    return (
        _Design(logits, np.zeros_like(logits), np.array([1.0, 4.0, 1.0])),
        _Design(np.minimum(logits, 0.0), np.maximum(logits, 0.0), np.array([1.0, 2.0, 2.0])),
    )
