"""Empty pictures to draw on with Matplotlib, and their pixels."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

__all__ = ["blank", "pixels"]


def blank(width: int, height: int, *, colour: str, dpi: int = 72) -> Axes:
    """Axes without frame or ticks that fill a picture of this size in pixels.

    Matplotlib measures lines, markers and text in points; at 72 dpi a point is a pixel.
    """
    figure = Figure(figsize=(width / dpi, height / dpi), dpi=dpi, facecolor=colour)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    return axes


def pixels(axes: Axes) -> NDArray[np.uint8]:
    """The picture as an RGB array (height, width, 3)."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call] # matplotlib types its canvas in part
    drawn: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()  # type: ignore[no-untyped-call] # as above
    return drawn
