"""Fits boosted guides: one without each fold and one on all rows, with equally many trees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import BoolArray, FloatArray, IndexArray, IntArray
from ontarget.models.forest._binning import (
    Distinct,
    bin_by_value,
    distinct_values,
    reorder_categories,
)
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

__all__ = ["NO_TREES", "Binned", "Learned", "bin_rows", "boost_by_fold"]

# A guide's cuts per feature: its trees are small, so finer cuts would not be found.
_MOST_BINS = 64
# So many trees grow between two looks at the held-out rows.
_AT_ONCE = 10
NO_TREES = BoostedGuide(
    BinTable(*(read_only(np.empty(0, dtype=d)) for d in ("f8", "i8", "?", "u2"))),
    read_only(np.empty(0, dtype=np.int64)),
    read_only(np.empty(0)),
)


class Learned(NamedTuple):
    """The rows that boosted guides learn from, in their canonical order."""

    X: FloatArray
    weight: FloatArray  # the mean row weighs 1
    folds: IndexArray


class Binned(NamedTuple):
    """Bins, the codes of all rows in them by feature and row, and each feature's number of bins."""

    bins: BinTable
    codes: IntArray
    n_bins: IntArray


def bin_rows(
    X: FloatArray, categorical: Collection[int], distinct: Sequence[Distinct] | None = None
) -> Binned:
    """The rows as all boosted guides see them, but for the order of categories."""
    known = distinct_values(X, categorical) if distinct is None else distinct
    return Binned(*bin_by_value(X, categorical, max_bins=_MOST_BINS, distinct=known))


def boost_by_fold(
    rows: Learned,
    rest: Sequence[FloatArray],
    rules: BoostingRules,
    binned: Binned,
) -> list[BoostedGuide]:
    """The boosted guide without each fold in turn, and at last that of all rows.

    All have the same number of trees, which is chosen for the smallest error on the rows that each
    fold's guide has not seen. ``rest`` holds what each guide may learn about every row.
    """
    n_folds = len(rest) - 1
    starts = [k for k in range(n_folds + 1) if (rows.folds != k).any()]
    fits: dict[int, _Fit] = {}

    def start(first: int, stop: int) -> None:
        for k in starts[first:stop]:
            fits[k] = _Fit(rows, rest[k], k, _in_order(binned, rest[k], rows.folds != k))

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


def _in_order(binned: Binned, y: FloatArray, seen: BoolArray) -> Binned:
    """The rows with categories in the order of their outcomes.

    The order must not depend on the outcomes of rows that a guide has not seen.
    """
    if not binned.bins.categorical.any():
        return binned
    return Binned(*reorder_categories(binned.bins, binned.codes, y, seen))


class _Fit:
    """One guide while it grows, and its errors on the rows that it does not see."""

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
        """Grow more trees; note the squared error that held-out rows have after each."""
        trees = boost(self._rows, rules)
        errors = squared_errors(self._held_out, self._rest, trees)
        self._nodes = np.append(self._nodes, trees[0])
        self._values = np.append(self._values, trees[1])
        self.errors = np.append(self.errors, errors)

    def guide(self, n_trees: int) -> BoostedGuide:
        """The guide of the first ``n_trees`` trees."""
        n_grown = self._values.size - self._nodes.size
        nodes = self._nodes[: n_trees * (self._nodes.size // n_grown)]
        values = self._values[: n_trees * (self._values.size // n_grown)]
        bins = drop_unused_edges(nodes, self._bins)
        return BoostedGuide(bins, read_only(nodes), read_only(values))
