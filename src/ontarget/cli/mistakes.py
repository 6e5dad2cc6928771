"""How a command ends: exit codes, and a user's mistake told in one line.

0 fine, 1 the user's input, 2 usage, 3 an alarm under ``watch --fail-on-alarm``, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from ontarget.errors import OntargetError

__all__ = ["Exit", "PlainGroup"]


class Exit(IntEnum):
    """The exit codes of ``ontarget``."""

    FINE = 0
    INPUT = 1
    USAGE = 2
    ALARM = 3
    INTERRUPTED = 130


class PlainGroup(TyperGroup):
    """The commands; ``--debug`` before a command's name shows the traceback of its mistake."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever a user can cause ends in a line and an exit code."""
        try:
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


def _told(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, OSError) and not isinstance(error, OntargetError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    return " ".join(str(error).split())
