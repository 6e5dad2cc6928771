"""Turns episodes into a table with one row per episode and step."""

from __future__ import annotations

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes._recorded import Recorded
from ontarget.episodes._store import Store
from ontarget.episodes.reading._columns import decoded


def frame_of(episodes: Recorded) -> pl.DataFrame:
    """The episodes as a table, one row per episode and step, sorted by step and then by episode."""
    store, chosen = episodes._store, episodes._index
    steps = store.offsets.size - 1
    parts = [store.rows(t, chosen) for t in range(steps)]
    index = np.concatenate([part for _, part in parts])
    counts = [part.size for _, part in parts]
    rows: slice | IndexArray = slice(None)
    if chosen is not None:
        rows = np.concatenate([np.asarray(part) for part, _ in parts])
    time = np.repeat(np.arange(steps), counts)
    roles = store.roles
    columns = [
        _label_series(roles.episode, episodes.ids[index]),
        pl.Series(roles.step, time + roles.first_step, dtype=pl.Int64),
    ]
    taken = {roles.episode, roles.step}
    for j, feature in enumerate(store.schema.features):
        if feature.name not in taken:
            columns.append(decoded(store.states[j, rows], feature))
            taken.add(feature.name)
    if roles.reward is not None and store.rewards is not None:
        columns.append(pl.Series(roles.reward, store.rewards[rows]))
    written = {one.name for one in columns}
    for signal in store.several:
        name = signal.reading.column
        if name is not None and name not in written:
            columns.append(pl.Series(name, signal.values[rows]))
            written.add(name)
    if not store.several and store.behavior.column is not None:
        columns.append(pl.Series(store.behavior.column, _after(store)[rows]))
    is_last = time == episodes.lengths[index] - 1
    for name, ends in (
        (roles.truncated, episodes.truncated),
        (roles.terminated, episodes.terminated),
    ):
        if name is not None and ends is not None:
            columns.append(pl.Series(name, is_last & ends[index]))
    if roles.group is not None and roles.group not in taken and episodes.groups is not None:
        columns.append(_label_series(roles.group, episodes.groups[index]))
    return pl.DataFrame(columns)


def _after(store: Store) -> FloatArray:
    """For episodes that are judged by a column: the value of this column after each row, (rows,).

    It is the value so far at the next row of the episode. In the last row, it is the outcome.
    """
    after = np.empty_like(store.before)
    for t in range(store.offsets.size - 1):
        now, alive = store.rows(t, None)
        after[now] = store.outcomes[alive]
        later, still = store.rows(t + 1, None)
        after[np.arange(store.before.size)[now][np.searchsorted(alive, still)]] = store.before[
            later
        ]
    return after


def _label_series(name: str, values: AnyArray) -> pl.Series:
    if values.dtype.kind in "iu":
        return pl.Series(name, values)
    return pl.Series(name, values.tolist(), dtype=pl.String)
