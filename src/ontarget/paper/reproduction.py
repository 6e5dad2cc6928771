"""Runs the whole reproduction of the paper in order; writes results, figures and a page."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

import ontarget
from ontarget._whole_file import write_whole
from ontarget.models import n_threads
from ontarget.paper.experiment import (
    MODES,
    Mode,
    Part,
    Plan,
    partition_of,
    run_partition,
    simulated,
    summarize,
)

# Called with what is being done and the share of all work that is done.
Report: TypeAlias = Callable[[str, float], object]

_MODE_NAMES: Final = {"noise": "noise", "atoms": "exact atoms"}
# About the processor seconds of each piece at full size; they only move the progress bar.
_SIMULATE: Final = {"tamarisk": 2.0, "skirmish": 12.0, "smax": 110.0}
_PART: Final = {"noise": 6.0, "atoms": 4.0}
_FIGURES: Final = 4.0


@dataclass(frozen=True)
class Reproduction:
    """A finished reproduction: the results of each partition, a summary, and running times.

    A partition is one random division of the episodes.
    """

    plan: Plan
    parts: dict[tuple[str, Mode], list[Part]]
    results: dict[str, Any]
    timing: dict[str, Any]


def reproduce(
    plan: Plan, folder: str | Path, *, figures: bool = True, report: Report | None = None
) -> Reproduction:
    """Run the paper's experiments and write results, figures and page into a folder."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)  # rather than after minutes of work
    work = sum(_SIMULATE[one] + plan.partitions * sum(_PART.values()) for one in plan.domains)
    clock = Clock(work + _FIGURES * figures, report)
    parts = _measured(plan, clock)
    # The summary has no running times, so that it is the same every time.
    results = _plain(
        {
            "commit": _commit(),
            "version": ontarget.__version__,
            "plan": plan.describe(),
            "domains": summarize(plan, parts),
        }
    )
    _write_json(out / "results.json", results)
    drawn = {}
    if figures:
        from ontarget.paper.page import draw_all, write_figures

        with clock.timed("figures", "drawing", weight=_FIGURES):
            drawn = draw_all(plan, parts)
            write_figures(drawn, out / "figures")
    timing = _plain(clock.account())
    _write_json(out / "timing.json", timing)
    if figures:
        from ontarget.paper.page import page_of

        write_whole(out / "index.html", [page_of(results, timing, drawn).encode()])
    return Reproduction(plan, parts, results, timing)


def _measured(plan: Plan, clock: Clock) -> dict[tuple[str, Mode], list[Part]]:
    """The results of each partition, by domain and mode."""
    parts: dict[tuple[str, Mode], list[Part]] = {}
    for domain in plan.domains:
        with clock.timed("simulation", f"{domain}: simulating", weight=_SIMULATE[domain]):
            episodes = simulated(plan, domain)
        for number in range(plan.partitions):
            for mode in MODES:
                kind = _MODE_NAMES[mode]
                text = f"{domain}: {kind}, partition {number + 1} of {plan.partitions}"
                with clock.timed(kind, text, weight=_PART[mode], ticks=episodes.horizon):
                    one = partition_of(plan, episodes, number, mode)
                    found = run_partition(plan, one, clock.tick)
                parts.setdefault((domain, mode), []).append(found)
    return parts


class Clock:
    """Adds up the seconds of each kind of work, and reports progress."""

    def __init__(self, total: float, report: Report | None = None) -> None:
        self._total = max(total, 1e-9)
        self._report = report
        self._behind = 0.0
        self._tick = 0.0
        self._text = ""
        self._seconds: dict[str, list[float]] = {}  # by the clock, and of the processor

    @contextmanager
    def timed(self, kind: str, text: str, *, weight: float, ticks: int = 1) -> Iterator[None]:
        """A context whose time is counted as this kind of work."""
        start, wall, cpu = self._behind, time.perf_counter(), _cpu()
        self._tick, self._text = weight / max(ticks, 1), text
        self._tell()
        yield
        account = self._seconds.setdefault(kind, [0.0, 0.0])
        account[0] += time.perf_counter() - wall
        account[1] += _cpu() - cpu
        self._behind = max(self._behind, start + weight)  # ticks add up to a last bit more
        self._tell()

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


def _commit() -> str:
    """The Git commit of this working copy, marked if files have changed; else the version."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"],
            cwd=Path(ontarget.__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return f"version {ontarget.__version__}"
    return found.stdout.strip()


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values as JSON with sorted keys. The file appears complete or not at all."""
    text = json.dumps(values, sort_keys=True, indent=1, allow_nan=False)
    write_whole(path, [text.encode(), b"\n"])


def _plain(value: Any) -> Any:
    """The value in a form for JSON: arrays and tuples as lists, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.10g}") if np.isfinite(value) else None
    return value
