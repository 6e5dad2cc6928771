from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ontarget._arrays import read_only
from ontarget.fitted._kernels import (
    ASSURANCE,
    DECIDED,
    HIGH,
    LOW,
    NUMBERS,
    PLAUSIBILITY,
    SPREAD_HIGH,
    SPREAD_LOW,
    P,
)
from ontarget.fitted.joint._joint_kernel import N_SIDES, goals_of_rows
from ontarget.fitted.law import NO_CURVE

K, TARGETS, PIECES, MEMBERS, ASSURED = 2, 2, 2, 7, 9
BOXES = np.array([[0, 1], [1, -1]])  # two boxes; the second leaves the last behavior alone


class Case:
    """One row's targets in two laws, and the episodes that join them, all drawn at random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ends = np.sort(rng.random((K, TARGETS, 2 * PIECES)), axis=-1).reshape(K, TARGETS, PIECES, 2)
        self.numbers = np.zeros((K, 1, TARGETS, NUMBERS))
        self.numbers[..., DECIDED] = -1.0
        self.numbers[..., LOW], self.numbers[..., HIGH] = (
            0.3 * rng.random((2, K, 1, TARGETS)) + (np.array([0.3, 0.6])[:, None, None, None])
        )
        self.pieces = np.zeros((K, 1, TARGETS, PIECES, N_SIDES))
        self.pieces[:, 0, :, :, :2] = self.pieces[:, 0, :, :, 2:] = ends
        self.away = 0.5 * rng.random((K, 1, TARGETS, 2))
        self.learned = np.stack([rng.permutation(MEMBERS) for _ in range(K)])
        self.assured, self.excess = rng.random((ASSURED, K)), np.sort(0.5 * rng.random(ASSURED))

    def found(self, boxes: np.ndarray, own: int = -1) -> np.ndarray:
        out = np.empty((1, NUMBERS))
        places = read_only(boxes.astype(np.intp))
        who = np.full(1, own, dtype=np.intp)
        goals_of_rows(
            (self.numbers, self.pieces, self.away),
            (places, places),
            (read_only(self.learned.astype(np.float64)), who, read_only(self.assured)),
            (read_only(self.excess), NO_CURVE),
            out,
        )
        return out[0]

    def inside(self, c: int, j: int, rank: int) -> float:
        """How much of a learning episode's cell a target covers."""
        low, high = rank / MEMBERS, (rank + 1) / MEMBERS
        pieces = self.pieces[c, 0, j, :, :2].tolist()
        return MEMBERS * sum(max(0.0, min(b, high) - max(a, low)) for a, b in pieces)


@pytest.mark.parametrize("seed", range(5))
def test_p_is_the_covered_part_of_the_episodes_cells(seed: int) -> None:
    case = Case(seed)
    for own in (-1, 3):
        others = [ranks for i, ranks in enumerate(case.learned.T.tolist()) if i != own]
        weights = [case.inside(0, 0, a) * case.inside(1, 1, b) for a, b in others]
        assert case.found(BOXES[:1], own)[P] == pytest.approx(np.mean(weights), abs=2e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_goal_lies_as_far_out_as_its_boxes_say(seed: int) -> None:
    case = Case(seed)
    found, near, far = case.found(BOXES), case.away[:, 0, :, 0], case.away[:, 0, :, 1]
    away = min(max(near[0, 0], near[1, 1]), near[0, 1])
    opposite = max(min(far[0, 0], far[1, 1]), far[0, 1])
    said = [(1 + np.count_nonzero(case.excess >= s)) / (ASSURED + 1) for s in (away, opposite)]
    assert found[PLAUSIBILITY] == pytest.approx(said[0])
    assert found[ASSURANCE] == pytest.approx(1 - said[1])


@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_however_behaviors_go_together(seed: int) -> None:
    case = Case(seed)
    found, low, high = case.found(BOXES), case.numbers[:, 0, :, LOW], case.numbers[:, 0, :, HIGH]
    assert found[LOW] == pytest.approx(max(0.0, low[0, 0] + low[1, 1] - 1.0, low[0, 1]))
    assert found[HIGH] == pytest.approx(min(1.0, min(high[0, 0], high[1, 1]) + high[0, 1]))
    assert found[SPREAD_LOW] <= found[P] <= found[SPREAD_HIGH]


@pytest.mark.parametrize(("one", "other"), list(product((-1.0, 0.0, 1.0), repeat=2)))
def test_what_arithmetic_settles_is_exact(one: float, other: float) -> None:
    case = Case(0)
    case.numbers[0, 0, 0, DECIDED], case.numbers[1, 0, 1, DECIDED] = one, other
    found = case.found(BOXES[:1])
    expected = 0.0 if 0.0 in (one, other) else 1.0 if (one, other) == (1.0, 1.0) else -1.0
    assert found[DECIDED] == expected
    if expected >= 0.0:
        assert found[P] == found[PLAUSIBILITY] == expected
