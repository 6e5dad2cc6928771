"""The columns that ``history`` adds to a state: earlier steps, and means over the run so far.

With a history of k steps, a state has these columns: its features; the features of the k steps
before, the latest first; the last k rewards (or values of the behavior, if it is read from a
column), the latest first; the mean of each feature so far, except categories; and the mean of these
rewards so far. Values that do not exist yet, or are not numbers, are NaN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes._walk import steps_of
from ontarget.episodes.schema import Feature, Schema

__all__ = ["MOST_STEPS", "measured", "running_means", "state_schema", "state_width"]

MOST_STEPS = 100


def state_schema(schema: Schema, history: int) -> Schema:
    """The columns of a state with a history of this many steps.

    Examples
    --------
    >>> state_schema(Schema((Feature("speed"),)), 2).names
    ('speed', 'speed[-1]', 'speed[-2]', 'reward[-1]', 'reward[-2]', 'mean(speed)', 'mean(reward)')
    """
    if not history:
        return schema
    lags = range(1, history + 1)
    earlier = [_named(one, f"{one.name}[-{lag}]") for lag in lags for one in schema.features]
    means = [
        one.name
        for one, is_number in zip(schema.features, measured(schema), strict=True)
        if is_number
    ]
    derived = [f"reward[-{lag}]" for lag in lags]
    derived += [f"mean({name})" for name in (*means, "reward")]
    return Schema((*schema.features, *earlier, *(Feature(name) for name in derived)))


def state_width(schema: Schema, history: int) -> int:
    """The number of columns of a state with such a history."""
    if not history:
        return len(schema)
    return len(schema) * (history + 1) + history + int(measured(schema).sum()) + 1


def measured(schema: Schema) -> BoolArray:
    """The features that have a mean: all except categories."""
    return np.array([not one.categorical for one in schema.features], dtype=np.bool_)


def running_means(values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> FloatArray:
    """The mean of each column over a run's rows up to and including each row, (columns, rows).

    Rows are sorted by step, then by episode. Values are summed in order, as when a run is watched,
    so that both give the same floats. NaN values are skipped.
    """
    means = np.empty(values.shape)
    sums, counts = np.zeros((2, len(values), lengths.size))
    for _, rows, alive in steps_of(lengths, offsets):
        here = values[:, rows]
        known = np.isfinite(here)
        sums[:, alive] += np.where(known, here, 0.0)
        counts[:, alive] += known
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: nothing is known yet
            means[:, rows] = sums[:, alive] / counts[:, alive]
    return means


def _named(feature: Feature, name: str) -> Feature:
    """The feature under another name, for its value some steps earlier.

    An unknown category there counts as missing.
    """
    unseen = feature.unseen if feature.categories is None else "missing"
    return replace(feature, name=name, unseen=unseen)
