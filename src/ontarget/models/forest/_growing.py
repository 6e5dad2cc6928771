"""Grows forests: which episodes each tree draws, its own codes of categories, and its trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keys_of
from ontarget._threads import run_blocks
from ontarget._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IndexArray,
    IntArray,
    KeyArray,
)
from ontarget.errors import InputError
from ontarget.models._support import Support, find_atoms
from ontarget.models.base import TrainingRows
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._binning import (
    Distinct,
    bin_by_value,
    bin_features,
    choose_bins,
    distinct_values,
)
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._growing_kernel import grow_tree
from ontarget.models.forest._presorted_kernel import (
    GrowthRules,
    TrainingTable,
    draw_with_replacement,
    draw_without_replacement,
)
from ontarget.models.forest._store import Tree, assemble, entry_type


@dataclass(frozen=True, slots=True)
class Sampling:
    """How each tree of a forest draws the episodes that it learns from, as checked values."""

    n_trees: int
    bootstrap: bool
    share: float  # of the episodes, for each tree
    most_rows: int  # before which a tree stops drawing
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Bags:
    """The bags of a forest: which of the training episodes each tree draws."""

    sampling: Sampling
    n_rows: IntArray  # of each episode
    keys: KeyArray | None  # of the episodes, in their order; None without ids

    @classmethod
    def of(cls, rows: TrainingRows, sampling: Sampling) -> Self:
        """The bags of a forest on these rows; trees draw episodes or, without ids, single rows."""
        return cls(sampling, read_only(np.bincount(rows.units)), rows.keys)

    def draw(self, tree: int) -> tuple[IntArray, KeyArray]:
        """How often this tree draws each episode, and the random state for its further choices."""
        seed = self.sampling.seed
        state = keyed_hash(keys_of(np.array([tree])), seed[0], *seed[1:], "tree")
        counts = np.zeros(self.n_rows.size, dtype=np.int64)
        n_draws = max(1, round(self.sampling.share * counts.size))
        draw = draw_with_replacement if self.sampling.bootstrap else draw_without_replacement
        draw(state, (n_draws, self.sampling.most_rows), self.n_rows, counts)
        return counts, state

    def note(self, held: BoolArray) -> None:
        """Store which tree drew which episode, (trees, episodes), after all trees were grown."""
        self.__dict__["_drawn"] = held

    @cached_property
    def _drawn(self) -> BoolArray:
        return np.stack([self.draw(tree)[0] > 0 for tree in range(self.sampling.n_trees)])

    @cached_property
    def held(self) -> BoolArray:
        """Whether each tree drew each episode: (trees, episodes)."""
        held = self._drawn
        if held.shape[1] > 1 and held.all() and not self.sampling.bootstrap:
            raise InputError(
                "out-of-bag answers need trees that leave episodes out, but with bootstrap=False "
                f"and max_samples={self.sampling.share} every tree drew every episode; fit with "
                "bootstrap=True or a smaller max_samples"
            )
        return held


# Categories with fewer drawn episodes are coded together: their own means would be noise.
_FEWEST = 10


class Owners(NamedTuple):
    """Which episodes have which category of one feature, each pair once."""

    feature: int
    episodes: IndexArray
    codes: IntArray


def owners_of(table: TrainingTable, categorical: list[int], episodes: IndexArray) -> list[Owners]:
    """For each categorical feature, the episodes that have each category in at least one row."""
    found = []
    for f in categorical:
        n_codes = int(table.n_bins[f]) + 1
        pairs = np.unique(episodes * n_codes + table.codes[f])
        pairs = pairs[pairs % n_codes < table.n_bins[f]]  # the last code is missing
        found.append(Owners(f, pairs // n_codes, pairs % n_codes))
    return found


def in_own_codes(
    table: TrainingTable, owners: list[Owners], drawn: IntArray, episodes: IndexArray
) -> tuple[TrainingTable, IntArray]:
    """The training rows with one tree's own codes of categories, and these codes."""
    if not owners:
        return table, np.empty(0, dtype=np.uint16)
    mass = drawn[episodes].astype(np.float64)
    if table.weight.size:
        mass *= table.weight
    score = mass * table.scores[:, 0]
    codes, n_bins, recodes = table.codes.copy(), table.n_bins.copy(), []
    for feature, of_pair, code in owners:
        n = int(n_bins[feature])
        n_drawn = np.bincount(code[drawn[of_pair] > 0], minlength=n)
        group = np.where(n_drawn < _FEWEST, n, np.arange(n))
        of_row = np.append(group, n + 1)[codes[feature]]
        sums = np.bincount(of_row, weights=score, minlength=n + 2)
        masses = np.bincount(of_row, weights=mass, minlength=n + 2)
        seen = masses > 0.0
        means = np.where(seen, sums / np.where(seen, masses, 1.0), score.sum() / mass.sum())
        used, place = np.unique(group, return_inverse=True)
        own = np.empty(used.size + 1, dtype=np.uint16)
        own[np.argsort(means[used], kind="stable")] = np.arange(used.size)
        own[used.size] = used.size  # missing
        recode = own[np.append(place, used.size)]
        codes[feature], n_bins[feature] = recode[codes[feature]], used.size
        recodes.append(recode[:n])
    return table._replace(codes=codes, n_bins=n_bins), np.concatenate(recodes)


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
    """The prepared training data, made once by `prepare_ground`."""

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
    """The training data prepared for growing trees: bins, scores and distinct outcomes."""
    # Bins are ranges of a feature's values; scores are the numbers by which splits are judged. The
    # rows must be sorted by outcome (`in_canonical_order`). ``distinct`` is as for `choose_bins`.
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
    """The forest of these rows, and which episodes each tree drew (its *bag*)."""
    # The rows must be sorted by outcome (`in_canonical_order`). The result does not depend on the
    # number of threads.
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
    """The rows sorted by outcome and, among equal outcomes, by all their other values."""
    order: IndexArray = np.argsort(rows.y, kind="stable")
    ordered = rows.y[order]
    if (ordered[1:] > ordered[:-1]).all():
        return rows.take(order)
    keys: list[AnyArray] = [] if rows.weight is None else [rows.weight]
    keys += [rows.X[:, f] for f in reversed(range(rows.X.shape[1]))]
    keys += [rows.steps, rows.episodes] if rows.has_ids else [rows.steps]
    return rows.take(np.lexsort([*keys, rows.y]))


def _variance_scores(values: FloatArray, mass: FloatArray) -> FloatArray:
    """The score by which splits are chosen: the standardised outcome, (outcomes, 2)."""
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
    """Two scores for each outcome: its standardised value, and its distance from the median."""
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
