"""A figure of one run's path so far, and the predicted band for its path to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ontarget._typing import ArrayLike
from ontarget.evaluation.figures._style import canvas, legend_above, step_axis, theme_of
from ontarget.evaluation.figures.probability import draw_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def path_chart(
    path: ArrayLike,
    t: int,
    band: tuple[ArrayLike, ArrayLike],
    *,
    level: float = 0.9,
    target: tuple[float, float] | None = None,
    unit: str = "behavior",
    dark: bool = False,
) -> Figure:
    """A chart of a run's behavior over the steps, with the band that was predicted at step t.

    Parameters
    ----------
    path
        The behavior before each step of the run, and at its end.
    t
        The step at which the band was predicted.
    band
        The lower and the upper end at each step after t.
    level
        The probability with which the whole later path stays inside the band.
    target
        Lower and upper end of the target for the outcome; either may be infinite.
    unit
        The label of the axis.
    dark
        Whether the figure is for a dark background.
    """
    theme, line = theme_of(dark), np.asarray(path, dtype=np.float64)
    lower, upper = (np.asarray(one, dtype=np.float64) for one in band)
    now = line[t] if np.isfinite(line[t]) else np.nan
    ahead = np.arange(t, t + lower.size + 1)
    label = f"The {unit} of one run against time, and the band for its path to come"
    with canvas(theme, (6.4, 3.8), label=label) as (figure, (axes,)):
        axes.fill_between(
            ahead,
            np.concatenate([[now], lower]),
            np.concatenate([[now], upper]),
            color=theme.blue,
            alpha=0.25,
            linewidth=0,
            label=f"predicted at step {t} ({100 * level:g} %)",
        )
        axes.plot(np.arange(t + 1), line[: t + 1], color=theme.ink, label="so far")
        axes.plot(
            np.arange(t, line.size),
            line[t:],
            color=theme.ink,
            linestyle=(0, (2, 1.5)),
            label="what happened",
        )
        draw_target(axes, target, theme)
        step_axis(axes, max(int(ahead[-1]), line.size - 1) + 1)
        axes.set_ylabel(unit)
        legend_above(axes, columns=4)
    return figure
