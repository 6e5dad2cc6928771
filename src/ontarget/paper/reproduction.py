"""The whole reproduction: what is run in which order, what is kept, what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ontarget.domains import Tamarisk
from ontarget.episodes import Episodes
from ontarget.monitor.monitor import Preset
from ontarget.paper.alarms import PRESETS, summarize_watches, watch_partition
from ontarget.paper.experiment import Part, run_partition
from ontarget.paper.keeping import Keeper, commit, plain
from ontarget.paper.partitions import Partition, partition_of, simulated
from ontarget.paper.peer import time_peer
from ontarget.paper.plan import MODES, Mode, Plan
from ontarget.paper.progress import Clock, Report
from ontarget.paper.rivals import compare, summarize_rivals
from ontarget.paper.summary import summarize
from ontarget.paper.truth import truth_study
from ontarget.version import __version__
from ontarget.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "reproduce"]

# About the processor seconds of each piece at full size; they only move the progress bar.
_WEIGHTS: Final = {
    "tamarisk": {
        "simulate": 2.0,
        "part": 5.0,
        "rivals": 8.0,
        "watch": 10.0,
        "peer": 20.0,
        "truth": 90.0,
    },
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
    figures: bool = True,
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
    figures
        Whether to draw, and to write the page.
    report
        Told what is being done, and how much of it is behind.
    """
    out = Path(folder)
    run = _Run(plan, out, studies=studies, report=report)
    parts, results, peers = run.measure()
    _write_json(out / "results.json", results)
    drawn: dict[str, Figure] = {}
    if figures:
        from ontarget.paper.charts import draw_all, write_figures

        with run.clock.timed("figures", "drawing", weight=_FIGURES):
            drawn = draw_all(plan, parts)
            write_figures(drawn, out / "figures")
    timing = plain({**run.clock.account(), "peer": peers})
    _write_json(out / "timing.json", timing)
    if figures:
        from ontarget.paper.page import page_of

        page = page_of(results, timing, drawn, distance=_distance(out))
        write_whole(out / "index.html", [page.encode()])
    return Reproduction(plan, parts, results, timing)


class _Run:
    """One run: what it simulates is simulated once, and only if something is missing."""

    def __init__(self, plan: Plan, out: Path, *, studies: bool, report: Report | None) -> None:
        self.plan, self.out, self.studies = plan, out, studies
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()})
        self.clock = Clock(sum(weight for _, weight in self._missing()), report)
        self._episodes: dict[str, Episodes] = {}

    def measure(self) -> tuple[dict[tuple[str, Mode], list[Part]], dict[str, Any], dict[str, Any]]:
        """Parts, results and the peer's times; what was kept is not run again."""
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
        peers: dict[str, Any] = {}
        if self.studies:
            results["studies"] = {name: self._study(name) for name in self.plan.domains}
            peers = {name: self._peer(name) for name in self.plan.domains}
        return parts, plain(results), peers

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
            if self._has_truth(domain):
                names.append(("truth", f"{domain}-truth", "json"))
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
        rivals = {mode: summarize_rivals(self.plan, self._rivals(domain, mode)) for mode in MODES}
        watches = {
            preset: summarize_watches([self._watch(domain, k, preset) for k in self._numbers])
            for preset in PRESETS
        }
        found = {"rivals": rivals, "watches": watches}
        if self._has_truth(domain):
            found["truth"] = self._truth(domain)
        return found

    def _has_truth(self, domain: str) -> bool:
        """Tamarisk's truth is exact, but takes longer than a quick run may."""
        return self.studies and domain == "tamarisk" and not self.plan.quick

    def _truth(self, domain: str) -> dict[str, Any]:
        kept = self.keeper.table(f"{domain}-truth")
        if kept is None:
            river = Tamarisk()
            partitions = [self._partition(domain, k, "atoms") for k in self._numbers]
            with self.clock.timed(
                "study: truth",
                f"{domain}: the exact truth",
                weight=self._weights[domain]["truth"],
                ticks=river.horizon,
            ):
                kept = plain(truth_study(self.plan, river, partitions, self.clock.tick))
            self.keeper.keep_table(f"{domain}-truth", kept)
        return kept

    def _watch(self, domain: str, number: int, preset: Preset) -> dict[str, Any]:
        return self._table(
            (domain, number, "atoms"),
            f"watch-{preset}",
            lambda partition: watch_partition(self.plan, partition, preset),
        )

    def _rivals(self, domain: str, mode: Mode) -> list[dict[str, Any]]:
        return [
            self._table(
                (domain, k, mode),
                f"rivals-{mode}",
                lambda partition: compare(self.plan, partition, self.clock.tick),
                ticks=len(self.plan.study_steps),
            )
            for k in self._numbers
        ]

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


_FIGURES: Final = 4.0
_MODE_NAMES: Final = {"noise": "noise", "atoms": "exact atoms"}


def _distance(out: Path) -> str | None:
    """The tables of the study of distances to the truth, where it was run into this folder.

    It takes hours where the rest takes minutes, and so is a command of its own:
    ``python -m ontarget.paper.distance > out/paper/distance.txt``.
    """
    path = out / "distance.txt"
    return path.read_text() if path.exists() else None


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(plain(values), sort_keys=True, indent=1, allow_nan=False)
    write_whole(path, [text.encode() + b"\n"])
