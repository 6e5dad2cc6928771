"""The command line: ``ontarget``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ontarget.errors import InputError, OntargetError

app = typer.Typer(
    name="ontarget",
    help="The calibrated probability, at every step of a run, that it ends inside your target.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """The calibrated probability, at every step of a run, that it ends inside your target."""


@app.command(
    epilog="Example: ontarget simulate tamarisk -n 10000 --seed 0 -o runs.parquet",
)
def simulate(
    domain: Annotated[str, typer.Argument(help="tamarisk or skirmish.", metavar="DOMAIN")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write: .parquet or .csv.")
    ],
    episodes: Annotated[
        int, typer.Option("--episodes", "-n", min=1, help="How many episodes.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Same seed, same episodes.")] = 0,
    preset: Annotated[
        str | None,
        typer.Option(help="tamarisk: paper (default), competition, rare-deaths or tight-budget."),
    ] = None,
) -> None:
    """Simulate episodes of one of the paper's domains and write them to a file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ontarget.domains import named
    from ontarget.domains import simulate as run

    if output.suffix not in {".parquet", ".csv"}:  # told before the work, not after it
        raise InputError(f"--output needs a file named .parquet or .csv, got {str(output)!r}")
    chosen = named(domain, preset=preset)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"simulating {domain}", total=episodes)
        recorded = run(
            chosen, episodes, seed, progress=lambda done, _: bar.update(task, completed=done)
        )
    recorded.write(output)
    outcomes = recorded.outcomes
    typer.echo(
        f"{output}: {episodes:,} episodes of {chosen.horizon} steps, "
        f"outcome {outcomes.mean():.1f} ± {outcomes.std():.1f} (mean ± sd)"
    )


def main() -> None:
    """Run the command line; a mistake of the user's is told in one line."""
    try:
        app()
    except OntargetError as error:
        sys.exit(f"ontarget: {error}")
