"""What a state holds beside its features where it does not tell enough: earlier steps, and means.

With a history of k steps, a state has these columns: its features; the features of the k steps
before, the latest first; what came with the state and the k - 1 states before it, the reward of the
last action or the behavior that was told; the mean of each feature that is no category, up to here;
and the mean of what came. What is not there yet, or is no number, is NaN.
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
    """The columns of a state with a history of so many steps.

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
    """How many columns that is, without making them."""
    if not history:
        return len(schema)
    return len(schema) * (history + 1) + history + int(measured(schema).sum()) + 1


def measured(schema: Schema) -> BoolArray:
    """The features that have a mean: those that are no categories."""
    return np.array([not one.categorical for one in schema.features], dtype=np.bool_)


def running_means(values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> FloatArray:
    """(columns, rows): the mean of each column of a run's rows up to each row, in time-major order.

    Summed from left to right, as live; what is no number does not count.
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
    """The feature a few steps before: a category of then that is not known now is missing."""
    unseen = feature.unseen if feature.categories is None else "missing"
    return replace(feature, name=name, unseen=unseen)
