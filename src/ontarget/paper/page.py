"""The report of a reproduction: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ontarget.evaluation.figures import svg_of
from ontarget.paper import tables
from ontarget.paper.plan import LABELS
from ontarget.report import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page_of(
    results: Mapping[str, Any], timing: Mapping[str, Any], figures: Mapping[str, Figure]
) -> str:
    """The report of a reproduction as one HTML page, which loads nothing from elsewhere."""
    full = not results["plan"]["quick"]  # the requirements are for the full size
    return render(
        "paper.html",
        "ontarget.paper",
        results=results,
        plan=results["plan"],
        timing=timing,
        labels=LABELS,
        figures={name: svg_of(one) for name, one in figures.items()},
        main=tables.main_table(results),
        checks=tables.checks_table(results) if full else None,
        calibration=tables.calibration_table(results),
        brier=tables.brier_table(results),
        open=tables.open_table(results),
        times=tables.time_table(timing),
    )
