"""Pictures of a skirmish, drawn with NumPy alone.

A picture is built up from coverage: for every shape the share of each pixel that it covers, by
which its colour is laid over what is there. That gives smooth edges without a graphics library.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ontarget._typing import FloatArray
from ontarget.domains.skirmish import _kernels as kernels
from ontarget.domains.skirmish._simulator import FIELD, Battle, Skirmish

__all__ = ["draw_battle"]

PIXELS_PER_UNIT = 26
_HUD = 44
_GROUND, _GRID = np.array([24.0, 29.0, 38.0]), np.array([38.0, 45.0, 57.0])
_PANEL, _FAINT = np.array([15.0, 18.0, 24.0]), np.array([52.0, 60.0, 74.0])
_SIDES = np.array([[82.0, 156.0, 255.0], [255.0, 104.0, 92.0]])
_DARK = np.array([8.0, 10.0, 14.0])
_WHITE, _AMBER = np.array([240.0, 244.0, 250.0]), np.array([255.0, 196.0, 84.0])
# A weapon that shows more than this fired during the last step: at most 15.77 loops are set, and
# 9 loops later at most 6.77 are left.
_JUST_FIRED = 6.77


def draw_battle(scenario: Skirmish, battle: Battle, t: int) -> NDArray[np.uint8]:
    """An RGB picture (height, width, 3) of the first battle of a state, before step t.

    Discs are Marines, the arc around one is the health it has left; hollow ones have fallen. Lines
    are shots of the last step, with a glow around whom they hit. The panel on top has one pip per
    living unit and, below, the steps gone by with a mark at the one that brings reinforcements.
    """
    picture = _ground(scenario)
    n_blue, scale = scenario.blue[1], PIXELS_PER_UNIT
    x, y = battle.x[0] * scale, _HUD + battle.y[0] * scale
    health, target = battle.health[0], battle.target[0]
    radius, living = kernels.RADIUS * scale, np.flatnonzero(health > 0.0)
    # A place that nobody held yet is at the corner (0, 0); elsewhere health 0 means fallen.
    for i in np.flatnonzero((health <= 0.0) & (battle.x[0] > 0.0)):
        _disc(picture, x[i], y[i], radius * 0.8, _DARK, 0.45)
        _ring(picture, x[i], y[i], radius * 0.8, _SIDES[int(i >= n_blue)], 0.3)
    shooters = living[(target[living] >= 0) & (battle.cooldown[0, living] > _JUST_FIRED)]
    for i, j in zip(shooters, target[shooters], strict=True):
        _shot(picture, np.array([x[i], y[i], x[j], y[j]]), _SIDES[int(i >= n_blue)])
    for j in np.unique(target[shooters]):
        _disc(picture, x[j], y[j], radius + 2.5, _AMBER, 0.55)
    for i in living:
        _marine(picture, x[i], y[i], health[i] / kernels.HEALTH, _SIDES[int(i >= n_blue)])
    n_living_blue = int(np.count_nonzero(living < n_blue))
    _panel(picture, scenario, (n_living_blue, living.size - n_living_blue), t)
    rounded: NDArray[np.uint8] = np.rint(np.clip(picture, 0.0, 255.0)).astype(np.uint8)
    return rounded


def _ground(scenario: Skirmish) -> FloatArray:
    """The empty field: a faint grid, darker toward the edges, and the two start locations."""
    height, width = int(FIELD[1] * PIXELS_PER_UNIT) + _HUD, int(FIELD[0] * PIXELS_PER_UNIT)
    rows, columns = np.mgrid[0:height, 0:width]
    on_grid = ((rows - _HUD) % (4 * PIXELS_PER_UNIT) == 0) | (columns % (4 * PIXELS_PER_UNIT) == 0)
    picture: FloatArray = np.where(on_grid[:, :, None], _GRID, _GROUND)
    away = np.hypot((rows - _HUD) / (height - _HUD) - 0.5, columns / width - 0.5)
    picture *= (1.12 - 0.55 * away**1.5)[:, :, None]
    for side, (place_x, place_y) in enumerate(scenario.places * PIXELS_PER_UNIT):
        for radius in (2.9, 2.7):
            _ring(picture, place_x, _HUD + place_y, radius * PIXELS_PER_UNIT, _SIDES[side], 0.16)
    return picture


def _marine(picture: FloatArray, x: float, y: float, share: float, colour: FloatArray) -> None:
    radius = kernels.RADIUS * PIXELS_PER_UNIT
    _disc(picture, x + 2.0, y + 3.0, radius, _DARK, 0.4)
    _disc(picture, x, y, radius, _DARK, 1.0)
    _arc(picture, x, y, radius - 1.6, share, colour)
    _disc(picture, x, y, radius - 4.6, colour * (0.35 + 0.5 * share), 1.0)
    _disc(picture, x - 1.2, y - 1.6, 1.6, _WHITE, 0.25 + 0.5 * share)


def _panel(picture: FloatArray, scenario: Skirmish, counts: tuple[int, int], t: int) -> None:
    width = picture.shape[1]
    picture[:_HUD] = _PANEL
    middle, pip = width / 2.0, 15.0
    for side, sign in ((0, -1.0), (1, 1.0)):
        places = scenario.blue[1] if side == 0 else scenario.red[1] + scenario.most_reinforcements
        for k in range(places):
            colour = _SIDES[side] if k < counts[side] else _FAINT * 0.55
            _disc(picture, middle + sign * (22.0 + pip * k), 16.0, 4.6, colour, 1.0)
    _disc(picture, middle, 16.0, 2.0, _WHITE, 0.8)
    left, right, line = 24, width - 24, slice(33, 36)
    picture[line, left:right] = _FAINT
    done = left + round((right - left) * t / scenario.horizon)
    picture[line, left:done] = _WHITE
    if scenario.most_reinforcements:
        mark = left + (right - left) * scenario.reinforcement_step / scenario.horizon
        _disc(picture, mark, 34.0, 5.0, _SIDES[1] if t > scenario.reinforcement_step else _AMBER, 1)


def _patch(
    picture: FloatArray, x: float, y: float, reach: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The part of a picture around a point, and each pixel's offset from the point."""
    height, width = picture.shape[:2]
    top, bottom = max(int(y - reach), 0), min(int(y + reach) + 2, height)
    left, right = max(int(x - reach), 0), min(int(x + reach) + 2, width)
    rows, columns = np.mgrid[top:bottom, left:right]
    return picture[top:bottom, left:right], columns + 0.5 - x, rows + 0.5 - y


def _lay(part: FloatArray, cover: FloatArray, colour: FloatArray, opacity: float) -> None:
    share = np.clip(cover, 0.0, 1.0)[:, :, None] * opacity
    part += share * (colour - part)


def _disc(
    picture: FloatArray, x: float, y: float, radius: float, colour: FloatArray, opacity: float
) -> None:
    part, dx, dy = _patch(picture, x, y, radius + 1.0)
    _lay(part, radius + 0.5 - np.hypot(dx, dy), colour, opacity)


def _ring(
    picture: FloatArray, x: float, y: float, radius: float, colour: FloatArray, opacity: float
) -> None:
    part, dx, dy = _patch(picture, x, y, radius + 2.0)
    _lay(part, 1.2 - np.abs(np.hypot(dx, dy) - radius), colour, opacity)


def _arc(
    picture: FloatArray, x: float, y: float, radius: float, share: float, colour: FloatArray
) -> None:
    """A ring that starts on top and runs clockwise over a share of the circle."""
    part, dx, dy = _patch(picture, x, y, radius + 2.0)
    turned = np.mod(np.arctan2(dx, -dy), 2.0 * np.pi) <= 2.0 * np.pi * share
    _lay(part, np.where(turned, 1.9 - np.abs(np.hypot(dx, dy) - radius), 0.0), colour, 1.0)


def _shot(picture: FloatArray, ends: FloatArray, colour: FloatArray) -> None:
    """A line from (ends[0], ends[1]) to (ends[2], ends[3]) that grows brighter."""
    x, y = (ends[0] + ends[2]) / 2.0, (ends[1] + ends[3]) / 2.0
    along = ends[2:] - ends[:2]
    length = max(float(np.hypot(along[0], along[1])), 1.0)
    ux, uy = along / length
    part, dx, dy = _patch(picture, x, y, length / 2.0 + 2.0)
    forward, aside = dx * ux + dy * uy, np.abs(dy * ux - dx * uy)
    cover = np.clip(1.6 - aside, 0.0, 1.0) * (np.abs(forward) <= length / 2.0)
    _lay(part, cover * (0.15 + 0.6 * (forward / length + 0.5)), colour, 1.0)
