"""The progress of a long run, and how its time was spent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ontarget.models import n_threads

__all__ = ["Clock", "Report", "Seconds"]

# Called with what is being done and the share of all work that is behind.
Report: TypeAlias = Callable[[str, float], object]
# By kind of work: by the clock, and of the processor.
Seconds: TypeAlias = dict[str, list[float]]


class Clock:
    """Adds up the seconds of each kind of work, and reports progress.

    Parameters
    ----------
    total
        The weight (expected work) of everything that will be timed, in any unit, such as seconds.
    report
        A function that is called with a text and the share of all work that is done.
    earlier
        For each kind of work, the wall-clock and processor seconds that an earlier run spent on it
        before it was stopped.
    keep
        A function that is called with all seconds after each piece of work, to store them.

    Examples
    --------
    >>> clock = Clock(2.0, lambda text, share: print(f"{text} {share:.0%}"))
    >>> with clock.timed("work", "half of it", weight=1.0, ticks=2):
    ...     clock.tick()
    half of it 0%
    half of it 25%
    half of it 50%
    """

    def __init__(
        self,
        total: float,
        report: Report | None = None,
        *,
        earlier: Seconds | None = None,
        keep: Callable[[Seconds], object] | None = None,
    ) -> None:
        self._total = max(total, 1e-9)
        self._report = report
        self._behind = 0.0
        self._tick = 0.0
        self._text = ""
        self._seconds: Seconds = {kind: list(both) for kind, both in (earlier or {}).items()}
        self._keep = keep

    @contextmanager
    def timed(self, kind: str, text: str, *, weight: float, ticks: int = 1) -> Iterator[None]:
        """A context whose time is counted as this kind of work.

        Inside the context, `tick` reports progress.
        """
        start, wall, cpu = self._behind, time.perf_counter(), _cpu()
        self._tick, self._text = weight / max(ticks, 1), text
        self._tell()
        yield
        account = self._seconds.setdefault(kind, [0.0, 0.0])
        account[0] += time.perf_counter() - wall
        account[1] += _cpu() - cpu
        self._behind = max(self._behind, start + weight)  # ticks add up to a last bit more
        self._tell()
        if self._keep is not None:
            self._keep(self._seconds)

    def tick(self) -> None:
        """Report that one part of the current work is done."""
        self._behind += self._tick
        self._tell()

    def account(self) -> dict[str, Any]:
        """Wall-clock and processor seconds by kind of work; also the machine's load and threads."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        return {
            "seconds": {
                kind: {"wall": round(wall, 2), "cpu": round(cpu, 2)}
                for kind, (wall, cpu) in self._seconds.items()
            },
            "load_average": load,
            "threads": n_threads(),
            "cores": os.cpu_count(),
        }

    def _tell(self) -> None:
        if self._report is not None:
            self._report(self._text, min(self._behind / self._total, 1.0))


def _cpu() -> float:
    times = os.times()
    return times.user + times.system
