"""The progress bar and spinner that all parts of ontarget use, and the message about compiling.

They are written to the error stream, so that output can be piped, and bars disappear when the work
is over. Without a terminal nothing is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Protocol

from ontarget._text import plain

if TYPE_CHECKING:
    from rich.console import Console

# Changes the label of the bar around this work; only one bar is drawn at a time.
_relabel: ContextVar[Callable[[str], object] | None] = ContextVar("_relabel", default=None)


class Reached(Protocol):
    """The type of the function that moves a progress bar and may change its label."""

    def __call__(self, done: float, doing: str | None = None) -> None:
        """Move the bar to ``done``, the total amount done so far; ``doing`` is a new label."""
        ...


@contextmanager
def progress_bar(
    doing: str, total: float, *, unit: str = "", shown: bool = True
) -> Iterator[Reached]:
    """A context that shows a progress bar, and gives a function that moves it."""
    relabel = _relabel.get()
    if relabel is not None:
        name = doing

        def tell(done: float, doing: str | None = None) -> None:
            relabel(f"{doing or name}, {done:g} of {total:g} {unit}")

        yield tell
        return
    console = _terminal() if shown else None
    if console is None:
        with _relabelled_by(lambda label: None):
            yield lambda done, doing=None: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, remaining" if unit else "remaining"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(plain(doing), total=total)
        with _relabelled_by(lambda label: bar.update(task, description=plain(label))):
            yield lambda done, doing=None: bar.update(
                task, completed=done, description=None if doing is None else plain(doing)
            )


def _terminal() -> Console | None:
    """The terminal to draw on; None if the error stream is no terminal."""
    # Without a terminal, no progress bar is made at all. A bar that is only disabled would still
    # print an empty line in the oldest supported version of Rich.
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextmanager
def _relabelled_by(relabel: Callable[[str], object]) -> Iterator[None]:
    token = _relabel.set(relabel)
    try:
        yield
    finally:
        _relabel.reset(token)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """A context that shows a spinner during work of unknown length."""
    console = _terminal()
    if console is None:
        yield
        return
    from rich.text import Text

    with console.status(Text(plain(doing))):
        yield


@cache
def announce_compiling() -> None:
    """Print one message if there is a terminal, and no kernel has been compiled yet."""
    from ontarget._kernel import none_compiled

    if sys.stderr is not None and sys.stderr.isatty() and none_compiled():
        sys.stderr.write(
            "ontarget: compiling numerical code for this machine, which happens once and may take "
            "a minute (`ontarget warm` does it beforehand)\n"
        )
