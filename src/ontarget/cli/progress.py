"""Bars with remaining time for long work: on standard error, and on terminals only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ontarget._progress import progress_bar

__all__ = ["bar", "working"]


@contextmanager
def bar(doing: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A call for (done, total) that moves the bar."""
    with progress_bar(doing, total) as reached:
        yield lambda done, _: reached(done)


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
