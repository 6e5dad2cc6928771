"""``ontarget paper``: the paper's experiments, reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ontarget._progress import progress_bar
from ontarget._text import plain
from ontarget.cli.output import check_folder


def paper(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write to.", metavar="FOLDER")
    ] = Path("out/paper"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A quick run with fewer episodes and partitions; takes seconds.",
            metavar="",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same numbers.", metavar="N")
    ] = 0,
) -> None:
    """Reproduce the paper of Guyer and Dietterich: tables, figures and an HTML page.

    A full run takes two or three minutes.
    """
    from rich.console import Console
    from rich.table import Table

    from ontarget.paper.experiment import FULL, QUICK
    from ontarget.paper.page import checks_table, main_table, time_table
    from ontarget.paper.reproduction import reproduce

    plan = (QUICK if quick else FULL).with_seed(seed)
    check_folder(output)
    with progress_bar("starting", 100, unit="%") as reached:
        done = reproduce(plan, output, report=lambda text, share: reached(100.0 * share, text))
    shown = [main_table(done.results), time_table(done.timing)]
    console = Console(highlight=False)
    if plan.quick:
        console.print("A quick run: fewer episodes and partitions than the paper's.")
    else:  # the requirements are for the full size
        shown.insert(1, checks_table(done.results))
    for one in shown:
        table = Table(*one.head, box=None, pad_edge=False)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
    typer.echo(
        "Our skirmish is a surrogate, and our Tamarisk's constants and policy are chosen: these "
        "are not the authors' data."
    )
    typer.echo(f"{plain(output / 'index.html')}: the page; results.json and figures beside it")
