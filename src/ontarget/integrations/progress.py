"""A bar for long recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["recording_bar"]


@contextmanager
def recording_bar(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A call that moves the bar on by some episodes; it draws nothing where it is not shown."""
    if not shown:
        yield lambda episodes: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("recording"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("episodes, remaining"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("recording", total=total)
        yield lambda episodes: bar.advance(task, episodes)
