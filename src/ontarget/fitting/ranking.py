"""Phase two of a fit: mixes the blocks' predictions, and computes ranks and excesses.

A block is a range of steps that share a model. A rank is where an outcome fell in its predicted
distribution, from 0 to 1. The excess of an episode is the largest distance, over all steps, of its
outcome from the middle of its predicted distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.ranks import draw_ranks, thinned_ranks
from ontarget.episodes import Episodes
from ontarget.fitted._curves import CurveTable
from ontarget.fitted._inputs import bad_readings
from ontarget.fitted._kernels import excess_of_rows
from ontarget.fitted.blocks import LawTable
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.ranks import RankTable
from ontarget.fitting.tasks import BlockResult
from ontarget.models._mixture import weighted


@dataclass(frozen=True)
class Part:
    """One part of a split: its name, its episodes, their groups, and what may be missing.

    ``groups`` has the number of each episode's group. ``may_miss`` says for each column of a state
    whether values may be missing.
    """

    name: str
    episodes: Episodes
    groups: IndexArray
    may_miss: BoolArray

    def good(self, t: int) -> BoolArray:
        """(episodes at step t,): whether each has a usable state there and a known outcome.

        A state is usable if no feature is infinite, and none is missing that was never missing in
        training.
        """
        rows = self.episodes.at(t)
        cut: BoolArray = self.episodes.cut_off[rows.index]
        return ~bad_readings(rows.states, self.may_miss) & ~cut


def blended_limits(
    results: Sequence[BlockResult], law: LawTable, part: str
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """For each step, the mixed predictions of the models: P(remainder < y), P(remainder <= y).

    The remainder is what is still to earn. At each step, the predictions of the blocks (ranges of
    steps that share a model) around it are mixed with the weights in ``law``. The values y are
    those that the rows of ``part`` asked about.
    """
    by_block = [{one.step: one for one in result.limits[part]} for result in results]
    found = {}
    for t in range(law.horizon):
        entries = [(weight, by_block[block].get(t)) for weight, block in law.at(t)]
        if any(limits is None for _, limits in entries):
            continue  # no episode of the part reaches the step, or a block could not be trained
        weights, known = [weight for weight, _ in entries], [one for _, one in entries if one]
        found[t] = (
            weighted(weights, [limits.left for limits in known]),
            weighted(weights, [limits.right for limits in known]),
        )
    return found


def rank_table(
    limits: Mapping[int, tuple[FloatArray, FloatArray]],
    part: Part,
    *,
    horizon: int,
    n_groups: int,
    seed: int,
    thin: bool = True,
) -> RankTable:
    """The ranks of every step and group: where outcomes fell in their predicted distributions.

    ``limits`` has, by step, P(remainder < own) and P(remainder <= own), where the remainder is what
    an episode still has to earn and ``own`` is what it did earn. Episodes whose state cannot be
    used at a step are left out, because there is no prediction for them. If there are very many
    ranks, only some are kept (method M3 in docs/methods.md), unless ``thin`` is false.
    """
    sets = [np.empty(0)] * (horizon * n_groups)
    for t, both in limits.items():
        sets[t * n_groups : (t + 1) * n_groups] = step_ranks(
            both, part, t, n_groups, seed, thin=thin
        )
    return RankTable.of(sets, n_groups)


def step_ranks(
    limits: tuple[FloatArray, FloatArray],
    part: Part,
    t: int,
    n_groups: int,
    seed: int,
    *,
    thin: bool = True,
) -> list[FloatArray]:
    """The sorted ranks of one step, one set per group; see `rank_table`.

    A rank is where an episode's outcome fell in its predicted distribution, from 0 to 1.
    """
    left, right = limits
    rows = part.episodes.at(t)
    # If every tree has seen an episode, it has no out-of-bag prediction.
    good = part.good(t) & ~np.isnan(left)
    ranks = np.full(len(rows), np.nan)
    ranks[good] = draw_ranks(left[good], right[good], rows.keys[good], seed=seed, step=t)
    found = []
    for g in range(n_groups):
        own = np.flatnonzero(good & (part.groups[rows.index] == g))
        own = own[np.argsort(ranks[own], kind="stable")]
        sorted_ranks = ranks[own]
        if thin:
            sorted_ranks = thinned_ranks(sorted_ranks, rows.keys[own], seed=seed, step=t)
        found.append(sorted_ranks)
    return found


def surprise(limits: Mapping[int, tuple[FloatArray, FloatArray]], part: Part) -> FloatArray:
    """How far, on average over all steps, outcomes fell from their predicted medians, squared.

    There is one number for each episode with a prediction at any step; the distance is in
    probability, and a jump of the predicted distribution counts by its middle.
    """
    total, steps = np.zeros(len(part.episodes)), np.zeros(len(part.episodes))
    for t, (left, right) in limits.items():
        good = part.good(t) & ~np.isnan(left)
        own = part.episodes.at(t).index[good]
        total[own] += ((left[good] + right[good]) / 2 - 0.5) ** 2
        steps[own] += 1.0
    return total[steps > 0.0] / steps[steps > 0.0]


def whole_run_excess(
    limits: Mapping[int, tuple[FloatArray, FloatArray]],
    part: Part,
    ranks: RankTable,
    curves: CurveTable | None,
) -> FloatArray:
    """(episodes,): the largest distance, over all steps, of each outcome from its predicted median.

    The distance is in probability, from 0 to ½. The result is +inf for an episode that was cut off,
    which is the worst case (method M24). See method M9 in docs/methods.md.
    """
    excess = np.zeros(len(part.episodes))
    for t, (left, right) in limits.items():
        rows, groups = part.episodes.at(t), part.groups
        good = part.good(t)  # a bad reading is skipped, as in a live watch (M8)
        distance = np.zeros(len(rows))
        for g in range(ranks.spans.shape[1]):
            own = good & (groups[rows.index] == g)
            found = np.empty(int(own.sum()))
            curve = NO_CURVE if curves is None else curves.at(t, g)
            excess_of_rows(ranks.at(t, g).values, curve, left[own], right[own], found)
            distance[own] = found
        excess[rows.index] = np.maximum(excess[rows.index], distance)
    excess[part.episodes.cut_off] = np.inf
    return read_only(excess)
