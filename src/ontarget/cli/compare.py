"""``ontarget compare`` and ``ontarget study``: two monitors, or a monitor beside a classifier."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.options import (
    TARGET_HELP,
    AsJson,
    Model,
    ModelTargetOption,
    ReadsRuns,
    Runs,
    SetsAlarm,
    described,
    model_there,
    option,
    remark_lines,
    target_for,
    target_of,
)
from ontarget.cli.output import print_facts


@dataclass(frozen=True, kw_only=True)
class CompareCommand(ReadsRuns, SetsAlarm):
    """Compare two models on new episodes that neither has seen, and say which to deploy.

    Differences are paired: both models answer for the same steps of the same episodes, and whole
    episodes are resampled for the intervals. The last line is the verdict.
    """

    model: Model
    other: Annotated[
        Path,
        typer.Argument(
            help="Another model file.", metavar="OTHER", callback=model_there, is_eager=True
        ),
    ]
    runs: Runs
    target: ModelTargetOption = None
    as_json: AsJson = False

    def run(self) -> None:
        """Evaluate both models on the same episodes, and print the comparison."""
        from ontarget import GoalMonitor
        from ontarget.report import compare as beside

        rule = self.rule
        monitors = [GoalMonitor.load(path) for path in (self.model, self.other)]
        wanted = target_for(monitors[0], self.target)
        if self.target is None and monitors[1].target not in (None, wanted):
            raise typer.BadParameter(
                f"pass --target, because {plain(self.model)} was fitted with {wanted} and "
                f"{plain(self.other)} with {monitors[1].target}"
            )
        found, remarks = [], ""
        for monitor in monitors:
            recorded = self.read(self.runs, monitor)
            remarks = remarks or remark_lines(recorded)
            found.append(
                monitor.evaluate(
                    recorded, wanted, calibration=self.calibration, progress=not self.as_json
                )
            )
        with working("comparing"):
            compared = beside(found[0], found[1], rule, (plain(self.model), plain(self.other)))
        if self.as_json:
            typer.echo(json.dumps(compared.to_json(), sort_keys=True))
        else:
            print_facts("\n".join(filter(None, [remarks, str(compared)])))


@dataclass(frozen=True, kw_only=True)
class StudyCommand(ReadsRuns):
    """Compare a monitor with the classifier that you could write instead, on your own log.

    The log is split at random several times. In each split, a monitor and boosted trees learn from
    the same two thirds of the episodes, and forecast the other third at every step. The last line
    says which is better, and what to do if the classifier wins.
    """

    runs: Runs
    target: Annotated[str, option(TARGET_HELP, "LO:HI")]
    splits: Annotated[
        int, option("How many random splits of the episodes to average over.", "N", min=2)
    ] = 5
    seed: Annotated[int, option("The same data and seed give the same study.", "N", min=0)] = 0
    as_json: AsJson = False

    def run(self) -> None:
        """Fit and compare on every split, and print the result."""
        from ontarget import GoalMonitor
        from ontarget.study import study

        wanted, recorded = target_of(self.target), self.read(self.runs)
        if not self.as_json:
            print_facts(described(recorded))
        found = study(
            recorded,
            wanted,
            monitor=GoalMonitor(group=self.columns.get("group")),
            splits=self.splits,
            seed=self.seed,
            progress=not self.as_json,
        )
        if self.as_json:
            typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
            return
        past, new = f"{found.n_past:,} past", f"{found.n_new:,} new episodes"
        print_facts(f"splits     {self.splits}, each of {past} and {new}\n")
        typer.echo(str(found))
