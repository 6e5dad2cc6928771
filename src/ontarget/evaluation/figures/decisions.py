"""Figures of alarms, and of what changed a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ontarget._arguments import fraction
from ontarget._text import plain
from ontarget.errors import InputError
from ontarget.evaluation.alarms import AlarmCurve
from ontarget.evaluation.figures.style import (
    canvas,
    dotted,
    legend_above,
    percent_axis,
    shade,
    theme_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def alarm_chart(
    curve: AlarmCurve,
    *,
    marks: Sequence[float] = (0.01, 0.05, 0.1),
    most: float = 0.3,
    dark: bool = False,
) -> Figure:
    """A chart of failures caught in time, and of the lead time, against the false-alarm rate."""
    fraction("most", most)
    if curve.n_met == 0 or curve.n_missed == 0:
        raise InputError(
            "alarm_chart() needs at least one episode that met the target and one that missed it, "
            f"got {curve.n_met} and {curve.n_missed}"
        )
    theme = theme_of(dark)
    label = "Failures caught in time, and lead time, against the rate of false alarms"
    with canvas(theme, (5.6, 4.8), rows=(1.5, 1.0), label=label) as (figure, (top, bottom)):
        # Drawn as steps: between two false-alarm rates, the threshold of the lower one is used. Of
        # thresholds with the same false-alarm rate, the highest catches most failures.
        shown = np.flatnonzero(np.diff(curve.false_alarm_rate, append=2.0) > 0.0)
        shown = shown[: np.searchsorted(curve.false_alarm_rate[shown], most, side="right") + 1]
        false, in_time = curve.false_alarm_rate[shown], curve.in_time_rate[shown]
        least, highest = curve.in_time_interval[shown].T
        interval = f"{curve.level * 100:g} % interval"
        shade(top, false, (least, highest), theme.blue, 0.2, step="post", label=interval)
        top.plot(false, in_time, drawstyle="steps-post", color=theme.blue, label="in time")
        detected = curve.detection_rate[shown]
        if not np.array_equal(detected, in_time):
            (line,) = top.plot(false, detected, "--", color=theme.vermilion, label="or too late")
            line.set_drawstyle("steps-post")
        top.plot([0, 1], [0, 1], label="alarms at random", **dotted(theme.muted))
        top.set(ylim=(-0.02, 1.04), ylabel="failures with an alarm")
        percent_axis(top, "y")
        low, middle, high = curve.lead_in_time[shown].T
        shade(bottom, false, (low, high), theme.green, 0.25, step="post", label="quartiles")
        bottom.plot(false, middle, drawstyle="steps-post", color=theme.green, label="median")
        bottom.set(
            xlabel="false alarms (share of runs that met the target)", ylabel="lead time (steps)"
        )
        bottom.set_xlim(-0.01 * most, most)
        # Leave space for the numbers above the marks, so that they do not overlap the legend.
        longest = high[~np.isnan(high)].max(initial=1.0)
        bottom.set_ylim(0.0, 1.25 * longest)
        percent_axis(bottom, "x")
        _draw_marks(top, bottom, curve, marks=[m for m in marks if m <= most])
        legend_above(top)
        legend_above(bottom)
    return figure


def _draw_marks(top: Axes, bottom: Axes, curve: AlarmCurve, *, marks: Sequence[float]) -> None:
    """Mark some false-alarm rates; beside each, write the share of failures caught in time."""
    for mark in marks:
        within = np.flatnonzero(curve.false_alarm_rate <= mark)
        if within.size == 0:
            continue
        i = int(within[-1])
        caught, lead = curve.in_time_rate[i], curve.lead_in_time[i, 1]
        under, over = ((6, -5), "top"), ((-1, 6), "bottom")
        texts = (
            (top, caught, f"{100 * caught:.0f} %", *(under if caught > 0.2 else over)),
            (bottom, lead, f"{lead:.3g}", *over),
        )
        for axes, value, text, place, side in texts:
            if np.isnan(value):
                continue
            color = axes.lines[0].get_color()
            axes.plot([mark], [value], "o", color=color, markersize=5.5)
            axes.annotate(text, (mark, value), xytext=place, textcoords="offset points", va=side)


_MOST = 10  # causes that are drawn


def explanation_chart(
    causes: Sequence[tuple[str, float, float]],
    precedents: Sequence[tuple[float, float, bool]],
    *,
    probabilities: tuple[float | None, float],
    outcome: str = "outcome",
    dark: bool = False,
) -> Figure:
    """A chart of what each cause added to a probability, and of the precedents' outcomes."""
    theme, shown = theme_of(dark), list(causes[:_MOST])
    was, now = probabilities
    label = "What each cause added to the probability, and where the precedents lead"
    size = (8.4, 1.6 + 0.3 * max(len(shown), 4))
    with canvas(theme, size, columns=(1.2, 1.0), label=label) as (figure, (left, right)):
        parts = [100 * change for _, change, _ in shown]
        colors = [theme.blue if part >= 0 else theme.vermilion for part in parts]
        errors = [100 * error for _, _, error in shown]
        left.barh(range(len(shown)), parts, color=colors)
        if any(errors):
            left.errorbar(parts, range(len(shown)), xerr=errors, fmt="none", ecolor=theme.ink)
        left.set_yticks(range(len(shown)), [plain(name) for name, _, _ in shown])
        left.invert_yaxis()
        left.axvline(0.0, color=theme.muted, linewidth=0.8)
        change = "" if was is None else f": {100 * was:.3g} % to {100 * now:.3g} %"
        left.set(xlabel="points of probability", title=f"what moved p{change}")
        for meets, color, name in (
            (True, theme.blue, "meets the target"),
            (False, theme.vermilion, "misses it"),
        ):
            own = [(ends, 100 * weight) for ends, weight, met in precedents if met == meets]
            if own:
                right.vlines(*zip(*[(ends, 0.0, w) for ends, w in own], strict=True), color=color)
                right.plot(*zip(*own, strict=True), "o" if meets else "s", color=color, label=name)
        right.set_xlabel(f"{plain(outcome)} if it goes on as the precedents did")
        right.set_ylabel("weight (%)")
        if not precedents:
            right.set_title("precedents: none are known")
        right.set_ylim(bottom=0.0)
        right.axhline(0.0, **dotted(theme.muted))
        legend_above(right, columns=2)
    return figure
