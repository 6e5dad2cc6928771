"""Ranks are drawn strictly inside atoms, and counted without a float in sight."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget._kernel import kernel
from ontarget._keyed import keys_of
from ontarget._typing import FloatArray
from ontarget.conformal import kernels
from ontarget.conformal.ranks import Ranks, draw_ranks, target_counts
from ontarget.errors import CalibrationError, InputError
from refusals import refuses

# Few distinct values, so that ties are common.
tied = st.lists(st.integers(0, 8).map(lambda i: i / 8), min_size=0, max_size=40)
queries = st.integers(-1, 17).map(lambda i: i / 16) | st.sampled_from([-math.inf, math.inf])


@kernel
def end_counts(ranks: FloatArray, query: float) -> tuple[int, int]:
    return kernels.end_counts(ranks, query)


@kernel
def target_row(ranks: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> tuple[int, int, int]:
    return kernels.target_row(ranks, a_minus, a_plus)


def slow_end_counts(ranks: list[float], query: float) -> tuple[int, int]:
    if math.isinf(query):
        whole = len(ranks) + 1 if query > 0 else 0
        return whole, whole
    return sum(r < query for r in ranks), sum(r <= query for r in ranks) + 1


def slow_target(ranks: list[float], components: list[tuple[float, float]]) -> tuple[int, int, int]:
    """M4, word for word: lows of components, and one minus the lows of the complement."""
    whole = len(ranks) + 1
    ends = [(slow_end_counts(ranks, a), slow_end_counts(ranks, b)) for a, b in components]
    low = sum(max(0, plus[0] - minus[1]) for minus, plus in ends)
    mid = sum(max(0, sum(plus) - sum(minus)) for minus, plus in ends)
    gaps = [-math.inf, *(end for component in components for end in component), math.inf]
    missed = 0
    for a, b in zip(gaps[::2], gaps[1::2], strict=True):
        missed += max(0, slow_end_counts(ranks, b)[0] - slow_end_counts(ranks, a)[1])
    return low, mid, whole - missed


@given(tied, queries)
def test_kernel_counts_as_a_loop_does(values: list[float], query: float) -> None:
    ranks = Ranks.of(values)
    assert end_counts(ranks.values, query) == slow_end_counts(values, query)
    lo, hi = ranks.end_counts([[query]])
    assert (int(lo[0, 0]), int(hi[0, 0])) == slow_end_counts(values, query)
    below, upto = ranks.counts(query)
    if math.isfinite(query):
        assert (int(below), int(upto) + 1) == slow_end_counts(values, query)


@given(tied, st.lists(queries, max_size=6))
def test_one_row_and_many_count_targets_as_the_definition_does(
    values: list[float], ends: list[float]
) -> None:
    ends = sorted(ends[: len(ends) // 2 * 2])
    components = list(zip(ends[::2], ends[1::2], strict=True))
    a_minus = np.array([a for a, _ in components])
    a_plus = np.array([b for _, b in components])
    ranks = Ranks.of(values)
    expected = slow_target(values, components)
    assert target_row(ranks.values, a_minus, a_plus) == expected
    many = target_counts(ranks, np.tile(a_minus, (3, 1)), np.tile(a_plus, (3, 1)))
    assert [(int(a), int(b), int(c)) for a, b, c in zip(*many[:3], strict=True)] == [expected] * 3
    low, p, high = many.probability()
    assert np.all((low >= 0) & (low <= p) & (p <= high) & (high <= 1))


def test_long_ties_and_long_inputs_count_as_searchsorted_does() -> None:
    rng = np.random.default_rng(0)
    ranks = Ranks.of(np.concatenate((np.full(5000, 0.25), rng.random(5000), np.full(77, 0.5))))
    query = np.concatenate((rng.random(40_000), rng.choice(ranks.values, 10_000)))
    below, upto = ranks.counts(query)
    lo, hi = ranks.end_counts(query)
    assert np.array_equal(lo, below)
    assert np.array_equal(hi, upto + 1)


def test_several_targets_share_one_table_of_limits() -> None:
    ranks = Ranks.of(np.linspace(0.05, 0.95, 10))
    a_minus = np.array([[-math.inf, 0.1, 0.5]])
    a_plus = np.array([[0.3, 0.2, math.inf]])
    table = target_counts(ranks, a_minus, a_plus, first=[0, 1, 3, 3])
    assert table.low.shape == (1, 3)
    for j, (a, b) in enumerate([(0, 1), (1, 3), (3, 3)]):
        alone = target_counts(ranks, a_minus[:, a:b], a_plus[:, a:b])
        assert [int(part[0, j]) for part in table[:3]] == [int(part[0]) for part in alone[:3]]
    assert (table.low[0, 2], table.mid[0, 2], table.high[0, 2]) == (0, 0, 0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.data())
def test_depth_is_the_exact_mirror_distance_of_the_kth_most_central_rank(
    values: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(values)))
    central = sorted(values, key=lambda a: abs(Fraction(1, 2) - Fraction(a)))
    exact = Fraction(1, 2) - abs(Fraction(1, 2) - Fraction(central[k - 1]))
    assert Fraction(Ranks.of(values).depth(k)) == exact


def test_order_statistics_end_in_infinity() -> None:
    ranks = Ranks.of([0.3, 0.1])
    assert [ranks.order(k) for k in range(4)] == [-math.inf, 0.1, 0.3, math.inf]
    with refuses(InputError, "k", 3, 4):
        ranks.order(4)
    with refuses(InputError, "k", 2, 0):
        ranks.depth(0)


def test_ranks_are_read_only_and_checked() -> None:
    ranks = Ranks.of([0.2, 0.1])
    with pytest.raises(ValueError, match="read-only"):
        ranks.values[0] = 0.5
    with refuses(InputError, "values", "Ranks.of"):
        Ranks(np.array([0.2, 0.1]))
    with refuses(InputError, "values", "(2,)"):
        Ranks.of([0.2, math.nan])


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(0, 10**6)),
        min_size=1,
        max_size=20,
        unique_by=lambda row: row[2],
    ),
    st.integers(0, 3),
)
def test_rank_lies_strictly_inside_its_atom_and_is_keyed_on_the_episode(
    rows: list[tuple[float, float, int]], step: int
) -> None:
    left = np.array([min(a, b) for a, b, _ in rows])
    right = np.array([max(a, b) for a, b, _ in rows])
    keys = keys_of(np.array([i for _, _, i in rows]))
    drawn = draw_ranks(left, right, keys, seed=3, step=step)
    room = np.nextafter(left, 2.0) < right
    assert np.all((left < drawn) & (drawn < right) | ~room)
    assert np.all((left <= drawn) & (drawn <= right))
    order = np.argsort(keys)
    shuffled = draw_ranks(left[order], right[order], keys[order], seed=3, step=step)
    assert np.array_equal(shuffled, drawn[order])


def test_limits_that_are_no_cdf_are_refused() -> None:
    keys = keys_of(np.arange(2))
    for left, right in ([0.5, 0.2], [0.4, 0.3]), ([0.1, -0.1], [0.2, 0.2]), ([0.1, 0.2], [1, 1.1]):
        with refuses(CalibrationError, None, "cdf_limits", "1 rows"):
            draw_ranks(np.array(left), np.array(right), keys, seed=0, step=0)
    with refuses(CalibrationError, None, "cdf_limits", "1 rows"):
        draw_ranks(np.array([0.1, np.nan]), np.array([0.2, 0.3]), keys, seed=0, step=0)
