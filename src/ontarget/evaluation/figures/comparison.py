"""Figures that compare methods: on several problems, or at every step of one problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ontarget._typing import ArrayLike
from ontarget.errors import InputError
from ontarget.evaluation.calibration import Reliability
from ontarget.evaluation.figures._style import (
    Look,
    Theme,
    canvas,
    dotted,
    percent_axis,
    series_looks,
    step_axis,
    theme_of,
)
from ontarget.evaluation.figures.curves import Curve, check_curves, draw_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def bias_chart(
    column: str, parts: Sequence[tuple[str, float, float, float]], *, dark: bool = False
) -> Figure:
    """A chart of how far forecasts are too high or too low, one row for each value of a column.

    A part is a tuple: the label of the value, the mean forecast minus the share that came true, and
    the lower and upper end of the confidence interval of this difference.
    """
    if not parts:
        raise InputError("a figure needs at least one part, got none")
    theme = theme_of(dark)
    names, values, lows, highs = zip(*parts, strict=True)
    label = "Mean forecast minus the share that came true, for each part"
    with canvas(theme, (5.6, 1.2 + 0.34 * len(parts)), label=label) as (figure, (axes,)):
        for place, (value, low, high) in enumerate(zip(values, lows, highs, strict=True)):
            off = low > 0.0 or high < 0.0
            color = theme.vermilion if off else theme.blue
            axes.plot([100 * low, 100 * high], [place, place], color=color, linewidth=1.4)
            axes.plot([100 * value], [place], "s" if off else "o", color=color)
        axes.axvline(0.0, color=theme.ink, linewidth=0.9)
        reach = 1.1 * max(1.0, *(100 * abs(end) for end in (*lows, *highs)))
        gap = 4 * "\u00a0"  # SVG would merge several plain spaces into one
        axes.set(xlim=(-reach, reach), xlabel=f"← p too low{gap}(points){gap}p too high →")
        axes.set_ylabel(_unmarked(column))
        axes.set_yticks(range(len(parts)), [_unmarked(name) for name in names])
        axes.invert_yaxis()
        axes.margins(y=0.2)
        axes.grid(visible=False, axis="y")
    return figure


def _unmarked(name: str) -> str:
    """The name with its dollar signs escaped, because matplotlib reads ``$…$`` as a formula."""
    return name.replace("$", r"\$")


def methods_chart(
    reliabilities: Mapping[str, Reliability],
    scores: Mapping[str, Curve],
    *,
    floor: tuple[str, ArrayLike] | None = None,
    dark: bool = False,
) -> Figure:
    """Two panels, one line per method: how often forecasts came true, and Brier scores by step.

    Parameters
    ----------
    reliabilities
        For each method, its forecasts in bins. Confidence intervals are drawn for the first method
        only; those of the others are about as wide.
    scores
        For each method, its Brier score at each step.
    floor
        The name and the Brier scores of a method that uses no features, drawn as a dotted line.
    dark
        Whether the figure is for a dark background.
    """
    n_steps, theme = check_curves(scores), theme_of(dark)
    if list(reliabilities) != list(scores):
        raise InputError(
            f"both panels need the same methods, got {list(reliabilities)} and {list(scores)}"
        )
    looks = series_looks(list(scores), theme)
    label = "How often forecasts came true, and Brier score against time, by method"
    with canvas(theme, (9.6, 4.4), columns=(1.0, 1.25), label=label) as (figure, (left, right)):
        _draw_reliabilities(left, reliabilities, looks, theme)
        for name, curve in scores.items():
            draw_curve(right, name, curve, looks[name])
        if floor is not None:
            _draw_floor(right, *floor, theme=theme)
        right.set_ylim(bottom=0.0)
        right.set_title("Error at each step (lower is better)")
        right.set_ylabel("Brier score")
        step_axis(right, n_steps)
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))
    return figure


def _draw_reliabilities(
    axes: Axes, found: Mapping[str, Reliability], looks: Mapping[str, Look], theme: Theme
) -> None:
    axes.plot([0, 1], [0, 1], color=theme.muted, linewidth=0.8)
    for k, (name, part) in enumerate(found.items()):
        some, look = part.count > 0, looks[name]
        rate = part.rate_met[some]
        reach = np.clip(np.stack([rate - part.low[some], part.high[some] - rate]), 0.0, None)
        axes.errorbar(
            part.mean_p[some],
            rate,
            yerr=None if k else reach,
            color=look.color,
            linestyle=look.line,
            linewidth=1.3,
            marker=look.marker,
            elinewidth=0.9,
            capsize=2.0,
            markeredgecolor=theme.paper,
            markeredgewidth=0.6,
        )
    first = next(iter(found))
    axes.set_title("How often forecasts came true")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="forecast probability")
    axes.set_ylabel(f"target met (bars: {100 * found[first].level:g} %, {first})")
    percent_axis(axes, "x")
    percent_axis(axes, "y")


def _draw_floor(axes: Axes, name: str, values: ArrayLike, *, theme: Theme) -> None:
    """Draw a dotted reference line; if it is far above all others, only say so in words."""
    line = np.asarray(values, dtype=np.float64)
    top = axes.get_ylim()[1]
    if np.nanmin(line) > 1.3 * top:
        name = f"{name}: {np.nanmin(line):.2f} and more, above"
        line = np.full(line.size, np.nan)
    axes.plot(np.arange(line.size), line, label=name, **dotted(theme.ink))
