"""How far long work is: one bar on the terminal for every part of ontarget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["Reached", "progress_bar"]

# Called with how much of the work is done in all.
Reached: TypeAlias = Callable[[float], None]


@contextmanager
def progress_bar(
    doing: str, total: float, *, unit: str = "", shown: bool = True
) -> Iterator[Reached]:
    """A call that moves the bar to what is done in all; nothing is drawn away from a terminal.

    The bar stands on the error stream, so that output can be piped, and goes when the work is over.

    Examples
    --------
    >>> with progress_bar("counting", 2, unit="numbers", shown=False) as reached:
    ...     for done in (1, 2):
    ...         reached(done)
    """
    if not shown:
        yield lambda done: None
        return
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
        TextColumn(f"{unit}, remaining" if unit else "remaining"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)
