"""The commands of the program ``ontarget``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ontarget.cli.compare import CompareCommand, StudyCommand
from ontarget.cli.data import LookCommand, PrepareCommand, split
from ontarget.cli.demo import demo
from ontarget.cli.evaluate import EvaluateCommand
from ontarget.cli.explain import ExplainCommand
from ontarget.cli.fit import FitCommand
from ontarget.cli.life import DriftCommand, RecalibrateCommand, inspect
from ontarget.cli.live import WatchCommand
from ontarget.cli.mistakes import PlainCommand, PlainGroup
from ontarget.cli.serve import ServeCommand
from ontarget.cli.simulate import paper, plan, simulate, warm

__all__ = ["app", "main"]

app = typer.Typer(
    name="ontarget",
    help="The calibrated probability, at every step of a run, that it ends inside your target.",
    epilog="Start with: ontarget demo\n\nExit codes: 0 success, 1 an error in the input, 2 an "
    "error in the usage, 3 an alarm (watch --fail-on-alarm), 130 interrupted, 143 "
    "terminated.",
    cls=PlainGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_EXAMPLES: dict[Callable[..., Any], str] = {
    demo: "ontarget demo",
    plan: "ontarget plan --accuracy 0.02 --level 0.95 --false-alarm-rate 0.05",
    simulate: "ontarget simulate tamarisk -n 10000 --seed 0 -o runs.parquet",
    LookCommand: "ontarget look runs.parquet --target -60:",
    split: "ontarget split runs.csv --by started --at 2025-01-01 -o old.csv new.csv",
    PrepareCommand: "ontarget prepare runs/ -o prepared/",
    FitCommand: "ontarget fit runs.parquet --target -60: -o river.ontarget",
    inspect: "ontarget inspect river.ontarget",
    EvaluateCommand: "ontarget evaluate river.ontarget new.parquet --report report.html",
    CompareCommand: "ontarget compare river.ontarget renewed.ontarget new.parquet",
    DriftCommand: "ontarget drift river.ontarget new.parquet --order date --by season",
    RecalibrateCommand: "ontarget recalibrate river.ontarget new.parquet -o renewed.ontarget",
    ExplainCommand: "ontarget explain river.ontarget new.parquet --run 17 --step 12",
    StudyCommand: "ontarget study runs.parquet --target -60:",
    ServeCommand: "ontarget serve river.ontarget --database river.db",
    WatchCommand: "tail -f runs.jsonl | ontarget watch river.ontarget",
    warm: "ontarget warm",
    paper: "ontarget paper -o out/paper --quick",
}
for _command, _example in _EXAMPLES.items():
    _name = _example.partition("ontarget ")[2].split()[0]
    app.command(_name, epilog=f"Example: {_example}", cls=PlainCommand)(_command)


def _show_version(asked: bool) -> None:
    if asked:
        from ontarget._package import __version__

        typer.echo(f"ontarget {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the full traceback of an error.", metavar=""),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_show_version, metavar=""
        ),
    ] = False,
) -> None:
    """The options that come before a command name. `PlainGroup` acts on ``--debug``."""


def main() -> None:
    """Run the command that the command line names."""
    _open_streams()
    app()


def _open_streams() -> None:
    """Open the null device for standard input, output or errors if the parent closed that stream.

    Otherwise the next file that is opened would get the file descriptor of the closed stream, and
    the program's output would be written into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode)  # noqa: SIM115 - it is closed with the program
            setattr(sys, name, stream)
