"""Turns runs that the service has recorded into a table that ``ontarget fit`` can read."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from ontarget.episodes import Episodes
from ontarget.errors import ModelFileError
from ontarget.modelfile.container import Container
from ontarget.monitor.monitor import GoalMonitor
from ontarget.service.messages import read_payload
from ontarget.service.store import Run, Store

_ALWAYS = ("episode", "step", "reward")


class _Feature(msgspec.Struct):
    name: str


class _Header(msgspec.Struct):
    """What an `Outline` needs of a model file's header; of several behaviors, of one of them."""

    horizon: int
    features: list[_Feature]
    sizes: dict[str, int]


class _Behavior(msgspec.Struct):
    monitor: _Header
    signal: str | None


class Outline(msgspec.Struct, frozen=True):
    """What a contract's model says of its runs, known even if its model cannot be loaded.

    ``judged`` are the columns (signals) that several behaviors are computed from, and ``sizes``
    how many runs the model was made from.
    """

    horizon: int
    features: tuple[str, ...]
    judged: tuple[str, ...]
    sizes: dict[str, int]

    @classmethod
    def of(cls, monitor: GoalMonitor) -> Outline:
        """The outline of a loaded monitor."""
        fitted = monitor.contracts.fitted
        judged = [one.column for one in monitor.readings.values() if one.column is not None]
        return cls(
            fitted.horizon, tuple(fitted.schema.names), tuple(judged), dict(fitted.trained.sizes)
        )

    @classmethod
    def listed(cls, path: Path) -> Outline | None:
        """The outline in the header of a model file; None if there is no such header."""
        try:
            header = dict(Container.open(path).header)
            several = msgspec.convert(header.get("behaviors", []), list[_Behavior])
            first = several[0].monitor if several else msgspec.convert(header, _Header)
        except (ModelFileError, msgspec.ValidationError):
            return None
        names = tuple(one.name for one in first.features)
        judged = tuple(one.signal for one in several if one.signal is not None)
        return cls(first.horizon, names, judged, first.sizes)


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
    """Finished runs as `Episodes` that the monitor can read.

    Runs that were cut off, or that somebody took over, are marked as cut off.
    """
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
