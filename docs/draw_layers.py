"""Draw docs/images/layers.svg: the layers of the library, and what each does in a fit and live.

    python docs/draw_layers.py

Boxes have their own background, and text outside them is grey, so that the picture can be read on
light and on dark pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "layers.svg"
WIDTH, ROW, GAP, TOP = 1000, 52, 10, 64
LAYER, FIT, LIVE = (16, 356), (412, 268), (716, 268)  # x and width of each column
GREY, LINE = "#768390", "#8b98a5"


@dataclass(frozen=True)
class Layer:
    """One layer of the library: name, contents, its part in a fit and in a live step, colour."""

    name: str
    holds: str
    fit: str = ""
    live: str = ""
    colour: str = "#dfe5ec"


LAYERS = [
    Layer("cli", "the command ontarget", "ontarget fit", "ontarget watch", "#e6e1f0"),
    Layer(
        "domains · integrations · paper", "simulators; Gymnasium, SB3; the paper", colour="#e6e1f0"
    ),
    Layer("study", "a monitor beside classifiers", colour="#e6e1f0"),
    Layer("monitor", "GoalMonitor, the face", "fit(episodes)", "watch(target)", "#cfe3d6"),
    Layer("report", "an evaluation as figures and a page", colour="#cfe3d6"),
    Layer("drift", "guards: has the process changed?", colour="#cfe3d6"),
    Layer(
        "live",
        "one run machine: watch, fleet, alarms",
        live="alarm, plausibility, assurance",
        colour="#cfe3d6",
    ),
    Layer(
        "fitting",
        "blocks, engines, checkpoints",
        "one task per block of steps",
        colour="#cfe3d6",
    ),
    Layer("modelfile", "the .ontarget container and its checks", "save", "load", "#cfe3d6"),
    Layer(
        "fitted",
        "the law of each step, assure episodes",
        "curves from learn, ranks from assure",
        "the step's law, curve and ranks",
        "#cfe3d6",
    ),
    Layer("evaluation", "measures and figures, on arrays only", colour="#cfe3d6"),
    Layer(
        "conformal",
        "ranks, PCQR and its inverse, rivals",
        "a rank per episode and step",
        "p; count ranks: low, high, spread",
        "#cfdff0",
    ),
    Layer(
        "models",
        "F̂(y | x): forest, linear, marginal",
        "learn: a forest per block of steps",
        "ask the trees at both its ends",
        "#cfdff0",
    ),
    Layer(
        "episodes",
        "what happened; behaviors; splits; files",
        "read, check, divide whole episodes",
        "add the reward, shift the target",
        "#f2e3c6",
    ),
    Layer("target", "intervals, half-lines, unions", colour="#f2e3c6"),
    Layer("_grid · _keyed · _kernel · _threads", "decimals, randomness, compiled code"),
    Layer("errors · _typing · _package", "one error tree, types, optional packages"),
]


def box(x: int, y: int, width: int, height: int, colour: str) -> str:
    """The SVG of a rounded box."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{colour}" '
        f'stroke="{LINE}" stroke-width="1"/>'
    )


def text(x: float, y: float, words: str, *, style: str = "") -> str:
    """The SVG of a line of text."""
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def arrow(x: int, start: int, stop: int) -> str:
    """The SVG of an upright arrow from the height start to the height stop."""
    return (
        f'<line x1="{x}" y1="{start}" x2="{x}" y2="{stop}" stroke="{GREY}" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )


def column(place: tuple[int, int], which: str) -> list[str]:
    """The SVG of one column of the picture: what each layer does in a fit, or in a live step.

    ``place`` is its left end and its width; the lowest layer is at the bottom.
    """
    x, width = place
    rows = [i for i, layer in enumerate(LAYERS) if getattr(layer, which)]
    drawn = []
    for upper, lower in pairwise(rows):
        bottom_of_upper = TOP + upper * (ROW + GAP) + ROW - 6
        drawn.append(arrow(x + width // 2, TOP + lower * (ROW + GAP) + 6, bottom_of_upper + 3))
    for i in rows:
        y = TOP + i * (ROW + GAP)
        drawn.append(box(x, y + 6, width, ROW - 12, LAYERS[i].colour))
        drawn.append(
            text(x + width / 2, y + 31, getattr(LAYERS[i], which), style='text-anchor="middle"')
        )
    return drawn


def picture() -> str:
    """The whole picture as SVG."""
    height = TOP + len(LAYERS) * (ROW + GAP) + 6
    x, width = LAYER
    outside = f'fill="{GREY}" text-anchor="middle" font-weight="600"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, Helvetica, Arial, sans-serif" font-size="14" fill="#1f2933" '
        'role="img" aria-label="The layers of ontarget">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto">',
        f'<path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/></marker></defs>',
        text(x + width / 2, 30, "layers", style=outside),
        text(x + width / 2, 48, "imports point down", style=f'fill="{GREY}" text-anchor="middle"'),
        text(FIT[0] + FIT[1] / 2, 30, "a fit", style=outside),
        text(LIVE[0] + LIVE[1] / 2, 30, "a live step", style=outside),
        text(
            LIVE[0] + LIVE[1] / 2,
            48,
            "gives an outlook",
            style=f'fill="{GREY}" text-anchor="middle"',
        ),
        text(
            FIT[0] + FIT[1] / 2,
            48,
            "gives a model file",
            style=f'fill="{GREY}" text-anchor="middle"',
        ),
    ]
    for i, layer in enumerate(LAYERS):
        y = TOP + i * (ROW + GAP)
        lines.append(box(x, y, width, ROW, layer.colour))
        lines.append(text(x + 14, y + 22, layer.name, style='font-weight="600"'))
        lines.append(text(x + 14, y + 41, layer.holds, style='font-size="13" fill="#46535f"'))
    lines += [*column(FIT, "fit"), *column(LIVE, "live")]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
