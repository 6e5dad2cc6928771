"""How large a table of runs by steps may become."""

from __future__ import annotations

from typing import Any

import numpy as np

from ontarget.errors import InputError

__all__ = ["check_room"]

# So many cells are always allowed, and beyond that so many for each step that a run really has.
_ALWAYS = 10_000_000
_PER_STEP = 64


def check_room(lengths: Any, steps: int) -> None:
    """Refuse a table of these runs by so many steps if nearly all of it would be empty.

    A file may name one run of a million steps beside many of a single one. A table that gives each
    of them a million cells would take far more memory than the file.
    """
    cells, taken = lengths.size * steps, int(np.sum(lengths))
    if cells > max(_ALWAYS, _PER_STEP * taken):
        raise InputError(
            f"{lengths.size:,} episodes of {taken:,} steps in all are too uneven for a table of "
            f"{steps:,} steps each; declare a shorter horizon, and leave the few longest episodes "
            "out"
        )
