"""The input columns of regressions and networks: chosen from the training rows, and checked.

Numbers are standardised. Each frequent category has its own column, and so have missing values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import LARGEST_OUTCOME
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.models._location import location
from ontarget.models._stored import flat_array, partitions, require
from ontarget.models.base import TrainingRows
from ontarget.models.ranked._columns_kernel import Columns

# Of all categories of all features, this many of the most frequent ones have a column.
_MOST_CATEGORIES = 60


def columns_of(rows: TrainingRows, categorical: Collection[int]) -> tuple[Columns, IndexArray]:
    """The input columns for these rows, and the indices of those that vary in these rows.

    A feature that equals the step in every row is used as the time and has no column.
    """
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
    """The first feature that equals the step in every row; -1 if there is none.

    It is also -1 if all rows are at one step.
    """
    labels = rows.step_labels
    if labels.size < 2 or labels.dtype.kind not in "iuf":
        return -1
    steps = labels[rows.steps]
    likely = np.flatnonzero(rows.X[0] == steps[0]).tolist()
    return next((f for f in likely if np.array_equal(rows.X[:, f], steps)), -1)


def times_of(rows: TrainingRows, columns: Columns) -> FloatArray:
    """The time of each row, from 0 at the first step to 1 at the last.

    It is 0 for all rows if no feature holds the step.
    """
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
    """For each categorical feature, the categories that get their own column, ascending.

    These are the most frequent categories, counted over all features together.
    """
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
