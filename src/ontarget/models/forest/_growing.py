"""Grows a forest: sorts the rows, draws episodes for each tree, and grows the trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._threads import run_blocks
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.models._support import Support, find_atoms
from ontarget.models.base import TrainingRows
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._bags import Bags, Sampling
from ontarget.models.forest._binning import (
    Distinct,
    bin_by_value,
    bin_features,
    choose_bins,
    distinct_values,
)
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._growing_kernel import grow_tree
from ontarget.models.forest._own_codes import Owners, in_own_codes, owners_of
from ontarget.models.forest._split_kernel import GrowthRules, TrainingTable
from ontarget.models.forest._store import Tree, assemble, entry_type


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """Everything that determines how a forest grows, as checked values."""

    sampling: Sampling
    rules: GrowthRules
    split: str
    max_bins: int
    smooth: bool
    own_order: bool  # of categories, in each tree


@dataclass(frozen=True, slots=True)
class Ground:
    """The prepared training data, made once by `prepare_ground`.

    Forests that have the same rows, split rule and bins share it.
    """

    table: TrainingTable
    bins: BinTable
    scores: FloatArray  # of each distinct outcome
    ranks: IndexArray  # of each row's outcome
    support: Support
    owners: list[Owners]  # of categories that each tree orders by itself


def prepare_ground(
    rows: TrainingRows,
    plan: GrowthPlan,
    categorical: Sequence[int],
    distinct: Sequence[Distinct] | None = None,
) -> Ground:
    """The training data prepared for growing trees: bins, scores and distinct outcomes.

    Bins are ranges of a feature's values; scores are the numbers by which splits are judged. The
    rows must be sorted by outcome (`in_canonical_order`). ``distinct`` is as for `choose_bins`.
    """
    weight = np.empty(0) if rows.weight is None else rows.weight
    values, ranks = np.unique(rows.y, return_inverse=True)
    mass = np.bincount(ranks, weights=weight if weight.size else None).astype(np.float64)
    own_order = plan.own_order and len(categorical) > 0
    if own_order:
        known = distinct_values(rows.X, categorical) if distinct is None else distinct
        binned = bin_by_value(rows.X, categorical, max_bins=plan.max_bins, distinct=known)
        bins, codes, n_bins = binned
    else:
        bins = choose_bins(rows.X, rows.y, categorical, max_bins=plan.max_bins, distinct=distinct)
        codes, n_bins = bin_features(rows.X, bins)
    # Processors differ in the last bits of sums and cosines; rounded, they choose the same splits.
    scores = np.round(SPLIT_SCORES[plan.split](values, mass), 9)
    table = TrainingTable(
        codes=codes,
        n_bins=n_bins,
        scores=read_only(scores[ranks]),
        weight=read_only(weight),
        ranks=read_only(ranks.astype(np.uint32)),
    )
    atoms = find_atoms(ranks, rows.units, rows.steps)
    support = Support.of(values, atoms, mass, smooth=plan.smooth)
    owners = owners_of(table, sorted(categorical), rows.units) if own_order else []
    return Ground(table, bins, scores, ranks, support, owners)


def grow_forest(rows: TrainingRows, plan: GrowthPlan, ground: Ground) -> tuple[ForestTable, Bags]:
    """The forest of these rows, and which episodes each tree drew (its *bag*).

    The rows must be sorted by outcome (`in_canonical_order`). The result does not depend on the
    number of threads.
    """
    bags = Bags.of(rows, plan.sampling)
    trees = _grow_trees(ground, bags, rows.units, plan.rules)
    return assemble(trees, ground.bins, ground.support, np.bincount(ground.ranks)), bags


def _grow_trees(ground: Ground, bags: Bags, episodes: IndexArray, rules: GrowthRules) -> list[Tree]:
    dtype = entry_type(ground.ranks.size)
    trees: list[Tree | None] = [None] * bags.sampling.n_trees
    held = np.empty((len(trees), bags.n_rows.size), dtype=np.bool_)

    def grow(start: int, stop: int) -> None:
        for t in range(start, stop):
            drawn, state = bags.draw(t)
            held[t] = drawn > 0
            table, recodes = in_own_codes(ground.table, ground.owners, drawn, episodes)
            nodes, entries, shares = grow_tree(table, drawn[episodes], rules, state)
            trees[t] = Tree(nodes, entries.astype(dtype, copy=False), shares, recodes)

    run_blocks(grow, len(trees), block=1)
    bags.note(held)
    return [tree for tree in trees if tree is not None]


def in_canonical_order(rows: TrainingRows) -> TrainingRows:
    """The rows sorted by outcome and, among equal outcomes, by all their other values.

    So a model does not depend on the order in which the rows were passed.
    """
    order: IndexArray = np.argsort(rows.y, kind="stable")
    ordered = rows.y[order]
    if (ordered[1:] > ordered[:-1]).all():
        return rows.take(order)
    keys: list[AnyArray] = [] if rows.weight is None else [rows.weight]
    keys += [rows.X[:, f] for f in reversed(range(rows.X.shape[1]))]
    keys += [rows.steps, rows.episodes] if rows.has_ids else [rows.steps]
    return rows.take(np.lexsort([*keys, rows.y]))


def _variance_scores(values: FloatArray, mass: FloatArray) -> FloatArray:
    """The score by which splits are chosen: the standardised outcome, (outcomes, 2).

    This is the classic rule of regression trees. The second score is 0.
    """
    # Scaled first, so that squares stay finite; sums by NumPy, because those of BLAS may depend on
    # its number of threads.
    scaled = values / max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    share = mass / mass.sum()
    centred = scaled - np.sum(share * scaled)
    spread = np.sqrt(np.sum(share * centred**2))
    scores = np.zeros((values.size, 2))
    scores[:, 0] = centred / spread if spread > 0.0 else 0.0
    return scores


def _distribution_scores(values: FloatArray, mass: FloatArray) -> FloatArray:
    """Two scores for each outcome: its standardised value, and its distance from the median.

    A split explains as much variance of both scores as possible, so it looks for differences in
    location and in spread. The second score is cos(2πu)/2, where u is the rank of the outcome: the
    share of training outcomes that are lower. The reason is that the CRPS, a score of predicted
    distributions, has the eigenfunctions cos(kπu)/k. The function for k = 1 is about the location,
    for which the outcome itself works better. The function for k = 2 is about the spread.
    """
    scores = _variance_scores(values, mass)
    middle_rank = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    spread = 0.5 * np.cos(2.0 * np.pi * middle_rank)
    scores[:, 1] = spread - np.sum(mass * spread) / mass.sum()
    return scores


# Per distinct outcome the two numbers whose variance a split should explain.
SPLIT_SCORES: Final[dict[str, Callable[[FloatArray, FloatArray], FloatArray]]] = {
    "distribution": _distribution_scores,
    "variance": _variance_scores,
}
