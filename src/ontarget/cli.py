"""The command line: ``ontarget``."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="ontarget",
    help="The calibrated probability, at every step of a run, that it ends inside your target.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """The calibrated probability, at every step of a run, that it ends inside your target."""


def main() -> None:
    """Run the command line."""
    app()
