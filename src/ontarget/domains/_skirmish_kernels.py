"""Compiled code with the rules of the skirmish, one game loop at a time.

Arrays hold one row per episode and one column per unit: blue units first, then red ones, then the
places kept for red's reinforcements. A unit is alive while its health is above 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, KeyArray
from ontarget.domains.draws import below, stream, uniform

# A Marine, as the game's data give it; distances between centres, times in game loops.
HEALTH, DAMAGE = 45.0, 6.0
RADIUS, SPEED = 0.375, 0.140625
REACH = 5.0 + 2.0 * RADIUS
PERIOD, JITTER_LOW, JITTER_HIGH = 13.77, -1.0, 2.0
# Chosen: the scan range of 5.5 is measured as the weapon's range is, from edge to edge.
SCAN = 5.5 + 2.0 * RADIUS

# Chosen: units start on a sunflower, the k-th one SPACING * sqrt(k + 1/2) from its centre, which
# packs the discs about as tightly as they go without overlap.
SPACING, GOLDEN_ANGLE = 0.5, math.pi * (3.0 - math.sqrt(5.0))

HOLD, ATTACK, RETREAT = 0, 1, 2

# The counters of a step's stream: the first three belong to the reinforcements.
_BOUND, _COUNT, _ANGLE, _FIRST_OF_BATTLE = 0, 1, 2, 3


class Units(NamedTuple):
    """The arrays that describe the units of one episode or of many: positions, health and so on."""

    x: FloatArray
    y: FloatArray
    health: FloatArray
    cooldown: FloatArray
    target: AnyArray


@kernel
def draw_armies(keys: KeyArray, ranges: AnyArray, sizes: AnyArray, angles: FloatArray) -> None:
    """Draw each episode's numbers of blue and red units, and the angle of each formation."""
    for e in range(keys.shape[0]):
        s = stream(keys[e], -1)
        for side in range(2):
            low, high = ranges[side, 0], ranges[side, 1]
            sizes[side, e] = low + below(s, side, high - low + 1)
            angles[side, e] = 2.0 * math.pi * uniform(s, 2 + side)


@kernel
def draw_reinforcements(
    keys: KeyArray, t: int, most: int, sizes: AnyArray, angles: FloatArray
) -> None:
    """Draw how many units join red at step t, and the angle of their formation."""
    for e in range(keys.shape[0]):
        s = stream(keys[e], t)
        sizes[e] = below(s, _COUNT, below(s, _BOUND, most + 1) + 1)
        angles[e] = 2.0 * math.pi * uniform(s, _ANGLE)


@kernel
def arrange(
    units: Units, first: int, sizes: AnyArray, angles: FloatArray, centre: FloatArray
) -> None:
    """Place new units in a spiral around a centre, in the columns from ``first`` on."""
    for e in range(sizes.shape[0]):
        for k in range(sizes[e]):
            r, angle = SPACING * math.sqrt(k + 0.5), angles[e] + GOLDEN_ANGLE * k
            units.x[e, first + k] = centre[0] + r * math.cos(angle)
            units.y[e, first + k] = centre[1] + r * math.sin(angle)
            units.health[e, first + k] = HEALTH


@kernel
def summarize(
    x: FloatArray, y: FloatArray, health: FloatArray, n_blue: int, places: FloatArray
) -> FloatArray:
    """Each side's number of units and total health, and their distance; one row per episode."""
    out = np.empty((x.shape[0], 5))
    for e in range(x.shape[0]):
        blue, bx, by, blue_health = _centroid(x[e], y[e], health[e], 0, n_blue)
        red, rx, ry, red_health = _centroid(x[e], y[e], health[e], n_blue, x.shape[1])
        if blue == 0:
            bx, by = places[0, 0], places[0, 1]
        if red == 0:
            rx, ry = places[1, 0], places[1, 1]
        out[e, 0], out[e, 1] = blue, red
        out[e, 2], out[e, 3] = blue_health, red_health
        out[e, 4] = math.sqrt((rx - bx) * (rx - bx) + (ry - by) * (ry - by))
    return out


@kernel
def advance(
    units: Units,
    n_blue: int,
    orders: AnyArray,
    keys: KeyArray,
    t: int,
    loops: int,
    field: FloatArray,
) -> FloatArray:
    """Red's losses minus blue's in one step of every episode; the arrays are updated in place."""
    n_episodes, width = units.x.shape
    rewards = np.empty(n_episodes)
    alive, goals, push = np.empty(width, np.int64), np.empty((2, 2)), np.empty((width, 2))
    for e in range(n_episodes):
        row = Units(units.x[e], units.y[e], units.health[e], units.cooldown[e], units.target[e])
        blue, goals[1, 0], goals[1, 1], _ = _centroid(row.x, row.y, row.health, 0, n_blue)
        red, goals[0, 0], goals[0, 1], _ = _centroid(row.x, row.y, row.health, n_blue, width)
        s, counter = stream(keys[e], t), _FIRST_OF_BATTLE
        for _ in range(loops):
            counter = _loop(row, n_blue, orders[e], goals, s, counter, alive, push, field)
        lead = red - blue
        for i in range(width):
            if row.health[i] > 0.0:
                lead += 1 if i < n_blue else -1
        rewards[e] = lead
    return rewards


@inner_kernel
def _loop(
    units: Units,
    n_blue: int,
    orders: AnyArray,
    goals: FloatArray,
    s: np.uint64,
    counter: int,
    alive: AnyArray,
    push: FloatArray,
    field: FloatArray,
) -> int:
    """Play one game loop of one battle, and return the counter of random draws after it."""
    n = _living(units.health, alive)
    # Without an enemy on the field nobody moves or fires: the battle rests.
    if n > 0 and alive[0] < n_blue and alive[n - 1] >= n_blue:
        counter = _shuffle(alive, n, s, counter)
        for k in range(n):
            if units.health[alive[k]] > 0.0:
                counter = _act(alive[k], units, n_blue, orders, goals, s, counter)
        n = _living(units.health, alive)
        _push_apart(units.x, units.y, alive, n, push, field)
    for i in range(units.cooldown.shape[0]):
        units.cooldown[i] = max(units.cooldown[i] - 1.0, 0.0)
    return counter


@inner_kernel
def _act(
    i: int,
    units: Units,
    n_blue: int,
    orders: AnyArray,
    goals: FloatArray,
    s: np.uint64,
    counter: int,
) -> int:
    """Let a unit retreat, fire, chase, walk or stand; returns the counter of random draws."""
    side = 0 if i < n_blue else 1
    if orders[side] == RETREAT:
        units.target[i] = -1
        _walk(i, units, goals[side, 0], goals[side, 1], -SPEED)
        return counter
    j = units.target[i]
    # Sticky: the target is kept until it is dead or out of scan range.
    if j < 0 or units.health[j] <= 0.0 or _squared(i, j, units) > SCAN * SCAN:
        first, stop = (n_blue, units.x.shape[0]) if side == 0 else (0, n_blue)
        j = _nearest(i, first, stop, units)
        units.target[i] = j
    if j < 0:
        if orders[side] == ATTACK:
            _walk(i, units, goals[side, 0], goals[side, 1], SPEED)
    elif _squared(i, j, units) > REACH * REACH:
        _walk(i, units, units.x[j], units.y[j], SPEED)
    elif units.cooldown[i] <= 0.0:
        jitter = JITTER_LOW + (JITTER_HIGH - JITTER_LOW) * uniform(s, counter)
        units.cooldown[i] = PERIOD + jitter
        units.health[j] = max(units.health[j] - DAMAGE, 0.0)
        return counter + 1
    return counter


@inner_kernel
def _push_apart(
    x: FloatArray, y: FloatArray, alive: AnyArray, n: int, push: FloatArray, field: FloatArray
) -> None:
    """Move overlapping units apart by half their overlap each, and keep all on the field."""
    push[:n] = 0.0
    for a in range(n):
        i = alive[a]
        for b in range(a + 1, n):
            j = alive[b]
            dx, dy = x[j] - x[i], y[j] - y[i]
            squared = dx * dx + dy * dy
            if squared < 4.0 * RADIUS * RADIUS:
                d = math.sqrt(squared)
                # Two units on one spot part along the x axis.
                ux, uy = (dx / d, dy / d) if d > 0.0 else (1.0, 0.0)
                half = RADIUS - 0.5 * d
                push[a, 0] -= half * ux
                push[a, 1] -= half * uy
                push[b, 0] += half * ux
                push[b, 1] += half * uy
    for a in range(n):
        i = alive[a]
        x[i] = min(max(x[i] + push[a, 0], 0.0), field[0])
        y[i] = min(max(y[i] + push[a, 1], 0.0), field[1])


@inner_kernel
def _walk(i: int, units: Units, goal_x: float, goal_y: float, length: float) -> None:
    """Move a unit toward a point, where it stops; a negative length moves it away."""
    dx, dy = goal_x - units.x[i], goal_y - units.y[i]
    d = math.sqrt(dx * dx + dy * dy)
    if d > 0.0:
        share = min(length / d, 1.0)
        units.x[i] += share * dx
        units.y[i] += share * dy


@inner_kernel
def _nearest(i: int, first: int, stop: int, units: Units) -> int:
    """The nearest living unit in these columns that is within scan range, or -1."""
    found, shortest = -1, SCAN * SCAN
    for j in range(first, stop):
        if units.health[j] > 0.0:
            squared = _squared(i, j, units)
            if squared < shortest or (found < 0 and squared == shortest):
                found, shortest = j, squared
    return found


@inner_kernel
def _squared(i: int, j: int, units: Units) -> float:
    """The squared distance between two units' centres."""
    dx: float = units.x[j] - units.x[i]
    dy: float = units.y[j] - units.y[i]
    return dx * dx + dy * dy


@inner_kernel
def _living(health: FloatArray, alive: AnyArray) -> int:
    """How many units are alive; their columns are written to an array, in order."""
    n = 0
    for i in range(health.shape[0]):
        if health[i] > 0.0:
            alive[n] = i
            n += 1
    return n


@inner_kernel
def _shuffle(order: AnyArray, n: int, s: np.uint64, counter: int) -> int:
    """Shuffle the first n entries, and return the counter of random draws."""
    for k in range(n - 1, 0, -1):
        swap = below(s, counter, k + 1)
        order[k], order[swap] = order[swap], order[k]
        counter += 1
    return counter


@kernel
def _centroid(
    x: FloatArray, y: FloatArray, health: FloatArray, first: int, stop: int
) -> tuple[int, float, float, float]:
    """The number of living units in these columns, their mean position and their total health."""
    n, sum_x, sum_y, total = 0, 0.0, 0.0, 0.0
    for i in range(first, stop):
        if health[i] > 0.0:
            n += 1
            sum_x += x[i]
            sum_y += y[i]
            total += health[i]
    if n > 0:
        sum_x, sum_y = sum_x / n, sum_y / n
    return n, sum_x, sum_y, total
