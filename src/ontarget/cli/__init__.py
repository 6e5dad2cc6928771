"""The command line: ``ontarget``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ontarget.cli.data import fit, simulate
from ontarget.cli.demo import demo
from ontarget.cli.live import watch
from ontarget.cli.paper import paper
from ontarget.cli.study import evaluate, inspect
from ontarget.errors import OntargetError

__all__ = ["app", "main"]

app = typer.Typer(
    name="ontarget",
    help="The calibrated probability, at every step of a run, that it ends inside your target.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

app.command(epilog="Example: ontarget demo")(demo)
app.command(epilog="Example: ontarget simulate tamarisk -n 10000 --seed 0 -o runs.parquet")(
    simulate
)
app.command(epilog="Example: ontarget fit runs.parquet -o river.ontarget")(fit)
app.command(epilog="Example: ontarget inspect river.ontarget")(inspect)
app.command(epilog="Example: ontarget evaluate river.ontarget new.parquet --target -70:-17")(
    evaluate
)
app.command(epilog="Example: tail -f runs.jsonl | ontarget watch river.ontarget --target -40:")(
    watch
)
app.command(epilog="Example: ontarget paper -o out/paper --quick")(paper)


@app.callback()
def _root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a mistake.")
    ] = False,
) -> None:
    if debug:
        os.environ["ONTARGET_DEBUG"] = "1"


def main() -> None:
    """Run the command line: a user's mistake is told in one line and exits with 1."""
    try:
        app()
    except OntargetError as error:
        if os.environ.get("ONTARGET_DEBUG"):
            raise
        sys.stderr.write(f"ontarget: {error}\n")
        sys.exit(1)
