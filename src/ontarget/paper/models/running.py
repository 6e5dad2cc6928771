"""Runs the study of models in pieces, and writes its results, figures and page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import ontarget
from ontarget.paper.cases import CASES, ORACLE_CODE, Case, build_case
from ontarget.paper.keeping import Keeper, Piece, commit, finish, missing_weight, plain, write_json
from ontarget.paper.models.page import draw_models, models_page
from ontarget.paper.models.study import MODELS, measure_model, models_here, sized, summarize_models
from ontarget.paper.plan import Plan
from ontarget.paper.progress import Clock, Report
from ontarget.report import write_whole

__all__ = ["ModelStudy", "study_models"]

Key: TypeAlias = tuple[str, int]

# About the processor seconds of one model on one partition of a process; they only move the bar.
_SECONDS: Final = 10.0


@dataclass(frozen=True)
class ModelStudy:
    """A finished study of models: its plan, its results by process, and running times."""

    plan: Plan
    results: dict[str, Any]
    timing: dict[str, Any]


def study_models(plan: Plan, folder: str | Path, *, report: Report | None = None) -> ModelStudy:
    """Measure every model on every process, and write results, figures and page into a folder.

    Parameters
    ----------
    plan
        `FULL` or `QUICK`, with a seed; the study has its own sizes. A quick study uses only the
        processes whose truth is fast to compute.
    folder
        Where everything is written. If a run was stopped, the next one continues from the files in
        ``parts``. The true probabilities, which do not depend on models, are in ``oracle``.
    report
        A function that is called with what is being done, and which share of all work is done.
    """
    from ontarget.paper.charts import write_figures

    out, plan = Path(folder), sized(plan)
    run = _Run(plan, out, report)
    results, costs = run.measure()
    write_json(out / "results.json", results)
    figures = draw_models(results["processes"])
    write_figures(figures, out / "figures")
    timing = plain({**run.clock.account(), "processes": costs})
    write_json(out / "timing.json", timing)
    write_whole(out / "index.html", [models_page(results, timing, figures).encode()])
    return ModelStudy(plan, results, timing)


class _Run:
    """One run of the study of models.

    A process is simulated only if some of its results are not stored yet.
    """

    def __init__(self, plan: Plan, out: Path, report: Report | None) -> None:
        self.plan = plan
        self.keeper = Keeper(out / "parts", {"plan": plan.describe()})
        self._oracle = Keeper(out / "oracle", {}, ORACLE_CODE)
        self._built: dict[str, Case] = {}
        missing = (missing_weight(self._pieces(one).values(), self.keeper) for one in self.cases)
        self.clock = Clock(
            sum(missing),
            report,
            earlier=self.keeper.table("clock"),
            keep=lambda seconds: self.keeper.keep_table("clock", seconds),
        )

    @property
    def cases(self) -> tuple[str, ...]:
        """The names of the processes that are studied."""
        return ("walk", "reservoir") if self.plan.quick else tuple(CASES)

    def measure(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The results by process and model, and the time that each model took."""
        processes: dict[str, Any] = {}
        costs: dict[str, Any] = {}
        for case in self.cases:
            made = {
                key: finish(one, self.keeper, self.clock) for key, one in self._pieces(case).items()
            }
            numbers = range(self.plan.partitions)
            each = {name: [made[name, k] for k in numbers] for name in models_here()}
            processes[case] = summarize_models(each)
            costs[case] = {
                name: {
                    cost: sum(one[cost] for one in own) / len(own)
                    for cost in ("fit_seconds", "answer_us")
                }
                for name, own in each.items()
            }
            self._built.clear()  # one process at a time is enough
        results = {
            "commit": commit(),
            "version": ontarget.__version__,
            "plan": self.plan.describe(),
            "left_out": [name for name in MODELS if name not in models_here()],
            "processes": processes,
        }
        return plain(results), costs

    def _pieces(self, case: str) -> dict[Key, Piece]:
        """All pieces of work for one process, by their keys, in the order they are done."""
        return {
            (name, k): Piece(
                file=f"models-{case}-{list(MODELS).index(name)}-{k}",
                kind=name,
                text=f"{CASES[case].label}: {name}, partition {k + 1} of {self.plan.partitions}",
                weight=_SECONDS,
                needs=partial(self._build, case),
                make=partial(measure_model, self.plan, name, k),
            )
            for k in range(self.plan.partitions)
            for name in models_here()
        }

    def _build(self, case: str) -> Case:
        if case not in self._built:
            with self.clock.timed("the truth", f"{CASES[case].label}: the truth", weight=0.0):
                self._built[case] = build_case(
                    case, self._oracle, n_episodes=self.plan.episodes, seed=self.plan.seed
                )
        return self._built[case]
