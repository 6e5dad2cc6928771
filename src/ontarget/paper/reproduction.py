"""The whole reproduction: what is run in which order, what is kept, what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ontarget._version import __version__
from ontarget._whole_file import write_whole
from ontarget.domains import Tamarisk
from ontarget.episodes import Episodes
from ontarget.monitor.monitor import Preset
from ontarget.paper.alarms import PRESETS, summarize_watches, watch_partition
from ontarget.paper.distance_run import DistanceRun
from ontarget.paper.experiment import Part, run_partition
from ontarget.paper.keeping import Keeper, commit, plain
from ontarget.paper.partitions import Partition, partition_of, simulated
from ontarget.paper.peer import time_peer
from ontarget.paper.plan import MODES, Mode, Plan
from ontarget.paper.progress import Clock, Report
from ontarget.paper.rivals import compare, summarize_rivals
from ontarget.paper.summary import summarize, summarize_forecasts
from ontarget.paper.truth import truth_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "reproduce"]

# About the processor seconds of each piece at full size; they only move the progress bar.
_WEIGHTS: Final = {
    "tamarisk": {
        "simulate": 2.0,
        "part": 5.0,
        "default": 9.0,
        "rivals": 8.0,
        "watch": 10.0,
        "peer": 20.0,
        "truth": 90.0,
    },
    "skirmish": {
        "simulate": 12.0,
        "part": 8.0,
        "default": 14.0,
        "rivals": 8.0,
        "watch": 14.0,
        "peer": 20.0,
    },
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
    distance: bool = False,
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
    distance
        Whether to measure every method's distance to the truth too, on seven processes; that takes
        longer than all the rest.
    figures
        Whether to draw, and to write the page.
    report
        Told what is being done, and how much of it is behind.
    """
    out = Path(folder)
    run = _Run(plan, out, studies=studies, distance=distance, report=report)
    parts, results, more = run.measure()
    _write_json(out / "results.json", results)
    drawn: dict[str, Figure] = {}
    if figures:
        from ontarget.paper.charts import draw_all, draw_distances, write_figures

        with run.clock.timed("figures", "drawing", weight=_FIGURES):
            drawn = draw_all(plan, parts)
            if distance:
                drawn["distance"] = draw_distances(results["distance"])
            write_figures(drawn, out / "figures")
    timing = plain({**run.clock.account(), **more})
    _write_json(out / "timing.json", timing)
    if figures:
        from ontarget.paper.page import page_of

        write_whole(out / "index.html", [page_of(results, timing, drawn).encode()])
    return Reproduction(plan, parts, results, timing)


class _Run:
    """One run: what it simulates is simulated once, and only if something is missing."""

    def __init__(
        self, plan: Plan, out: Path, *, studies: bool, distance: bool, report: Report | None
    ) -> None:
        self.plan, self.out, self.studies = plan, out, studies
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()})
        self.distance = DistanceRun(plan, out, self.keeper) if distance else None
        # The time that the pieces took is kept with them; figures are drawn anew by each run.
        earlier = self.keeper.table("clock") or {}
        self.clock = Clock(
            sum(weight for _, weight in self._missing()),
            report,
            earlier={kind: both for kind, both in earlier.items() if kind != "figures"},
            keep=lambda seconds: self.keeper.keep_table("clock", seconds),
        )
        self._episodes: dict[str, Episodes] = {}

    def measure(self) -> tuple[dict[tuple[str, Mode], list[Part]], dict[str, Any], dict[str, Any]]:
        """The parts, the results, and costs; nothing in the results tells the time."""
        parts: dict[tuple[str, Mode], list[Part]] = {}
        for domain in self.plan.domains:
            for mode in MODES:
                parts[domain, mode] = [self._part(domain, k, mode) for k in self._numbers]
        results: dict[str, Any] = {
            "commit": commit(),
            "version": __version__,
            "plan": self.plan.describe(),
            "domains": summarize(self.plan, parts),
        }
        more: dict[str, Any] = {"peer": {name: self._peer(name) for name in self.plan.domains}}
        if self.studies:
            results["studies"] = {name: self._study(name) for name in self.plan.domains}
        if self.distance is not None:
            self._episodes.clear()
            results["distance"], more["distance"] = self.distance.measure(self.clock)
        return parts, plain(results), more

    @property
    def _numbers(self) -> range:
        return range(self.plan.partitions)

    @cached_property
    def _weights(self) -> dict[str, dict[str, float]]:
        return {domain: _WEIGHTS[domain] for domain in self.plan.domains}

    def _missing(self) -> Iterator[tuple[str, float]]:
        """The pieces that are not kept yet, each with its weight."""
        for domain, weights in self._weights.items():
            missing = [
                kind
                for kind, name, ending in self._pieces(domain)
                if not self.keeper.has(name, ending)
            ]
            for kind in ["simulate", *missing] if missing else []:
                yield kind, weights[kind]
        if self.distance is not None:
            yield from self.distance.missing()
        yield "figures", _FIGURES

    def _pieces(self, domain: str) -> Iterator[tuple[str, str, str]]:
        """Kind, name and ending of every piece that is kept."""
        yield "peer", f"{domain}-peer", "json"
        for k in self._numbers:
            for mode in MODES:
                yield "part", f"{domain}-{mode}-{k}", "npz"
                if mode in self._default_modes:
                    yield "default", f"{domain}-{mode}-{k}-default", "npz"
                if self.studies:
                    yield "rivals", f"{domain}-rivals-{mode}-{k}", "json"
            if self.studies:
                yield from (("watch", f"{domain}-watch-{p}-{k}", "json") for p in PRESETS)
        if self._has_truth(domain):
            yield "truth", f"{domain}-truth", "json"

    def _recorded(self, domain: str) -> Episodes:
        if domain not in self._episodes:
            weight = self._weights[domain]["simulate"]
            with self.clock.timed("simulation", f"{domain}: simulating", weight=weight):
                self._episodes[domain] = simulated(self.plan, domain)
        return self._episodes[domain]

    def _partition(self, domain: str, number: int, mode: Mode) -> Partition:
        return partition_of(self.plan, self._recorded(domain), number, mode)

    def _part(self, domain: str, number: int, mode: Mode, preset: Preset = "paper") -> Part:
        """One partition in one mode: the kept one, or a new one that is kept."""
        plain_forest = preset == "paper"
        name = f"{domain}-{mode}-{number}" + ("" if plain_forest else f"-{preset}")
        kept = self.keeper.arrays(name)
        if kept is not None:
            return Part.from_arrays(kept)
        partition = self._partition(domain, number, mode)
        text = f"{domain}: partition {number + 1} of {self.plan.partitions}, {_MODE_NAMES[mode]}"
        weight = self._weights[domain]["part" if plain_forest else preset]
        kind = _MODE_NAMES[mode] if plain_forest else f"study: {preset}"
        with self.clock.timed(kind, text, weight=weight, ticks=partition.test.horizon):
            part = run_partition(self.plan, partition, self.clock.tick, preset)
        self.keeper.keep_arrays(name, part.to_arrays())
        return part

    def _study(self, domain: str) -> dict[str, Any]:
        rivals = {mode: summarize_rivals(self.plan, self._rivals(domain, mode)) for mode in MODES}
        watches = {
            preset: summarize_watches([self._watch(domain, k, preset) for k in self._numbers])
            for preset in PRESETS
        }
        default = {
            mode: summarize_forecasts(
                [self._part(domain, k, mode, "default") for k in self._numbers]
            )
            for mode in self._default_modes
        }
        found = {"rivals": rivals, "watches": watches, "default": default}
        if self._has_truth(domain):
            found["truth"] = self._truth(domain)
        return found

    @property
    def _default_modes(self) -> tuple[Mode, ...]:
        """In which modes the default is measured too; a quick run has time for one."""
        if not self.studies:
            return ()
        return ("atoms",) if self.plan.quick else MODES

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

    def _peer(self, domain: str) -> dict[str, Any]:
        """Both times are from one run, be it this one or the one that was stopped."""
        kept = self.keeper.table(f"{domain}-peer")
        if kept is None:
            partition = self._partition(domain, 0, "noise")
            weight = self._weights[domain]["peer"]
            with self.clock.timed("peer", f"{domain}: quantile-forest", weight=weight):
                kept = plain(time_peer(self.plan, domain, partition) or {})
            self.keeper.keep_table(f"{domain}-peer", kept)
        return kept


_FIGURES: Final = 4.0
_MODE_NAMES: Final = {"noise": "noise", "atoms": "exact atoms"}


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(plain(values), sort_keys=True, indent=1, allow_nan=False)
    write_whole(path, [text.encode() + b"\n"])
