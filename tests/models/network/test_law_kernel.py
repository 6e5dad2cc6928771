"""The law through a row's knots, against the same law written plainly with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget._arrays import read_only
from ontarget.models._support import Support
from ontarget.models.network._law_kernel import (
    RankedOutcomes,
    limits_of_knots,
    masses_of_knots,
    quantiles_of_knots,
)

RNG = np.random.default_rng(0)
VALUES = np.array([-1.0, 0.5, 2.0, 3.5, 7.0])
ODDS = np.array([-2.0, 0.0, 1.0])
LEVELS = np.sort(RNG.normal(scale=2.0, size=(3, VALUES.size - 1)), axis=1).astype(np.float32)
X = np.array([[0.0, 4.0], [9.0, 5.0], [1.0, 9.0], [0.0, np.nan]])  # the step is the second
TIMES = [0.0, 0.2, 1.0, 0.5]  # as shares of the way from 4 to 9; unknown is halfway
KNOTS = np.sort(RNG.normal(scale=2.0, size=(4, 3)), axis=1)


def table(atoms: bool) -> RankedOutcomes:
    mass = np.full(VALUES.size, 0.2)
    support = Support.of(VALUES, np.full(VALUES.size, atoms), mass, smooth=True)
    return RankedOutcomes(
        time=read_only(np.array([1])),
        clock=read_only(np.array([4.0, 9.0])),
        levels=read_only(LEVELS.flatten()),
        mass=read_only(np.linspace(0.0, 1.0, VALUES.size + 1)),
        support=support.as_tuple(),
        odds=read_only(ODDS),
    )


def masses(row: int) -> np.ndarray:
    """The row's mass before each cut."""
    nodes = np.arange(3) / 2.0
    z = np.array([np.interp(TIMES[row], nodes, LEVELS[:, cut]) for cut in range(VALUES.size - 1)])
    knots = KNOTS[row]
    odds = np.interp(z, knots, ODDS)
    odds += np.minimum(z - knots[0], 0.0) + np.maximum(z - knots[-1], 0.0)
    return np.concatenate(([0.0], 1.0 / (1.0 + np.exp(-odds)), [1.0]))


@pytest.mark.parametrize("atoms", [False, True])
def test_masses_are_those_of_a_line_through_the_knots(atoms: bool) -> None:
    found = np.empty((4, VALUES.size + 1))
    masses_of_knots(table(atoms), X, KNOTS, found)
    for row in range(4):
        assert found[row] == pytest.approx(masses(row), abs=2e-6)  # of atoms, a millionth is mixed


def test_limits_are_straight_between_outcomes_and_jump_at_atoms() -> None:
    y = np.tile([0.5, 1.25, 7.0], (4, 1))
    left, right = np.empty((4, 3)), np.empty((4, 3))
    limits_of_knots(table(False), X, KNOTS, y, (left, right))
    wanted = np.array([masses(row) for row in range(4)])
    halfway = (wanted[:, 2] + wanted[:, 3]) / 2.0
    assert right == pytest.approx(np.stack([wanted[:, 2], halfway, wanted[:, 5]], 1), abs=2e-6)
    assert np.array_equal(left, right)
    limits_of_knots(table(True), X, KNOTS, y, (left, right))
    assert left == pytest.approx(wanted[:, [1, 2, 4]], abs=2e-6)
    assert right == pytest.approx(wanted[:, [2, 2, 5]], abs=2e-6)


def test_quantiles_are_where_the_limits_cross_their_level() -> None:
    q, found = np.array([0.1, 0.5, 0.93]), np.empty((4, 3))
    quantiles_of_knots(table(False), X, KNOTS, (q, False), found)
    left, right = np.empty((4, 3)), np.empty((4, 3))
    limits_of_knots(table(False), X, KNOTS, found, (left, right))
    assert right == pytest.approx(np.tile(q, (4, 1)), abs=1e-9)


def test_knots_at_their_own_levels_give_the_outcomes_of_the_step() -> None:
    found = np.empty((4, VALUES.size + 1))
    masses_of_knots(table(False), X, np.tile(ODDS, (4, 1)), found)
    assert found[0, 1:-1] == pytest.approx(1.0 / (1.0 + np.exp(-LEVELS[0])), rel=1e-6)
    assert found[2, 1:-1] == pytest.approx(1.0 / (1.0 + np.exp(-LEVELS[-1])), rel=1e-6)


def test_knots_that_coincide_are_a_jump_of_the_law() -> None:
    found = np.empty((1, VALUES.size + 1))
    masses_of_knots(table(False), X[:1], np.full((1, 3), float(LEVELS[0, 1])), found)
    assert found[0, 2] <= 1.0 / (1.0 + np.exp(-ODDS[0])) + 1e-12  # at the jump: not yet
    assert found[0, 3] >= 1.0 / (1.0 + np.exp(-ODDS[-1]))
