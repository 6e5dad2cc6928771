"""Figures of calibration: reliability diagram, ECE over time, PIT histogram, bias; and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ontarget._arrays import freeze
from ontarget._typing import ArrayLike, BoolArray, FloatArray
from ontarget.evaluation.calibration import PitHistogram, Reliability
from ontarget.evaluation.figures.style import (
    Look,
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


@dataclass(frozen=True, slots=True)
class Curve:
    """One value per step, and a band around it from ``low`` to ``high``; NaN for no value.

    Examples
    --------
    >>> curve = Curve.of_repeats([[0.25, 0.5], [0.75, 0.5]])
    >>> print(curve.value, curve.low.round(3), curve.high.round(3))
    [0.5 0.5] [0.146 0.5  ] [0.854 0.5  ]
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        freeze(
            self,
            value=np.asarray(self.value, dtype=np.float64),
            low=np.asarray(self.low, dtype=np.float64),
            high=np.asarray(self.high, dtype=np.float64),
        )

    @classmethod
    def of(cls, value: ArrayLike) -> Self:
        """A curve without a band."""
        line = np.asarray(value, dtype=np.float64)
        return cls(line, line, line)

    @classmethod
    def of_repeats(cls, values: ArrayLike) -> Self:
        """The mean of values (repeats, steps), with a band of ± one standard deviation."""
        table = np.asarray(values, dtype=np.float64)
        mean = table.mean(axis=0)
        spread = table.std(axis=0, ddof=1) if table.shape[0] > 1 else np.zeros(mean.size)
        return cls(mean, mean - spread, mean + spread)

    @property
    def has_band(self) -> bool:
        """Whether ``high`` is above ``low`` at any step."""
        return bool((self.high > self.low).any())


def steps_of(curves: Mapping[str, Curve]) -> int:
    """The number of steps of the curves."""
    return next(iter(curves.values())).value.size


def draw_curve(axes: Axes, name: str, curve: Curve, look: Look, *, band: str = "") -> None:
    """Draw a curve and its band. A curve with a single step becomes a marker with a bar."""
    steps = np.arange(curve.value.size)
    if curve.value.size == 1:
        reach = np.abs(np.stack([curve.value - curve.low, curve.high - curve.value]))
        axes.errorbar(
            steps, curve.value, yerr=reach, color=look.color, fmt=look.marker, capsize=3, label=name
        )
        return
    if curve.has_band:
        shade(axes, steps, (curve.low, curve.high), look.color, 0.22, label=band or None)
    # A few markers, at other steps for each series, distinguish the lines in grey print.
    every = max(1, curve.value.size // 8)
    shift = "os^D".index(look.marker) * every // 4
    axes.plot(
        steps,
        curve.value,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        markevery=(min(shift, curve.value.size - 1), every),
        label=name,
    )


def came_true_chart(found: Reliability, *, dark: bool = False) -> Figure:
    """A reliability diagram for readers who have never seen one."""
    # Each bin is a point with its confidence interval. No line joins the points, because chance
    # alone would make it zigzag. If the interval misses the diagonal, so that chance hardly
    # explains the gap, the point is a square in another colour. Bars below show how many forecasts
    # each bin has.
    theme = theme_of(dark)
    label = "How often the target was met against what the forecast said"
    with canvas(theme, (4.8, 5.6), rows=(4.0, 1.0), label=label) as (figure, (top, bottom)):
        top.plot([0, 1], [0, 1], label="just as it said", **dotted(theme.muted))
        some = found.count > 0
        off = some & ((found.mean_p < found.low) | (found.mean_p > found.high))
        bar = f"its {100 * found.level:g} % bar"
        right, wrong = Look(theme.blue, "none", "o"), Look(theme.vermilion, "none", "s")
        _draw_bins(top, f"{bar} reaches the line", found, right, some & ~off)
        _draw_bins(top, f"{bar} misses the line", found, wrong, off)
        top.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="target met")
        percent_axis(top, "y")
        legend_above(top, columns=1)
        bottom.stairs(found.count, found.edges, fill=True, color=theme.muted, alpha=0.55)
        bottom.set(ylim=(0.0, 1.1 * found.count.max()), ylabel="forecasts")
        bottom.set_xlabel("what it said")
        _count_axis(bottom)
        percent_axis(bottom, "x")
    return figure


def ece_chart(
    curves: Mapping[str, Curve],
    *,
    floor: ArrayLike | None = None,
    band: str = "",
    points: bool = False,
    dark: bool = False,
) -> Figure:
    """A chart of the expected calibration error (ECE) at each step, with one line per series."""
    # ``floor`` is the ECE that chance alone would show at each step, from `ece_by_step`. ``band``
    # is the name in the legend of the shaded ranges around the lines. With ``points``, the axis
    # shows percentage points.
    n_steps, theme = steps_of(curves), theme_of(dark)
    looks = series_looks(list(curves), theme)
    label = "Expected calibration error against time"
    with canvas(theme, (6.4, 3.4), label=label) as (figure, (axes,)):
        for name, curve in curves.items():
            draw_curve(axes, name, curve, looks[name], band=band)
        if floor is not None:
            draw_reference(axes, floor, label="chance alone", color=theme.muted)
        axes.set_ylim(bottom=0.0)
        axes.set_ylabel("expected calibration error")
        if points:
            axes.yaxis.set_major_formatter(lambda share, _: f"{round(100 * share, 4):g}")
            axes.set_ylabel("p is off by (points)")
        step_axis(axes, n_steps)
        legend_above(axes)
    return figure


def draw_reference(axes: Axes, values: ArrayLike, *, label: str, color: str) -> None:
    """Draw one number per step as a thin dotted line."""
    line = np.asarray(values, dtype=np.float64)
    marker = "x" if line.size == 1 else None
    axes.plot(np.arange(line.size), line, marker=marker, label=label, **dotted(color))


def pit_chart(found: PitHistogram, *, dark: bool = False) -> Figure:
    """A histogram of PIT values, with the range in which a calibrated method's bars lie."""
    theme = theme_of(dark)
    label = "Histogram of probability integral transforms, with the band expected by chance"
    with canvas(theme, (5.6, 3.2), label=label) as (figure, (axes,)):
        left, width = found.edges[:-1], np.diff(found.edges)
        outside = (found.count < found.low) | (found.count > found.high)
        for flags, color, hatch, name in (
            (~outside, theme.blue, None, "episodes"),
            (outside, theme.vermilion, "////", "outside the band"),
        ):
            if flags.any():
                axes.bar(
                    left[flags],
                    found.count[flags],
                    width[flags],
                    align="edge",
                    color=color,
                    alpha=0.75,
                    edgecolor=theme.paper,
                    linewidth=0.8,
                    hatch=hatch,
                    label=name,
                )
        _draw_band(axes, found, theme)
        axes.set(xlim=(0.0, 1.0), xlabel="predicted probability of an outcome this low")
        axes.set_ylabel("episodes per bar")
        axes.set_ylim(0.0, 1.08 * max(found.high.max(), found.count.max()))
        axes.grid(visible=False, axis="x")
        percent_axis(axes, "x")
        legend_above(axes)
    return figure


def _draw_band(axes: Axes, found: PitHistogram, theme: Theme) -> None:
    """Draw the range in which a PIT histogram's bars should lie, and their expected height."""
    axes.stairs(
        found.high,
        found.edges,
        baseline=found.low,
        fill=True,
        color=theme.muted,
        alpha=0.18,
        linewidth=0,
        zorder=0.6,
        label=f"{found.band * 100:g} % band, all bars",
    )
    for end in (found.low, found.high):
        axes.stairs(
            end, found.edges, baseline=None, color=theme.ink, linewidth=0.9, linestyle=(0, (4, 2))
        )
    axes.stairs(
        found.expected, found.edges, baseline=None, color=theme.ink, linewidth=1.3, label="expected"
    )


def _draw_bins(axes: Axes, name: str, part: Reliability, look: Look, some: BoolArray) -> None:
    if not some.any():
        return
    rate = part.rate_met[some]
    reach = np.clip(np.stack([rate - part.low[some], part.high[some] - rate]), 0.0, None)
    axes.errorbar(
        part.mean_p[some],
        rate,
        yerr=reach,
        color=look.color,
        linestyle=look.line,
        linewidth=1.2,
        marker=look.marker,
        elinewidth=0.9,
        capsize=1.8,
        capthick=0.9,
        label=name,
    )


def _count_axis(axes: Axes) -> None:
    """Label a vertical axis with only a few ticks, all of them whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")


def bias_chart(
    column: str, parts: Sequence[tuple[str, float, float, float]], *, dark: bool = False
) -> Figure:
    """A chart of how far forecasts are too high or too low, one row for each value of a column."""
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
