"""Minari datasets written on the spot, in Minari's on-disk layout, without Minari."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import polars as pl

BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1, -1], "high": [1, 1]}
GEAR = {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3}
NESTED = {
    "type": "Dict",
    "subspaces": {"gear": GEAR, "pair": {"type": "Tuple", "subspaces": [BOX, GEAR]}},
}


def observations_of(space: dict[str, Any], n: int, rng: np.random.Generator) -> Any:
    """n observations of a space, as Minari stores them: arrays in nested mappings."""
    if space["type"] == "Dict":
        return {key: observations_of(part, n, rng) for key, part in space["subspaces"].items()}
    if space["type"] == "Tuple":
        parts = enumerate(space["subspaces"])
        return {f"_index_{i}": observations_of(part, n, rng) for i, part in parts}
    if space["type"] == "Discrete":
        return rng.integers(space["n"], size=n)
    return rng.normal(size=(n, *space["shape"])).astype(space["dtype"])


def write_episode(
    file: h5py.File, number: int, space: dict[str, Any], steps: int, *, end: str = "terminations"
) -> dict[str, Any]:
    """One episode's group; gives what it holds."""
    rng = np.random.default_rng(number)
    columns: dict[str, Any] = {
        "observations": observations_of(space, steps + 1, rng),
        "actions": rng.integers(2, size=steps),
        "rewards": np.round(rng.normal(size=steps), 2),
        "terminations": np.zeros(steps, dtype=bool),
        "truncations": np.zeros(steps, dtype=bool),
    }
    if end:
        columns[end][-1] = True
    group = file.create_group(f"episode_{number}")
    group.attrs.update({"id": number, "total_steps": steps})
    write_columns(group, columns)
    return columns


def write_columns(group: h5py.Group, columns: dict[str, Any]) -> None:
    for name, values in columns.items():
        if isinstance(values, dict):
            write_columns(group.create_group(name), values)
        else:
            group.create_dataset(name, data=values, chunks=True, maxshape=(None, *values.shape[1:]))


def write_dataset(
    path: Path,
    space: dict[str, Any] = BOX,
    lengths: tuple[int, ...] = (3, 5, 2),
    *,
    ends: tuple[str, ...] = ("terminations", "truncations", "terminations"),
    **metadata: Any,
) -> list[dict[str, Any]]:
    """A dataset folder; gives what its episodes hold."""
    (path / "data").mkdir(parents=True)
    with h5py.File(path / "data" / "main_data.hdf5", "w", track_order=True) as file:
        held = [
            write_episode(file, i, space, steps, end=end)
            for i, (steps, end) in enumerate(zip(lengths, ends, strict=True))
        ]
    told = {
        "total_episodes": len(lengths),
        "total_steps": sum(lengths),
        "data_format": "hdf5",
        "observation_space": json.dumps(space),
        "env_spec": json.dumps(
            {"id": "Walk-v0", "entry_point": "os:abort", "max_episode_steps": 5}
        ),
        **metadata,
    }
    told = {key: value for key, value in told.items() if value is not None}
    (path / "data" / "metadata.json").write_text(json.dumps(told))
    return held


def write_as_arrow(path: Path, held: list[dict[str, Any]], ending: str) -> None:
    """The same dataset with its episodes in Arrow or Parquet files, a folder for each."""
    (path / "data" / "main_data.hdf5").unlink()
    metadata = path / "data" / "metadata.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"data_format": ending}))
    for number, columns in enumerate(held):
        table = pl.DataFrame(
            {
                "observations": _nested(columns["observations"]),
                **{
                    name: np.append(columns[name], np.zeros(1, dtype=columns[name].dtype))
                    for name in ("actions", "rewards", "terminations", "truncations")
                },
            }
        )
        folder = path / "data" / str(number)
        folder.mkdir()
        write = table.write_ipc if ending == "arrow" else table.write_parquet
        write(folder / f"part-0.{ending}")


def _nested(values: Any) -> pl.Series:
    if not isinstance(values, dict):
        return pl.Series(values)
    parts = {name.removeprefix("_index_"): _nested(one) for name, one in values.items()}
    return pl.DataFrame(parts).to_struct()
