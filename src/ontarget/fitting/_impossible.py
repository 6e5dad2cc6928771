"""Finds outcomes that the models expect but that never happen, such as a tie in some games.

Models predict the remainder (what is still to earn), which may lead to any sum. So models also give
probability to outcomes in which no run ever ends. An outcome gets probability 0 if no learning
episode ended in it although, at some step, the models expected ten or more to do so. See method M16
in docs/methods.md.
"""

from __future__ import annotations

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import FloatArray
from ontarget.episodes import Episodes, Translation
from ontarget.fitted._impossible_kernel import leave_out

# By step: P(remainder < y) and P(remainder <= y) at the values y that the rows ask about.
Limits = dict[int, tuple[FloatArray, FloatArray]]

_EXPECTED = 10.0
# An outcome is doubted only if outcomes next to it are common, and at most _MOST are.
_NEIGHBOURS, _COMMON, _MOST = 2, 5.0, 4


def doubted_outcomes(learn: Episodes) -> FloatArray:
    """Outcomes that may be impossible: no learning episode has them, but many have ones nearby.

    The result is ascending, and empty for most data.
    """
    none = read_only(np.empty(0))
    if learn.behavior.translation is not Translation.SHIFT or learn.behavior.scale(1) != 1.0:
        return none
    values, counts = np.unique(learn.outcomes, return_counts=True)
    if values.size < 2 * _NEIGHBOURS + 1 or 2 * values.size > len(learn):
        return none
    gaps = np.diff(values)
    places = np.rint((values - values[0]) / gaps.min())
    if places[-1] > 10 * len(learn) or not np.allclose(places * gaps.min(), values - values[0]):
        return none
    by_place = np.zeros(int(places[-1]) + 1)
    by_place[places.astype(np.intp)] = counts
    empty = np.flatnonzero(by_place == 0.0)
    near = np.array([_near(by_place, place) for place in empty.tolist()])
    common = np.argsort(-near, kind="stable")[:_MOST]
    chosen = empty[np.sort(common[near[common] >= _COMMON])]
    return read_only(values[0] + chosen * gaps.min())


def _near(by_place: FloatArray, place: int) -> float:
    """How many episodes ended, on average, in each of the outcomes next to this one.

    ``by_place`` has the number of episodes with each outcome; ``place`` is a position in it.
    """
    around = by_place[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS + 1]
    return float(around.sum() / (2 * _NEIGHBOURS))


def impossible_outcomes(limits: Limits, doubted: FloatArray) -> FloatArray:
    """The outcomes that models expect but that never happen, out of those in ``doubted``.

    No episode ended in them, although at least ten should have. ``limits`` are predicted
    probabilities for the learning episodes, by models that did not learn from the episode. Column 0
    is the probability at the row's own outcome, the other columns those at the doubted outcomes.
    """
    expected = np.zeros(doubted.size)
    for left, right in limits.values():
        at_step = np.nansum(right[:, 1:] - left[:, 1:], axis=0)
        expected = np.maximum(expected, at_step)
    return read_only(doubted[expected >= _EXPECTED])


def without_impossible(
    limits: Limits, asked: dict[int, FloatArray], doubted: FloatArray, impossible: FloatArray
) -> Limits:
    """The predicted probabilities, given that the impossible outcomes never happen.

    ``limits`` has the predicted probabilities of each step at the values in ``asked``, (rows,
    values). The last columns belong to the doubted outcomes, and are left out of the result.
    """
    if not doubted.size:
        return limits
    n_doubted = doubted.size
    found = {}
    for t, (left, right) in limits.items():
        n_asked = left.shape[1] - n_doubted
        used = [*range(n_asked), *(n_asked + np.flatnonzero(np.isin(doubted, impossible)))]
        shape = (left.shape[0], n_asked)
        out = np.empty(shape), np.empty(shape)
        own = [np.ascontiguousarray(one[:, used]) for one in (asked[t], left, right)]
        leave_out(own[0], (own[1], own[2]), out)
        unknown = np.isnan(left[:, :1])  # an episode that every tree has seen
        out[0][unknown[:, 0]], out[1][unknown[:, 0]] = np.nan, np.nan
        found[t] = (out[0][:, 0], out[1][:, 0]) if n_asked == 1 else out
    return found
