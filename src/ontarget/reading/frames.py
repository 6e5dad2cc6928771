"""Episodes from a table with one row per episode and step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import EllipsisType
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.builtin_behaviors import Sum
from ontarget.episodes.censoring import all_taken_over, some_left_out
from ontarget.episodes.judged import Judged, Reading
from ontarget.episodes.recording import Arrangement, RawEpisodes, RawSignal, arrange, remarked
from ontarget.episodes.schema import Feature, Schema, UnknownCategories
from ontarget.errors import Argument, CensoredError, EpisodesError, Placeholder, TargetError
from ontarget.reading._columns import (
    Labels,
    checked_times,
    encoded,
    feature_of,
    flags,
    is_times,
    joined_labels,
    labels,
    number_feature,
    numbers,
    time_features,
    unknown_in,
    with_time_features,
)
from ontarget.reading._parts import Parts, Table, find_parts, no_column
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
_CUT = "truncated"
_USUAL = "intervened"


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
    """The episodes in a table, not checked yet."""
    taken_over = named_column(layout, table.collect_schema().names())
    if taken_over is not None:
        whole = table.lazy().collect()
        acted = flags(whole.get_column(taken_over), f"intervened (column {taken_over!r})")
        layout = replace(layout, intervened=None, drop=(*layout.drop, taken_over))
        keyed = keyed_rows(whole, layout)
        if keyed is None:
            with_every = " cannot be combined with "
            raise EpisodesError(Argument("intervened"), with_every, Argument("every"))
        table, layout, note = left_alone(whole, layout, acted, keyed.ids, keyed.steps)
        notes = (*notes, note) if note else notes
    found = _opened(table, layout)
    with remarked(notes):
        parts = find_parts(found)
    parts = replace(parts, notes=(*notes, *parts.notes))
    with remarked(parts.remarks):
        return _recording(found, _rows_of(found, parts), table.collect_schema())


def found_parts(table: pl.DataFrame, layout: Layout) -> Parts:
    """Which column of a table is the episode, the step, the reward and so on."""
    found = _opened(table, layout)
    parts = find_parts(found)
    ids = [table.get_column(name) for name in parts.episode_columns]
    if any(column.has_nulls() for column in ids):
        return parts  # such rows are refused later, with the name of the file
    return check_order(parts, found, joined_labels(ids, "episode").codes)


class KeyedRows(NamedTuple):
    """The rows of a table, each with the id of its episode and its step, counted from 0."""

    table: pl.DataFrame
    ids: AnyArray
    steps: IndexArray


def keyed_rows(table: pl.LazyFrame | pl.DataFrame, layout: Layout) -> KeyedRows | None:
    """The rows of a table, each with the id of its episode and its step; None with ``every=``."""
    whole = table.lazy().select(kept_columns(layout, table.collect_schema().names())).collect()
    found = _opened(whole, replace(layout, drop=()))
    parts = find_parts(found)
    if _every(found, parts) is not None:
        return None
    rows = _rows_of(found, parts)
    arranged = rows.arrangement
    order = np.arange(whole.height) if arranged.order is None else arranged.order
    steps = np.empty(whole.height, dtype=np.intp)
    steps[order] = np.repeat(np.arange(arranged.offsets.size - 1), np.diff(arranged.offsets))
    return KeyedRows(whole, rows.labels[np.arange(whole.height)], steps)


def _opened(table: pl.LazyFrame | pl.DataFrame, layout: Layout) -> Table:
    """The table to read; options that follow from the behaviors are filled in."""
    columns = kept_columns(layout, table.collect_schema().names())
    read = table.get_column if isinstance(table, pl.DataFrame) else _few_at_a_time(table, columns)
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
    if not judged.several and signal is not None:
        # If a single behavior reads a signal, the signal is used as the reward.
        if layout.reward not in (..., signal):
            raise EpisodesError(
                f"behavior {judged.spec!r} reads the column {signal!r} instead of a reward; leave "
                "out ",
                Argument("reward", layout.reward),
            )
        layout = replace(layout, reward=signal)
        judged = Judged({"": Reading(judged.first.behavior)})
    return Table(columns, read, layout, judged)


def _with_outcome(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """The options, with the outcome column as the reward, unless the table has such rewards."""
    name = layout.outcome
    if name is None or (layout.like is not None and f"{AN_OUTCOME}{name}" in columns):
        return replace(layout, outcome=None)
    if name not in columns:
        raise EpisodesError(*no_column("outcome", name, columns))
    judged = Judged.of(layout.behavior, columns)
    if layout.reward not in (..., name) or judged != Judged({"": Reading(Sum())}):
        raise EpisodesError(
            "pass ", Argument("outcome", name), " without a reward or another behavior"
        )
    return replace(layout, reward=name)


def _with_reward_since_last(layout: Layout, columns: tuple[str, ...]) -> Layout:
    """The options, without ``reward_since_last`` if `Episodes.write` shifted the rewards."""
    role = None if layout.like is None else layout.like.roles.reward
    made = role is not None and role.startswith(FROM_NEXT) and role in columns
    made = made and layout.reward in (..., role)
    return replace(layout, reward_since_last=False) if made else layout


def _every(table: Table, parts: Parts) -> str | None:
    """The interval of the option ``every``; None if the table already has a row per interval."""
    like = table.layout.like
    return None if like is not None and parts.step == like.roles.step else table.layout.every


def _rows_of(table: Table, parts: Parts) -> Rows:
    read, columns, layout = table.read, table.columns, table.layout
    ids = joined_labels([read(name) for name in parts.episode_columns], "episode")
    if not ids.codes.size:
        raise EpisodesError("the table has no rows; record at least one episode")
    every = _every(table, parts)
    if every is None:
        steps, first, parts = read_steps(check_order(parts, table, ids.codes), table, ids)
    else:
        if parts.step is None or parts.sorts:
            needed = " needs one column of dates or times as the step; pass "
            raise EpisodesError(Argument("every"), needed, Argument("step", Placeholder("NAME")))
        if layout.reward_since_last:
            with_every = " cannot be combined with "
            raise EpisodesError(Argument("reward_since_last"), with_every, Argument("every"))
        if table.judged.several:
            raise EpisodesError(
                Argument("every"),
                " works with a single behavior, got several; make one row per interval before "
                "you pass the table",
            )
        clock = clock_of(read(parts.step), ids, every, table.judged.first.behavior)
        read = clock.reader(table, parts)
        first = layout.first_step or 0
        ids, steps = clock.ids, clock.steps + first
        parts = replace(parts, step=f"{parts.step}{ON_CLOCK}{every}")
    times = checked_times(layout, columns)
    if times:
        read = with_time_features(read, times, ids.codes)
        made = [time_features(name) if name in times else (name,) for name in columns]
        columns = tuple(feature for names in made for feature in names)
    return Rows(read, columns, ids, steps, first, parts)


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


def _recording(table: Table, rows: Rows, types: pl.Schema) -> RawEpisodes:
    parts, layout, judged = rows.parts, table.layout, table.judged
    behavior = judged.first.behavior
    for part in ("stop_probability", "cutoff", "target"):
        name = getattr(layout, part)
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
    groups = None if parts.group is None else rows.per_episode(rows.read(parts.group), "group")
    features, states, strangers = _states(rows, names, layout)
    notes = () if layout.schema else _many_categories(features, rows.arrangement.lengths.size)
    roles = parts.roles(rows.first_step)
    rewards = rows.per_row(parts.reward, "reward")
    if layout.outcome is not None and rewards is not None:
        rewards = rows.at_last(rewards, layout.outcome)
        roles = replace(roles, reward=f"{AN_OUTCOME}{layout.outcome}")
    if rewards is not None and not layout.reward_since_last:
        rows.refuse_first_gaps(rewards, str(parts.reward))
    elif rewards is not None:
        rewards = rows.from_next(rewards, str(parts.reward))
        roles = replace(roles, reward=f"{FROM_NEXT}{parts.reward}")
    return RawEpisodes(
        arrangement=replace(rows.arrangement, order=None),
        schema=Schema(features),
        behavior=behavior,
        roles=roles,
        ids=rows.ids,
        groups=groups,
        truncated=rows.at_end(parts.truncated, "truncated"),
        terminated=rows.at_end(parts.terminated, "terminated"),
        states=states,
        rewards=rewards,
        behavior_values=rows.per_row(behavior.column, "behavior"),
        several=_signals(rows, judged) if judged.several else (),
        remarks=(*parts.remarks, *notes),
        strangers=strangers,
        stop_probability=rows.per_row(layout.stop_probability, "stop_probability"),
        cutoff=rows.at_start(layout.cutoff, "cutoff"),
        wanted=_targets(rows, layout.target),
    )


def _targets(rows: Rows, name: str | None) -> tuple[Target | None, ...] | None:
    """Each episode's own target, from a column of texts such as ``60:``; an empty text is none."""
    if name is None:
        return None
    texts = rows.per_episode(rows.read(name).cast(pl.String).fill_null(""), "target")
    found = []
    for episode, text in zip(rows.ids, texts.tolist(), strict=True):
        try:
            found.append(Target.parse(text) if text else None)
        except TargetError as error:
            where = f"target (column {name!r}) of episode {episode!s}"
            raise EpisodesError(f"{where}: {error}") from error
    return tuple(found)


def _signals(rows: Rows, judged: Judged) -> tuple[RawSignal, ...]:
    """Each of several behaviors, with the values it needs at each row; a column is read once."""
    read: dict[str, FloatArray] = {}
    found = []
    for name, reading in judged.readings.items():
        column = reading.column or rows.parts.reward
        assert column is not None  # a behavior that reads the reward needs a reward column
        if column not in read:
            values = rows.per_row(column, f"behavior {name!r}")
            assert values is not None
            read[column] = values
        found.append(RawSignal(name, reading, read[column]))
    return tuple(found)


def _few_at_a_time(table: pl.LazyFrame, columns: tuple[str, ...]) -> Callable[[str], pl.Series]:
    """A function that reads a column of a table; a wide table is read in a hundred blocks."""
    size = max(1, len(columns) // 100)
    places = {name: place // size for place, name in enumerate(columns)}

    @lru_cache(maxsize=1)
    def block(number: int) -> pl.DataFrame:
        return table.select(columns[number * size : (number + 1) * size]).collect()

    return lambda name: block(places[name]).get_column(name)


def _states(
    rows: Rows, names: tuple[str, ...], layout: Layout
) -> tuple[tuple[Feature, ...], FloatArray, tuple[UnknownCategories, ...]]:
    """The features, their values, and the categories that are not known and became missing."""
    features: list[Feature] = []
    strangers: list[UnknownCategories] = []
    states = np.empty((len(names), int(rows.arrangement.offsets[-1])))
    for j, name in enumerate(names):
        column = rows.read(name)
        known = None if layout.schema is None else layout.schema.features[j]
        if known is not None and known.categories is not None:
            feature = known
        elif known is not None:
            feature = number_feature(column, categorical=known.categorical)
            feature = replace(feature, known=known.known, unseen=known.unseen)
        else:
            feature = feature_of(column, categorical=name in layout.categorical, where=rows.where)
        states[j] = rows.arrangement.place(encoded(column, feature, rows.where))
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


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, or its intervals of time (``every=``), sorted by step and episode.

    Columns are read one at a time. ``labels`` names the episode of each row, and ``steps`` is its
    step; None if the rows of an episode are in order. ``parts`` says which column is what.
    """

    read: Callable[[str], pl.Series]
    columns: tuple[str, ...]
    labels: Labels
    steps: IndexArray | None
    first_step: int
    parts: Parts

    @cached_property
    def arrangement(self) -> Arrangement:
        """The order that sorts the rows."""
        names = self.labels.dictionary
        return arrange(self.labels.codes, self.steps, first_step=self.first_step, names=names)

    @cached_property
    def ids(self) -> AnyArray:
        """The id of each episode."""
        return self.labels[self.arrangement.first_rows]

    def where(self, row: int) -> str:
        """The episode and the step of a row of the table, as text for messages."""
        order = self.arrangement.order
        episode, step = self.arrangement.locate(
            row if order is None else int(np.argmax(order == row))
        )
        return f"episode {self.ids[episode]!s}, step {step + self.first_step}"

    def per_row(self, name: str | None, what: str) -> FloatArray | None:
        """The numbers of a column, one per row; ``what`` is what messages call the column."""
        if name is None:
            return None
        values = numbers(self.read(name), f"{what} (column {name!r})", self.where)
        return self.arrangement.place(values)

    def at_start(self, name: str | None, what: str) -> FloatArray | None:
        """The number in the first row of each episode; ``what`` is what messages call it."""
        values = self.per_row(name, what)
        return None if values is None else values[: self.arrangement.lengths.size]

    def per_episode(self, column: pl.Series, what: str) -> AnyArray:
        """One value per episode; refused if the value differs between rows of an episode."""
        name, arrangement = column.name, self.arrangement
        found = labels(column, f"{what} (column {name!r})")
        other = found.place(arrangement) != found.codes[arrangement.first_rows][arrangement.owners]
        if other.any():
            episode, step = arrangement.locate(int(np.argmax(other)))
            raise EpisodesError(
                f"{what} (column {name!r}) needs the same value in all rows of an episode, got "
                f"another in episode {self.ids[episode]!s}, step {step + self.first_step}; a "
                f"{what} is known at the start of a run and does not change"
            )
        return found[arrangement.first_rows]

    def at_last(self, values: FloatArray, name: str) -> FloatArray:
        """A reward for each row: the outcome of an episode in its last row, 0 in its other rows."""
        last = self.arrangement.last_rows()
        own = values[last]
        other = ~np.isnan(values) & (values != own[self.arrangement.owners])
        if other.any():
            row = int(np.argmax(other))
            episode, step = self.arrangement.locate(row)
            raise EpisodesError(
                f"outcome (column {name!r}) needs one value per episode, got {values[row]:g} at "
                f"step {step + self.first_step} of episode {self.ids[episode]!s} and "
                f"{own[episode]:g} in its last row; pass ",
                Argument("behavior", name),
                " if it changes during a run",
            )
        earned = np.zeros(values.size)
        earned[last] = own
        return earned

    def refuse_first_gaps(self, rewards: FloatArray, name: str) -> None:
        """Refuse rewards that are missing in the first row of every episode and nowhere else."""
        # The message says that each row may contain what was earned since the row before it.
        n = self.arrangement.lengths.size
        if np.isnan(rewards[:n]).all() and rewards.size > n and not np.isnan(rewards[n:]).any():
            raise EpisodesError(
                f"reward (column {name!r}) is missing in the first row of every episode, and in no "
                "other row; if the column has what was earned since the previous row, pass ",
                Argument("reward_since_last", True),
                "; otherwise write 0 there if nothing was earned in the first step",
            )

    def from_next(self, values: FloatArray, name: str) -> FloatArray:
        """For each row, the value in the next row of its episode; 0 for the last row."""
        lengths, offsets = self.arrangement.lengths, self.arrangement.offsets
        first = values[: lengths.size]
        lost = np.flatnonzero(~np.isnan(first) & (first != 0.0))
        if lost.size:
            raise EpisodesError(
                f"reward (column {name!r}) needs 0 or nothing in the first row of an episode, got "
                f"{first[lost[0]]:g} in that of episode {self.ids[lost[0]]!s}"
                f"{f' (and {lost.size - 1:,} more)' * (lost.size > 1)}: with ",
                Argument("reward_since_last"),
                " the reward is what was earned since the previous row, and the first row has no "
                "previous row; write 0 there, or leave the option out",
            )
        found = np.zeros(values.size)
        for t in range(offsets.size - 2):
            goes_on = lengths[lengths > t] > t + 1
            found[offsets[t] : offsets[t + 1]][goes_on] = values[offsets[t + 1] : offsets[t + 2]]
        return found

    def at_end(self, name: str | None, what: str) -> BoolArray | None:
        """The flag in the last row of each episode; refused if it is set in any other row."""
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
                f"{step + self.first_step}, but the episode goes on; give the rest another id, or "
                "pass ",
                Argument(what, None),
                " if it is not such a flag",
            )
        return at_end


def named_column(layout: Layout, columns: Collection[str]) -> str | None:
    """The column that says where somebody acted in place of the policy; None if there is none."""
    # It is the column that was passed, or else ``intervened``, if that has no other use.
    name = layout.intervened
    if not isinstance(name, EllipsisType):
        if name is None or name in columns:
            return name
        raise EpisodesError(
            Argument("intervened"),
            f" needs a column of the table ({', '.join(columns)}), got {name!r}",
        )
    known = () if layout.schema is None else layout.schema.names
    used = {*known, *(layout.features or ()), *layout.drop}
    used |= {one for one in vars(layout).values() if isinstance(one, str)}
    return _USUAL if _USUAL in columns and _USUAL not in used else None


def left_alone(
    table: pl.DataFrame, layout: Layout, acted: BoolArray, ids: AnyArray, steps: IndexArray
) -> tuple[pl.DataFrame, Layout, str]:
    """The rows before somebody acted in place of the policy, how to read them, and a remark."""
    _, codes = np.unique(ids, return_inverse=True)
    first = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.intp).max)
    np.minimum.at(first, codes[acted], steps[acted])
    taken = first < np.iinfo(np.intp).max
    n, whole = int(np.count_nonzero(taken)), taken.size
    if not n:
        return table, layout, ""
    if n == whole and layout.censored in ("refuse", "drop"):
        raise CensoredError(all_taken_over(whole, str(layout.drop[-1])))
    if layout.censored == "refuse":
        return table.filter(pl.Series(~taken[codes])), layout, some_left_out(n, whole)
    # A run that was taken over at once keeps a row, so that it counts as stopped.
    upto = np.maximum(first, 1)[codes]
    if layout.horizon is None:
        layout = replace(layout, horizon=int(steps.max()) + 1, declared=False)
    ends = pl.Series(taken[codes] & (steps == upto - 1))
    cut = layout.truncated if isinstance(layout.truncated, str) else _CUT
    flagged = table.get_column(cut) if cut in table.columns else pl.Series([False] * table.height)
    marked = table.with_columns((flagged.cast(pl.Boolean).fill_null(False) | ends).alias(cut))
    note = f"somebody took over {n:,} of {whole:,} runs, which are cut off there"
    return marked.filter(pl.Series(steps < upto)), replace(layout, truncated=cut), note
