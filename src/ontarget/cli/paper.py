"""``ontarget paper``: the paper's experiments, reproduced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ontarget._plain import plain
from ontarget._progress import progress_bar

if TYPE_CHECKING:
    from ontarget.paper.plan import Plan
    from ontarget.paper.reproduction import Reproduction
    from ontarget.report import Table

__all__ = ["paper"]


def paper(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write to.", metavar="FOLDER")
    ] = Path("out/paper"),
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
    models: Annotated[
        bool,
        typer.Option(
            "--models",
            help="Instead, study every model under PCQR and its rivals, in FOLDER/models.",
            metavar="",
        ),
    ] = False,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes hours, a quick one minutes; a run that was stopped resumes.
    """
    from ontarget.paper.plan import FULL, QUICK
    from ontarget.paper.reproduction import reproduce

    plan = (QUICK if quick else FULL).with_seed(seed)
    if models:
        _study_models(plan, output / "models")
        return
    with progress_bar("starting", 100, unit="%") as reached:
        done = reproduce(
            plan,
            output,
            studies=studies,
            distance=distance,
            report=lambda text, share: reached(100.0 * share, text),
        )
    _say(done, output)


def _study_models(plan: Plan, output: Path) -> None:
    from ontarget.paper.models.page import overview_table
    from ontarget.paper.models.running import study_models

    with progress_bar("starting", 100, unit="%") as reached:
        done = study_models(plan, output, report=lambda text, share: reached(100.0 * share, text))
    _print([overview_table(done.results["processes"])])
    typer.echo(f"{plain(output / 'index.html')}: the page; results.json and figures beside it")


def _print(tables: Sequence[Table]) -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console(highlight=False)
    for one in tables:
        title = one.caption or None
        table = Shown(*one.head, title=title, box=None, pad_edge=False, title_justify="left")
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
        console.print()


def _say(done: Reproduction, output: Path) -> None:
    from rich.console import Console

    from ontarget.paper import checks, distance_tables, tables

    console = Console(highlight=False)
    if done.plan.quick:
        console.print("A quick run: fewer episodes and partitions than the paper's.")
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
    _print(shown)
    console.print(
        "Our skirmish is a surrogate, and our Tamarisk's constants and policy are chosen: these "
        "are not the authors' data."
    )
    page = plain(output / "index.html")
    console.print(f"{page}: the page; results.json and figures beside it", markup=False)
