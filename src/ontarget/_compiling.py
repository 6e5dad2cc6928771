"""Says that kernels are being compiled, which may take a minute on a machine's first use."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

__all__ = ["announce_compiling"]


@cache
def announce_compiling() -> None:
    """From now on, tell a terminal's user once when kernels are compiled; files and pipes not."""
    from numba.core.event import Listener, register

    class Announcer(Listener):
        """Speaks up at the first of our kernels that no folder holds compiled."""

        told = False

        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"].py_func
            if self.told or not function.__module__.startswith("ontarget."):
                return
            self.told = True
            if sys.stderr is not None and sys.stderr.isatty():
                sys.stderr.write(
                    "ontarget: compiling numerical code for this machine, which happens once and "
                    "may take a minute (`ontarget warm` does it beforehand)\n"
                )

        def on_end(self, event: Any) -> None:
            """Nothing is left to say."""

    register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
