"""Bars with remaining time for long work: on standard error, and on terminals only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar", "working"]


@contextmanager
def bar(doing: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A call for (done, total) that moves the bar."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda done, _: progress.update(task, completed=done)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """A sign of life for work whose length is not known."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield
