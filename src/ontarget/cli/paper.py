"""``ontarget paper``: the paper's experiments, reproduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ontarget._plain import plain
from ontarget._progress import progress_bar
from ontarget.cli.output import check_folder
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget.paper.plan import Plan
    from ontarget.report import Table

__all__ = ["paper"]

# Says what is being done, and which share of all is done.
Report: TypeAlias = Callable[[str, float], None]


def paper(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The folder to write to; by default out/paper, out/models or out/battles.",
            metavar="FOLDER",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A quick run with fewer episodes and partitions; takes some minutes.",
            metavar="",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same numbers.", metavar="N")
    ] = 0,
    studies: Annotated[
        bool,
        typer.Option(
            help="Whether to run the studies of the paper's open questions too.", metavar=""
        ),
    ] = True,
    distance: Annotated[
        bool,
        typer.Option(
            "--distance",
            help="Also measure how far each method is from the true probability; takes some hours "
            "more.",
            metavar="",
        ),
    ] = False,
    models: Annotated[
        bool,
        typer.Option(
            "--models",
            help="Instead, try every kind of model with PCQR and other conformal methods.",
            metavar="",
        ),
    ] = False,
    battles: Annotated[
        str | None,
        typer.Option(
            help="Instead, run the paper's battles in a second engine too: smax.",
            metavar="ENGINE",
        ),
    ] = None,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes hours, a quick one minutes. After an interruption, the same command continues.
    """
    from ontarget.paper.plan import FULL, QUICK

    if battles is not None and battles != "smax":
        raise InputError(f"--battles needs the name of an engine, smax, got {battles!r}")
    if models and battles is not None:
        raise InputError("--models and --battles are two studies; ask for one at a time")
    plan = (QUICK if quick else FULL).with_seed(seed)
    into = output or Path("out") / ("models" if models else "battles" if battles else "paper")
    check_folder(into)
    with progress_bar("starting", 100, unit="%") as reached:

        def report(text: str, share: float) -> None:
            reached(100.0 * share, text)

        if models:
            shown, remark = _studied_models(plan, into, report)
        elif battles is not None:
            shown, remark = _fought(plan, into, report)
        else:
            shown, remark = _reproduced(plan, into, report, studies=studies, distance=distance)
    _print(shown, quick=plan.quick)
    if remark:
        typer.echo(remark)
    typer.echo(f"{plain(into / 'index.html')}: the page; results.json and figures beside it")


def _reproduced(
    plan: Plan, into: Path, report: Report, *, studies: bool, distance: bool
) -> tuple[list[Table], str]:
    """The tables of the paper's own experiments, and a remark as text."""
    from ontarget.paper import checks, distance_tables, tables
    from ontarget.paper.reproduction import reproduce

    done = reproduce(plan, into, studies=studies, distance=distance, report=report)
    shown = [tables.main_table(done.results)]
    if not plan.quick:  # the questions are about the full size
        shown.append(checks.checks_table(done.results))
        shown.append(checks.limits_table(done.timing))
    if "distance" in done.results:
        costs = done.timing["distance"]
        shown.append(distance_tables.overview_table(done.results["distance"], costs))
    shown.append(tables.time_table(done.timing))
    if any(done.timing["peer"].values()):
        shown.append(tables.peer_table(done.timing))
    return shown, (
        "Our skirmish is a surrogate, and our Tamarisk's constants and policy are chosen: these "
        "are not the authors' data."
    )


def _studied_models(plan: Plan, into: Path, report: Report) -> tuple[list[Table], str]:
    """The table that compares every model under every method, and a remark as text."""
    from ontarget.paper.models.page import overview_table
    from ontarget.paper.models.running import study_models

    return [overview_table(study_models(plan, into, report=report).results["processes"])], ""


def _fought(plan: Plan, into: Path, report: Report) -> tuple[list[Table], str]:
    """The tables of the battles in two game engines, and a remark as text."""
    from ontarget.paper import checks, tables
    from ontarget.paper.battles.page import open_table, soundness_table
    from ontarget.paper.battles.study import compare_battles

    done = compare_battles(plan, into, report=report)
    shown = [tables.main_table(done.results)]
    if not plan.quick:
        shown.append(checks.checks_table(done.results))
    shown += [soundness_table(done.results), open_table(done.results)]
    shown.append(tables.time_table(done.timing))
    return shown, "Neither engine is StarCraft II: these are not the authors' data."


def _print(tables: Sequence[Table], *, quick: bool) -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console(highlight=False)
    if quick:
        console.print("A quick run: fewer episodes and partitions than the paper's.")
    for one in tables:
        title = one.caption or None
        table = Shown(*one.head, title=title, box=None, pad_edge=False, title_justify="left")
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
