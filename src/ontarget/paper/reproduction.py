"""Runs the whole reproduction of the paper in order; writes results, figures and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ontarget
from ontarget.domains import Tamarisk
from ontarget.episodes import Episodes
from ontarget.paper.alarms import PRESETS, summarize_watches, watch_partition
from ontarget.paper.distance_run import DistanceRun
from ontarget.paper.experiment import Part, run_partition
from ontarget.paper.keeping import Keeper, Piece, commit, finish, missing_weight, plain, write_json
from ontarget.paper.partitions import Partition, partition_of, simulated
from ontarget.paper.peer import time_peer
from ontarget.paper.plan import MODES, Mode, Plan
from ontarget.paper.progress import Clock, Report
from ontarget.paper.rivals import compare, summarize_rivals
from ontarget.paper.summary import summarize, summarize_forecasts
from ontarget.paper.truth import truth_study
from ontarget.report import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "reproduce"]

# What a piece of a domain is: its kind, then its mode, preset and partition where it has one.
Key: TypeAlias = tuple[str | int, ...]

_FIGURES: Final = 4.0
_MODE_NAMES: Final = {"noise": "noise", "atoms": "exact atoms"}
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
    """A finished reproduction: the results of each partition, a summary, and running times.

    A partition is one random division of the episodes.
    """

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
        `FULL` or `QUICK`, with a seed.
    folder
        Where everything is written. If a run was stopped, the next one continues from the files in
        ``parts``.
    studies
        Whether to run the studies of the paper's open questions too.
    distance
        Whether to measure how far every method's probability is from the truth too, on eight
        processes; that takes longer than all the rest.
    figures
        Whether to draw figures and write the page.
    report
        A function that is called with what is being done, and which share of all work is done.
    """
    out = Path(folder)
    run = _Run(plan, out, studies=studies, distance=distance, report=report)
    parts, results, more = run.measure()
    write_json(out / "results.json", results)
    drawn: dict[str, Figure] = {}
    if figures:
        from ontarget.paper.charts import draw_all, draw_distances, write_figures

        with run.clock.timed("figures", "drawing", weight=_FIGURES):
            drawn = draw_all(plan, parts)
            if distance:
                drawn["distance"] = draw_distances(results["distance"])
            write_figures(drawn, out / "figures")
    timing = plain({**run.clock.account(), **more})
    write_json(out / "timing.json", timing)
    if figures:
        from ontarget.paper.page import page_of

        write_whole(out / "index.html", [page_of(results, timing, drawn).encode()])
    return Reproduction(plan, parts, results, timing)


class _Run:
    """One run of the reproduction.

    A domain's episodes are simulated at most once, and only if some result is not stored yet.
    """

    def __init__(
        self, plan: Plan, out: Path, *, studies: bool, distance: bool, report: Report | None
    ) -> None:
        self.plan, self.studies = plan, studies
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()})
        self.distance = DistanceRun(plan, out, self.keeper) if distance else None
        # The time that the pieces took is kept with them; figures are drawn again by each run.
        earlier = self.keeper.table("clock") or {}
        self.clock = Clock(
            self._missing_weight(),
            report,
            earlier={kind: both for kind, both in earlier.items() if kind != "figures"},
            keep=lambda seconds: self.keeper.keep_table("clock", seconds),
        )
        self._episodes: dict[str, Episodes] = {}

    def measure(self) -> tuple[dict[tuple[str, Mode], list[Part]], dict[str, Any], dict[str, Any]]:
        """The results of each partition, a summary of these results, and running times.

        A partition is one random division of the episodes. The summary has no running times, so
        that it is the same every time.
        """
        found: dict[str, dict[Key, dict[str, Any]]] = {}
        for domain in self.plan.domains:
            found[domain] = {
                key: finish(piece, self.keeper, self.clock)
                for key, piece in self._pieces(domain).items()
            }
            self._episodes.clear()
        parts = {
            (domain, mode): [Part.from_arrays(own["part", mode, k]) for k in self._numbers]
            for domain, own in found.items()
            for mode in MODES
        }
        results: dict[str, Any] = {
            "commit": commit(),
            "version": ontarget.__version__,
            "plan": self.plan.describe(),
            "domains": summarize(self.plan, parts),
        }
        more: dict[str, Any] = {"peer": {domain: own["peer", 0] for domain, own in found.items()}}
        if self.studies:
            results["studies"] = {domain: self._study(own) for domain, own in found.items()}
        if self.distance is not None:
            results["distance"], more["distance"] = self.distance.measure(self.clock)
        return parts, plain(results), more

    @property
    def _numbers(self) -> range:
        return range(self.plan.partitions)

    def _missing_weight(self) -> float:
        """The total weight (expected work) of what is still to do, including the figures."""
        total = _FIGURES
        for domain in self.plan.domains:
            missing = missing_weight(self._pieces(domain).values(), self.keeper)
            total += missing + (_WEIGHTS[domain]["simulate"] if missing else 0.0)
        return total + (0.0 if self.distance is None else self.distance.missing_weight())

    def _pieces(self, domain: str) -> dict[Key, Piece]:
        """All pieces of work for one domain, by their keys, in the order they are done."""
        every = [*self._experiment(domain)]
        if self.studies:
            every += [*self._studies(domain)]
        return dict(every)

    def _experiment(self, domain: str) -> Iterator[tuple[Key, Piece]]:
        for k in self._numbers:
            for mode in MODES:
                yield self._piece(
                    domain,
                    ("part", mode, k),
                    mode,
                    lambda one: run_partition(self.plan, one, self.clock.tick).to_arrays(),
                    kind=_MODE_NAMES[mode],
                    ticks=lambda one: one.test.horizon,
                    arrays=True,
                )
        yield self._piece(
            domain,
            ("peer", 0),
            "noise",
            lambda one: time_peer(self.plan, domain, one) or {},
            kind="peer",
        )

    def _studies(self, domain: str) -> Iterator[tuple[Key, Piece]]:
        for k in self._numbers:
            yield self._piece(
                domain,
                ("default", k),
                "atoms",
                lambda one: run_partition(self.plan, one, self.clock.tick, "default").to_arrays(),
                ticks=lambda one: one.test.horizon,
                arrays=True,
            )
            for mode in MODES:
                yield self._piece(
                    domain,
                    ("rivals", mode, k),
                    mode,
                    lambda one: compare(self.plan, one, self.clock.tick),
                    ticks=lambda one: len(self.plan.study_steps),
                )
            for preset in PRESETS:
                yield self._piece(
                    domain,
                    ("watch", preset, k),
                    "atoms",
                    partial(watch_partition, self.plan, preset=preset),
                )
        # Tamarisk's truth is exact, but takes longer than a quick run may.
        if domain == "tamarisk" and not self.plan.quick:
            river = Tamarisk()
            yield (
                ("truth",),
                Piece(
                    file=f"{domain}-truth",
                    kind="study: truth",
                    text=f"{domain}: the exact truth",
                    weight=_WEIGHTS[domain]["truth"],
                    needs=lambda: [
                        partition_of(self.plan, self._recorded(domain), k, "atoms")
                        for k in self._numbers
                    ],
                    make=lambda each: truth_study(self.plan, river, each, self.clock.tick),
                    ticks=lambda _: river.horizon,
                ),
            )

    def _piece(
        self,
        domain: str,
        key: Key,
        mode: Mode,
        make: Callable[[Partition], Mapping[str, Any]],
        *,
        kind: str = "",
        ticks: Callable[[Partition], int] = lambda _: 1,
        arrays: bool = False,
    ) -> tuple[Key, Piece]:
        """A piece of work for one partition in one mode, with its key.

        A partition is one random division of the episodes; the modes are with noise and without.
        The key ends in the partition's number.
        """
        *what, number = key
        name = " ".join(map(str, what))
        return key, Piece(
            file="-".join(map(str, (domain, *key))),
            kind=kind or f"study: {what[0]}",
            text=f"{domain}: {name}, partition {int(number) + 1} of {self.plan.partitions}",
            weight=_WEIGHTS[domain][str(what[0])],
            needs=lambda: partition_of(self.plan, self._recorded(domain), int(number), mode),
            make=make,
            ticks=ticks,
            arrays=arrays,
        )

    def _recorded(self, domain: str) -> Episodes:
        if domain not in self._episodes:
            weight = _WEIGHTS[domain]["simulate"]
            with self.clock.timed("simulation", f"{domain}: simulating", weight=weight):
                self._episodes[domain] = simulated(self.plan, domain)
        return self._episodes[domain]

    def _study(self, found: Mapping[Key, dict[str, Any]]) -> dict[str, Any]:
        """The results of the additional studies of one domain.

        They are summarised over random divisions (partitions) of the episodes.
        """
        each = self._numbers
        study: dict[str, Any] = {
            "rivals": {
                mode: summarize_rivals(self.plan, [found["rivals", mode, k] for k in each])
                for mode in MODES
            },
            "watches": {
                preset: summarize_watches([found["watch", preset, k] for k in each])
                for preset in PRESETS
            },
            "default": {
                "atoms": summarize_forecasts(
                    [Part.from_arrays(found["default", k]) for k in each], by_ranks=False
                )
            },
        }
        if ("truth",) in found:
            study["truth"] = found["truth",]
        return study
