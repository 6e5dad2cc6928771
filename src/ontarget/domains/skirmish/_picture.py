"""Pictures of a skirmish, as seen from above."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, Wedge
from numpy.typing import NDArray

from ontarget._typing import AnyArray
from ontarget.domains._canvas import blank, pixels
from ontarget.domains.skirmish import _kernels as kernels
from ontarget.domains.skirmish._simulator import FIELD, Battle, Skirmish

__all__ = ["draw_battle"]

PIXELS_PER_UNIT: Final = 26
_PANEL_HEIGHT: Final = 48
_GROUND: Final = "#181d26"
_GRID: Final = "#262d39"
_PANEL: Final = "#0f1218"
_FAINT: Final = "#343c4a"
_DARK: Final = "#080a0e"
_WHITE: Final = "#f0f4fa"
_AMBER: Final = "#ffc454"
_BLUE: Final = "#529cff"
_RED: Final = "#ff685c"
_RADIUS: Final = kernels.RADIUS * PIXELS_PER_UNIT
# A weapon that shows more than this fired during the last step: at most 15.77 loops are set, and
# 9 loops later at most 6.77 are left.
_JUST_FIRED: Final = 6.77
# A shot is drawn in pieces, each brighter than the one before.
_PIECES: Final = 8


def draw_battle(scenario: Skirmish, battle: Battle, t: int) -> NDArray[np.uint8]:
    """An RGB picture (height, width, 3) of the first battle in a state, before step t.

    Discs are Marines; the arc around one shows its remaining health, and hollow discs have fallen.
    Lines are the shots of the last step, with a glow where they hit. The panel on top has one dot
    per living unit. Below the dots, a bar shows how many steps have passed, with a mark where
    reinforcements arrive.
    """
    width, height = (int(side * PIXELS_PER_UNIT) for side in FIELD)
    axes = blank(width, height + _PANEL_HEIGHT, colour=_GROUND)
    axes.set(xlim=(0.0, width), ylim=(height, -_PANEL_HEIGHT))  # y grows downwards, as rows do
    _draw_field(axes, scenario, width, height)
    # A place that nobody held yet is at the corner (0, 0); elsewhere health 0 means fallen.
    held = np.flatnonzero(battle.x[0] > 0.0)
    living = held[battle.health[0, held] > 0.0]
    at = np.column_stack([battle.x[0], battle.y[0]]) * PIXELS_PER_UNIT
    n_blue = scenario.blue[1]
    colours = np.array([to_rgb(_BLUE if i < n_blue else _RED) for i in range(len(at))])
    fallen = np.setdiff1d(held, living)
    _discs(axes, at[fallen], 0.8 * _RADIUS, facecolor=_DARK, edgecolor=colours[fallen], alpha=0.35)
    _draw_shots(axes, battle, living, at, colours)
    _draw_marines(axes, at[living], battle.health[0, living] / kernels.HEALTH, colours[living])
    n_living_blue = int(np.count_nonzero(living < n_blue))
    _draw_panel(axes, scenario, (n_living_blue, living.size - n_living_blue), t)
    return pixels(axes)


def _discs(axes: Axes, at: AnyArray, radius: float, **style: object) -> None:
    """Draw discs at the points ``at`` with this radius in pixels.

    Matplotlib's marker size is the squared diameter.
    """
    axes.scatter(at[:, 0], at[:, 1], s=(2.0 * radius) ** 2, **style)  # type: ignore[arg-type]


def _draw_field(axes: Axes, scenario: Skirmish, width: int, height: int) -> None:
    """Draw a faint grid, and a double ring at each start location."""
    lines = 4 * PIXELS_PER_UNIT
    axes.vlines(range(0, width, lines), 0, height, colors=_GRID, linewidths=1.0)
    axes.hlines(range(0, height, lines), 0, width, colors=_GRID, linewidths=1.0)
    for place, colour in zip(scenario.places * PIXELS_PER_UNIT, (_BLUE, _RED), strict=True):
        for radius in (2.9, 2.7):
            ring = Circle(tuple(place), radius * PIXELS_PER_UNIT, fill=False, ec=colour, alpha=0.25)
            axes.add_patch(ring)


def _draw_shots(
    axes: Axes, battle: Battle, living: AnyArray, at: AnyArray, colours: AnyArray
) -> None:
    """Draw a line from each unit that just fired to its target, and a glow where it hit."""
    fired = (battle.target[0, living] >= 0) & (battle.cooldown[0, living] > _JUST_FIRED)
    shooters = living[fired]
    targets = battle.target[0, shooters]
    way = np.linspace(0.0, 1.0, _PIECES + 1)[:, None]
    points = at[shooters][:, None] + way * (at[targets] - at[shooters])[:, None]
    pieces = np.stack([points[:, :-1], points[:, 1:]], axis=2).reshape(-1, 2, 2)
    alpha = np.tile(np.linspace(0.15, 0.75, _PIECES), shooters.size)
    tint = np.column_stack([np.repeat(colours[shooters], _PIECES, axis=0), alpha])
    axes.add_collection(LineCollection(list(pieces), colors=tint, linewidths=2.0, zorder=1))
    _discs(axes, at[np.unique(targets)], _RADIUS + 3.0, color=_AMBER, alpha=0.55, linewidth=0)


def _draw_marines(axes: Axes, at: AnyArray, share: AnyArray, colours: AnyArray) -> None:
    """Draw a disc for each unit, dimmer with less health, and an arc for the health left."""
    _discs(axes, np.add(at, (2.0, 3.0)), _RADIUS, color=_DARK, alpha=0.4, linewidth=0)
    _discs(axes, at, _RADIUS, color=_DARK, linewidth=0)
    # Clockwise from the top, on an axis that grows downwards.
    arcs = [
        Wedge(tuple(place), _RADIUS, -90.0, 360.0 * left - 90.0, width=2.6)
        for place, left in zip(at, share, strict=True)
    ]
    axes.add_collection(PatchCollection(arcs, facecolors=colours, linewidths=0, zorder=2))
    core = colours * (0.35 + 0.5 * share[:, None])
    _discs(axes, at, _RADIUS - 4.6, color=core, linewidth=0, zorder=2)
    _discs(
        axes,
        np.subtract(at, (1.2, 1.6)),
        1.6,
        color=_WHITE,
        alpha=0.25 + 0.5 * share,
        linewidth=0,
        zorder=3,
    )


def _draw_panel(axes: Axes, scenario: Skirmish, counts: tuple[int, int], t: int) -> None:
    width, middle = axes.get_xlim()[1], axes.get_xlim()[1] / 2.0
    pips, line = -32.0, -11.0
    axes.axhspan(-_PANEL_HEIGHT, 0.0, color=_PANEL, linewidth=0)
    places = (scenario.blue[1], scenario.red[1] + scenario.most_reinforcements)
    text: dict[str, Any] = {"va": "center_baseline", "fontsize": 13}
    axes.text(24.0, pips, f"{t} / {scenario.horizon}", color=_WHITE, **text)
    for sign, colour, living, most in zip((-1, 1), (_BLUE, _RED), counts, places, strict=True):
        row = np.column_stack(
            [middle + sign * (38.0 + 15.0 * np.arange(most)), np.full(most, pips)]
        )
        _discs(axes, row[living:], 4.6, color=_FAINT, alpha=0.5, linewidth=0)
        _discs(axes, row[:living], 4.6, color=colour, linewidth=0)
        axes.text(middle + sign * 15.0, pips, str(living), color=colour, ha="center", **text)
    left, right = 24.0, width - 24.0
    done = left + (right - left) * t / scenario.horizon
    axes.hlines([line, line], left, [right, done], colors=[_FAINT, _WHITE], linewidths=3.0)
    if scenario.most_reinforcements:
        share = scenario.reinforcement_step / scenario.horizon
        arrived = t > scenario.reinforcement_step
        mark = np.array([[left + (right - left) * share, line]])
        _discs(axes, mark, 5.0, color=_RED if arrived else _AMBER, linewidth=0, zorder=3)
