"""Fits boosted trees that predict the mean, as guides (additional features) of a forest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray, IntArray
from ontarget.models.forest._binning import Distinct, bin_by_value, distinct_values
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._store import drop_unused_edges
from ontarget.models.guided._boosting_kernel import (
    BoostedGuide,
    BoostedRows,
    BoostingRules,
    boost,
    squared_errors,
    start_boosting,
)

# A guide's cuts per feature: its trees are small, so finer cuts would not be found.
_MOST_BINS = 64
# So many trees grow between two looks at the held-out rows.
_AT_ONCE = 10
_NOTHING = Distinct(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.intp))
NO_TREES = BoostedGuide(
    BinTable(*(read_only(np.empty(0, dtype=d)) for d in ("f8", "i8", "?", "u2"))),
    read_only(np.empty(0, dtype=np.int64)),
    read_only(np.empty(0)),
)


class Learned(NamedTuple):
    """The rows that boosted trees learn from, sorted by outcome (`in_canonical_order`)."""

    X: FloatArray
    weight: FloatArray  # the mean row weighs 1
    folds: IndexArray


class Binned(NamedTuple):
    """The rows with each feature's number replaced by the number of its bin (its *code*).

    ``codes`` has the shape (features, rows), and ``n_bins`` is the number of bins of each feature.
    """

    bins: BinTable
    codes: IntArray
    n_bins: IntArray


def bin_rows(
    X: FloatArray, categorical: Collection[int], distinct: Sequence[Distinct] | None = None
) -> Binned:
    """The rows with each number replaced by the code of its bin, for all fits of boosted trees."""
    # All known categories are in one bin, which no tree splits: trees would tell a rare category's
    # own outcome (M29).
    known = distinct_values(X, categorical) if distinct is None else distinct
    told = [_NOTHING if f in categorical else own for f, own in enumerate(known)]
    return Binned(*bin_by_value(X, (), max_bins=_MOST_BINS, distinct=told))


def boost_by_fold(
    rows: Learned,
    rest: Sequence[FloatArray],
    rules: BoostingRules,
    binned: Binned,
) -> list[BoostedGuide]:
    """Boosted trees fitted without each fold in turn, and last on all rows."""
    n_folds = len(rest) - 1
    starts = [k for k in range(n_folds + 1) if (rows.folds != k).any()]
    fits: dict[int, _Fit] = {}

    def start(first: int, stop: int) -> None:
        for k in starts[first:stop]:
            fits[k] = _Fit(rows, rest[k], k, binned)

    run_blocks(start, len(starts), block=1)
    looks = rules.patience > 0 and n_folds > 1
    at_once = _AT_ONCE if looks else rules.n_trees
    n_best = rules.n_trees
    for first in range(0, rules.n_trees, at_once):
        few = rules._replace(n_trees=min(at_once, rules.n_trees - first))

        def grow(a: int, b: int, few: BoostingRules = few) -> None:
            for k in starts[a:b]:
                fits[k].grow(few)

        run_blocks(grow, len(starts), block=1)
        if looks:
            errors = np.sum([fits[k].errors for k in starts], axis=0)
            n_best = int(np.argmin(errors)) + 1
            if errors.size - n_best >= rules.patience:
                break
    return [fits[k].guide(n_best) if k in fits else NO_TREES for k in range(n_folds + 1)]


class _Fit:
    """Boosted trees while they grow, and their errors on the rows that are held out."""

    def __init__(self, rows: Learned, y: FloatArray, left_out: int, binned: Binned) -> None:
        self._bins = binned.bins
        seen, held_out = (np.flatnonzero((rows.folds == left_out) == one) for one in (False, True))
        codes = [read_only(binned.codes.take(some, axis=1)) for some in (seen, held_out)]
        weight = rows.weight[seen]
        self._rows: BoostedRows = start_boosting((codes[0], binned.n_bins), y[seen], weight)
        mean = float((weight * y[seen]).sum()) / max(float(weight.sum()), 1e-300)
        self._held_out = codes[1], binned.n_bins
        self._rest = y[held_out] - mean, rows.weight[held_out]
        self._nodes, self._values, self.errors = (
            np.empty(0, dtype=np.int64),
            np.empty(0),
            np.empty(0),
        )

    def grow(self, rules: BoostingRules) -> None:
        """Grow more trees, and note the squared error on held-out rows after each of them."""
        trees = boost(self._rows, rules)
        errors = squared_errors(self._held_out, self._rest, trees)
        self._nodes = np.append(self._nodes, trees[0])
        self._values = np.append(self._values, trees[1])
        self.errors = np.append(self.errors, errors)

    def guide(self, n_trees: int) -> BoostedGuide:
        """The first ``n_trees`` trees as a *guide*, a fitted model of the mean."""
        n_grown = self._values.size - self._nodes.size
        nodes = self._nodes[: n_trees * (self._nodes.size // n_grown)]
        values = self._values[: n_trees * (self._values.size // n_grown)]
        bins = drop_unused_edges(nodes, self._bins)
        return BoostedGuide(bins, read_only(nodes), read_only(values))
