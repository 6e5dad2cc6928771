"""`Study`: a monitor compared with the classifiers that you could write instead."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ontarget._numerals import percent
from ontarget.evaluation.figures import Curve, methods_chart
from ontarget.study.compared import BASELINE, OURS, Compared
from ontarget.study.measures import MEASURES
from ontarget.study.verdict import RivalVerdict, verdict_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEAD = ("", "Brier", "log loss", "ECE", "by step", "sharpness", "no answer")
_FEWEST_SHOWN = 20  # forecasts at a step of the figure


class Study(Compared):
    """A comparison of a monitor with classifiers (its rivals): in numbers, in words, as a figure.

    `run_study` and `study_beside` make a study.

    Attributes
    ----------
    target
        The target that was forecast.
    trials
        The forecasts of every method, one entry per split into past and new episodes.
    """

    def __repr__(self) -> str:
        return (
            f"<Study: {', '.join(self.methods)}; {len(self.trials)} × {self.n_past:,} past and "
            f"{self.n_new:,} new episodes>"
        )

    @cached_property
    def verdicts(self) -> tuple[RivalVerdict, ...]:
        """How the monitor compares with each classifier (rival), in words."""
        return tuple(verdict_beside(self, rival) for rival in self.rivals)

    @property
    def unanswered(self) -> str:
        """A sentence on the forecasts that the monitor did not make; empty if it made all."""
        share, why = (
            self.scores(OURS).unanswered,
            next((one.why for one in self.trials if one.why), ""),
        )
        if not share:
            return ""
        said = f"{OURS} gave no answer for {percent(share)} of the forecasts"
        return f"{said}{f': {why}' if why else ''}; there it is scored with the past's rate"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """A table of all measures as texts: the names of the columns, and the rows."""
        rows = []
        for method in self.methods:
            found = self.scores(method)
            numbers = (f"{getattr(found, name):.4f}" for name in MEASURES)
            rows.append((method, *numbers, percent(found.unanswered, fixed=True)))
        return _HEAD, rows

    def summary(self) -> str:
        """The table of measures, and one sentence for each classifier, as text.

        A number after ± is half the width of the 95 % interval of a difference.
        """
        head, rows = self.table()
        widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
        lines = [
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        told = [f"no answer  {self.unanswered}"] if self.unanswered else []
        return "\n".join([*lines, "", *told, *(f"beside     {one}" for one in self.verdicts)])

    def figure(self, *, dark: bool = False) -> Figure:
        """Two panels: how often each method's forecasts came true, and Brier scores by step.

        Steps at the end with fewer than 20 forecasts are left out, because chance dominates there.
        """
        told = (OURS, *self.rivals)
        often = np.flatnonzero(self.forecasts_by_step >= _FEWEST_SHOWN)
        shown = int(often[-1]) + 1 if often.size else self.n_steps
        return methods_chart(
            {name: self.reliability(name) for name in told},
            {name: Curve.of(self.brier_by_step(name)[:shown]) for name in told},
            floor=(BASELINE, self.brier_by_step(BASELINE)[:shown]),
            dark=dark,
        )

    def to_json(self) -> dict[str, Any]:
        """The whole study as plain JSON values; None where a number is not known."""
        differences = {
            rival: {name: _plain(self.difference(rival, name)._asdict()) for name in MEASURES}
            for rival in (*self.rivals, BASELINE)
        }
        return {
            "target": str(self.target),
            "splits": len(self.trials),
            "past": self.n_past,
            "new": self.n_new,
            "level": 0.95,
            "scores": {name: asdict(self.scores(name)) for name in self.methods},
            "differences": differences,
            "brier_by_step": {
                name: [_known(one) for one in self.brier_by_step(name).tolist()]
                for name in self.methods
            },
            "verdicts": {
                one.rival: {**asdict(one), "standing": str(one.standing)} for one in self.verdicts
            },
        }


def _plain(numbers: dict[str, float]) -> dict[str, float | None]:
    return {name: _known(value) for name, value in numbers.items()}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
