"""Logs to prepare: runs of different lengths, in files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ontarget import Episodes
from ontarget.reading import prepare


def log(n: int = 120, seed: int = 0) -> pl.DataFrame:
    """Rows of runs of different lengths, in disorder, with text and gaps."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 8, n)
    names = np.repeat(rng.permutation(n), lengths)
    size = names.size
    return pl.DataFrame(
        {
            "run": names,
            "step": np.concatenate([np.arange(length) for length in lengths]) + 1,
            "speed": np.where(rng.random(size) < 0.05, np.nan, rng.normal(size=size)),
            "mode": rng.choice(["low", "mid", "high"], size),
            "reward": np.round(rng.normal(size=size), 1),
        }
    ).sample(fraction=1.0, shuffle=True, seed=seed)


def in_files(folder: Path, table: pl.DataFrame, n: int = 3) -> Path:
    """The table spread over files in the order of its rows."""
    folder.mkdir()
    edges = np.linspace(0, table.height, n + 1).astype(int).tolist()
    for i, (a, b) in enumerate(pairwise(edges)):
        table[a:b].write_parquet(folder / f"{i}.parquet")
    return folder


def same(one: Episodes, other: Episodes) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert one.schema == other.schema
    assert one.grid == other.grid
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
    for t in range(one.horizon):
        here, there = one.at(t), other.at(t)
        for name in ("states", "behavior", "remaining", "index", "keys"):
            np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
        np.testing.assert_array_equal(one.rewards_at(t), other.rewards_at(t))


def files_of(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def finished(folder: Path) -> Path:
    return prepare(in_files(folder / "runs", log(30)), folder / "out", progress=False).folder


def halves(folder: Path, change: Any) -> Path:
    """Runs in two files, with one run that begins in the first and ends in the second."""
    table = log().sort("run", "step")
    folder.mkdir()
    one, other = change(table[:300], table[300:])
    one.write_parquet(folder / "a.parquet")
    other.write_parquet(folder / "b.parquet")
    return folder
