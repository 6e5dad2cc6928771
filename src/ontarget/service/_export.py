"""Recorded runs as a table that ``ontarget fit`` reads."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import polars as pl

from ontarget.service.messages import read_payload
from ontarget.service.store import Store, StoredRun

__all__ = ["frame_of", "parquet_of"]

_ALWAYS = ("episode", "step", "reward")


def rows_of(store: Store, run: StoredRun, features: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row per action of a run that is over: the state before it, and the reward it earned."""
    sent = [read_payload(bytes(one.payload)) for one in store.history(run)]
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
                "at": message.get("at"),
                **{name: named.get(name) for name in features},
                **signals,
            }
        )
    return rows


def frame_of(store: Store, runs: Iterable[StoredRun], features: tuple[str, ...]) -> pl.DataFrame:
    """Runs as a table; columns that none of them uses are left out."""
    rows = [row for run in runs for row in rows_of(store, run, features)]
    names = dict.fromkeys([*_ALWAYS, *(name for row in rows for name in row)])
    used = [
        name
        for name in names
        if name in _ALWAYS or name in features or any(row.get(name) for row in rows)
    ]
    return pl.DataFrame(
        {name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in used}
    )


def parquet_of(store: Store, runs: Iterable[StoredRun], features: tuple[str, ...]) -> bytes:
    """Runs as a Parquet file."""
    written = io.BytesIO()
    frame_of(store, runs, features).write_parquet(written)
    return written.getvalue()
