"""How a command ends: exit codes, and errors shown in one line.

The codes are 0 for success, 1 for an error in the input, 2 for an error in the usage, 3 for an
alarm (``watch --fail-on-alarm``), 130 for an interruption, and 143 if the program was terminated.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import IntEnum
from types import EllipsisType
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ontarget._text import plain
from ontarget.cli.options import ReadsRuns
from ontarget.cli.output import make_printable
from ontarget.errors import AlarmWarning, Argument, EpisodesWarning, OntargetError
from ontarget.live.setting import AlarmSetting

_DEBUG = "--debug"
_CAUTIONS = (AlarmWarning, EpisodesWarning)

# Arguments of the library that are also options of the command line.
_OPTIONS: Final = frozenset(
    (
        *(one.name for kind in (ReadsRuns, AlarmSetting) for one in fields(kind)),
        *("file_column", "engine", "address", "reward_bounds", "assure", "splits", "model"),
        *("success_rate", "accuracy", "level", "by", "at"),
    )
)


class Exit(IntEnum):
    """The exit codes of ``ontarget``."""

    FINE = 0
    INPUT = 1
    USAGE = 2
    ALARM = 3
    CHECK = 4
    INTERRUPTED = 130
    TERMINATED = 143


class PlainCommand(TyperCommand):
    """A command whose help shows no value type beside options that take no value."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command: a function, or the ``run`` of a dataclass that holds its options."""
        asked = super().invoke(ctx)
        if asked is not None:
            asked.run()

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which takes no value."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option


class PlainGroup(TyperGroup):
    """The group of all commands. ``--debug``, anywhere on the line, shows an error's traceback.

    Help is drawn with frames and colors. Errors are plain text, because the library that draws
    frames takes longer to load than the rest of the program.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._help_mode, self.rich_markup_mode = self.rich_markup_mode, None

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line."""
        make_printable()
        return super().main(*args, **options)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the program."""
        self.rich_markup_mode = self._help_mode
        try:
            super().format_help(ctx, formatter)
        finally:
            self.rich_markup_mode = None

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which takes no value."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move --debug from anywhere on the line to the front."""
        if _DEBUG in args:
            args = [_DEBUG, *(one for one in args if one != _DEBUG)]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; any error that a user can cause ends in one line and an exit code."""
        try:
            with _cautions(), _terminable():
                return super().invoke(ctx)
        except _Terminated:
            raise typer.Exit(Exit.TERMINATED) from None
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except BrokenPipeError:
            # The program that read our output has ended, as head does: nothing more can be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Exit.FINE) from None
        except (OntargetError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"ontarget: {plain(_told(error))}", err=True)
            raise typer.Exit(Exit.INPUT) from None


class _Terminated(KeyboardInterrupt):
    """Raised when the system asks the program to end (SIGTERM); handled like Ctrl-C."""


@contextmanager
def _terminable() -> Iterator[None]:
    """A context in which SIGTERM ends a command in the same way as Ctrl-C, with cleaning up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _cautions() -> Iterator[None]:
    """A context in which the library's own warnings are printed in one line each."""
    with warnings.catch_warnings():
        for kind in _CAUTIONS:
            warnings.simplefilter("always", kind)
        usual = warnings.showwarning

        def shown(message: Any, category: type[Warning], *at: Any, **more: Any) -> None:
            if issubclass(category, _CAUTIONS):
                typer.echo(f"ontarget: caution: {plain(message)}", err=True)
            else:
                usual(message, category, *at, **more)

        warnings.showwarning = shown
        yield


def in_options(error: OntargetError) -> str:
    """The error's message in one line, with arguments of the library spelled as options.

    Examples
    --------
    >>> from ontarget.errors import Argument, EpisodesError, Placeholder
    >>> reward, censored = Argument("reward", Placeholder("NAME")), Argument("censored", "drop")
    >>> in_options(EpisodesError("pass ", reward, " or ", censored))
    'pass --reward NAME or --censored drop'
    """
    return " ".join(error.told(as_option).split())


def as_option(argument: Argument) -> str:
    """An argument of a Python function, written as the option of the command line."""
    name, value = argument.name, argument.value
    if name not in _OPTIONS:
        return str(argument)
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, EllipsisType) or value is True:
        return option
    if name == "reward_bounds" and isinstance(value, tuple):
        return f"{option} {':'.join(f'{end:g}' if math.isfinite(end) else '' for end in value)}"
    if name == "step" and isinstance(value, list) and len(value) == 1:
        return f"{option} {_quoted(f'{value[0]},')}"  # one column that only sorts the rows
    several = value if isinstance(value, list | tuple) else [value]
    return f"{option} {_quoted(','.join('none' if one is None else str(one) for one in several))}"


def _quoted(value: str) -> str:
    """The value, quoted for a shell if it has spaces."""
    return shlex.quote(value) if " " in value else value


def _told(error: Exception) -> str:
    """The error's message in one line."""
    if isinstance(error, OntargetError):
        return in_options(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    return " ".join(str(error).split())
