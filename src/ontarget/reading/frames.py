"""Episodes from a table with one row per episode and step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes.building import RawEpisodes, RawSignal, arrange, remarked
from ontarget.episodes.builtin_behaviors import Judged, Reading, Sum
from ontarget.episodes.schema import Feature, Schema, UnknownCategories
from ontarget.errors import Argument, EpisodesError, Placeholder, TargetError
from ontarget.reading._columns import (
    Labels,
    checked_times,
    encoded,
    feature_of,
    is_times,
    joined_labels,
    number_feature,
    time_features,
    unknown_in,
    with_time_features,
)
from ontarget.reading._parts import Parts, find_parts, no_column
from ontarget.reading._rows import Reader, left_alone, named_column
from ontarget.reading._steps import check_order, clock_of, read_steps
from ontarget.reading.layout import (
    AN_OUTCOME,
    FROM_NEXT,
    ON_CLOCK,
    Layout,
    feature_names,
    kept_columns,
)
from ontarget.target import Target

_FEW_CATEGORIES = 20  # up to this many are never remarked on, however few episodes there are


def table_of(frame: Any) -> pl.LazyFrame | pl.DataFrame:
    """Any dataframe as a polars table."""
    if isinstance(frame, pl.LazyFrame | pl.DataFrame):
        return frame
    try:
        wrapped = nw.from_native(frame)
    except TypeError as error:
        raise EpisodesError(
            Argument("frame"),
            f" needs a dataframe (pandas, polars, PyArrow, …), got {type(frame).__name__}",
        ) from error
    eager = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
    if eager.implementation.is_pyarrow():
        return eager.to_polars()
    # Column by column, so that pandas works without PyArrow.
    return pl.DataFrame([_series_of(eager[name]) for name in eager.columns])


def _series_of(column: nw.Series[Any]) -> pl.Series:
    missing = column.is_null().to_numpy()
    if (column.dtype.is_numeric() or column.dtype == nw.Boolean) and not missing.any():
        return pl.Series(column.name, column.to_numpy())
    # Every library has its own missing value; polars uses None.
    values = [
        None if absent else value
        for value, absent in zip(column.to_list(), missing.tolist(), strict=True)
    ]
    return pl.Series(column.name, values)


def record_frame(
    table: pl.LazyFrame | pl.DataFrame, layout: Layout, notes: Sequence[str] = ()
) -> RawEpisodes:
    """The episodes in a table, not checked yet.

    Only some columns at a time are read into memory. ``layout`` says how to read the table;
    ``notes`` are remarks for the user about how it was opened.
    """
    taken_over = named_column(layout, table.collect_schema().names())
    if taken_over is not None:
        layout = replace(layout, intervened=taken_over)
        whole = table.lazy().collect()
        table, layout, note = left_alone(whole, layout, lambda rest: _ids_and_steps(whole, rest))
        notes = (*notes, note) if note else notes
    types = table.collect_schema()
    columns = kept_columns(layout, types.names())
    layout, judged = _judged(layout, columns)

    read = table.get_column if isinstance(table, pl.DataFrame) else _few_at_a_time(table, columns)
    with remarked(notes):
        parts = find_parts(layout, columns, judged, read)
    parts = replace(parts, notes=(*notes, *parts.notes))
    with remarked(parts.remarks):
        rows = _rows_of(read, columns, layout, judged=judged, parts=parts)
        return _recording(rows, layout, judged, types)


def found_parts(table: pl.DataFrame, layout: Layout) -> Parts:
    """Which column of a table is the episode, the step, the reward and so on.

    The table is the beginning of the first of several similar tables.
    """
    columns = kept_columns(layout, table.columns)
    layout, judged = _judged(layout, columns)
    parts = find_parts(layout, columns, judged, table.get_column)
    ids = [table.get_column(name) for name in parts.episode_columns]
    if any(column.has_nulls() for column in ids):
        return parts  # such rows are refused later, with the name of the file
    codes = joined_labels(ids, "episode").codes
    free = _free(parts, layout, judged, columns)
    return check_order(parts, layout, free, codes, table.get_column)


class KeyedRows(NamedTuple):
    """The rows of a table, each with the id of its episode and its step, counted from 0."""

    table: pl.DataFrame
    ids: AnyArray
    steps: IndexArray


def keyed_rows(table: pl.LazyFrame | pl.DataFrame, layout: Layout) -> KeyedRows | None:
    """The rows of a table, each with the id of its episode and its step; None with ``every=``.

    With the option ``every``, steps are intervals of time, not rows.
    """
    columns = kept_columns(layout, table.collect_schema().names())
    layout, judged = _judged(layout, columns)
    whole = table.lazy().select(columns).collect()
    parts = find_parts(layout, columns, judged, whole.get_column)
    if _every(layout, parts) is not None:
        return None
    rows = _rows_of(whole.get_column, columns, layout, judged=judged, parts=parts)
    arranged = arrange(rows.ids.codes, rows.steps, first_step=rows.first_step)
    order = np.arange(whole.height) if arranged.order is None else arranged.order
    steps = np.empty(whole.height, dtype=np.intp)
    steps[order] = np.repeat(np.arange(arranged.offsets.size - 1), np.diff(arranged.offsets))
    return KeyedRows(whole, rows.ids[np.arange(whole.height)], steps)


def _judged(layout: Layout, columns: tuple[str, ...]) -> tuple[Layout, Judged]:
    """The options for reading, completed, and the behaviors (numbers runs are judged by).

    Options that follow from the behaviors are filled in.
    """
    layout = _with_reward_since_last(_with_outcome(layout, columns), columns)
    judged = Judged.of(layout.behavior, columns)
    told = judged.several or judged.first.behavior.told
    if layout.reward_since_last and (layout.outcome or told):
        raise EpisodesError(
            Argument("reward_since_last"),
            " is for a single behavior that is made of rewards; otherwise shift the column up by "
            "one row within each episode before you read the table",
        )
    signal = judged.first.signal
    if judged.several or signal is None:
        return layout, judged
    # If a single behavior reads a signal, the signal is used as the reward.
    if layout.reward not in (..., signal):
        raise EpisodesError(
            f"behavior {judged.spec!r} reads the column {signal!r} instead of a reward; leave out ",
            Argument("reward", layout.reward),
        )
    return replace(layout, reward=signal), Judged({"": Reading(judged.first.behavior)})


def _ids_and_steps(table: pl.DataFrame, layout: Layout) -> tuple[AnyArray, IndexArray]:
    found = keyed_rows(table, layout)
    if found is None:
        raise EpisodesError(Argument("intervened"), " cannot be combined with ", Argument("every"))
    return found.ids, found.steps


def _with_outcome(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """The options for reading, with the outcome column as the reward, if there is one.

    They are unchanged if the rewards in the table were already made from that column.
    """
    name = layout.outcome
    if name is None or (layout.like is not None and f"{AN_OUTCOME}{name}" in columns):
        return replace(layout, outcome=None)
    if name not in columns:
        among = f"no outcome column {name!r} among {', '.join(columns)}; pass "
        raise EpisodesError(among, Argument("outcome", Placeholder("NAME")))
    judged = Judged.of(layout.behavior, columns)
    if layout.reward not in (..., name) or judged != Judged({"": Reading(Sum())}):
        raise EpisodesError(
            "pass ", Argument("outcome", name), " without a reward or another behavior"
        )
    return replace(layout, reward=name)


def _with_reward_since_last(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """The options, without ``reward_since_last`` if `Episodes.write` made the table.

    In such a table, every reward is already in the row that earned it.
    """
    role = None if layout.like is None else layout.like.roles.reward
    made = role is not None and role.startswith(FROM_NEXT) and role in columns
    made = made and layout.reward in (..., role)
    return replace(layout, reward_since_last=False) if made else layout


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table (or its intervals, with ``every=``), their episodes, and a reader.

    The reader returns a column by its name.
    """

    read: Callable[[str], pl.Series]
    columns: tuple[str, ...]
    ids: Labels
    steps: IndexArray | None
    first_step: int
    parts: Parts


def _every(layout: Layout, parts: Parts) -> str | None:
    """The interval of time of the option ``every``; None without it.

    It is also None if the table already has one row per interval.
    """
    on_it = layout.like is not None and parts.step == layout.like.roles.step
    return None if on_it else layout.every


def _rows_of(
    read: Callable[[str], pl.Series],
    columns: tuple[str, ...],
    layout: Layout,
    *,
    judged: Judged,
    parts: Parts,
) -> _Rows:
    ids = joined_labels([read(name) for name in parts.episode_columns], "episode")
    if not ids.codes.size:
        raise EpisodesError("the table has no rows; record at least one episode")
    every = _every(layout, parts)
    if every is None:
        free = _free(parts, layout, judged, columns)
        parts = check_order(parts, layout, free, ids.codes, read)
        steps, first, parts = read_steps(parts, layout, ids, read)
    else:
        if parts.step is None or parts.sorts:
            needed = " needs one column of dates or times as the step; pass "
            raise EpisodesError(Argument("every"), needed, Argument("step", Placeholder("NAME")))
        if layout.reward_since_last:
            raise EpisodesError(
                Argument("reward_since_last"),
                " cannot be combined with ",
                Argument("every"),
            )
        if judged.several:
            raise EpisodesError(
                Argument("every"),
                " works with a single behavior, got several; make one row per interval before "
                "you pass the table",
            )
        behavior = judged.first.behavior
        clock = clock_of(read(parts.step), ids, every, behavior)
        summed = None if layout.outcome else parts.reward
        read = clock.reader(read, parts, behavior, summed=summed)
        first = layout.first_step or 0
        ids, steps = clock.ids, clock.steps + first
        parts = replace(parts, step=f"{parts.step}{ON_CLOCK}{every}")
    times = checked_times(layout, columns)
    if times:
        read = with_time_features(read, times, ids.codes)
        made = [time_features(name) if name in times else (name,) for name in columns]
        columns = tuple(feature for names in made for feature in names)
    return _Rows(read, columns, ids, steps, first, parts)


def _free(parts: Parts, layout: Layout, judged: Judged, columns: tuple[str, ...]) -> list[str]:
    """The columns that can be features, because they are not the step, the reward or the like."""
    taken = {*parts.episode_columns, parts.reward, parts.truncated, parts.terminated, parts.group}
    taken |= {*judged.columns, layout.stop_probability, layout.cutoff, layout.target}
    return [name for name in columns if name not in taken]


def _refuse_times(names: Sequence[str], types: pl.Schema) -> None:
    """Refuse features that are dates or times, all in one message."""
    found = [name for name in names if name in types and types[name].is_temporal()]
    if found:
        s, one = "s" * (len(found) > 1), "them" if len(found) > 1 else "it"
        raise EpisodesError(
            f"feature{s} {', '.join(map(repr, found))} {'hold' if s else 'holds'} dates or times, "
            "not numbers; pass ",
            Argument("times", found),
            " to make numbers of them, or ",
            Argument("drop", found),
            f" to leave {one} out",
        )


def _recording(rows: _Rows, layout: Layout, judged: Judged, types: pl.Schema) -> RawEpisodes:
    parts, ids, behavior = rows.parts, rows.ids, judged.first.behavior
    for part, name in (("stop_probability", layout.stop_probability), ("cutoff", layout.cutoff)):
        if name is not None and name not in rows.columns:
            raise EpisodesError(*no_column(part, name, rows.columns))
    late = {parts.reward, parts.truncated, parts.terminated, *judged.columns}
    early = {
        *parts.episode_columns,
        *parts.step_columns,
        parts.group,
        layout.stop_probability,
        layout.cutoff,
        layout.target,
    }
    names = feature_names(layout, rows.columns, early, late)
    _refuse_times(names, types)
    arrangement = arrange(ids.codes, rows.steps, first_step=rows.first_step, names=ids.dictionary)
    own_ids = ids[arrangement.first_rows]
    reader = Reader(rows.read, arrangement, own_ids, rows.first_step)
    groups = None if parts.group is None else reader.per_episode(reader.read(parts.group), "group")
    features, states, strangers = _states(reader, names, layout)
    notes = () if layout.schema else _many_categories(features, arrangement.lengths.size)
    roles = parts.roles(rows.first_step)
    rewards = reader.per_row(parts.reward, "reward")
    if layout.outcome is not None and rewards is not None:
        rewards = reader.at_last(rewards, layout.outcome)
        roles = replace(roles, reward=f"{AN_OUTCOME}{layout.outcome}")
    if rewards is not None and not layout.reward_since_last:
        reader.refuse_first_gaps(rewards, str(parts.reward))
    elif rewards is not None:
        rewards = reader.from_next(rewards, str(parts.reward))
        roles = replace(roles, reward=f"{FROM_NEXT}{parts.reward}")
    return RawEpisodes(
        arrangement=replace(arrangement, order=None),
        schema=Schema(features),
        behavior=behavior,
        roles=roles,
        ids=own_ids,
        groups=groups,
        truncated=reader.at_end(parts.truncated, "truncated"),
        terminated=reader.at_end(parts.terminated, "terminated"),
        states=states,
        rewards=rewards,
        behavior_values=reader.per_row(behavior.column, "behavior"),
        several=_signals(reader, judged, parts.reward) if judged.several else (),
        remarks=(*parts.remarks, *notes),
        strangers=strangers,
        stop_probability=reader.per_row(layout.stop_probability, "stop_probability"),
        cutoff=reader.at_start(layout.cutoff, "cutoff"),
        wanted=_targets(reader, layout.target, rows.columns),
    )


def _targets(
    reader: Reader, name: str | None, columns: Sequence[str]
) -> tuple[Target | None, ...] | None:
    """Each episode's own target, from a column of texts such as ``60:``.

    An empty text means that an episode has no target. None if there is no such column.
    """
    if name is None:
        return None
    if name not in columns:
        raise EpisodesError(
            f"no target column {name!r} among {', '.join(columns)}; pass ",
            Argument("target", Placeholder("NAME")),
        )
    texts = reader.per_episode(reader.read(name).cast(pl.String).fill_null(""), "target")
    found = []
    for episode, text in zip(reader.ids, texts.tolist(), strict=True):
        try:
            found.append(Target.parse(text) if text else None)
        except TargetError as error:
            where = f"target (column {name!r}) of episode {episode!s}"
            raise EpisodesError(f"{where}: {error}") from error
    return tuple(found)


def _signals(reader: Reader, judged: Judged, reward: str | None) -> tuple[RawSignal, ...]:
    """Each of several behaviors (numbers runs are judged by), with the values it needs at each row.

    A column that several behaviors need is read only once.
    """
    read: dict[str, FloatArray] = {}
    found = []
    for name, reading in judged.readings.items():
        column = reading.column or reward
        assert column is not None  # a behavior that reads the reward needs a reward column
        if column not in read:
            values = reader.per_row(column, f"behavior {name!r}")
            assert values is not None
            read[column] = values
        found.append(RawSignal(name, reading, read[column]))
    return tuple(found)


def _few_at_a_time(table: pl.LazyFrame, columns: tuple[str, ...]) -> Callable[[str], pl.Series]:
    """A function that reads one column of a table.

    A wide table is read in a hundred blocks of columns, to save time.
    """
    size = max(1, len(columns) // 100)
    places = {name: place // size for place, name in enumerate(columns)}

    @lru_cache(maxsize=1)
    def block(number: int) -> pl.DataFrame:
        return table.select(columns[number * size : (number + 1) * size]).collect()

    return lambda name: block(places[name]).get_column(name)


def _states(
    reader: Reader, names: tuple[str, ...], layout: Layout
) -> tuple[tuple[Feature, ...], FloatArray, tuple[UnknownCategories, ...]]:
    """The features, their values, and the categories that are not known and became missing."""
    features: list[Feature] = []
    strangers: list[UnknownCategories] = []
    states = np.empty((len(names), int(reader.arrangement.offsets[-1])))
    for j, name in enumerate(names):
        column = reader.read(name)
        known = None if layout.schema is None else layout.schema.features[j]
        if known is not None and known.categories is not None:
            feature = known
        elif known is not None:
            feature = number_feature(column, categorical=known.categorical)
            feature = replace(feature, known=known.known, unseen=known.unseen)
        else:
            feature = feature_of(column, categorical=name in layout.categorical, where=reader.where)
        states[j] = reader.arrangement.place(encoded(column, feature, reader.where))
        unknown = unknown_in(column, feature) if feature.codes and layout.schema else None
        strangers += [unknown] if unknown else []
        features.append(feature)
    return tuple(features), states, tuple(strangers)


def _many_categories(features: tuple[Feature, ...], n_episodes: int) -> tuple[str, ...]:
    """A remark on each text feature with so many categories that new runs will have others."""
    return tuple(
        f"{feature.name!r} is text with {len(feature.categories):,} different values in "
        f"{n_episodes:,} episodes. {_what_to_do(feature.categories)}"
        for feature in features
        if feature.categories is not None
        and len(feature.categories) > max(_FEW_CATEGORIES, n_episodes // 10)
    )


def _what_to_do(categories: tuple[str, ...]) -> str:
    if is_times(pl.Series(categories[:1])):
        return (
            "These are times, and every new run brings new ones, which count as missing: name the "
            "column with the option `times` to make features of it, or with the option `drop`"
        )
    return (
        "If these are times or ids, new runs bring new ones, which count as missing: name a column "
        "of times with the option `times`, and a column of ids with the option `drop`"
    )
