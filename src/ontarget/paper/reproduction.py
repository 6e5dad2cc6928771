"""The whole reproduction: what is run in which order, what is kept, what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ontarget.episodes import Episodes
from ontarget.monitor.monitor import Preset
from ontarget.paper.alarms import PRESETS, summarize_watches, watch_partition
from ontarget.paper.experiment import Part, run_partition
from ontarget.paper.keeping import Keeper, commit, plain
from ontarget.paper.partitions import Partition, partition_of, simulated
from ontarget.paper.peer import time_peer
from ontarget.paper.plan import MODES, Mode, Plan
from ontarget.paper.progress import Clock, Report
from ontarget.paper.rivals import STEPS, compare, summarize_rivals
from ontarget.paper.summary import summarize
from ontarget.version import __version__
from ontarget.whole_file import write_whole

__all__ = ["Reproduction", "reproduce"]

# About the processor seconds of each piece at full size; they only move the progress bar.
_WEIGHTS: Final = {
    "tamarisk": {"simulate": 2.0, "part": 5.0, "rivals": 8.0, "watch": 10.0, "peer": 20.0},
    "skirmish": {"simulate": 12.0, "part": 8.0, "rivals": 8.0, "watch": 14.0, "peer": 20.0},
}


@dataclass(frozen=True)
class Reproduction:
    """What a finished run holds: its parts by domain and mode, its results, where its time went."""

    plan: Plan
    parts: dict[tuple[str, Mode], list[Part]]
    results: dict[str, Any]
    timing: dict[str, Any]


def reproduce(
    plan: Plan,
    folder: str | Path,
    *,
    studies: bool = True,
    report: Report | None = None,
) -> Reproduction:
    """Run the paper's experiments and write results, figures and page into a folder.

    Parameters
    ----------
    plan
        `FULL` or `QUICK`, under a seed.
    folder
        Where everything is written. A run that was stopped goes on from its ``parts``.
    studies
        Whether to answer the paper's questions too.
    report
        Told what is being done, and how much of it is behind.
    """
    return _Run(plan, Path(folder), studies=studies, report=report).run()


class _Run:
    """One run: what it simulates is simulated once, and only if something is missing."""

    def __init__(self, plan: Plan, out: Path, *, studies: bool, report: Report | None) -> None:
        self.plan, self.out, self.studies = plan, out, studies
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()})
        self.clock = Clock(sum(weight for _, weight in self._missing()), report)
        self._episodes: dict[str, Episodes] = {}

    def run(self) -> Reproduction:
        """Everything, in order; what was kept is not run again."""
        parts: dict[tuple[str, Mode], list[Part]] = {}
        for mode in MODES:
            for domain in self.plan.domains:
                parts[domain, mode] = [self._part(domain, k, mode) for k in self._numbers]
        results: dict[str, Any] = {
            "commit": commit(),
            "version": __version__,
            "plan": self.plan.describe(),
            "domains": summarize(self.plan, parts),
        }
        if self.studies:
            results["studies"] = {name: self._study(name) for name in self.plan.domains}
        peers = {name: self._peer(name) for name in self.plan.domains} if self.studies else {}
        timing = self._write(parts, results, peers)
        return Reproduction(self.plan, parts, results, timing)

    @property
    def _numbers(self) -> range:
        return range(self.plan.partitions)

    @cached_property
    def _weights(self) -> dict[str, dict[str, float]]:
        return {domain: _WEIGHTS[domain] for domain in self.plan.domains}

    def _missing(self) -> Iterator[tuple[str, float]]:
        """The pieces that are not kept yet, each with its weight."""
        for domain, weights in self._weights.items():
            names = [("part", f"{domain}-{m}-{k}", "npz") for m in MODES for k in self._numbers]
            if self.studies:
                names += [
                    ("rivals", f"{domain}-rivals-{m}-{k}", "json")
                    for m in MODES
                    for k in self._numbers
                ]
                names += [
                    ("watch", f"{domain}-watch-{p}-{k}", "json")
                    for p in PRESETS
                    for k in self._numbers
                ]
                yield "peer", weights["peer"]
            missing = [kind for kind, name, ending in names if not self.keeper.has(name, ending)]
            if missing or self.studies:
                yield "simulate", weights["simulate"]
            for kind in missing:
                yield kind, weights[kind]
        yield "figures", _FIGURES

    def _recorded(self, domain: str) -> Episodes:
        if domain not in self._episodes:
            weight = self._weights[domain]["simulate"]
            with self.clock.timed("simulation", f"{domain}: simulating", weight=weight):
                self._episodes[domain] = simulated(self.plan, domain)
        return self._episodes[domain]

    def _partition(self, domain: str, number: int, mode: Mode) -> Partition:
        return partition_of(self.plan, self._recorded(domain), number, mode)

    def _part(self, domain: str, number: int, mode: Mode) -> Part:
        """One partition in one mode: the kept one, or a new one that is kept."""
        name = f"{domain}-{mode}-{number}"
        kept = self.keeper.arrays(name)
        if kept is not None:
            return Part.from_arrays(kept)
        partition = self._partition(domain, number, mode)
        text = f"{domain}: partition {number + 1} of {self.plan.partitions}, {_MODE_NAMES[mode]}"
        weight, ticks = self._weights[domain]["part"], partition.test.horizon
        with self.clock.timed(_MODE_NAMES[mode], text, weight=weight, ticks=ticks):
            part = run_partition(self.plan, partition, self.clock.tick)
        self.keeper.keep_arrays(name, part.to_arrays())
        return part

    def _study(self, domain: str) -> dict[str, Any]:
        rivals = {
            mode: summarize_rivals([self._rivals(domain, k, mode) for k in self._numbers])
            for mode in MODES
        }
        watches = {
            preset: summarize_watches([self._watch(domain, k, preset) for k in self._numbers])
            for preset in PRESETS
        }
        return {"rivals": rivals, "watches": watches}

    def _watch(self, domain: str, number: int, preset: Preset) -> dict[str, Any]:
        return self._table(
            (domain, number, "atoms"),
            f"watch-{preset}",
            lambda partition: watch_partition(self.plan, partition, preset),
        )

    def _rivals(self, domain: str, number: int, mode: Mode) -> dict[str, Any]:
        return self._table(
            (domain, number, mode),
            f"rivals-{mode}",
            lambda partition: compare(self.plan, partition, self.clock.tick),
            ticks=len(STEPS),
        )

    def _table(
        self,
        which: tuple[str, int, Mode],
        name: str,
        study: Callable[[Partition], dict[str, Any]],
        *,
        ticks: int = 1,
    ) -> dict[str, Any]:
        """One partition's table of a study: the kept one, or a new one that is kept."""
        domain, number, mode = which
        kind = name.split("-")[0]
        file = f"{domain}-{name}-{number}"
        kept = self.keeper.table(file)
        if kept is None:
            partition = self._partition(domain, number, mode)
            text = f"{domain}: {name}, partition {number + 1} of {self.plan.partitions}"
            weight = self._weights[domain][kind]
            with self.clock.timed(f"study: {kind}", text, weight=weight, ticks=ticks):
                found: dict[str, Any] = plain(study(partition))
            self.keeper.keep_table(file, found)
            kept = found
        return kept

    def _peer(self, domain: str) -> dict[str, Any] | None:
        partition = self._partition(domain, 0, "noise")
        weight = self._weights[domain]["peer"]
        with self.clock.timed("peer", f"{domain}: quantile-forest", weight=weight):
            return time_peer(self.plan, domain, partition)

    def _write(
        self,
        parts: dict[tuple[str, Mode], list[Part]],
        results: dict[str, Any],
        peers: dict[str, Any],
    ) -> dict[str, Any]:
        from ontarget.paper.charts import draw_all, write_figures
        from ontarget.paper.page import page_of

        with self.clock.timed("figures", "drawing", weight=_FIGURES):
            figures = draw_all(self.plan, parts)
            write_figures(figures, self.out / "figures")
        timing = {**self.clock.account(), "peer": peers}
        plain_results = plain(results)
        _write_json(self.out / "results.json", plain_results)
        _write_json(self.out / "timing.json", timing)
        page = page_of(plain_results, plain(timing), figures)
        write_whole(self.out / "index.html", [page.encode()])
        return timing


_FIGURES: Final = 4.0
_MODE_NAMES: Final = {"noise": "noise", "atoms": "exact atoms"}


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(plain(values), sort_keys=True, indent=1, allow_nan=False)
    write_whole(path, [text.encode() + b"\n"])
