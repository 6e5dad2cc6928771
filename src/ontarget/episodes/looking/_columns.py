"""Facts about each feature's column: gaps, values that never change or hardly ever repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes.schema import Feature

__all__ = ["ColumnFacts", "column_facts"]

_MANY = 20  # no column with fewer values is like an id, however few the episodes


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about one feature's column.

    Attributes
    ----------
    name
        The feature.
    missing
        The share of rows without a reading.
    constant
        Whether all readings are the same; also if there are none.
    seen_once
        The categories that only one episode has.
    like_an_id
        Whether whole numbers, or categories, hardly ever repeat from one episode to another.
    """

    name: str
    missing: float
    constant: bool
    seen_once: tuple[str, ...]
    like_an_id: bool


def column_facts(episodes: Recorded) -> tuple[ColumnFacts, ...]:
    """The facts about every feature, in order."""
    rows, owner = _rows_of(episodes)
    return tuple(
        _facts(feature, episodes._store.states[j, rows], owner)
        for j, feature in enumerate(episodes.schema.features)
    )


def _rows_of(episodes: Recorded) -> tuple[slice | IndexArray, IndexArray]:
    """All rows of these episodes in time-major order, and the position of each row's episode."""
    store, chosen = episodes._store, episodes._index
    parts = [store.rows(t, chosen) for t in range(int(episodes.lengths.max()))]
    owner = np.concatenate([alive for _, alive in parts])
    rows = slice(None) if chosen is None else np.concatenate([np.asarray(r) for r, _ in parts])
    return rows, owner


def _facts(feature: Feature, values: FloatArray, owner: IndexArray) -> ColumnFacts:
    gaps = np.isnan(values)
    known, owner = (values[~gaps], owner[~gaps]) if gaps.any() else (values, owner)
    constant = bool(known.size == 0 or np.all(known == known[0]))
    once: tuple[str, ...] = ()
    like_an_id = False
    if not constant and (feature.categorical or np.all(known == np.rint(known))):
        present, codes = np.unique(known, return_inverse=True)
        episodes = int(owner.max()) + 1
        seen = np.bincount(np.unique(codes * episodes + owner) // episodes)
        like_an_id = bool(present.size > max(_MANY, np.unique(owner).size // 2, seen.sum() // 2))
        if feature.categorical and not like_an_id:
            once = tuple(_name(feature, one) for one in present[seen == 1])
    return ColumnFacts(feature.name, float(gaps.mean()), constant, once, like_an_id)


def _name(feature: Feature, code: float) -> str:
    return f"{code:g}" if feature.categories is None else feature.categories[int(code)]
