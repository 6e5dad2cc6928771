"""The paper's figures, as files for print and as inline SVG for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ontarget._whole_file import write_whole
from ontarget.evaluation import ece_by_step
from ontarget.evaluation.figures import (
    Curve,
    ece_chart,
    episodes_chart,
    figure_bytes,
    mean_chart,
    reliability_diagram,
)
from ontarget.paper.experiment import Part, Parts, open_share, pooled_reliability, ten_episodes
from ontarget.paper.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_all(plan: Plan, parts: Parts) -> dict[str, Figure]:
    """All figures of the reproduction by name, ``<what>-<domain>``."""
    figures = {}
    for domain in plan.domains:
        noise, atoms = parts[domain, "noise"], parts[domain, "atoms"]
        figures[f"ece-{domain}"] = _ece(plan, noise)
        figures[f"reliability-{domain}"] = reliability_diagram(
            {"p_low": pooled_reliability(plan, noise)}
        )
        figures[f"episodes-{domain}"] = _episodes(plan, noise[0])
        figures[f"mean-{domain}"] = _mean(noise)
        figures[f"episodes-atoms-{domain}"] = _episodes(plan, atoms[0])
        figures[f"open-{domain}"] = _open(noise, atoms)
    return figures


def write_figures(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write each figure as SVG and PNG; the same figure gives the same bytes."""
    kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        for kind in kinds:
            write_whole(folder / f"{name}.{kind}", [figure_bytes(figure, kind)])


def _ece(plan: Plan, parts: Sequence[Part]) -> Figure:
    names = {"low": "lower bound", "high": "upper bound"}
    first = parts[0]
    chance = ece_by_step(first.p_low, first.met, bins=plan.bins, ids=first.ids).floor
    return ece_chart(
        {
            name: Curve.of_repeats([part.ece_by_step(method) for part in parts])
            for method, name in names.items()
        },
        floor=chance,
    )


def _episodes(plan: Plan, part: Part) -> Figure:
    chosen = ten_episodes(plan, part)
    return episodes_chart(part.p_low[:, chosen], part.met[chosen])


def _mean(parts: Sequence[Part]) -> Figure:
    rate = sum(part.met.mean() for part in parts) / len(parts)
    steps = parts[0].low.shape[0]
    return mean_chart(
        {"lower bound": Curve.of_repeats([part.mean_by_step("low") for part in parts])},
        rate=[rate] * steps,
    )


def _open(noise: Sequence[Part], atoms: Sequence[Part]) -> Figure:
    figure = mean_chart(
        {
            "with noise": Curve.of_repeats([open_share(part) for part in noise]),
            "exact atoms": Curve.of_repeats([open_share(part) for part in atoms]),
        }
    )
    figure.axes[0].set_ylabel("episodes still open")
    figure.set_label("Share of episodes whose lower bound lies between 5 % and 95 %, against time")
    return figure
