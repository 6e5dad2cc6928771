"""Columns, times and levels that the regression and the network share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._keyed import keyed_hash, keys_of, mix
from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.models._estimator import HonestEstimator
from ontarget.models._ranked_kernel import Columns
from ontarget.models._support import Support, find_atoms, location
from ontarget.models.base import TrainingRows
from ontarget.models.kernels import quantiles_of_masses
from ontarget.models.stored import flat_array, partitions, require

# Of all categories of all features, this many of the most frequent ones have a column.
_MOST_CATEGORIES = 60


def columns_of(rows: TrainingRows, categorical: Collection[int]) -> tuple[Columns, IndexArray]:
    """The input columns for these rows, and the indices of those that vary in these rows."""
    X, time = rows.X, time_feature(rows)
    n_features = X.shape[1]
    categories = _categories(X, categorical)
    sizes = np.zeros(n_features, dtype=np.int64)
    places = np.zeros((n_features, 2))
    codes: list[FloatArray] = []
    used: list[BoolArray] = []
    for f in range(n_features):
        if f == time:
            continue
        lost = np.isnan(X[:, f])
        known = X[~lost, f]
        if f in categories:
            own, told = categories[f], np.full(categories[f].size, np.unique(known).size > 1)
        else:
            centre, spread = location(known)
            places[f] = centre, 1.0 / spread if spread > 0.0 else 0.0
            own, told = np.zeros(1), np.array([spread > 0.0])
        sizes[f] = own.size + 1
        codes.append(np.append(own, 0.0))
        used.append(np.append(told, 0 < known.size < lost.size))
    clock = np.zeros(2) if time < 0 else np.array([X[:, time].min(), X[:, time].max()])
    is_category = np.isin(np.arange(n_features), list(categories))
    columns = Columns(
        start=read_only(np.concatenate(([0], np.cumsum(sizes)))),
        categorical=read_only(is_category),
        codes=read_only(np.concatenate([np.empty(0), *codes])),
        location=read_only(places.ravel()),
        time=read_only(np.array([time], dtype=np.int64)),
        clock=read_only(clock),
    )
    return columns, np.flatnonzero(np.concatenate([np.empty(0, dtype=np.bool_), *used]))


def time_feature(rows: TrainingRows) -> int:
    """The first feature that equals the step in every row; -1 if there is none."""
    labels = rows.step_labels
    if labels.size < 2 or labels.dtype.kind not in "iuf":
        return -1
    steps = labels[rows.steps]
    likely = np.flatnonzero(rows.X[0] == steps[0]).tolist()
    return next((f for f in likely if np.array_equal(rows.X[:, f], steps)), -1)


def times_of(rows: TrainingRows, columns: Columns) -> FloatArray:
    """The time of each row, from 0 at the first step to 1 at the last."""
    time = int(columns.time[0])
    if time < 0:
        return np.zeros(rows.y.size)
    first, last = columns.clock.tolist()
    times: FloatArray = (rows.X[:, time] - first) / (last - first)
    return times


def columns_from_arrays(arrays: Mapping[str, AnyArray], prefix: str) -> Columns:
    """The columns stored in the arrays whose names begin with ``prefix``, or a `ModelFileError`."""
    types = (np.int64, np.bool_, np.float64, np.float64, np.int64, np.float64)
    columns = Columns(
        *(flat_array(arrays, prefix + n, t) for n, t in zip(Columns._fields, types, strict=True))
    )
    _check_columns(columns, prefix)
    return columns


def _categories(X: FloatArray, categorical: Collection[int]) -> dict[int, FloatArray]:
    """For each categorical feature, the categories that get their own column, ascending."""
    found = {f: np.unique(X[~np.isnan(X[:, f]), f], return_counts=True) for f in categorical}
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(part[1] for part in found.values())])
    kept = np.zeros(counts.size, dtype=np.bool_)
    kept[np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]] = True
    ends = np.cumsum([0, *(values.size for values, _ in found.values())])
    return {
        f: values[kept[ends[k] : ends[k + 1]]] for k, (f, (values, _)) in enumerate(found.items())
    }


def _check_columns(columns: Columns, prefix: str) -> None:
    start, codes = columns.start, columns.codes
    require(
        start.size > 1 and partitions(start, codes.size),
        f"{prefix}start needs to rise from 0 to the number of columns",
    )
    n_features = start.size - 1
    require(
        columns.categorical.size == n_features, f"{prefix}categorical needs one flag per feature"
    )
    known = columns.time.size == 1 and -1 <= columns.time[0] < n_features
    require(bool(known), f"{prefix}time needs one feature that exists, or -1")
    widths, is_time = np.diff(start), np.arange(n_features) == columns.time[0]
    whole = np.where(columns.categorical, widths >= 1, widths == 2)
    require(
        bool(np.where(is_time, widths == 0, whole).all()),
        f"{prefix}start needs two columns per numeric feature, and one more than its categories "
        f"per categorical feature",
    )
    is_code = np.repeat(columns.categorical, widths)
    is_code[start[1:][widths > 0] - 1] = False  # where a feature is missing
    rising = (codes[1:] > codes[:-1]) | ~(is_code[1:] & is_code[:-1])
    require(
        bool(np.isfinite(codes).all() and rising.all()),
        f"{prefix}codes need to rise within a feature",
    )
    places = columns.location
    numbers = places.size == 2 * n_features and np.isfinite(places).all()
    require(
        bool(numbers and (places[1::2] >= 0.0).all()),
        f"{prefix}location needs a centre and a scale from 0 up for each feature",
    )
    clock = columns.clock
    small = clock.size == 2 and (np.abs(clock) <= LARGEST_OUTCOME).all()
    require(
        bool(small and (columns.time[0] < 0 or clock[0] < clock[1])),
        f"{prefix}clock needs a first step and a later last step",
    )


# Of many outcomes, so many of the outermost on each side are kept one by one.
_OUTERMOST = 20
# A node's levels come from at least so many rows.
_FEWEST_AT_NODE = 100


class Outcomes(NamedTuple):
    """The distinct outcomes that are kept, and where each row's outcome lies among them.

    A *cut* k divides the kept outcomes, which are sorted, into the first k and the rest. ``mass``
    is the share of all rows before each cut.
    """

    support: Support
    mass: FloatArray  # before each cut
    ranks: IndexArray
    weight: FloatArray  # the mean row weighs 1


def cut_outcomes(rows: TrainingRows, most: int) -> Outcomes:
    """The distinct outcomes to keep: all of them, or about ``most`` quantiles and every atom."""
    weight = np.ones(rows.y.size) if rows.weight is None else rows.weight / rows.weight.mean()
    values, ranks = np.unique(rows.y, return_inverse=True)
    atoms = find_atoms(ranks, rows.units, rows.steps)
    kept = _kept_values(atoms, np.bincount(ranks, weights=weight).astype(np.float64), most)
    values, atoms = values[kept], atoms[kept]
    ranks = np.searchsorted(values, rows.y)
    mass = np.bincount(ranks, weights=weight, minlength=values.size).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(mass)))
    support = Support.of(values, atoms, mass, smooth=True)
    return Outcomes(support, read_only(total / total[-1]), ranks, weight)


def folds_of(rows: TrainingRows, n_folds: int, seed: tuple[int, ...]) -> IndexArray:
    """The fold of each episode, drawn at random by the seed; all folds have similar sizes."""
    if rows.keys is None:
        return np.empty(0, dtype=np.intp)
    fold = np.full(rows.keys.size, -1, dtype=np.intp)
    if rows.keys.size > 1:
        order = np.argsort(keyed_hash(rows.keys, seed[0], *seed[1:], "fold"))
        fold[order] = np.arange(fold.size) % min(n_folds, fold.size)
    return fold


def levels_by_node(
    rows: TrainingRows,
    times: FloatArray,
    outcomes: Outcomes,
    fold: IndexArray,
    *,
    most_nodes: int,
) -> AnyArray:
    """The log odds of the share of outcomes before each cut, around evenly spaced times."""
    n_folds, n_values = int(fold.max(initial=-1)) + 1, outcomes.support.values.size
    n_nodes = 1 if times.max() == 0.0 else min(most_nodes, rows.step_labels.size)
    own = fold[rows.episodes] if n_folds else np.zeros(rows.y.size, dtype=np.intp)
    place = own * n_values + outcomes.ranks
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    found = np.empty((n_folds + 1, n_nodes, n_values - 1), dtype=np.float32)
    for node in range(n_nodes):
        half, centre = 0.5 / max(1, n_nodes - 1), node / max(1, n_nodes - 1)
        while True:
            a = np.searchsorted(ordered, centre - half - 1e-9)
            b = np.searchsorted(ordered, centre + half + 1e-9, side="right")
            if b - a >= min(_FEWEST_AT_NODE, order.size):
                break
            half *= 1.5
        near = order[a:b]
        n_groups = max(1, n_folds)
        mass = np.bincount(place[near], outcomes.weight[near], minlength=n_groups * n_values)
        by_fold = mass.reshape(n_groups, n_values)
        total = by_fold.sum(axis=0)
        for k in range(n_folds + 1):
            own_mass = np.maximum(total - by_fold[k], 0.0) if k < n_folds else total
            before = np.cumsum(own_mass)
            after = np.maximum(before[-1] - before[:-1], 0.0)
            found[k, node] = np.log((before[:-1] + 0.5) / (after + 0.5))
    # Whatever a logarithm rounds to, levels never fall.
    return np.maximum.accumulate(found, axis=2)


def row_keys(rows: TrainingRows) -> KeyArray:
    """A 64-bit hash for each row, of its episode and step."""
    if rows.keys is None:
        return keys_of(np.arange(rows.y.size))
    return mix(rows.keys[rows.episodes] ^ keys_of(rows.step_labels)[rows.steps])


def _kept_values(atoms: BoolArray, mass: FloatArray, most: int) -> IndexArray:
    """The indices of the outcomes to keep: all if there are at most ``most``, otherwise a part."""
    n = atoms.size
    if atoms.all() or n <= most:
        return np.arange(n)
    kept = atoms.copy()
    kept[:-1] |= atoms[1:]  # so that what lies just before an atom is no part of it
    kept[:_OUTERMOST] = kept[-_OUTERMOST:] = True
    total = np.cumsum(mass)
    even = np.arange(1, most) / most * total[-1]
    kept[np.searchsorted(total, even)] = True
    return np.flatnonzero(kept)


# The logit of a share of rows: e^100 rows there never are.
LARGEST_LEVEL = 100.0


def check_law(levels: AnyArray, mass: FloatArray, n_values: int, prefix: str) -> None:
    """Raise a `ModelFileError` unless levels and masses of this many outcomes rise as they must."""
    rising = mass.size == n_values + 1 and mass[0] == 0.0 and mass[-1] == 1.0
    rising = rising and bool((mass[1:] >= mass[:-1]).all())
    require(
        bool(rising), f"{prefix}mass needs to rise from 0 to 1, with one number more than outcomes"
    )
    n_cuts = n_values - 1
    whole = levels.size > 0 and levels.size % n_cuts == 0 if n_cuts else levels.size == 0
    require(
        bool(whole), f"{prefix}levels needs one number per stored time and cut between outcomes"
    )
    by_node = levels.reshape(-1, max(1, n_cuts))
    rising = (np.abs(levels) <= LARGEST_LEVEL).all() and (by_node[:, 1:] >= by_node[:, :-1]).all()
    require(
        bool(rising),
        f"{prefix}levels need to rise at each stored time, at most {LARGEST_LEVEL:g} in size",
    )


class RankedEstimator(HonestEstimator):
    """A model that gives each row a probability before each outcome of the training rows."""

    def _support_of_law(self) -> tuple[FloatArray, AnyArray, FloatArray]:
        raise NotImplementedError

    def _masses(self, rows: FloatArray) -> FloatArray:
        """(rows, outcomes + 1): the probability before each outcome, and last that of all."""
        raise NotImplementedError

    def _quantiles(
        self, rows: FloatArray, levels: FloatArray, strictly: bool, found: FloatArray
    ) -> None:
        support = self._support_of_law()
        quantiles_of_masses(self._masses(rows), support, (levels, strictly), found)

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's predicted distribution.

        A millionth of the probability lies in wide tails; the mean leaves it out.
        """
        rows = self._query_rows(X)
        values, atoms, tail = self._support_of_law()
        starts = np.concatenate(([tail[0]], values[:-1]))
        middles = np.where(atoms, values, 0.5 * starts + 0.5 * values)
        means = np.empty(rows.shape[0])

        def fill(a: int, b: int) -> None:
            means[a:b] = (np.diff(self._masses(rows[a:b]), axis=1) * middles).sum(axis=1)

        self._in_blocks(fill, rows.shape[0])
        return means
