"""A figure of how the distance to the true probability shrinks with more past episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from yardstick.truth import Distance

Grown = Mapping[int, Mapping[str, Sequence[Distance]]]  # by size, then method: one per repeat

_COLORS = {"ours": "#0072b2", "before": "#e69f00", "boosted": "#009e73", "logistic": "#cc79a7"}


def draw_growth(found: Mapping[str, Grown], file: Path) -> None:
    """Draw one panel per process, with logarithmic axes; dashed lines are before calibration."""
    figure = Figure(figsize=(4.2 * len(found), 3.8), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)
    for panel, (process, grown) in zip(panels[0], found.items(), strict=True):
        sizes = list(grown)
        for name in grown[sizes[0]]:
            excess = [1e4 * np.mean([one.excess for one in grown[n][name]]) for n in sizes]
            method = name.removesuffix(", raw")
            panel.plot(
                sizes,
                excess,
                color=_COLORS[method],
                linestyle="-" if name == method else "--",
                marker="o",
                markersize=4,
                label=name,
            )
        panel.set(xscale="log", yscale="log", title=process, xlabel="past episodes")
        panel.set_xticks(sizes, [f"{n:,}" for n in sizes])
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("excess Brier score · 10⁴")
    panels[0][-1].legend(frameon=False, fontsize="small")
    figure.savefig(file, dpi=150)
