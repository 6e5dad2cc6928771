"""How good a monitor's answers are for each value of a column, and its answers row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation import (
    CalibrationEstimate,
    Estimate,
    labelled,
    pooled_ece,
    pooled_mean,
    squared_errors,
)
from ontarget.fitted.kernels import DECIDED
from ontarget.live.outlook import Status
from ontarget.live.rules import AlarmRule, Trigger
from ontarget.report.measured import Measured

CHANGE = "which runs"  # the panel of runs before and since a change
_VAGUE = 0.2  # an interval as wide as this does not show that p is right


@dataclass(frozen=True)
class Part:
    """How good the answers are where a column has one value, or is in one range.

    ``mean_p`` is the mean of p over these forecasts, ``met`` how often their run met the target,
    and ``too_high`` their difference with its interval: above 0 if p is too high. ``ece`` and
    ``brier`` are the measures of an `Evaluation` for these forecasts alone.
    """

    value: str
    episodes: int
    forecasts: int
    mean_p: float
    met: float
    too_high: Estimate[float]
    ece: CalibrationEstimate[float]
    brier: Estimate[float]

    @property
    def shows(self) -> bool:
        """Whether p is too high or too low here by more than chance explains (95 % confidence)."""
        return self.too_high.low > 0.0 or self.too_high.high < 0.0

    @property
    def in_words(self) -> str:
        """Words on whether p is too high or too low here, and by how much."""
        if not self.shows:
            if self.too_high.high - self.too_high.low <= _VAGUE:
                return "right, within chance"
            low, high = (f"{100.0 * abs(end):.0f}" for end in self.too_high[1:3])
            return f"unclear: {low} points too low to {high} too high"
        ends = sorted(abs(100.0 * end) for end in (self.too_high.low, self.too_high.high))
        way = "high" if self.too_high.value > 0.0 else "low"
        return (
            f"{100.0 * abs(self.too_high.value):.1f} points too {way} "
            f"({ends[0]:.1f} to {ends[1]:.1f})"
        )


def parts_by(found: Measured, values: AnyArray, name: str = "values") -> tuple[Part, ...]:
    """How good the answers are for each value of a column; see `Evaluation.by`."""
    column = np.asarray(values)
    steps, episodes = found.p.shape
    if column.shape not in ((episodes,), (steps, episodes)):
        raise InputError(
            Argument(name),
            f" needs one value for each of {episodes:,} episodes, or one for each step and "
            f"episode ({steps}, {episodes}), got the shape {column.shape}",
        )
    known = ~np.isnan(found.p)
    labels, codes = labelled(np.broadcast_to(column, found.p.shape)[known], name)
    panel = np.full(found.p.shape, -1, dtype=np.intp)
    panel[known] = codes
    return tuple(_part(found, label, panel == code) for code, label in enumerate(labels))


def panels_of(found: Measured, by: Mapping[str, ArrayLike]) -> dict[str, tuple[Part, ...]]:
    """For each table of a report, how good the answers are for each of its rows."""
    # Tables compare runs before and since a change, the thirds of a run, groups of runs, known and
    # unknown categories, and the values of the columns in ``by``.
    steps, episodes = found.p.shape
    panels: dict[str, tuple[Part, ...]] = _over_a_change(found)
    columns: dict[str, AnyArray] = {}
    if steps > 2:
        third = np.arange(steps) * 3 // steps
        names = [_stretch(np.flatnonzero(third == k)) for k in range(3)]
        each = np.repeat(np.array(names)[third][:, None], episodes, axis=1)
        in_time = sorted(parts_by(found, each, "steps"), key=lambda part: names.index(part.value))
        panels["steps"] = tuple(in_time)
    if found.fitted.n_groups > 1:
        columns["group"] = np.asarray(found.episodes.groups)
    if found.episodes.unseen:
        known = np.where(_unknown_categories(found), "unknown or missing", "known")
        columns["categories"] = known
    columns |= {name: np.asarray(values) for name, values in by.items()}
    return panels | {name: parts_by(found, column, name) for name, column in columns.items()}


def _over_a_change(found: Measured) -> dict[str, tuple[Part, ...]]:
    """How good the answers are for all runs, for those before and for those since a change."""
    drift = found.drifted
    if drift is None or not drift.covers_both or not drift.later:
        return {}
    known, late = ~np.isnan(found.p), np.zeros(found.met.size, dtype=np.bool_)
    late[list(drift.later)] = True
    at_once = np.arange(len(known)) == drift.t
    where = {
        "all runs": known,
        "before the change": known & ~late,
        "since the change": known & late,
        f"since, step {drift.t} alone": known & late & at_once[:, None],
    }
    return {CHANGE: tuple(_part(found, name, one) for name, one in where.items() if one.any())}


def _stretch(steps: IndexArray) -> str:
    return f"{steps[0]} to {steps[-1]}"


def _unknown_categories(found: Measured) -> BoolArray:
    """(steps, episodes): whether a categorical value is missing, or unknown to the monitor."""
    where = np.zeros(found.p.shape, dtype=np.bool_)
    schema, names = found.fitted.schema, found.episodes.names
    episodes = found.episodes.only(names[0]) if names else found.episodes
    named = [j for j in schema.categorical if schema.features[j].categories is not None]
    for t in range(len(where)):
        rows = episodes.at(t)
        where[t, rows.index] = np.isnan(rows.states[:, named]).any(axis=1)
    return where


def _part(found: Measured, label: str, here: BoolArray) -> Part:
    own = np.flatnonzero(here.any(axis=0))
    p, met, ids = np.where(here, found.p, np.nan)[:, own], found.met[own], found.ids[own]
    known = ~np.isnan(p)
    return Part(
        value=label,
        episodes=int(own.size),
        forecasts=int(known.sum()),
        mean_p=float(p[known].mean()),
        met=float(np.broadcast_to(met, p.shape)[known].mean()),
        too_high=pooled_mean(p - met, ids=ids, resampling=found.resampling),
        ece=pooled_ece(p, met, ids=ids, resampling=found.resampling),
        brier=pooled_mean(squared_errors(p, met), ids=ids, resampling=found.resampling),
    )


def answers_in_rows(
    found: Measured, rule: AlarmRule | None, episode: IndexArray, step: IndexArray
) -> dict[str, AnyArray]:
    """The monitor's answers at these steps of these episodes, as columns of a table."""
    steps = found.p.shape[0]
    there = (episode >= 0) & (step < steps)
    rows = (np.where(there, step, 0), np.where(there, episode, 0))

    def column(panel: FloatArray) -> FloatArray:
        return np.where(there, panel[rows], np.nan)

    p = column(found.p)
    status = np.where(np.isnan(p), str(Status.UNKNOWN), str(Status.OK)).astype(object)
    if rule is not None:
        status[there & _alarmed(found, rule)[rows]] = str(Status.ALARM)
    met = np.where(episode >= 0, found.met[rows[1]], False).astype(object)
    met[episode < 0] = None
    return {
        "p": p,
        "spread_low": column(found.spread[..., 0]),
        "spread_high": column(found.spread[..., 1]),
        "low": column(found.low),
        "high": column(found.high),
        "status": status,
        "met": met,
    }


def answers_of(found: Measured, rule: AlarmRule | None) -> pl.DataFrame:
    """The episodes as a table, sorted by step, with the monitor's answers as further columns."""
    frame = found.episodes.to_frame()
    alive = [np.flatnonzero(found.lengths > t) for t in range(int(found.lengths.max()))]
    step = np.repeat(np.arange(len(alive)), [one.size for one in alive])
    return with_answers(frame, answers_in_rows(found, rule, np.concatenate(alive), step))


def with_answers(
    frame: pl.DataFrame, answers: dict[str, AnyArray], suffix: str = ""
) -> pl.DataFrame:
    """The table with the monitor's answers as further columns, whose names must not exist yet."""
    taken = [f"{name}{suffix}" for name in answers if f"{name}{suffix}" in frame.columns]
    if taken:
        raise InputError(
            f"the log has a column {taken[0]!r} already, which the answers need; rename it, or "
            "pass ",
            Argument("drop", [taken[0]]),
        )
    columns = [
        pl.Series(f"{name}{suffix}", values.tolist() if values.dtype == object else values)
        for name, values in answers.items()
    ]
    return frame.with_columns(
        column.fill_nan(None) if column.dtype.is_float() else column for column in columns
    )


def _alarmed(found: Measured, rule: AlarmRule) -> BoolArray:
    """Where a run was in alarm, as a watch of the live run would have said, (steps, episodes)."""
    raised = found.alarms(rule)
    panel = np.zeros(found.p.shape, dtype=np.bool_)
    for g, trigger in enumerate(raised.triggers):
        own = np.flatnonzero(found.groups == g)
        if trigger.compared < 0:
            first = np.where(raised.first[own] < 0, len(panel), raised.first[own])
            panel[:, own] = np.arange(len(panel))[:, None] >= first
        else:
            panel[:, own] = _judged(found, trigger, own)
    lasting: BoolArray = panel & (np.arange(len(panel))[:, None] < found.lengths)
    return lasting


def _judged(found: Measured, trigger: Trigger, own: IndexArray) -> BoolArray:
    """Where the runs at the positions ``own`` were in alarm, step by step, (steps, runs)."""
    answers = found.answers
    compared, decided = (answers.panel(one)[:, own] for one in (trigger.compared, DECIDED))
    broken = answers.broken[:, own]
    panel = np.zeros(compared.shape, dtype=np.bool_)
    streak, on = np.zeros(own.size, dtype=np.intp), np.zeros(own.size, dtype=np.bool_)
    for t, (now, settled) in enumerate(zip(compared, decided, strict=True)):
        known = ~np.isnan(now)
        streak[~known & broken[t]] = 0
        streak = np.where(known, np.where(now < trigger.raise_below, streak + 1, 0), streak)
        raised = known & ((settled == 0.0) | (streak >= trigger.for_steps))
        on = raised | (on & ~(known & (now >= trigger.clear_at)))
        panel[t] = on
    return panel
