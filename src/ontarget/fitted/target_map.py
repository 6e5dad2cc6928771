"""The map that corrects p for one target, and how it is learned by cross-validation (M17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ontarget._arrays import read_only
from ontarget._text import percent
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.venn_abers import Envelopes
from ontarget.fitted._map_kernel import fit_slopes
from ontarget.fitted.kernels import KNOTS
from ontarget.fitted.law import StepLaw

FOLDS: Final = 5
_STRENGTHS: Final = (1.0, 10.0, 50.0, 250.0)  # of the penalty on a logistic map
_PER_UNIT: Final = 64.0  # logits are rounded to a 64th before a logistic map is fitted
_MIXTURES: Final = np.array([0.25, 0.5, 0.75, 1.0])[:, None]  # the share of Venn–Abers
_N_LOGISTIC: Final = 2 * len(_STRENGTHS)
_N_CANDIDATES: Final = 1 + _N_LOGISTIC + len(_MIXTURES)
_IDENTITY: Final = 0.5  # the prior weight of the identity; the other candidates share the rest
_ENOUGH: Final = 20  # beyond the p of so many episodes, a map fades to the identity
_FEWEST: Final = 50  # with fewer episodes, cross-validation cannot tell a good map from a bad one
_LEAST: Final = 1e-12  # the smallest p of which a logit is taken where a map fades
_BESIDE: Final = 0.5  # how much a neighbouring step counts, compared with the step itself


class StepAnswers(NamedTuple):
    """The p of some episodes at one step, each as if the episode were a new run.

    ``episodes`` are the positions of these episodes in the list of all episodes. Episodes whose
    success or failure is already certain at this step are left out.
    """

    episodes: IndexArray
    p: FloatArray


@dataclass(frozen=True, eq=False)
class Maps:
    """The target map of each step, which turns p into a corrected p for one target.

    Attributes
    ----------
    tables
        (folds + 1, steps, knots): the corrected p for each p in `KNOTS` (129 fixed probabilities),
        ascending. The episodes are divided into parts (folds). Entry f is learned without part f
        and is used for the episodes in this part; the last entry is learned from all episodes.
    weights
        (steps, candidates): how much each candidate counts, of those that are averaged to the map.
        The first candidate is the identity (p as it is), and has weight 1 at steps where nothing
        can be learned.
    losses
        (steps, candidates): the cross-validated log loss that the weights come from; NaN at steps
        where nothing can be learned.
    """

    tables: FloatArray
    weights: FloatArray
    losses: FloatArray


def folds_of(met: BoolArray) -> IndexArray:
    """(episodes,): the fold (part held out together) of each episode, for cross-validation.

    ``met`` says which episodes met the target. In every fold, about the same share of the episodes
    met it.

    Examples
    --------
    >>> print(folds_of(np.array([True, False, True, False, False, True])))
    [3 0 4 1 2 0]
    """
    fold = np.empty(met.size, dtype=np.intp)
    fold[np.argsort(met, kind="stable")] = np.arange(met.size) % FOLDS
    return fold


def fit_maps(
    steps: Sequence[StepAnswers], met: BoolArray, folds: IndexArray, *, fading: bool = True
) -> Maps:
    """The target map of each of these steps: a function from p to a corrected p, for one target."""
    labels = met.astype(np.float64)
    least = _FEWEST if fading else 1
    losses = np.full((len(steps), _N_CANDIDATES), np.nan)
    # What each candidate makes of p at the knots: fitted without each fold, and last on all.
    answers = np.empty((FOLDS + 1, len(steps), _N_CANDIDATES, KNOTS.size))
    seen: dict[int, FloatArray] = {}
    for place in range(len(steps)):
        window = _Window.of(steps, place, labels, folds)
        if window is not None and window.n >= least:
            losses[place] = window.judge(answers[:, place])
            seen[place] = window.p
    weights = np.stack([_weights(losses, steps, place) for place in range(len(steps))])
    # At steps where nothing was learned, the rows are still empty: fill in the identity.
    answers[:, np.isnan(losses[:, 0])] = KNOTS
    tables = np.einsum("fskx,sk->fsx", answers, weights)
    for place, p in seen.items() if fading else ():
        tables[:, place] = faded(tables[:, place], p)
    return Maps(tables, weights, losses)


def faded(tables: FloatArray, p: FloatArray) -> FloatArray:
    """Maps of one step, (maps, knots), that become the identity where hardly any p was seen."""
    place = min(_ENOUGH, (p.size + 1) // 2) - 1
    seen = np.sort(p)
    ends = _log_odds(seen[[place, -1 - place]])
    at, found = _log_odds(KNOTS), tables.copy()
    for k in range(len(tables)):
        changes = _log_odds(np.interp(seen[[place, -1 - place]], KNOTS, tables[k])) - ends
        for end, change, side in zip(ends, changes, (-1.0, 1.0), strict=True):
            beyond = side * (at - end)
            left = np.maximum(0.0, 1.0 - beyond / max(1.0, 2.0 * abs(change)))
            found[k] = np.where(beyond > 0.0, expit(at + change * left), found[k])
            found[k] = np.where((beyond > 0.0) & (left == 0.0), KNOTS, found[k])
    return found


def _log_odds(p: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(p, _LEAST, 1.0 - _LEAST)))


def _weights(losses: FloatArray, steps: Sequence[StepAnswers], place: int) -> FloatArray:
    """The weight of each candidate at one step; the weights add up to 1."""
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
    """The positions of a step and its neighbours, each with its weight: neighbours count less."""
    around = [(place, 1.0), (place - 1, _BESIDE), (place + 1, _BESIDE)]
    return [(at, share) for at, share in around if 0 <= at < n_steps]


@dataclass(frozen=True, eq=False)
class _Window:
    """The p of the episodes at a step and its neighbours, and whether each met the target."""

    p: FloatArray
    met: FloatArray
    weights: FloatArray
    folds: IndexArray
    n: int  # of the step's own rows

    @classmethod
    def of(
        cls, steps: Sequence[StepAnswers], place: int, met: FloatArray, folds: IndexArray
    ) -> _Window | None:
        """The window around a step; None if all its episodes met the target, or none did."""
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
        """The smallest p that is used in a logit or a log loss; the largest is 1 minus this."""
        return 0.5 / (self.n + 1)

    def judge(self, answers: FloatArray) -> FloatArray:
        """The cross-validated log loss of each candidate, that is, of each way to correct p."""
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
        """(folds + 1, logistic candidates, 3): the coefficients of the logistic candidates."""
        logits, place = np.unique(
            np.rint(logit(self._clipped(self.p)) * _PER_UNIT) / _PER_UNIT, return_inverse=True
        )
        cells, size = place * FOLDS + self.folds, logits.size * FOLDS
        weights = np.bincount(cells, self.weights, size).reshape(-1, FOLDS).T
        hits = np.bincount(cells, self.weights * self.met, size).reshape(-1, FOLDS).T
        found = np.tile([0.0, 1.0, 1.0], (FOLDS + 1, _N_LOGISTIC, 1))
        for fold in (FOLDS, *range(FOLDS)):
            kept = np.arange(FOLDS) != fold
            found[fold] = found[FOLDS]  # a start near the solution: most episodes are the same
            counts = hits[kept].sum(axis=0), weights[kept].sum(axis=0)
            for k, (design, strength) in enumerate(product(_designs(logits), _STRENGTHS)):
                penalty = strength * design.penalty
                fit_slopes(design.low, design.high, *counts, penalty, found[fold, k])
        return found

    def _answers(self, slopes: FloatArray, rows: IndexArray | slice, p: FloatArray) -> FloatArray:
        """(candidates, values): these values of p as corrected by each candidate."""
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
    """The inputs of a logistic correction of p, logit = a + b·low + c·high, and its penalty.

    With two slopes, ``low`` is the logit of p where p is below ½ and 0 elsewhere, and ``high`` is
    the logit where p is above ½ and 0 elsewhere. With one slope, ``low`` is the logit and ``high``
    is 0. The penalty on (a, b, c) pulls the correction towards the identity, where a is 0 and b and
    c are 1. It is proportional to a² + 2(b − 1)² + 2(c − 1)² with two slopes, and to a² + 4(b − 1)²
    with one slope.
    """

    low: FloatArray
    high: FloatArray
    penalty: FloatArray


def _designs(logits: FloatArray) -> tuple[_Design, _Design]:
    """Two logistic corrections of p: one slope for all p, or two, below and above p = ½."""
    return (
        _Design(logits, np.zeros_like(logits), np.array([1.0, 4.0, 1.0])),
        _Design(np.minimum(logits, 0.0), np.maximum(logits, 0.0), np.array([1.0, 2.0, 2.0])),
    )


@dataclass(frozen=True, eq=False)
class TargetMap:
    """A function that corrects p for one fixed target (a *target map*).

    Attributes
    ----------
    horizon
        The number of steps of a run.
    steps
        The steps whose maps were learned, ascending. Between two of them the map is interpolated.
    tables
        (folds + 1, steps, groups, knots): the corrected p for each p in `KNOTS`, 129 fixed
        probabilities. The learning episodes are divided into parts (folds). Entry f is learned
        without part f; the last entry is learned from all episodes.
    identity
        (steps, groups): how much of each map is the identity (p as it is), from 0 to 1; 1 if
        nothing could be learned.
    folds
        The fold of each learning episode that the map comes from.
    """

    horizon: int
    steps: IndexArray
    tables: FloatArray
    identity: FloatArray
    folds: IndexArray

    @property
    def n(self) -> int:
        """The number of learning episodes from which this correction of p was learned."""
        return int(self.folds.size)

    @cached_property
    def values(self) -> FloatArray:
        """(steps of a run, groups, knots): the corrected p for each p in `KNOTS`, at every step."""
        return read_only(self._between(self.tables[FOLDS]))

    @cached_property
    def spans(self) -> IndexArray:
        """(steps, groups, 2): where each step's map begins and ends in the flat `values`."""
        shape = self.values.shape[:2]
        ends = np.arange(1, shape[0] * shape[1] + 1).reshape(shape) * KNOTS.size
        learned = self._between(self.identity) < 1.0
        return read_only(np.stack([ends - KNOTS.size * learned, ends], axis=-1).astype(np.intp))

    def at(self, step: StepLaw, group: int) -> StepLaw:
        """The step's predicted distribution, with this correction of p attached."""
        return replace(step, own_map=self.knots_at(step.t, group))

    def knots_at(self, t: int, group: int) -> FloatArray:
        """(knots,): the corrected p for each p in `KNOTS` at a step; empty if p stays unchanged."""
        start, stop = self.spans[t, group].tolist()
        return read_only(self.values.reshape(-1)[start:stop])

    def held_out(self, t: int, group: int, episodes: IndexArray, p: FloatArray) -> FloatArray:
        """(episodes,): corrected p of learning episodes, by maps that did not learn from them."""
        found = np.array(p)
        for fold in range(FOLDS):
            own = self.folds[episodes] == fold
            table = self._between(self.tables[fold, :, group], np.array([t]))[0]
            found[own] = np.interp(p[own], KNOTS, table)
        return found

    @property
    def in_words(self) -> str:
        """How p is calibrated, as text that also says how much the uncorrected p still counts."""
        first, middle, last = (
            percent(float(self.identity[at].mean())) for at in (0, self.steps.size // 2, -1)
        )
        return (
            f"corrected for this target (target map, learned from {self.n:,} episodes); the "
            f"uncorrected p counts {first} at the start, {middle} in the middle, {last} at the end"
        )

    def _between(self, learned: FloatArray, at: IndexArray | None = None) -> FloatArray:
        """Values that were learned at some steps, interpolated linearly for other steps."""
        at = np.arange(self.horizon) if at is None else at
        place = np.interp(at, self.steps, np.arange(self.steps.size))
        below = np.minimum(place.astype(np.intp), max(self.steps.size - 2, 0))
        part = (place - below).reshape(-1, *[1] * (learned.ndim - 1))
        above = np.minimum(below + 1, self.steps.size - 1)
        # Between two equal numbers nothing is rounded, so an identity stays exactly one.
        found: FloatArray = np.where(
            learned[below] == learned[above],
            learned[below],
            (1.0 - part) * learned[below] + part * learned[above],
        )
        return found
