"""Chooses the bins of each feature from the training rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IntArray
from ontarget.errors import InputError
from ontarget.models.forest._binning_kernel import (
    MISSING,
    BinTable,
    bin_column,
)

MAX_BINS = 65_535
_FEW_NUMBERS = 4096


class Distinct(NamedTuple):
    """The distinct values of a feature, without missing ones, and how often each occurs.

    For each row in which the feature is not missing, ``place`` is the index of its value in
    ``values``. For a numeric feature, ``place`` may be empty.
    """

    values: FloatArray
    counts: IntArray
    place: IntArray


def distinct_values(X: FloatArray, categorical: Collection[int]) -> list[Distinct]:
    """The distinct values of every feature; reusable if the same rows are binned twice."""
    found: list[Distinct | None] = [None] * X.shape[1]

    def find(start: int, stop: int) -> None:
        for f in range(start, stop):
            column = X[:, f]
            known = column[~np.isnan(column)]
            own = _small_numbers(known)
            if own is None and f in categorical:
                values, place, counts = np.unique(known, return_inverse=True, return_counts=True)
                own = Distinct(values, counts, place)
            elif own is None:
                own = Distinct(*np.unique(known, return_counts=True), np.empty(0, dtype=np.intp))
            found[f] = own

    run_blocks(find, X.shape[1], block=1)
    return [one for one in found if one is not None]


def _small_numbers(known: FloatArray) -> Distinct | None:
    """The distinct values if all are small whole numbers, counted without sorting; else None."""
    if not known.size or not 0.0 <= known.min() <= known.max() < _FEW_NUMBERS:
        return None
    numbers = known.astype(np.intp)
    if not np.array_equal(numbers, known):
        return None
    counts = np.bincount(numbers)
    here = np.flatnonzero(counts)
    place = np.empty(counts.size, dtype=np.intp)
    place[here] = np.arange(here.size)
    return Distinct(here.astype(np.float64), counts[here], place[numbers])


def choose_bins(
    X: FloatArray,
    y: FloatArray,
    categorical: Collection[int],
    *,
    max_bins: int,
    distinct: Sequence[Distinct] | None = None,
) -> BinTable:
    """The bins of every feature: one per distinct value, or quantile bins if there are too many."""
    orders: dict[int, IntArray] = {}
    edges = []
    for f, own in enumerate(distinct_values(X, categorical) if distinct is None else distinct):
        if f not in categorical:
            edges.append(_edges(own, max_bins))
            continue
        sums = np.bincount(own.place, weights=y[~np.isnan(X[:, f])], minlength=own.values.size)
        edges.append(_categories(own, f))
        orders[f] = _order(sums / own.counts)
    return _bin_table(edges, orders)


def bin_by_value(
    X: FloatArray, categorical: Collection[int], *, max_bins: int, distinct: Sequence[Distinct]
) -> tuple[BinTable, IntArray, IntArray]:
    """The bins of each feature, the code of each feature and row, and the numbers of bins."""
    edges = [
        _categories(own, f) if f in categorical else _edges(own, max_bins)
        for f, own in enumerate(distinct)
    ]
    bins = _bin_table(edges, {f: np.arange(edges[f].size) for f in sorted(categorical)})
    return bins, *bin_features(X, bins)


def _bin_table(edges: list[FloatArray], orders: dict[int, IntArray]) -> BinTable:
    """The bins of all features (ranges of values, or categories) as flat arrays."""
    sizes = [part.size for part in edges]
    categorical = np.array([f in orders for f in range(len(edges))], dtype=np.bool_)
    order = [
        orders.get(f, np.zeros(size)).astype(np.uint16) for f, size in enumerate(sizes) if orders
    ]
    return BinTable(
        edges=read_only(np.concatenate([np.empty(0), *edges])),
        start=read_only(np.cumsum([0, *sizes], dtype=np.int64)),
        categorical=read_only(categorical),
        order=read_only(np.concatenate([np.empty(0, dtype=np.uint16), *order])),
    )


def bin_features(X: FloatArray, bins: BinTable) -> tuple[IntArray, IntArray]:
    """The code of each feature and row,, and the number of bins of each feature."""
    n_rows, n_features = X.shape
    codes = np.empty((n_features, n_rows), dtype=np.uint16)
    n_bins = _bins_of(bins)

    def fill(start: int, stop: int) -> None:
        for f in range(start, stop):
            bin_column(np.ascontiguousarray(X[:, f]), f, bins, codes[f])
            codes[f][codes[f] == MISSING] = n_bins[f]

    run_blocks(fill, n_features, block=1)
    return read_only(codes), read_only(n_bins)


def _bins_of(bins: BinTable) -> IntArray:
    """The number of bins of each feature."""
    return np.diff(bins.start) + np.where(bins.categorical, 0, 1)


def _edges(distinct: Distinct, max_bins: int) -> FloatArray:
    """Cuts halfway between neighbouring values of a feature, at most ``max_bins`` - 1 of them."""
    values, counts = distinct.values, distinct.counts
    if values.size <= 1:
        return np.empty(0)
    before = np.arange(1, values.size)
    if values.size > max_bins:
        upto = np.cumsum(counts)
        wanted = upto[-1] * np.arange(1, max_bins) / max_bins
        before = np.unique(np.clip(np.searchsorted(upto, wanted) + 1, 1, values.size - 1))
    low, high = values[before - 1], values[before]
    middle: FloatArray = 0.5 * low + 0.5 * high
    # Between two neighbouring floats there is no middle; the cut keeps the lower one on the left.
    return np.where(middle < high, middle, low)


def _categories(distinct: Distinct, feature: int) -> FloatArray:
    if distinct.values.size > MAX_BINS:
        raise InputError(
            f"a categorical feature needs at most {MAX_BINS} categories, "
            f"got {distinct.values.size} in column {feature}; leave the column out of categorical="
        )
    return distinct.values


def _order(means: FloatArray) -> IntArray:
    """The code of each category: its position when categories are sorted by these means."""
    order = np.empty(means.size, dtype=np.uint16)
    order[np.argsort(means, kind="stable")] = np.arange(means.size)
    return order
