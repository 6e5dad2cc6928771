"""Runs the paper's experiment in both game engines, and compares their battles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

import ontarget
from ontarget import Target
from ontarget.episodes import Episodes
from ontarget.paper.arrays import AnyArray
from ontarget.paper.battles.engines import (
    ENGINES,
    OPEN_STEPS,
    even_battles,
    fought_share,
    truly_open,
    unaccounted,
)
from ontarget.paper.battles.page import draw, page_of
from ontarget.paper.charts import write_figures
from ontarget.paper.experiment import Part, run_partition
from ontarget.paper.keeping import (
    Keeper,
    Piece,
    commit,
    finish,
    missing_weight,
    plain,
    write_json,
)
from ontarget.paper.partitions import partition_of, simulated
from ontarget.paper.plan import MODES, Mode, Plan
from ontarget.paper.progress import Clock, Report
from ontarget.paper.summary import summarize
from ontarget.report import write_whole

__all__ = ["BattleStudy", "compare_battles"]

# What a piece of an engine is: its kind, then its mode and partition, or its step.
Key: TypeAlias = tuple[str | int, ...]

# What the episodes depend on, and what the rest does.
_ENGINE_CODE: Final = (
    "_keyed.py",
    "_splitmix.py",
    "domains/draws.py",
    "domains/oracle.py",
    "domains/simulation.py",
    "domains/skirmish/",
    "domains/smax/",
)
_CODE: Final = (
    *_ENGINE_CODE,
    *("_grid.py", "conformal/", "episodes/", "evaluation/", "models/", "paper/", "target.py"),
)
# About the processor seconds of each piece at full size; they only move the progress bar.
_WEIGHTS: Final = {
    "skirmish": {"episodes": 12.0, "part": 8.0, "about": 1.0, "even": 5.0, "open": 3.0},
    "smax": {"episodes": 110.0, "part": 8.0, "about": 1.0, "even": 20.0, "open": 15.0},
}
_KINDS: Final = {
    "part": "experiment",
    "about": "checks",
    "even": "battles between equal sides",
    "open": "rollouts",
}
_FIGURES: Final = 4.0


@dataclass(frozen=True)
class BattleStudy:
    """A finished comparison of two game engines: its plan, a summary of results, running times."""

    plan: Plan
    results: dict[str, Any]
    timing: dict[str, Any]


def compare_battles(plan: Plan, folder: str | Path, *, report: Report | None = None) -> BattleStudy:
    """Run the paper's experiment in both game engines; write results, figures and a page.

    Parameters
    ----------
    plan
        `FULL` or `QUICK`, with a seed; the two engines take the place of its domains.
    folder
        Where everything is written. If a run was stopped, the next one continues from the files in
        ``parts``.
    report
        A function that is called with what is being done, and which share of all work is done.
    """
    out = Path(folder)
    run = _Run(replace(plan, domains=tuple(ENGINES)), out, report)
    parts, results = run.measure()
    write_json(out / "results.json", results)
    with run.clock.timed("figures", "drawing", weight=_FIGURES):
        figures = draw(run.plan, parts, results)
        write_figures(figures, out / "figures")
    timing: dict[str, Any] = plain(run.clock.account())
    write_json(out / "timing.json", timing)
    write_whole(out / "index.html", [page_of(results, timing, figures).encode()])
    return BattleStudy(run.plan, results, timing)


class _Run:
    """One run of the comparison of game engines.

    Pieces that are finished are stored and not computed again.
    """

    def __init__(self, plan: Plan, out: Path, report: Report | None) -> None:
        for engine in ENGINES.values():
            engine.scenario()  # before any work, because it may need an extra
        self.plan = plan
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()}, _CODE)
        drawn_from = {"episodes": plan.episodes, "seed": plan.seed}
        self.recorder = Keeper(out / "parts", drawn_from, _ENGINE_CODE)
        earlier = self.keeper.table("clock") or {}
        self.clock = Clock(
            _FIGURES
            + sum(missing_weight([self._episodes(one)], self.recorder) for one in ENGINES)
            + sum(missing_weight(dict(self._pieces(one)).values(), self.keeper) for one in ENGINES),
            report,
            earlier={kind: both for kind, both in earlier.items() if kind != "figures"},
            keep=lambda seconds: self.keeper.keep_table("clock", seconds),
        )
        self._recorded = cache(self._record)

    def measure(self) -> tuple[dict[tuple[str, Mode], list[Part]], dict[str, Any]]:
        """The results of each partition, and a summary of these results.

        A partition is one random division of the episodes. The summary has no running times, so
        that it is the same every time.
        """
        found = {
            (engine, *key): finish(piece, self.keeper, self.clock)
            for engine in ENGINES
            for key, piece in self._pieces(engine)
        }
        parts: dict[tuple[str, Mode], list[Part]] = {
            (engine, mode): [
                Part.from_arrays(found[engine, "part", mode, k])
                for k in range(self.plan.partitions)
            ]
            for engine in ENGINES
            for mode in MODES
        }
        results: dict[str, Any] = {
            "commit": commit(),
            "version": ontarget.__version__,
            "plan": self.plan.describe(),
            "domains": summarize(self.plan, parts),
            "battles": {
                engine: {
                    **found[engine, "about"],
                    "even": found[engine, "even"],
                    "open": {t: found[engine, "open", t] for t in OPEN_STEPS},
                }
                for engine in ENGINES
            },
        }
        return parts, plain(results)

    def _pieces(self, engine: str) -> Iterator[tuple[Key, Piece]]:
        """All pieces of work for one game engine, each with its key, in the order they are done."""
        for k in range(self.plan.partitions):
            for mode in MODES:
                make = partial(self._part, k, mode)
                yield self._piece(engine, ("part", mode, k), make, arrays=True)
        yield self._piece(engine, ("about",), partial(self._about, engine))
        yield self._piece(engine, ("even",), lambda _: self._even(engine))
        for t in OPEN_STEPS:
            yield self._piece(engine, ("open", t), partial(self._open, engine, t))

    def _piece(
        self,
        engine: str,
        key: Key,
        make: Callable[[Episodes], Mapping[str, Any]],
        *,
        arrays: bool = False,
    ) -> tuple[Key, Piece]:
        kind = str(key[0])
        return key, Piece(
            file="-".join(map(str, (engine, *key))),
            kind=_KINDS[kind],
            text=f"{engine}: {' '.join(map(str, key))}",
            weight=_WEIGHTS[engine][kind],
            needs=lambda: self._recorded(engine),
            make=make,
            ticks=lambda episodes: episodes.horizon if kind == "part" else 1,
            arrays=arrays,
        )

    def _part(self, number: int, mode: Mode, episodes: Episodes) -> dict[str, AnyArray]:
        partition = partition_of(self.plan, episodes, number, mode)
        return run_partition(self.plan, partition, self.clock.tick).to_arrays()

    def _about(self, engine: str, episodes: Episodes) -> dict[str, Any]:
        outcomes = episodes.outcomes
        return {
            "outcome": {"mean": outcomes.mean(), "sd": outcomes.std()},
            "fought": fought_share(episodes),
            "unaccounted": unaccounted(engine, episodes, self.plan.seed),
        }

    def _even(self, engine: str) -> dict[str, Any]:
        battles = 100 if self.plan.quick else 2_000
        return even_battles(engine, battles=battles, seed=self.plan.seed)

    def _open(self, engine: str, t: int, episodes: Episodes) -> dict[str, Any]:
        states, rollouts = (10, 5) if self.plan.quick else (60, 40)
        target = Target(*np.quantile(episodes.outcomes, [0.1, 0.9], method="inverted_cdf"))
        seed = self.plan.seed
        return truly_open(engine, target, t, states=states, rollouts=rollouts, seed=seed)

    def _episodes(self, engine: str) -> Piece:
        return Piece(
            file=f"{engine}-episodes",
            kind=f"simulation: {engine}",
            text=f"{engine}: simulating",
            weight=_WEIGHTS[engine]["episodes"],
            needs=lambda: None,
            make=lambda _: _arrays(simulated(self.plan, engine)),
            arrays=True,
        )

    def _record(self, engine: str) -> Episodes:
        """The game engine's episodes; they are read from a file if they were simulated before."""
        kept = finish(self._episodes(engine), self.recorder, self.clock)
        return Episodes.from_arrays(
            kept["states"],
            kept["rewards"],
            horizon=kept["rewards"].shape[1],
            features=ENGINES[engine].scenario().features,
        )


def _arrays(episodes: Episodes) -> dict[str, AnyArray]:
    steps = range(episodes.horizon)
    return {
        "states": np.stack([episodes.at(t).states for t in steps], axis=1),
        "rewards": np.stack([episodes.rewards_at(t) for t in steps], axis=1),
    }
