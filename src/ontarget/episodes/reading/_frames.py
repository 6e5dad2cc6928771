"""Episodes from a table with one row per episode and step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes._arrangement import Arrangement, arrange
from ontarget.episodes._building import RawEpisodes
from ontarget.episodes.builtin_behaviors import behavior_of
from ontarget.episodes.reading._columns import (
    encoded,
    feature_of,
    flags,
    labels,
    number_feature,
    numbers,
    whole_numbers,
)
from ontarget.episodes.reading._layout import Layout, feature_names, named_alike, roles_of
from ontarget.episodes.schema import Feature, Schema
from ontarget.errors import EpisodesError

__all__ = ["record_frame", "table_of"]


def table_of(frame: Any) -> pl.LazyFrame:
    """Any dataframe as a lazy polars table."""
    if isinstance(frame, pl.LazyFrame):
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.lazy()
    try:
        wrapped = nw.from_native(frame)
    except TypeError as error:
        raise EpisodesError(
            f"frame needs a dataframe (pandas, polars, PyArrow, …), got {type(frame).__name__}"
        ) from error
    eager = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
    if eager.implementation.is_pyarrow():
        return eager.to_polars().lazy()
    # Column by column, so that pandas needs no PyArrow beside it.
    return pl.DataFrame([_series_of(eager[name]) for name in eager.columns]).lazy()


def _series_of(column: nw.Series[Any]) -> pl.Series:
    missing = column.is_null().to_numpy()
    if (column.dtype.is_numeric() or column.dtype == nw.Boolean) and not missing.any():
        return pl.Series(column.name, column.to_numpy())
    # Every library has a word of its own for a missing value; polars knows None.
    values = [
        None if absent else value
        for value, absent in zip(column.to_list(), missing.tolist(), strict=True)
    ]
    return pl.Series(column.name, values)


def record_frame(table: pl.LazyFrame, layout: Layout) -> RawEpisodes:
    """The recording that a table holds, one column read at a time."""
    columns = tuple(table.collect_schema().names())
    behavior = behavior_of(layout.behavior, columns=columns)
    layout = named_alike(layout, columns)
    roles = roles_of(layout, columns, behavior)
    names = feature_names(layout, columns, roles, behavior)

    def read(name: str) -> pl.Series:
        return table.select(name).collect().to_series()

    ids = labels(read(roles.episode), f"episode (column {roles.episode!r})")
    if not ids.codes.size:
        raise EpisodesError("the table has no row; record at least one episode")
    steps = None
    if layout.step is not None:
        steps = whole_numbers(read(layout.step), f"step (column {layout.step!r})")
    roles = replace(roles, first_step=_first_step(layout, steps))
    arrangement = arrange(ids.codes, steps, first_step=roles.first_step, names=ids.dictionary)
    own_ids = ids[arrangement.first_rows]
    del ids, steps
    reader = _Reader(read, arrangement, own_ids, roles.first_step)
    groups = None if roles.group is None else reader.per_episode(roles.group)
    features, states, unseen = _states(reader, names, layout)
    return RawEpisodes(
        arrangement=replace(arrangement, order=None),
        schema=Schema(features),
        behavior=behavior,
        roles=roles,
        ids=own_ids,
        groups=groups,
        truncated=reader.at_end(roles.truncated, "truncated"),
        terminated=reader.at_end(roles.terminated, "terminated"),
        states=states,
        rewards=reader.per_row(roles.reward, "reward"),
        behavior_values=reader.per_row(behavior.column, "behavior"),
        unseen=unseen,
    )


@dataclass(frozen=True)
class _Reader:
    """One column at a time, in time-major order."""

    read: Callable[[str], pl.Series]
    arrangement: Arrangement
    ids: AnyArray
    first_step: int

    def where(self, row: int) -> str:
        """The episode and step of a row of the table."""
        order = self.arrangement.order
        episode, step = self.arrangement.locate(
            row if order is None else int(np.argmax(order == row))
        )
        return f"episode {self.ids[episode]!s}, step {step + self.first_step}"

    def per_row(self, name: str | None, what: str) -> FloatArray | None:
        if name is None:
            return None
        values = numbers(self.read(name), f"{what} (column {name!r})", self.where)
        return self.arrangement.place(values)

    def per_episode(self, name: str) -> AnyArray:
        """A label that is the same in all rows of an episode."""
        found = labels(self.read(name), f"group (column {name!r})")
        own = found.codes[self.arrangement.first_rows]
        placed, offsets = found.place(self.arrangement), self.arrangement.offsets
        for t in range(1, offsets.size - 1):
            alive = np.flatnonzero(self.arrangement.lengths > t)
            other = placed[offsets[t] : offsets[t + 1]] != own[alive]
            if other.any():
                episode = alive[np.argmax(other)]
                raise EpisodesError(
                    f"group (column {name!r}) needs one value per episode, got another at episode "
                    f"{self.ids[episode]!s}, step {t + self.first_step}; a group is known at the "
                    "start of a run and does not change"
                )
        return found[self.arrangement.first_rows]

    def at_end(self, name: str | None, what: str) -> BoolArray | None:
        """A flag of each episode's last row; it may be raised nowhere else."""
        if name is None:
            return None
        raised = self.arrangement.place(flags(self.read(name), f"{what} (column {name!r})"))
        last = self.arrangement.last_rows()
        at_end: BoolArray = raised[last]
        if np.count_nonzero(raised) != np.count_nonzero(at_end):
            early = raised.copy()
            early[last] = False
            episode, step = self.arrangement.locate(int(np.argmax(early)))
            raise EpisodesError(
                f"{what} (column {name!r}) is true at episode {self.ids[episode]!s}, step "
                f"{step + self.first_step}, but the episode goes on; give the rest another id"
            )
        return at_end


def _states(
    reader: _Reader, names: tuple[str, ...], layout: Layout
) -> tuple[tuple[Feature, ...], FloatArray, int]:
    """The features, their values, and how many categories were unknown and are missing now."""
    features: list[Feature] = []
    unseen = 0
    states = np.empty((len(names), int(reader.arrangement.offsets[-1])))
    for j, name in enumerate(names):
        column = reader.read(name)
        known = None if layout.schema is None else layout.schema.features[j]
        if known is not None and known.categories is not None:
            feature = known
        elif known is not None:
            feature = number_feature(column, categorical=known.categorical)
        else:
            feature = feature_of(column, categorical=name in layout.categorical, where=reader.where)
        states[j] = reader.arrangement.place(encoded(column, feature, reader.where))
        if feature.unseen == "missing":
            unseen += int(np.count_nonzero(np.isnan(states[j]))) - column.null_count()
        features.append(feature)
    return tuple(features), states, unseen


def _first_step(layout: Layout, steps: IndexArray | None) -> int:
    """The number that steps count from: as told, else 1 where no row has 0, as in many logs."""
    if layout.first_step is not None:
        return int(layout.first_step)
    return 1 if steps is not None and steps.min() == 1 else 0
