"""``ontarget paper``: the paper's experiments, reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._plain import plain
from ontarget._progress import progress_bar
from ontarget.errors import InputError

if TYPE_CHECKING:
    from ontarget.paper.battles.study import BattleStudy
    from ontarget.paper.reproduction import Reproduction
    from ontarget.report import Table as Shown

__all__ = ["paper"]


def paper(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The folder to write to; out/paper, or out/battles with --battles.",
            metavar="FOLDER",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer episodes and partitions; some minutes.", metavar=""),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same numbers.", metavar="N")
    ] = 0,
    studies: Annotated[
        bool,
        typer.Option(help="Whether to answer the paper's open questions as well.", metavar=""),
    ] = True,
    distance: Annotated[
        bool,
        typer.Option(
            "--distance",
            help="Also measure how far each method is from the truth; some hours more.",
            metavar="",
        ),
    ] = False,
    battles: Annotated[
        str | None,
        typer.Option(
            help="Instead, fight the paper's battles in another engine too: smax.",
            metavar="ENGINE",
        ),
    ] = None,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes hours, a quick one minutes; a run that was stopped resumes.
    """
    from ontarget.paper.plan import FULL, QUICK

    if battles is not None and battles != "smax":
        raise InputError(f"--battles needs the name of an engine, smax, got {battles!r}")
    plan = (QUICK if quick else FULL).with_seed(seed)
    with progress_bar("starting", 100, unit="%") as reached:

        def report(text: str, share: float) -> None:
            reached(100.0 * share, text)

        if battles is not None:
            from ontarget.paper.battles.study import compare_battles

            into = output or Path("out/battles")
            study = compare_battles(plan, into, report=report)
        else:
            from ontarget.paper.reproduction import reproduce

            into = output or Path("out/paper")
            done = reproduce(plan, into, studies=studies, distance=distance, report=report)
    if battles is not None:
        _say_battles(study)
    else:
        _say(done)
    page = plain(into / "index.html")
    typer.echo(f"{page}: the page; results.json and figures beside it")


def _say_battles(done: BattleStudy) -> None:
    from ontarget.paper import checks, tables
    from ontarget.paper.battles.page import open_table, soundness_table

    shown = [tables.main_table(done.results)]
    if not done.plan.quick:
        shown.append(checks.checks_table(done.results))
    shown += [soundness_table(done.results), open_table(done.results)]
    shown.append(tables.time_table(done.timing))
    _print(shown, quick=done.plan.quick)
    typer.echo("Neither engine is StarCraft II: these are not the authors' data.")


def _say(done: Reproduction) -> None:
    from ontarget.paper import checks, distance_tables, tables

    shown = [tables.main_table(done.results)]
    if not done.plan.quick:  # the questions are about the full size
        shown.append(checks.checks_table(done.results))
        shown.append(checks.limits_table(done.timing))
    if "distance" in done.results:
        costs = done.timing["distance"]
        shown.append(distance_tables.overview_table(done.results["distance"], costs))
    shown.append(tables.time_table(done.timing))
    if any(done.timing["peer"].values()):
        shown.append(tables.peer_table(done.timing))
    _print(shown, quick=done.plan.quick)
    typer.echo(
        "Our skirmish is a surrogate, and our Tamarisk's constants and policy are chosen: these "
        "are not the authors' data."
    )


def _print(shown: list[Shown], *, quick: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if quick:
        console.print("A quick run: fewer episodes and partitions than the paper's.")
    for one in shown:
        table = Table(
            *one.head,
            title=one.caption or None,
            box=None,
            pad_edge=False,
            title_justify="left",
        )
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
