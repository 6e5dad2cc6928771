"""A figure that compares methods: one row per problem, one dot per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ontarget.errors import InputError
from ontarget.evaluation.figures._style import canvas, legend_above, series_looks, theme_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["dot_chart"]


def dot_chart(
    rows: Sequence[str],
    values: Mapping[str, Sequence[float]],
    *,
    label: str,
    measure: str,
    dark: bool = False,
) -> Figure:
    """A chart of one measure for several methods and problems, on a logarithmic scale.

    Parameters
    ----------
    rows
        The problems, from top to bottom.
    values
        By method: one number above 0 for each problem. A line joins the first method to the last.
    label
        What the figure shows, in words.
    measure
        What is measured, beside the axis.
    dark
        Whether it is for a dark background.
    """
    for name, own in values.items():
        if len(own) != len(rows):
            raise InputError(f"{name} needs a number for each of {len(rows)} rows, got {len(own)}")
    theme = theme_of(dark)
    looks = series_looks(list(values), theme)
    places = range(len(rows), 0, -1)
    with canvas(theme, (6.4, 1.0 + 0.34 * len(rows)), label=label) as (figure, (axes,)):
        each = list(values.values())
        axes.hlines(places, each[-1], each[0], color=theme.muted, linewidth=0.8)
        for name, own in values.items():
            look = looks[name]
            axes.plot(own, places, look.marker, color=look.color, markersize=6.5, label=name)
        axes.set_xscale("log")
        axes.set_xlabel(measure)
        axes.set_yticks(places, rows)
        axes.grid(visible=False, axis="y")
        axes.margins(y=0.12)
        legend_above(axes)
    return figure
