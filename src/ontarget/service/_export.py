"""Turns runs that the service has recorded into a table that ``ontarget fit`` can read."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import polars as pl

from ontarget.episodes import Episodes
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service.messages import read_payload
from ontarget.service.store import Store, StoredRun

_ALWAYS = ("episode", "step", "reward")


def rows_of(store: Store, run: StoredRun, monitor: GoalMonitor) -> list[dict[str, Any]]:
    """The rows of a finished run, one per action: the state before it and the reward it earned."""
    features, judged = monitor.contracts.fitted.schema.names, _judged(monitor)
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
                **{name: after.get("signals", {}).get(name) for name in judged},
            }
        )
    return rows


def _judged(monitor: GoalMonitor) -> list[str]:
    """The names of the columns (signals) that the monitor's behaviors are computed from."""
    return [one.column for one in monitor.readings.values() if one.column is not None]


def frame_of(store: Store, runs: Iterable[StoredRun], monitor: GoalMonitor) -> pl.DataFrame:
    """Finished runs as one table, one row per action; columns that no run uses are left out."""
    rows = [row for run in runs for row in rows_of(store, run, monitor)]
    always = {*_ALWAYS, *monitor.contracts.fitted.schema.names, *_judged(monitor)}
    names = dict.fromkeys([*_ALWAYS, *(name for row in rows for name in row)])
    used = [name for name in names if name in always or any(row.get(name) for row in rows)]
    return pl.DataFrame(
        {name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in used}
    )


def read_runs(store: Store, runs: Iterable[StoredRun], monitor: GoalMonitor) -> Episodes:
    """Finished runs as `Episodes` that the monitor can read.

    Runs that were cut off, or that somebody took over, are marked as cut off.
    """
    frame = frame_of(store, runs, monitor)
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


def parquet_of(store: Store, runs: Iterable[StoredRun], monitor: GoalMonitor) -> bytes:
    """Finished runs as the bytes of a Parquet file."""
    written = io.BytesIO()
    frame_of(store, runs, monitor).write_parquet(written)
    return written.getvalue()
