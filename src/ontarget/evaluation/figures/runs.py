"""Figures of forecasts over time, of alarms, and of what changed a probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ontarget._text import plain
from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.evaluation.alarms import AlarmCurve, first_alarms
from ontarget.evaluation.figures.calibration import Curve, draw_curve, draw_reference, steps_of
from ontarget.evaluation.figures.style import (
    Theme,
    canvas,
    dotted,
    legend_above,
    percent_axis,
    series_looks,
    shade,
    step_axis,
    theme_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def episodes_chart(
    p: ArrayLike,
    met: ArrayLike,
    *,
    threshold: float | None = None,
    dark: bool = False,
) -> Figure:
    """A chart of the probability over time for some episodes; failures are drawn differently."""
    panel, success = np.asarray(p, dtype=np.float64), np.asarray(met, dtype=np.bool_)
    theme = theme_of(dark)
    label = "Probability of meeting the target against time, some episodes"
    with canvas(theme, (6.4, 3.8), label=label) as (figure, (axes,)):
        _draw_episodes(axes, panel, success, theme)
        if threshold is not None:
            _draw_threshold(axes, panel, threshold, theme)
        axes.set(ylim=(-0.03, 1.03), ylabel="probability of meeting the target")
        percent_axis(axes, "y")
        step_axis(axes, panel.shape[0])
        legend_above(axes, columns=4)
    return figure


def mean_chart(
    curves: Mapping[str, Curve], *, rate: ArrayLike | None = None, dark: bool = False
) -> Figure:
    """A chart of the mean probability over time, and of how often targets were met."""
    n_steps, theme = steps_of(curves), theme_of(dark)
    looks = series_looks(list(curves), theme)
    label = "Mean probability against time, and the rate at which the target was met"
    with canvas(theme, (6.4, 3.4), label=label) as (figure, (axes,)):
        for name, curve in curves.items():
            draw_curve(axes, name, curve, looks[name])
        if rate is not None:
            draw_reference(axes, rate, label="target met", color=theme.ink)
        axes.set_ylabel("mean probability")
        axes.margins(y=0.12)
        _fit_shares(axes)
        percent_axis(axes, "y")
        step_axis(axes, n_steps)
        legend_above(axes, columns=4)
    return figure


def outcome_fan(
    quantiles: ArrayLike,
    levels: ArrayLike,
    *,
    target: tuple[float, float] | None = None,
    outcome: float | None = None,
    so_far: ArrayLike | None = None,
    unit: str = "outcome",
    dark: bool = False,
) -> Figure:
    """A chart of the predicted outcome during one episode, as quantile bands around the median."""
    table = np.asarray(quantiles, dtype=np.float64)
    shares = np.asarray(levels, dtype=np.float64)
    n_steps, theme = table.shape[0], theme_of(dark)
    with canvas(theme, (6.4, 3.8), label=f"Predicted {unit} against time") as (figure, (axes,)):
        # A single step has no width of its own: its bands are drawn as bars.
        steps = np.arange(n_steps) if n_steps > 1 else np.array([-0.15, 0.15])
        table = np.broadcast_to(table, (steps.size, shares.size))
        half = shares.size // 2
        for i in range(half):
            share = shares[-1 - i] - shares[i]
            name, alpha = f"middle {share * 100:.3g} %", 0.2 + 0.3 * i / max(half, 1)
            shade(axes, steps, (table[:, i], table[:, -1 - i]), theme.blue, alpha, label=name)
        if shares.size % 2:
            axes.plot(steps, table[:, half], color=theme.blue, label="median")
        if so_far is not None:
            axes.plot(so_far, color=theme.ink, linestyle=(0, (2, 1.5)), label="so far")
        draw_target(axes, target, theme)
        step_axis(axes, n_steps)
        if outcome is not None:
            axes.plot([n_steps], [outcome], "X", color=theme.ink, markersize=7, label="ended at")
            axes.set_xlim(right=n_steps + max(0.5, 0.02 * n_steps))
        axes.set_ylabel(unit)
        legend_above(axes, columns=4)
    return figure


def _fit_shares(axes: Axes, least: float = 0.1) -> None:
    """Make the y axis span at least ``least``, within [0, 1], so that small changes look small."""
    low, high = axes.get_ylim()
    reach = max(high - low, least) / 2
    middle = min(max((low + high) / 2, reach), 1.0 - reach) if reach < 0.5 else 0.5
    edge = 0.02 * reach
    axes.set_ylim(max(middle - reach, 0.0) - edge, min(middle + reach, 1.0) + edge)


def _draw_episodes(axes: Axes, panel: FloatArray, success: BoolArray, theme: Theme) -> None:
    alive = ~np.isnan(panel)
    last = panel.shape[0] - 1 - alive[::-1].argmax(axis=0)
    kinds = (
        (True, theme.blue, "-", "o", "target met"),
        (False, theme.vermilion, (0, (5, 1.6)), "X", "target missed"),
    )
    for flag, color, line, marker, name in kinds:
        label = name
        for i in np.flatnonzero((success == flag) & alive.any(axis=0)):
            axes.plot(
                np.arange(last[i] + 1),
                panel[: last[i] + 1, i],
                color=color,
                linestyle=line,
                linewidth=1.3,
                marker=marker,
                markevery=[int(last[i])],
                markersize=7,
                markeredgecolor=theme.paper,
                markeredgewidth=0.6,
                clip_on=False,
                label=label,
            )
            label = "_same"  # the legend names each kind once


def _draw_threshold(axes: Axes, panel: FloatArray, threshold: float, theme: Theme) -> None:
    axes.axhline(threshold, label="alarm below", **dotted(theme.ink))
    first = first_alarms(panel, threshold)
    raised = np.flatnonzero(first >= 0)
    if raised.size:
        axes.plot(
            first[raised],
            panel[first[raised], raised],
            linestyle="none",
            marker="v",
            markersize=7,
            zorder=5,
            color=theme.ink,
            markeredgecolor=theme.paper,
            markeredgewidth=0.6,
            label="first alarm",
        )


def draw_target(axes: Axes, target: tuple[float, float] | None, theme: Theme) -> None:
    """Shade the target and draw its finite ends; None draws nothing."""
    if target is None:
        return
    lower, upper = target
    ends = [end for end in (lower, upper) if np.isfinite(end)]
    axes.margins(y=0.08)
    low, high = axes.get_ylim()
    low, high = min([low, *ends]), max([high, *ends])
    room = 0.08 * (high - low)  # extra space, so that some of the target's inside is visible too
    low, high = (
        min([low, *(end - room for end in ends)]),
        max([high, *(end + room for end in ends)]),
    )
    axes.axhspan(
        max(lower, low),
        min(upper, high),
        color=theme.green,
        alpha=0.1,
        linewidth=0,
        zorder=0.5,
        label="target",
    )
    for end in ends:
        axes.axhline(end, color=theme.green, linewidth=1.1, linestyle=(0, (6, 2, 1.5, 2)))
    axes.set_ylim(low, high)


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
    """A chart of a run's behavior over the steps, with the band that was predicted at step t."""
    theme, line = theme_of(dark), np.asarray(path, dtype=np.float64)
    lower, upper = (np.asarray(one, dtype=np.float64) for one in band)
    now = line[t] if np.isfinite(line[t]) else np.nan
    ahead = np.arange(t, t + lower.size + 1)
    label = f"The {unit} of one run against time, and the band for its path to come"
    with canvas(theme, (6.4, 3.8), label=label) as (figure, (axes,)):
        ends = np.concatenate([[now], lower]), np.concatenate([[now], upper])
        name = f"predicted at step {t} ({100 * level:g} %)"
        shade(axes, ahead, ends, theme.blue, 0.25, label=name)
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


def alarm_chart(
    curve: AlarmCurve,
    *,
    marks: Sequence[float] = (0.01, 0.05, 0.1),
    most: float = 0.3,
    dark: bool = False,
) -> Figure:
    """A chart of failures caught in time, and of the lead time, against the false-alarm rate."""
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
