"""`History`: what a state says about the run so far, in columns behind its features.

The columns come in this order: the features of the ``steps`` steps before, the latest first; the
last ``steps`` rewards, the latest first; the change of a feature since the last step; the mean of a
feature, or of the reward, over the run so far; and how often a category has occurred so far. If
runs are judged by a column instead of rewards, the values of this column take the place of the
rewards. Values that do not exist yet, or are not numbers, are NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray, IntArray
from ontarget.episodes.behavior import steps_of
from ontarget.episodes.schema import Feature, Schema

MOST_STEPS: Final = 100

# What a column holds; see `History.columns`.
FEATURE, REWARD, CHANGE, MEAN, COUNT = range(5)
_MOST_CODES: Final = 2**31


@dataclass(frozen=True)
class History:
    """Which columns about the run so far a state has, besides its features; false if none.

    Attributes
    ----------
    steps
        How many earlier steps, with their features, rewards and all means so far.
    changes, means
        The features, by position, whose change since the last step, or mean so far, is added.
    counts
        Pairs of a feature and the code of one of its categories, whose occurrences are counted.
    """

    steps: int = 0
    changes: tuple[int, ...] = ()
    means: tuple[int, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps or self.changes or self.means or self.counts)

    @property
    def reads_rewards(self) -> bool:
        """Whether a column holds rewards, or their mean."""
        return self.steps > 0

    @property
    def lags(self) -> int:
        """How many earlier steps must be remembered."""
        return max(self.steps, int(bool(self.changes)))

    def columns(self, schema: Schema) -> IntArray:
        """(columns, 3): what each column holds, the position of its feature, and a number."""
        d, lags = len(schema), range(1, self.steps + 1)
        numbers = np.flatnonzero(measured(schema)).tolist() if self.steps else []
        found = [(FEATURE, j, lag) for lag in lags for j in range(d)]
        found += [(REWARD, d, lag) for lag in lags]
        found += [(CHANGE, j, 1) for j in self.changes]
        means = {*numbers, *self.means}
        found += [(MEAN, j, 0) for j in (*sorted(means), *([d] if self.steps else []))]
        found += [(COUNT, j, code) for j, code in self.counts]
        return read_only(np.array(found, dtype=np.int64).reshape(-1, 3))

    def by_kind(self, schema: Schema) -> tuple[IntArray, ...]:
        """The columns of each kind, in the order of the kinds, each as (columns, 3)."""
        columns = self.columns(schema)
        places = np.arange(len(schema), len(schema) + len(columns))
        each = [columns[:, 0] == kind for kind in (FEATURE, REWARD, CHANGE, MEAN, COUNT)]
        return tuple(read_only(np.column_stack([places[own], columns[own, 1:]])) for own in each)

    def blank(self, schema: Schema) -> FloatArray:
        """What a run remembers before its first state, in the form that `recall_rows` reads."""
        if not self:
            return read_only(np.zeros((0, 0)))
        width = len(schema) + 1
        memory = np.zeros((self.lags + 2 - (-len(self.counts) // width), width))
        memory[: self.lags] = np.nan
        return read_only(memory)

    def to_json(self) -> int | dict[str, Any]:
        """The history as plain JSON values: the number of steps if there is nothing else."""
        return asdict(self) if self.changes or self.means or self.counts else self.steps


NO_HISTORY: Final = History()


def state_schema(schema: Schema, history: History) -> Schema:
    """The columns of a state with this history.

    Examples
    --------
    >>> state_schema(Schema((Feature("speed"),)), History(2)).names
    ('speed', 'speed[-1]', 'speed[-2]', 'reward[-1]', 'reward[-2]', 'mean(speed)', 'mean(reward)')
    >>> state_schema(Schema((Feature("speed"),)), History(changes=(0,))).names
    ('speed', 'change(speed)')
    """
    if not history:
        return schema
    added = [_column(schema, *one) for one in history.columns(schema).tolist()]
    return Schema((*schema.features, *added))


def state_width(schema: Schema, history: History) -> int:
    """How many columns a state with this history has."""
    return len(schema) + (len(history.columns(schema)) if history else 0)


def measured(schema: Schema) -> BoolArray:
    """For each feature, whether a mean makes sense: true for all except categories."""
    return np.array([not one.categorical for one in schema.features], dtype=np.bool_)


def running_means(values: FloatArray, lengths: IndexArray, offsets: IndexArray) -> FloatArray:
    """For every row, the mean of each column over the run up to that row, (columns, rows).

    The row itself counts, and NaN values do not. Values are summed in the order of the steps,
    exactly as when a live run is watched, so that recorded and live runs give the same floats.
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


def running_counts(
    states: FloatArray,
    counts: Sequence[tuple[int, int]],
    lengths: IndexArray,
    offsets: IndexArray,
) -> IntArray:
    """For every row, how often each category has occurred in the run up to that row."""
    found = np.empty((len(counts), states.shape[1]), dtype=np.int32)
    so_far = np.zeros((len(counts), lengths.size), dtype=np.int32)
    features, codes = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    for _, rows, alive in steps_of(lengths, offsets):
        so_far[:, alive] += states[:, rows][features] == codes[:, None]
        found[:, rows] = so_far[:, alive]
    return found


def history_from(stored: Any, schema: Schema) -> History:
    """The history that `History.to_json` wrote, for states with these features."""
    if not isinstance(stored, dict):
        return History(_whole(stored, MOST_STEPS + 1))
    d = len(schema)
    numbers = set(np.flatnonzero(measured(schema)).tolist())
    changes, means = (_places(stored[name], numbers) for name in ("changes", "means"))
    counts = tuple((_whole(j, d), _whole(code, _MOST_CODES)) for j, code in stored["counts"])
    for j, code in counts:
        if j in numbers or code >= len(schema.features[j].categories or range(_MOST_CODES)):
            raise ValueError("only categories are counted")
    if len(set(counts)) < len(counts):
        raise ValueError("a category is counted twice")
    return History(_whole(stored["steps"], MOST_STEPS + 1), changes, means, counts)


def _places(stored: Iterable[Any], allowed: set[int]) -> tuple[int, ...]:
    found = tuple(_whole(one, _MOST_CODES) for one in stored)
    if not allowed.issuperset(found) or len(set(found)) < len(found):
        raise ValueError("these are not different numbers of features")
    return found


def _whole(stored: Any, below: int) -> int:
    if not isinstance(stored, int) or isinstance(stored, bool) or not 0 <= stored < below:
        raise ValueError(f"this is no whole number from 0 to {below - 1}")
    return stored


def _column(schema: Schema, holds: int, place: int, number: int) -> Feature:
    if place == len(schema):
        return Feature(f"reward[-{number}]" if holds == REWARD else "mean(reward)")
    feature = schema.features[place]
    if holds == FEATURE:
        # At an earlier step, an unknown category counts as missing and is never an error.
        unseen = feature.unseen if feature.categories is None else "missing"
        return replace(feature, name=f"{feature.name}[-{number}]", unseen=unseen)
    if holds == COUNT:
        category = number if feature.categories is None else feature.categories[number]
        return Feature(f"count({feature.name}={category})")
    return Feature(f"{'change' if holds == CHANGE else 'mean'}({feature.name})")
