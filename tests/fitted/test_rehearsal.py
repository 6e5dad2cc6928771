"""A rehearsed law between the values of its ladder, and a curve without one episode's rank."""

from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import ModelFileError
from ontarget.fitted.curves import RankTable, learned_curves, without_one
from ontarget.fitted.kernels import KNOTS
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.recorded import Rehearsal, RehearsedLaw, as_shares
from refusals import refuses

LADDER = np.array([-1.0, 0.0, 0.5, 2.0, 2.0])  # the last is there twice, to fill up a shorter one


def law() -> RehearsedLaw:
    """Two episodes: one with jumps at every value, one without any."""
    left = np.array([[0.0, 0.2, 0.5, 0.9, 0.9], [0.0, 0.3, 0.6, 1.0, 1.0]])
    right = np.array([[0.1, 0.4, 0.6, 1.0, 1.0], [0.0, 0.3, 0.6, 1.0, 1.0]])
    return RehearsedLaw(LADDER, left, right, np.array([0.3, 0.7]), NO_CURVE, 40)


def slow_limits(of: RehearsedLaw, row: int, y: float) -> tuple[float, float]:
    for k, value in enumerate(of.ladder):
        if y == value:
            return of.left[row, k], of.right[row, k]
        if y < value:
            if k == 0:
                return 0.0, 0.0
            share = (y - of.ladder[k - 1]) / (value - of.ladder[k - 1])
            between = of.right[row, k - 1] + share * (of.left[row, k] - of.right[row, k - 1])
            return between, between
    return 1.0, 1.0


def test_the_law_jumps_at_its_values_and_rises_evenly_between_them() -> None:
    of, y = law(), np.array([-np.inf, -2.0, -1.0, -0.4, 0.0, 0.25, 0.5, 1.9, 2.0, 3.0, np.inf])
    left, right = of.cdf_limits(np.array([[1.0], [0.0]]), np.stack([y, y]))
    for place, row in enumerate((1, 0)):
        expected = np.array([slow_limits(of, row, one) for one in y]).T
        np.testing.assert_allclose([left[place], right[place]], expected, atol=1e-15)


@pytest.mark.parametrize("n", [2, 9, 60])
def test_a_curve_without_one_rank_is_the_curve_of_the_others(n: int) -> None:
    ranks = np.sort(np.random.default_rng(n).random(n))
    curve = learned_curves(RankTable.of([ranks], 1)).at(0, 0)
    around = np.concatenate([[0.0], ranks, [1.0]])
    for i, own in enumerate(ranks):
        others = learned_curves(RankTable.of([np.delete(ranks, i)], 1)).at(0, 0)
        found = without_one(curve, n, own, KNOTS)
        beyond = (around[i] >= KNOTS) | (around[i + 2] <= KNOTS)  # its neighbours
        np.testing.assert_allclose(found[beyond], others[beyond], atol=1e-12)
        assert np.abs(found - others).max() <= 1.0 / (n + 300.0)


def test_ranks_that_are_believed_beyond_their_number_are_taken_out_as_such() -> None:
    ranks = np.sort(np.random.default_rng(8).random(60) ** 3)
    curve = learned_curves(RankTable.of([ranks], 1)).at(0, 0)
    for i in (0, 20):
        others = learned_curves(RankTable.of([np.delete(ranks, i)], 1)).at(0, 0)
        found = without_one(curve, 60, ranks[i], KNOTS)
        # Most of what the rank did to the curve is undone.
        assert np.abs(found - others).max() < 0.4 * np.abs(curve - others).max()


def test_one_episode_moves_p_against_its_own_outcome() -> None:
    a = np.array([0.5])
    low, high = (without_one(KNOTS, 50, np.array([own]), a)[0] for own in (0.2, 0.8))
    assert low < 0.5 < high


def whole() -> dict[str, np.ndarray]:
    """Three episodes of 4, 1 and 2 steps, rehearsed at the first and the last of four steps."""
    lengths, rows = np.array([4, 1, 2]), 4
    limits = as_shares(np.linspace(0.0, 1.0, 4) * np.ones((rows, 1)))
    return Rehearsal(
        lengths=lengths,
        groups=np.zeros(3, dtype=np.intp),
        outcomes=np.arange(3.0),
        steps=np.array([0, 3]),
        before=np.zeros(rows),
        ranks=np.array([0.1, 0.5, np.nan, 0.9]),
        ladder=np.tile(np.arange(4.0), (2, 1)),
        left=limits,
        right=limits,
    ).to_arrays()


def reading(arrays: dict[str, np.ndarray]) -> Rehearsal:
    return Rehearsal.from_arrays(arrays, horizon=4, n_groups=1, most=3)


def test_what_was_written_comes_back() -> None:
    found = reading(whole())
    for name, array in whole().items():
        np.testing.assert_array_equal(getattr(found, name), array)
    assert [found.rows_at(place) for place in range(2)] == [
        (slice(0, 3), pytest.approx([0, 1, 2])),
        (slice(3, 4), pytest.approx([0])),
    ]


def test_equal_limits_are_kept_once() -> None:
    rows, values = np.array([3]), np.array([[0.5, 1.0, 2.5]])
    twice, once = (
        reading(arrays).law(1, rows, NO_CURVE, 9).cdf_limits(np.zeros((1, 1)), values)
        for arrays in (whole(), {**whole(), "left": whole()["left"][:0]})
    )
    np.testing.assert_array_equal(twice, once)


@pytest.mark.parametrize(
    ("name", "wrong", "shown"),
    [
        ("lengths", np.array([4, 1, 2, 1]), ("1 to 3",)),
        ("lengths", np.empty(0, dtype=np.int64), ("1 to 3",)),
        ("lengths", np.array([4, 0, 2]), ("1 to 4",)),
        ("lengths", np.array([4, 2**62, 2**62]), ("1 to 4",)),
        ("groups", np.array([0, 0]), ("group",)),
        ("groups", np.array([0, 1, 0]), ("groups", "below 1")),
        ("groups", np.array([0, -1, 0]), ("groups", "below 1")),
        ("steps", np.array([0, 4]), ("steps", "below 4")),
        ("steps", np.array([-1, 3]), ("steps", "below 4")),
        ("steps", np.array([3, 0]), ("steps", "rise")),
        ("steps", np.array([3, 3]), ("steps", "rise")),
        ("steps", np.empty(0, dtype=np.int64), ("steps", "below 4")),
        ("steps", np.array([3]), ("ladder", "1 steps")),
        ("ladder", np.zeros((3, 4)), ("ladder", "2 steps")),
        ("ladder", np.empty((2, 0)), ("ladder", "numbers")),
        ("ladder", np.array([[0.0, 1.0, np.nan, 3.0]] * 2), ("ladder", "numbers")),
        ("ladder", np.array([[0.0, 1.0, 2.0, 1e301]] * 2), ("ladder", "numbers")),
        ("ladder", np.array([[0.0, 2.0, 1.0, 3.0]] * 2), ("ladder", "rises")),
        ("outcomes", np.array([0.0, np.inf, 1.0]), ("outcomes", "1e300")),
        ("before", np.zeros(5), ("before", "float64", "(4,)")),
        ("ranks", np.array([0.1, 0.5, 1.5, 0.9]), ("ranks", "0 to 1")),
        ("left", np.zeros((4, 4)), ("left", "uint16")),
        ("left", np.zeros((3, 4), dtype=np.uint16), ("left", "uint16", "(4, 4)")),
        ("right", np.zeros((4, 3), dtype=np.uint16), ("right", "uint16", "(4, 4)")),
    ],
)
def test_a_forged_rehearsal_is_refused(name: str, wrong: np.ndarray, shown: tuple) -> None:
    with refuses(ModelFileError, None, "rehearsal", *shown):
        reading({**whole(), name: wrong})
