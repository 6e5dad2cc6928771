from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ontarget.fitted.curves import CurveTable, RankTable, calibrating_curve, learned_curves
from ontarget.fitted.kernels import KNOTS

rank_sets = st.lists(st.floats(0, 1), max_size=40).map(sorted).map(np.array)


def table_of(rng: np.random.Generator, sizes: list[int], power: float = 1.0) -> RankTable:
    return RankTable.of([np.sort(rng.random(n) ** power) for n in sizes], 1)


@given(rank_sets)
def test_a_curve_rises_from_0_to_1_through_the_ranks(ranks) -> None:
    curve = calibrating_curve(ranks)
    assert curve[0] == 0.0
    assert curve[-1] == 1.0
    assert np.all(np.diff(curve) >= 0.0)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 60), min_size=1, max_size=30))
def test_learned_curves_rise_strictly_whatever_the_ranks(seed, sizes) -> None:
    found = learned_curves(table_of(np.random.default_rng(seed), sizes, power=3.0))
    assert found.values.shape == (len(sizes), 1, KNOTS.size)
    assert np.all(np.diff(found.values, axis=-1) > 0.0)
    # What a file holds is read back the same.
    again = CurveTable.from_arrays(found.to_arrays(), len(sizes), 1)
    assert np.array_equal(again.values, found.values)
    assert np.array_equal(again.counts, found.counts)


def test_few_episodes_leave_the_law_alone_and_many_correct_it() -> None:
    rng = np.random.default_rng(0)
    truth = np.sqrt(KNOTS)  # the distribution of squared uniform ranks
    error = [
        np.abs(learned_curves(table_of(rng, [n] * 10, power=2.0)).values[5, 0] - truth).max()
        for n in (3, 300, 30_000)
    ]
    assert error[0] > 0.2
    assert error[1] < 0.06  # beyond chance already
    assert error[2] < 0.02


def test_chance_alone_is_hardly_believed() -> None:
    rng = np.random.default_rng(4)
    moved = [np.abs(learned_curves(table_of(rng, [40])).values - KNOTS).max() for _ in range(200)]
    assert np.mean(moved) < 0.02
    assert np.quantile(moved, 0.9) < 0.04


def test_a_step_without_ranks_keeps_the_law_as_it_is() -> None:
    found = learned_curves(table_of(np.random.default_rng(1), [50, 50, 0, 0, 0], power=2.0))
    assert np.array_equal(found.values[4, 0], KNOTS)


def test_neighbours_help_and_noise_averages_out() -> None:
    rng = np.random.default_rng(2)
    alone = learned_curves(table_of(rng, [100]))
    together = learned_curves(table_of(rng, [100] * 200))
    assert np.abs(together.values - KNOTS).mean() < 0.5 * np.abs(alone.values - KNOTS).mean()


def test_a_step_that_few_runs_reach_has_the_curve_of_the_last_step_with_enough() -> None:
    found = learned_curves(table_of(np.random.default_rng(1), [60, 50, 30, 19, 2, 0], 2.0), 20)
    assert found.counts[:, 0].tolist() == [60, 50, 30, 30, 30, 30]
    for t in (3, 4, 5):
        np.testing.assert_array_equal(found.values[t], found.values[2])
    few = learned_curves(table_of(np.random.default_rng(1), [10, 5], 2.0), 20)
    assert few.counts[:, 0].tolist() == [10, 5]
