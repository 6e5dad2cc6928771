"""Phase two of a fit: mixes the blocks' predictions, and computes ranks and excesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.conformal.ranks import draw_ranks, thinned_ranks
from ontarget.episodes import Episodes, Translation
from ontarget.fitted.blocks import LawTable
from ontarget.fitted.curves import CurveTable, RankTable
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.kernels import excess_of_rows, leave_out
from ontarget.fitted.law import NO_CURVE, StepLaw, bad_readings
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.tasks import BlockResult, Limits
from ontarget.models.entry import fits_side_by_side
from ontarget.models.mixture import weighted

_EXPECTED = 10.0
# An outcome is doubted only if outcomes next to it are common, and at most _MOST are.
_NEIGHBOURS, _COMMON, _MOST = 2, 5.0, 4


def doubted_outcomes(learn: Episodes) -> FloatArray:
    """Outcomes that may be impossible: no learning episode has them, but many have ones nearby."""
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
    """How many episodes ended, on average, in each of the outcomes next to this one."""
    around = by_place[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS + 1]
    return float(around.sum() / (2 * _NEIGHBOURS))


def impossible_outcomes(limits: Limits, doubted: FloatArray) -> FloatArray:
    """The outcomes that models expect but that never happen, out of those in ``doubted``."""
    expected = np.zeros(doubted.size)
    for left, right in limits.values():
        at_step = np.nansum(right[:, 1:] - left[:, 1:], axis=0)
        expected = np.maximum(expected, at_step)
    return read_only(doubted[expected >= _EXPECTED])


def without_impossible(
    limits: Limits, asked: dict[int, FloatArray], doubted: FloatArray, impossible: FloatArray
) -> Limits:
    """The predicted probabilities, given that the impossible outcomes never happen."""
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


@dataclass(frozen=True)
class Part:
    """One part of a split: its name, its episodes, their groups, and what may be missing.

    ``groups`` has the number of each episode's group. ``may_miss`` says for each column of a state
    whether values may be missing.
    """

    episodes: Episodes
    groups: IndexArray
    may_miss: BoolArray

    def good(self, t: int) -> BoolArray:
        """(episodes at step t,): whether each has a usable state there and a known outcome."""
        rows = self.episodes.at(t)
        cut: BoolArray = self.episodes.cut_off[rows.index]
        return ~bad_readings(rows.states, self.may_miss) & ~cut


def blended_limits(
    results: Sequence[BlockResult], law: LawTable, part: str
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """For each step, the mixed predictions of the models: P(remainder < y), P(remainder <= y)."""
    found = {}
    for t in range(law.horizon):
        weights = [weight for weight, _ in law.at(t)]
        known = [results[block].limits[part].get(t) for _, block in law.at(t)]
        if all(known):  # else no episode reaches the step, or a block could not be trained
            left, right = zip(*filter(None, known), strict=True)
            found[t] = weighted(weights, left), weighted(weights, right)
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
    """The ranks of every step and group: where outcomes fell in their predicted distributions."""
    # ``limits`` has, by step, P(remainder < own) and P(remainder <= own), where the remainder is
    # what an episode still has to earn and ``own`` is what it did earn. Episodes whose state cannot
    # be used at a step are left out, because there is no prediction for them. If there are very
    # many ranks, only some are kept (method M3 in docs/methods.md), unless ``thin`` is false.
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
    """The sorted ranks of one step, one set per group; see `rank_table`."""
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
    """How far, on average over all steps, outcomes fell from their predicted medians, squared."""
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
    """(episodes,): each outcome's largest distance, over all steps, from its predicted median."""
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


# The monitor keeps assure episodes, because targets are chosen later: at most MOST_KEPT, and fewer
# (but at least _FEWEST_KEPT) if their states would take more than 20 MB of a model file.
MOST_KEPT, _MOST_NUMBERS = 20_000, 2_500_000
_FEWEST_KEPT = 2_000


def step_limits(law: StepLaw, part: Part) -> tuple[FloatArray, FloatArray]:
    """The predicted P(remainder < own) and P(remainder <= own) of each episode at a step.

    They are NaN where the state cannot be used.
    """
    rows = part.episodes.at(law.t, grid=float(law.amounts[0]))
    good = np.flatnonzero(~bad_readings(rows.states, part.may_miss))
    left, right = np.full((2, len(rows)), np.nan)
    if good.size:
        inputs = law.inputs(rows.states[good], rows.behavior[good])
        left[good], right[good] = law.cdf_limits(inputs, rows.response[good])
    return left, right


def predicted_limits(fitted: Fitted, part: Part) -> Limits:
    """`step_limits` at every step that episodes reach and that has a model."""
    longest = min(int(part.episodes.lengths.max()), fitted.horizon)
    steps = [t for t in range(longest) if fitted.is_trained(t)]
    found = run_tasks(
        lambda law: step_limits(law, part),
        lambda index: fitted.at(steps[index]),
        len(steps),
        engine="local",
        checkpoint=None,
        progress=False,
        side_by_side=_side_by_side(fitted),
    )
    return dict(zip(steps, found, strict=True))


def _side_by_side(fitted: Fitted) -> bool:
    return all(fits_side_by_side(fitted.models[block.index]) for block in fitted.blocks)


def _ranks_of_step(task: tuple[StepLaw, Part, int, int]) -> list[FloatArray]:
    """The ranks of one step, one set per group; empty if there is no model."""
    law, part, n_groups, seed = task
    if not law.parts:
        return [np.empty(0)] * n_groups
    return step_ranks(step_limits(law, part), part, law.t, n_groups, seed)


def ranks_in_tasks(
    fitted: Fitted, part: Part, *, seed: int, engine: Engine = "local", progress: bool = False
) -> RankTable:
    """The ranks of the episodes in one part of the split, at every step; each step is a task."""
    sets = run_tasks(
        _ranks_of_step,
        lambda t: (fitted.at(t), part, fitted.n_groups, seed),
        fitted.horizon,
        engine=engine if part.episodes.is_prepared else "local",
        checkpoint=None,
        progress=progress and part.episodes.is_prepared,
        side_by_side=_side_by_side(fitted),
        doing=("assuring", "steps"),
    )
    return RankTable.of([one for step in sets for one in step], fitted.n_groups)


def kept_episodes(assure: Episodes, seed: int) -> Episodes:
    """The assure episodes (held-out runs) that a model file keeps."""
    most = kept_count(float(assure.lengths.mean()), len(assure.schema))
    return assure.sample(most, seed=seed)


def kept_count(steps: float, features: int) -> int:
    """The most assure episodes (held-out runs) that a model file keeps."""
    numbers = steps * (features + 1)
    return min(MOST_KEPT, max(_FEWEST_KEPT, int(_MOST_NUMBERS / numbers)))
