"""The columns that the option ``history`` adds to a state: earlier steps, and means so far.

With a history of k steps, a state has these columns: its features; the features of the k steps
before, the latest first; the last k rewards, the latest first; the mean of each feature so far,
except categories; and the mean reward so far. If runs are judged by a column instead of rewards,
the values of this column take the place of the rewards. Values that do not exist yet, or are not
numbers, are NaN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes._walk import steps_of
from ontarget.episodes.schema import Feature, Schema

MOST_STEPS = 100


def state_schema(schema: Schema, history: int) -> Schema:
    """The columns of a state that also has the features and rewards of ``history`` earlier steps.

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
    """How many columns a state with ``history`` earlier steps has."""
    if not history:
        return len(schema)
    return len(schema) * (history + 1) + history + int(measured(schema).sum()) + 1


def measured(schema: Schema) -> BoolArray:
    """For each feature, whether a mean makes sense: true for all except categories."""
    return np.array([not one.categorical for one in schema.features], dtype=np.bool_)


def running_means(values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> FloatArray:
    """For every row, the mean of each column over the run up to that row, (columns, rows).

    The row itself counts, and NaN values do not. Rows are sorted by step, and within a step by
    episode. Values are summed in the order of the steps, exactly as when a live run is watched, so
    that recorded and live runs give the same floats.
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
    """A copy of the feature under another name, for its value at an earlier step.

    In the copy, an unknown category of a text feature counts as missing and is never an error.
    """
    unseen = feature.unseen if feature.categories is None else "missing"
    return replace(feature, name=name, unseen=unseen)
