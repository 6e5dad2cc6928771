"""Turns runs that the service has recorded into a table, and recalibrates contracts on them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec
import polars as pl

from ontarget.conformal.levels import needed_within
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.live.rules import Promised, RuledOut
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service.held import Held, Outline
from ontarget.service.messages import read_payload
from ontarget.service.store import Run, Store

_ALWAYS = ("episode", "step", "reward")


def rows_of(store: Store, run: Run, outline: Outline) -> list[dict[str, Any]]:
    """The rows of a finished run, one per action: the state before it and the reward it earned."""
    features = outline.features
    sent = [read_payload(bytes(one.payload)) for one in store.history(run)]
    left_alone = not run.cut_off and run.intervened_at is None
    rows = []
    # The last message only tells what the last action earned.
    for message, after in pairwise(sent):
        state = message["state"]
        named = state if isinstance(state, dict) else dict(zip(features, state, strict=False))
        signals = {f"signal.{name}": one for name, one in message.get("signals", {}).items()}
        rows.append(
            {
                "episode": f"{run.agent}/{run.run}",
                "step": message["step"],
                "reward": after.get("reward", 0.0),
                "group": sent[0].get("group"),
                "behavior": after.get("behavior"),
                "intervened": run.intervened_at is not None,
                # What was cut short, or taken over, does not tell how it would have ended.
                "truncated": after is sent[-1] and not left_alone,
                "at": message.get("at"),
                **{name: named.get(name) for name in features},
                **signals,
                # What a behavior reads was earned by the action, as the reward was.
                **{name: after.get("signals", {}).get(name) for name in outline.judged},
            }
        )
    return rows


def frame_of(store: Store, runs: Iterable[Run], outline: Outline) -> pl.DataFrame:
    """Finished runs as one table, one row per action; columns that no run uses are left out."""
    rows = [row for run in runs for row in rows_of(store, run, outline)]
    always = {*_ALWAYS, *outline.features, *outline.judged}
    names = dict.fromkeys([*_ALWAYS, *(name for row in rows for name in row)])
    used = [name for name in names if name in always or any(row.get(name) for row in rows)]
    return pl.DataFrame(
        {name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in used}
    )


def read_runs(store: Store, runs: Iterable[Run], monitor: GoalMonitor) -> Episodes:
    """Finished runs as `Episodes` that the monitor can read."""
    frame = frame_of(store, runs, Outline.of(monitor))
    return Episodes.from_frame(
        frame,
        episode="episode",
        step="step",
        reward="reward",
        truncated="truncated" if "truncated" in frame.columns else None,
        group="group" if monitor.contracts.fitted.groups is not None else None,
        censored="worst-case",
        like=monitor,
    )


def parquet_of(store: Store, runs: Iterable[Run], outline: Outline) -> bytes:
    """Finished runs as the bytes of a Parquet file."""
    written = io.BytesIO()
    frame_of(store, runs, outline).write_parquet(written)
    return written.getvalue()


# Finished runs of all versions. One whose first message is its last has no step to learn from.
_RENEWABLE: Final = (
    "runs r JOIN contracts c ON c.id = r.contract WHERE c.name = ? AND r.started_at > ? "
    "AND (r.met IS NOT NULL OR r.cut_off = 1) AND r.next > 1"
)


class Renewal(msgspec.Struct, frozen=True):
    """How many recorded runs a recalibration of a contract could use now, and how many it needs.

    Attributes
    ----------
    runs
        The finished runs that a recalibration would use.
    counted
        How many of these runs count toward ``needed``. If the alarm has a promised false-alarm
        rate, these are the runs that met the target; otherwise all runs that ended by themselves.
    needed
        How many runs must count so that the contract's alarm rule can be used.
    """

    runs: int
    counted: int
    needed: int


def renewal(store: Store, held: Held, *, since: float) -> Renewal:
    """How many runs a recalibration of a contract could use now, and how many it needs."""
    # Only runs that began after ``since`` (seconds since 1970) are used.
    with store.database.read() as at:
        (row,) = at.rows(
            "SELECT COUNT(*), COUNT(CASE WHEN r.met IS NOT NULL AND r.intervened_at IS NULL THEN 1 "
            "END), COUNT(CASE WHEN r.met = 1 AND r.intervened_at IS NULL THEN 1 END) "
            f"FROM {_RENEWABLE}",
            (held.spec.name, since),
        )
    runs, whole, met = (int(n) for n in row)
    rule, stopped, first, another = held.spec.rule, runs - whole, 1, 1  # for each group
    if isinstance(rule, Promised):
        another = needed_within(rule.rate, rule.confidence)
        # In the worst case each run that was cut off would have been a false alarm.
        first = needed_within(rule.rate, rule.confidence, rank=stopped + 1) - stopped
    elif isinstance(rule, RuledOut) and rule.confidence is not None:
        another = needed_within(rule.rate, rule.confidence)
        first = max(1, another - stopped)
    counted = met if isinstance(rule, Promised) else whole
    return Renewal(runs, counted, first + (held.fitted.n_groups - 1) * another)


def recalibrated(store: Store, held: Held, *, since: float, renew_p: bool) -> GoalMonitor:
    """A contract's monitor, recalibrated on the runs that began after ``since``."""
    # Nobody knows how runs that were cut off or taken over would have ended; they count as the
    # worst case (method M24 in docs/methods.md).
    with store.database.read() as at:
        rows = at.rows(f"SELECT r.id FROM {_RENEWABLE} ORDER BY r.number", (held.spec.name, since))
    found = store.find_runs([row[0] for row in rows])
    runs = [found[row[0]] for row in rows]
    if not runs:
        raise InputError(
            f"contract {held.spec.name!r} has no finished runs to recalibrate on: runs must have "
            f"begun after its newest version was added, and after the drift; wait for more, or "
            f"pass an earlier time as `since`"
        )
    return held.monitor.recalibrate(read_runs(store, runs, held.monitor), renew_p=renew_p)
