"""A river as text and as a picture: the leaves on top, the mouth at the bottom."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, Ellipse, FancyBboxPatch
from numpy.typing import NDArray

from ontarget.domains._canvas import blank, pixels
from ontarget.domains.tamarisk._kernel import EMPTY, NATIVE, TAMARISK

__all__ = ["Scene", "picture", "text"]

_LETTERS: Final = {NATIVE: "n", EMPTY: ".", TAMARISK: "T"}
# What the crew did at an edge, by action: nothing, eradicate, restore, both.
_MARKS: Final = (" ", "x", "+", "*")
_LABELS: Final = ("", "cut", "plant", "replace")

_BANK: Final = "#f3ead6"
_WATER: Final = "#5b9bc8"
_INK: Final = "#3b3a36"
_LEAF: Final = "#3f8f4f"
_BLOSSOM: Final = "#c2417c"
_WOOD: Final = "#7a5a3c"


class Scene(NamedTuple):
    """A river at one step: its edges, the last actions, the step and the return so far."""

    edges: NDArray[np.int8]
    actions: NDArray[np.int8]
    t: int
    horizon: int
    total: float


def text(scene: Scene) -> str:
    r"""The river as text: n native, . empty, T tamarisk; x eradicated, + restored, * both.

    Examples
    --------
    >>> quiet = np.zeros(3, dtype=np.int8)
    >>> print(text(Scene(np.array([0, 2, 1], dtype=np.int8), quiet, 0, 50, 0.0)))
    t = 0 of 50, return 0
      T   .
       \ /
        n
    """
    levels = (scene.edges.size + 1).bit_length() - 1
    width = 4 * 2 ** (levels - 1) + 2
    rows: list[str] = []
    for depth in range(levels - 1, -1, -1):
        first, half = 2**depth - 1, 2 ** (levels - depth)
        line = [" "] * width
        for i in range(2**depth):
            column = half * (2 * i + 1)
            line[column] = _LETTERS[int(scene.edges[first + i])]
            line[column + 1] = _MARKS[scene.actions[first + i]]
        rows.append("".join(line).rstrip())
        for drop in range(1, half if depth > 0 else 1):
            line = [" "] * width
            for i in range(2**depth):
                column = half * (2 * i + 1)
                line[column + drop if i % 2 == 0 else column - drop] = "\\" if i % 2 == 0 else "/"
            rows.append("".join(line).rstrip())
    title = f"t = {scene.t} of {scene.horizon}, return {scene.total:g}"
    return "\n".join([title, *rows])


def picture(scene: Scene) -> NDArray[np.uint8]:
    """The river as an RGB image of 640 by 480 pixels."""
    axes = blank(640, 480, colour=_BANK, dpi=80)
    axes.set(xlim=(0.0, 8.0), ylim=(0.0, 6.0))
    levels = (scene.edges.size + 1).bit_length() - 1
    size = min(1.0, 4.0 / 2 ** (levels - 1))
    for edge in range(scene.edges.size):
        axes.add_collection(_water(edge, levels))
    for edge, (code, action) in enumerate(zip(scene.edges, scene.actions, strict=True)):
        x, y = _middle(edge, levels)
        for patch in _plant(int(code), x, y, size):
            axes.add_patch(patch)
        axes.text(x - 0.42 * size, y, str(edge), color=_INK, ha="right", va="center", fontsize=9)
        if action:
            _badge(axes, _LABELS[action], (x, y - 0.5 * size))
    total = f"{scene.total:.2f}".replace("-", "−")
    axes.text(0.3, 5.62, f"step {scene.t} of {scene.horizon}", fontsize=13, color=_INK)
    axes.text(7.7, 5.62, f"return {total}", fontsize=13, color=_INK, ha="right")
    _legend(axes)
    return pixels(axes)


def _node(edge: int, levels: int) -> tuple[float, float]:
    """The point (x, y) at the upstream end of an edge; edge -1 is the mouth of the river."""
    if edge < 0:
        return 4.0, 0.35
    depth = (edge + 1).bit_length() - 1
    place = edge - (2**depth - 1)
    return 8.0 * (2 * place + 1) / 2 ** (depth + 1), 0.35 + 5.0 * (depth + 1) / levels


def _curve(edge: int, levels: int) -> NDArray[np.float64]:
    """The four control points of an edge's curve, from its upstream end to the junction."""
    (x0, y0), (x1, y1) = _node(edge, levels), _node((edge - 1) // 2 if edge else -1, levels)
    bend = 0.55 * (y0 - y1)
    return np.array([(x0, y0), (x0, y0 - bend), (x1, y1 + bend), (x1, y1)])


def _along(points: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of the cubic curve at the parameters s, which go from 0 to 1."""
    weights = np.stack([(1 - s) ** 3, 3 * s * (1 - s) ** 2, 3 * s**2 * (1 - s), s**3], axis=-1)
    along: NDArray[np.float64] = weights @ points
    return along


def _middle(edge: int, levels: int) -> tuple[float, float]:
    # Nearer to the spring than to the joint, so that neighbours stand apart.
    x, y = _along(_curve(edge, levels), np.array(0.33))
    return float(x), float(y)


def _water(edge: int, levels: int) -> LineCollection:
    """The outline of the edge's water, which widens toward the junction."""
    depth = (edge + 1).bit_length() - 1
    share = np.linspace(0.0, 1.0, 49)
    points = _along(_curve(edge, levels), share)
    widths = 22.0 * 0.66 ** (depth + 1.0 - share[1:])
    segments = np.stack([points[:-1], points[1:]], axis=1)
    return LineCollection(list(segments), colors=_WATER, linewidths=widths, capstyle="round")


def _badge(axes: Axes, label: str, place: tuple[float, float]) -> None:
    style = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": _INK, "lw": 0.8}
    axes.text(*place, label, ha="center", va="center", fontsize=8, color=_INK, bbox=style, zorder=6)


def _plant(code: int, x: float, y: float, size: float) -> list[Circle | Ellipse]:
    """The shapes of the plant at an edge: a round crown, pink plumes, or bare ground."""
    ground = Circle((x, y), 0.36 * size, fc=_BANK, ec=_INK, lw=1.0, zorder=3)
    if code == EMPTY:
        ground.set_linestyle("--")
        return [ground]
    trunk = Ellipse((x, y - 0.16 * size), 0.07 * size, 0.26 * size, fc=_WOOD, zorder=4)
    if code == NATIVE:
        crown = Circle((x, y + 0.07 * size), 0.2 * size, fc=_LEAF, ec="none", zorder=5)
        return [ground, trunk, crown]
    plumes = [
        Ellipse(
            (x + 0.11 * size * side, y + (0.08 - 0.03 * abs(side)) * size),
            0.13 * size,
            0.36 * size,
            angle=-32.0 * side,
            fc=_BLOSSOM,
            ec=_BANK,
            lw=0.6,
            zorder=5,
        )
        for side in (-1, 1, 0)
    ]
    return [ground, trunk, *plumes]


def _legend(axes: Axes) -> None:
    axes.add_patch(
        FancyBboxPatch((0.25, 0.2), 1.75, 1.35, boxstyle="round,pad=0.05", fc="#fbf6ea", ec="none")
    )
    for row, (code, name) in enumerate(
        ((NATIVE, "native"), (EMPTY, "empty"), (TAMARISK, "tamarisk"))
    ):
        y = 1.32 - 0.44 * row
        for patch in _plant(code, 0.5, y, 0.55):
            axes.add_patch(patch)
        axes.text(0.85, y, name, va="center", fontsize=10, color=_INK)
