"""How a command ends: exit codes, and a user's mistake told in one line.

0 fine, 1 the user's input, 2 usage, 3 an alarm under ``watch --fail-on-alarm``, 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ontarget.errors import AlarmWarning, OntargetError

__all__ = ["Exit", "PlainCommand", "PlainGroup", "in_options"]

_DEBUG = "--debug"

# What the library calls a remedy, and what the command line calls it.
_OPTIONS: Final = (
    (re.compile(r"\bcensored='drop'"), "--drop-censored"),
    (re.compile(r"\bstep=None\b"), "--step none"),
    (re.compile(r"\bcategorical=\['([^']+)'\]"), r"--categorical \1"),
    (
        re.compile(
            r"\b(episode|step|reward|features|behavior|group|horizon|first_step"
            r"|alarm_below|false_alarm_rate|for_steps|clear_above)=([\w.]+)"
        ),
        lambda found: f"{_option(found[1])} {found[2]}",
    ),
    (re.compile(r"\bfeatures=(?=$|[\s;,])"), "--features"),
    (
        re.compile(
            r"\b(alarm_below|false_alarm_rate|ruled_out|for_steps|clear_above|success_rate"
            r"|first_step|reward_bounds)\b"
        ),
        lambda found: _option(found[1]),
    ),
    # A rule of the library is the alarm that the options asked for.
    (re.compile(r"\b(Below|Promised|RuledOut)\([^)]*\)"), "this alarm"),
    (re.compile(r", or look at alarm_curve\b"), ""),
)


class Exit(IntEnum):
    """The exit codes of ``ontarget``."""

    FINE = 0
    INPUT = 1
    USAGE = 2
    ALARM = 3
    INTERRUPTED = 130


class PlainCommand(TyperCommand):
    """A command whose help names no type of a flag."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which takes nothing."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option


class PlainGroup(TyperGroup):
    """The commands; ``--debug``, wherever it stands, shows the traceback of a mistake."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which takes nothing."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take --debug out of a command's options, as if it stood before its name."""
        if _DEBUG in args:
            args = [_DEBUG, *(one for one in args if one != _DEBUG)]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever a user can cause ends in a line and an exit code."""
        try:
            with _cautions():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has left, as head does; nothing more can be written to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Exit.FINE) from None
        except (OntargetError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"ontarget: {_told(error)}", err=True)
            raise typer.Exit(Exit.INPUT) from None


@contextmanager
def _cautions() -> Iterator[None]:
    """Tell what the library warns a user of in one line; other warnings go their own way."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AlarmWarning)
        usual = warnings.showwarning

        def shown(message: Any, category: type[Warning], *at: Any, **more: Any) -> None:
            if issubclass(category, AlarmWarning):
                typer.echo(f"ontarget: caution: {in_options(str(message))}", err=True)
            else:
                usual(message, category, *at, **more)

        warnings.showwarning = shown
        yield


def in_options(text: str) -> str:
    """A message with the library's arguments as the command line's options.

    Examples
    --------
    >>> in_options("pass reward=NAME, or censored='drop'")
    'pass --reward NAME, or --drop-censored'
    """
    for pattern, option in _OPTIONS:
        text = pattern.sub(option, text)
    return text


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _told(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, OSError) and not isinstance(error, OntargetError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    return in_options(" ".join(str(error).split()))
