"""Facts about the column of each feature: missing values, constants, values that hardly repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.schema import Feature

_MANY = 20  # a column with fewer different values is never like an id


@dataclass(frozen=True)
class ColumnFacts:
    """What was noticed about the column of one feature.

    Attributes
    ----------
    name
        The feature.
    missing
        The share of rows without a reading.
    constant
        Whether all readings are the same, or there are none.
    seen_once
        The categories that only one episode has.
    like_an_id
        Whether the column looks like an id: it numbers the runs, or its categories hardly ever
        repeat.
    """

    name: str
    missing: float
    constant: bool
    seen_once: tuple[str, ...]
    like_an_id: bool


def column_facts(episodes: Recorded) -> tuple[ColumnFacts, ...]:
    """What was noticed about the column of each feature, in the order of the features."""
    rows, owner = _rows_of(episodes)
    return tuple(
        _facts(feature, episodes._store.states[j, rows], owner)
        for j, feature in enumerate(episodes.schema.features)
    )


def _rows_of(episodes: Recorded) -> tuple[slice | IndexArray, IndexArray]:
    """Which rows belong to these episodes, sorted by step, and the episode of each row.

    Episodes are given by their positions.
    """
    store, chosen = episodes._store, episodes._index
    parts = [store.rows(t, chosen) for t in range(int(episodes.lengths.max()))]
    owner = np.concatenate([alive for _, alive in parts])
    rows = slice(None) if chosen is None else np.concatenate([np.asarray(r) for r, _ in parts])
    return rows, owner


def _facts(feature: Feature, values: FloatArray, owner: IndexArray) -> ColumnFacts:
    gaps = np.isnan(values)
    known, owner_of = (values[~gaps], owner[~gaps]) if gaps.any() else (values, owner)
    constant = bool(known.size == 0 or np.all(known == known[0]))
    once: tuple[str, ...] = ()
    like_an_id = False
    if not constant and feature.categorical:
        alone = _seen_once(known, owner_of)
        like_an_id = alone.size > max(_MANY, (int(owner.max()) + 1) // 2)
        once = () if like_an_id else tuple(_name(feature, one) for one in alone)
    elif not constant:
        like_an_id = _numbers_runs(values, owner)
    return ColumnFacts(feature.name, float(gaps.mean()), constant, once, like_an_id)


def _seen_once(values: FloatArray, owner: IndexArray) -> FloatArray:
    """The values that occur in only one episode. ``owner`` is the episode of each value."""
    present, codes = np.unique(values, return_inverse=True)
    first, last = np.full(present.size, owner.size), np.full(present.size, -1)
    np.minimum.at(first, codes, owner)
    np.maximum.at(last, codes, owner)
    alone: FloatArray = present[first == last]
    return alone


def _numbers_runs(values: FloatArray, owner: IndexArray) -> bool:
    """Whether the column looks like a numbering of the episodes.

    It does if it has whole numbers, the same in all rows of an episode, and hardly ever the same in
    two episodes. ``owner`` is the episode of each value.
    """
    own = values[: int(owner.max()) + 1]  # the first rows are step 0 of every episode
    if not np.all(own == np.rint(own)) or np.unique(own).size <= max(_MANY, 0.9 * own.size):
        return False
    return bool(np.all(values == own[owner]))


def _name(feature: Feature, code: float) -> str:
    return f"{code:g}" if feature.categories is None else feature.categories[int(code)]
