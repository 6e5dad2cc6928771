"""Figures of forecasts over time: episodes, the mean, the range of outcomes, the path to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation.alarms import first_alarms
from ontarget.evaluation.figures.calibration import Curve, check_curves, draw_curve, draw_reference
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
from ontarget.evaluation.rates import check_flags, check_numbers, check_panel, check_same_size

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
    panel, success = check_panel("p", p, unit=True), check_flags("met", met)
    check_same_size(p=panel, met=success)
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
    n_steps, theme = check_curves(curves), theme_of(dark)
    looks = series_looks(list(curves), theme)
    label = "Mean probability against time, and the rate at which the target was met"
    with canvas(theme, (6.4, 3.4), label=label) as (figure, (axes,)):
        for name, curve in curves.items():
            draw_curve(axes, name, curve, looks[name])
        if rate is not None:
            draw_reference(axes, "rate", rate, n_steps, label="target met", color=theme.ink)
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
    table, shares = _fan(quantiles, levels)
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
            line = check_numbers("so_far", so_far)
            axes.plot(
                np.arange(line.size), line, color=theme.ink, linestyle=(0, (2, 1.5)), label="so far"
            )
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
    if not lower <= upper:
        raise InputError(f"target needs lower <= upper, got [{lower}, {upper}]")
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


def _fan(quantiles: ArrayLike, levels: ArrayLike) -> tuple[FloatArray, FloatArray]:
    shares = check_numbers("levels", levels)
    table = check_numbers("quantiles", quantiles, ndim=2)
    check_same_size(quantiles=table, levels=shares)
    if (np.diff(shares) <= 0).any() or not np.allclose(shares + shares[::-1], 1.0):
        raise InputError(
            Argument("levels"), f" needs ascending numbers symmetric around 0.5, got {levels!r}"
        )
    if (np.diff(table, axis=1) < 0).any():
        raise InputError(
            Argument("quantiles"), " needs numbers that never fall along the levels, at every step"
        )
    return table, shares


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
