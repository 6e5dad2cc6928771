"""Reads the episodes of Minari datasets that are stored as Arrow or Parquet files.

Each episode has a folder of its own. Its table has one row more than the episode has steps. The
last row has the final observation; the other columns are padded there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from ontarget._typing import AnyArray
from ontarget.episodes._observations import Leaf, ObservationLayout
from ontarget.episodes.reading._limits import regular_file
from ontarget.episodes.reading._minari_episode import MinariEpisode, episode_of
from ontarget.errors import EpisodesFileError

ARROW_FORMATS: Final = ("arrow", "parquet")
_COLUMNS: Final = ["observations", "rewards", "terminations", "truncations"]


def arrow_numbers(folder: Path) -> list[int]:
    """The numbers of the episodes in the data folder of a Minari dataset."""
    return sorted(int(one.name) for one in folder.iterdir() if one.is_dir() and one.name.isdigit())


def arrow_episodes(
    folder: Path, numbers: list[int], ending: str, seen: ObservationLayout
) -> Iterator[MinariEpisode]:
    """The episodes with these numbers, in order; ``ending`` is the extension of their files."""
    for number in numbers:
        files = sorted((folder / str(number)).glob(f"*.{ending}"))
        if not files:
            raise EpisodesFileError(f"episode {number} has no .{ending} file")
        yield _episode(f"episode {number}", [_read(one) for one in files], seen)


def _read(path: Path) -> pl.DataFrame:
    regular_file(path)
    if path.suffix == ".arrow":
        return pl.read_ipc(path, columns=_COLUMNS)
    return pl.read_parquet(path, columns=_COLUMNS, glob=False, hive_partitioning=False)


def _episode(name: str, parts: list[pl.DataFrame], seen: ObservationLayout) -> MinariEpisode:
    table = pl.concat(parts)
    steps = max(table.height - 1, 0)

    def column(what: str) -> AnyArray:
        kind = table[what].dtype
        if not (kind.is_numeric() or kind == pl.Boolean) or table[what].null_count():
            raise EpisodesFileError(f"{name}/{what} needs one number per step, got {kind}")
        return table[what].head(steps).to_numpy()

    def part(leaf: Leaf) -> AnyArray:
        found = table["observations"]
        for key in leaf.path:
            found = found.struct.field(str(key))
        if leaf.shape:
            # A Parquet file does not store that all lists have the same length.
            inner = getattr(found.dtype, "inner", found.dtype)
            found = found.cast(pl.Array(inner, leaf.size)).arr.to_list().explode()
        if not (found.dtype.is_numeric() or found.dtype == pl.Boolean) or found.null_count():
            raise EpisodesFileError(f"{name}/observations needs numbers, got {found.dtype}")
        return found.to_numpy().reshape(-1, leaf.size)

    return episode_of(name, column, part, seen)
