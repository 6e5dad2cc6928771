"""Finds which of several data files causes an error, and names this file in the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from ontarget.episodes.episodes import Episodes
from ontarget.episodes.prepared._scattering import FILE, ROW, Buckets
from ontarget.episodes.reading._frames import record_frame
from ontarget.episodes.reading._layout import Layout
from ontarget.errors import Argument, EpisodesError, Placeholder

_FILES = "ontarget:files"
_BY_FILE = (
    Argument("file_column", "file"),
    " and ",
    Argument("episode", ("file", Placeholder("NAME"))),
)


def refuse_spread(rows: pl.DataFrame, layout: Layout, buckets: Buckets) -> None:
    """Refuse an episode that has rows in several files, if no column says in which order."""
    if layout.step is not None:
        return
    keys = list(buckets.parts.episode_columns)
    spread = rows.group_by(keys).agg(pl.col(FILE).unique()).filter(pl.col(FILE).list.len() > 1)
    if spread.height:
        episode, files = spread.row(0)[0], sorted(spread.row(0)[-1])
        names = " and ".join(buckets.sources[number].name for number in files[:2])
        raise EpisodesError(
            f"episode {episode} has rows in {names}, and no column gives their order; name a "
            f"column for the steps, or, if each file numbers its own episodes, pass ",
            *_BY_FILE,
        )


def blamed(
    error: EpisodesError, rows: pl.DataFrame, layout: Layout, buckets: Buckets
) -> EpisodesError:
    """The same error, with a message that names the files whose rows cause it.

    ``rows`` are the rows in which the error was found.
    """
    twice = _twice(rows, buckets)
    if twice is not None:
        return twice
    numbers = rows.get_column(FILE).unique(maintain_order=True).to_list()
    for some, own in _portions(rows, buckets) if len(numbers) > 1 else ():
        try:
            Episodes._built(record_frame(own.drop(ROW, FILE), layout), layout)
        except EpisodesError as found:
            if _first_words(found) == _first_words(error):
                numbers = some
                break
    names = [buckets.sources[number].name for number in numbers]
    told = f"{', '.join(names[:3])}{' …' * (len(names) > 3)}"
    kind: Any = type(error)
    told_of: EpisodesError = kind(*error.parts, f" (in {told})")
    return told_of


def _portions(rows: pl.DataFrame, buckets: Buckets) -> Iterator[tuple[list[int], pl.DataFrame]]:
    """Parts of the rows in which to look for an error, each with the numbers of its files.

    First comes one part for each file, with the rows of that file. Then come parts with whole
    episodes; episodes whose rows are in the same files form one part.
    """
    for (number,), own in rows.partition_by(FILE, as_dict=True, maintain_order=True).items():
        yield [number], own
    keys = list(buckets.parts.episode_columns)
    marked = rows.with_columns(pl.col(FILE).unique().sort().implode().over(keys).alias(_FILES))
    for files, own in marked.group_by(_FILES, maintain_order=True):
        yield list(files[0]), own.drop(_FILES)


def _first_words(error: EpisodesError) -> str:
    """The error's message, without the words about further bad rows."""
    return str(error).partition(" and in ")[0]


def _twice(rows: pl.DataFrame, buckets: Buckets) -> EpisodesError | None:
    """An error if two files both contain the same step of the same episode; else None."""
    parts = buckets.parts
    keys = [*parts.episode_columns, *parts.step_columns]
    if parts.step is None:
        return None
    files = rows.group_by(keys, maintain_order=True).agg(pl.col(FILE))
    twice = files.filter(pl.col(FILE).list.n_unique() > 1)
    if not twice.height:
        return None
    *named, numbers = twice.row(0)
    episode = "/".join(map(str, named[: len(parts.episode_columns)]))
    step = ", ".join(map(str, named[len(parts.episode_columns) :]))
    one, other = (buckets.sources[number].name for number in sorted(set(numbers))[:2])
    more = f" (and {twice.height - 1:,} more such steps)" if twice.height > 1 else ""
    return EpisodesError(
        f"episode {episode} has step {step} both in {one} and in {other}{more}; keep one of them, "
        "or, if each file numbers its own episodes, pass ",
        *_BY_FILE,
    )
