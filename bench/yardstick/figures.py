"""Stores measured figures for docs/speed.md, one line of JSON each."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PLACE = "ONTARGET_FIGURES"  # the file that lines are added to; without it nothing is kept


def keep(what: str, value: float, unit: str, *, asked: str = "", beside: str = "") -> None:
    """Store one measured figure, with its unit.

    ``asked`` says which value is required, ``beside`` what it was compared with.
    """
    if place := os.environ.get(PLACE):
        line = {
            "bench": Path(sys.argv[0]).stem,
            "what": what,
            "value": float(value),
            "unit": unit,
            "asked": asked,
            "beside": beside,
        }
        with Path(place).open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
