"""Episodes from a table with one row per episode and step, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import narwhals as nw
import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes._arrangement import Arrangement, arrange
from ontarget.episodes._building import Censored, Recording
from ontarget.episodes._columns import (
    decoded,
    encoded,
    feature_of,
    flags,
    labels,
    number_feature,
    numbers,
    whole_numbers,
)
from ontarget.episodes._store import Roles, Store
from ontarget.episodes.behavior import Behavior, Column, behavior_of
from ontarget.episodes.schema import Feature, Schema
from ontarget.errors import Argument, EpisodesError, Placeholder

if TYPE_CHECKING:
    from ontarget.episodes.episodes import Episodes

__all__ = ["Alike", "FrameOptions", "Layout", "frame_of", "layout_of", "record_frame", "table_of"]

_NAME = Placeholder("NAME")


class Alike(Protocol):
    """What new episodes can be read like: earlier ones, or a monitor that was fitted on some."""

    @property
    def schema(self) -> Schema:
        """The features of a state, with their dictionaries."""
        ...

    @property
    def behavior(self) -> Behavior:
        """What an episode is judged by."""
        ...

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is complete."""
        ...

    @property
    def roles(self) -> Roles:
        """Which column plays which part."""
        ...


class FrameOptions(TypedDict, total=False):
    """The options of `Episodes.from_frame` and `Episodes.read`."""

    episode: str
    step: str | None
    reward: str | None
    features: Sequence[str] | None
    behavior: str | Behavior
    truncated: str | None
    terminated: str | None
    group: str | None
    horizon: int | None
    categorical: Sequence[str]
    censored: Censored
    first_step: int | None
    like: Alike | None


@dataclass(frozen=True)
class Layout:
    """What `FrameOptions` leave open, filled in."""

    episode: str = "episode"
    step: str | None = "step"
    reward: str | None = "reward"
    features: Sequence[str] | None = None
    behavior: str | Behavior = "sum"
    truncated: str | None = "truncated"
    terminated: str | None = "terminated"
    group: str | None = "group"
    horizon: int | None = None
    categorical: Sequence[str] = ()
    censored: Censored = "refuse"
    first_step: int | None = None
    like: Alike | None = None
    # Features known beforehand, with their dictionaries: from the file, or from `like`.
    schema: Schema | None = None


def layout_of(options: FrameOptions, known: Layout | None = None) -> Layout:
    """The layout that the options describe, on top of what a file says of itself."""
    allowed = {item.name for item in fields(Layout)} - {"schema"}
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise EpisodesError(
            f"no option {unknown[0]!r}; the options are {', '.join(sorted(allowed))}"
        )
    layout = replace(known or Layout(), **options)
    like = layout.like
    if like is not None:
        if not all(hasattr(like, part) for part in ("schema", "behavior", "horizon", "roles")):
            raise EpisodesError(
                f"like needs episodes or a fitted monitor, got {type(like).__name__}"
            )
        layout = replace(
            layout,
            schema=like.schema,
            features=like.schema.names,
            behavior=options.get("behavior", like.behavior),
            horizon=options.get("horizon", like.horizon),
        )
    elif "features" in options or "categorical" in options:
        layout = replace(layout, schema=None)
    return layout


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


def record_frame(table: pl.LazyFrame, layout: Layout) -> Recording:
    """The recording that a table holds, one column read at a time."""
    columns = tuple(table.collect_schema().names())
    behavior = behavior_of(layout.behavior, columns=columns)
    layout = _named_alike(layout, columns)
    roles = _roles(layout, columns, behavior)
    names = _feature_names(layout, columns, roles, behavior)

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
    features, states = _states(reader, names, layout)
    return Recording(
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
        behavior_values=reader.per_row(
            behavior.column if isinstance(behavior, Column) else None, "behavior"
        ),
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
) -> tuple[tuple[Feature, ...], FloatArray]:
    features: list[Feature] = []
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
        features.append(feature)
    return tuple(features), states


def frame_of(episodes: Episodes) -> pl.DataFrame:
    """The episodes as a table, sorted by step and then by episode."""
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
    if isinstance(store.behavior, Column):
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
    """A column behavior's values after each row: the next row's before, or the outcome."""
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


def _roles(layout: Layout, columns: tuple[str, ...], behavior: Behavior) -> Roles:
    """Which column plays which part; the flags and the group only where they are there."""
    usual = Layout()
    found: dict[str, str | None] = {}
    for part in ("episode", "step", "reward", "truncated", "terminated", "group"):
        name = getattr(layout, part)
        optional = name == getattr(usual, part) and (
            part in ("truncated", "terminated", "group")
            or (part == "reward" and isinstance(behavior, Column))
        )
        if name is None or name in columns:
            found[part] = name
        elif optional:
            found[part] = None
        else:
            message = f"no {part} column {name!r} among {', '.join(columns)}; pass "
            rows = (" (or ", Argument("step", None), " if the rows stand in order)")
            raise EpisodesError(message, Argument(part, _NAME), *(rows if part == "step" else ()))
    if found["reward"] is None and not isinstance(behavior, Column):
        raise EpisodesError(
            f"behavior {behavior.spec!r} needs a reward column; pass ", Argument("reward", _NAME)
        )
    if isinstance(behavior, Column) and behavior.column not in columns:
        raise EpisodesError(
            f"no behavior column {behavior.column!r} among {', '.join(columns)}; pass ",
            Argument("behavior", _NAME),
        )
    return Roles(
        episode=layout.episode,
        step=layout.step or "step",
        reward=found["reward"],
        truncated=found["truncated"],
        terminated=found["terminated"],
        group=found["group"],
    )


def _named_alike(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """Where no column has the usual name of a part, that of the episodes these are read like."""
    if layout.like is None:
        return layout
    usual, theirs = Layout(), layout.like.roles
    parts = ("episode", "step", "reward", "truncated", "terminated", "group")
    named = {
        part: getattr(theirs, part)
        for part in parts
        if getattr(layout, part) == getattr(usual, part)
        and getattr(layout, part) not in columns
        and getattr(theirs, part) in columns
    }
    return replace(layout, **named)


def _first_step(layout: Layout, steps: IndexArray | None) -> int:
    """The number that steps count from: as told, else 1 where no row has 0, as in many logs."""
    if layout.first_step is not None:
        return int(layout.first_step)
    return 1 if steps is not None and steps.min() == 1 else 0


def _feature_names(
    layout: Layout, columns: tuple[str, ...], roles: Roles, behavior: Behavior
) -> tuple[str, ...]:
    parts = {
        roles.episode,
        layout.step,
        roles.reward,
        roles.truncated,
        roles.terminated,
        roles.group,
    }
    if isinstance(behavior, Column):
        parts.add(behavior.column)
    names = (
        tuple(name for name in columns if name not in parts)
        if layout.features is None
        else tuple(layout.features)
    )
    for name in (*names, *layout.categorical):
        if name not in columns:
            raise EpisodesError(f"no feature column {name!r} among {', '.join(columns)}")
    stray = [name for name in layout.categorical if name not in names]
    if stray:
        raise EpisodesError(
            f"categorical needs names of features ({', '.join(names)}), got {stray[0]!r}"
        )
    spent = {roles.reward, roles.truncated, roles.terminated}
    if isinstance(behavior, Column):
        spent.add(behavior.column)
    late = [name for name in names if name in spent]
    if late:
        raise EpisodesError(
            f"feature {late[0]!r} is known only after acting, so no state may hold it; "
            "leave it out of features"
        )
    return names
