"""How features become the columns of a regression: standardised, one per category, or missing."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.models._location import location
from ontarget.models.base import TrainingRows
from ontarget.models.regression._law_kernel import GLOBALS, WIDTH, Columns

__all__ = ["Encoding", "choose_columns", "times_of"]

# Of all categories of all features, this many of the most frequent ones have a column.
_MOST_CATEGORIES = 60
# Beyond this many effects, interactions and squares are left out, the less useful ones first.
_MOST_EFFECTS = 80


class Encoding(NamedTuple):
    """The columns of some training rows, and which effects they have data for."""

    columns: Columns
    active: IndexArray  # places among all effects, ascending
    is_main: BoolArray  # of the active ones: a feature itself or a slope of z, no interaction


def choose_columns(
    rows: TrainingRows, categorical: Collection[int], *, several_cuts: bool
) -> Encoding:
    """The columns for these rows; a feature that equals the step in every row is the time.

    With a single cut no effect depends on the threshold: it is a plain logistic regression.
    """
    X, time = rows.X, _time_feature(rows)
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
    given = np.flatnonzero(np.concatenate([np.empty(0, dtype=np.bool_), *used]))
    return Encoding(columns, *_effects(columns, given, several_cuts))


def times_of(rows: TrainingRows, columns: Columns) -> FloatArray:
    """Each row's step as a share of the way from the first to the last; all 0 without a time."""
    time = int(columns.time[0])
    if time < 0:
        return np.zeros(rows.y.size)
    first, last = columns.clock.tolist()
    times: FloatArray = (rows.X[:, time] - first) / (last - first)
    return times


def _time_feature(rows: TrainingRows) -> int:
    """The first feature that equals the step in every row, or -1; one step alone has no time."""
    labels = rows.step_labels
    if labels.size < 2 or labels.dtype.kind not in "iuf":
        return -1
    steps = labels[rows.steps]
    likely = np.flatnonzero(rows.X[0] == steps[0]).tolist()
    return next((f for f in likely if np.array_equal(rows.X[:, f], steps)), -1)


def _categories(X: FloatArray, categorical: Collection[int]) -> dict[int, FloatArray]:
    """The categories with a column of their own, ascending, of each categorical feature."""
    found = {f: np.unique(X[~np.isnan(X[:, f]), f], return_counts=True) for f in categorical}
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(part[1] for part in found.values())])
    kept = np.zeros(counts.size, dtype=np.bool_)
    kept[np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]] = True
    ends = np.cumsum([0, *(values.size for values, _ in found.values())])
    return {
        f: values[kept[ends[k] : ends[k + 1]]] for k, (f, (values, _)) in enumerate(found.items())
    }


def _effects(
    columns: Columns, given: IndexArray, several_cuts: bool
) -> tuple[IndexArray, BoolArray]:
    """Which effects to fit, as many as there is room for, and which of them are main effects."""
    has_time = bool(columns.time[0] >= 0)
    spline, slopes = range(1, 4) if has_time else (), range(4, 8) if several_cuts else ()
    changing = range(8, 10) if has_time and several_cuts else ()
    is_number = np.zeros(columns.codes.size, dtype=np.bool_)
    numbers = np.flatnonzero(~columns.categorical & (np.diff(columns.start) > 0))
    is_number[columns.start[numbers]] = True
    own = GLOBALS + WIDTH * given
    groups = [own + 1] if several_cuts else []
    groups += [own + 2] if has_time else []
    groups += [own[is_number[given]] + 3]
    groups += [own + 4, own + 5] if has_time else []
    chosen = [np.array([0, *spline, *slopes, *changing]), own]
    for group in groups:
        if sum(part.size for part in chosen) + group.size <= _MOST_EFFECTS:
            chosen.append(group)
    active = np.sort(np.concatenate(chosen))
    return read_only(active), np.isin(active, [*slopes, *own])
