"""Atoms, gaps and tails of the training outcomes (M2)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontarget.errors import ModelFileError
from ontarget.models._support import Support, find_atoms
from ontarget.models.marginal import Marginal


def atoms_by_definition(rows: list[tuple[int, int, int]], n_values: int) -> list[bool]:
    """M2 word by word, over (value, episode, step) rows."""
    holders = defaultdict(set)
    for value, episode, step in rows:
        holders[value, step].add(episode)
    n_all = sum(len(episodes) for episodes in holders.values())
    n_sharing = sum(len(episodes) for episodes in holders.values() if len(episodes) > 1)
    if n_sharing > n_all / 2:
        return [True] * n_values
    return [
        any(v == value and len(e) > 1 for (v, _), e in holders.items()) for value in range(n_values)
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=25
    )
)
def test_atoms_are_found_as_defined(rows: list[tuple[int, int, int]]) -> None:
    values, ranks = np.unique([row[0] for row in rows], return_inverse=True)
    ranked = [(int(rank), row[1], row[2]) for rank, row in zip(ranks, rows, strict=True)]
    columns = (np.array(part, dtype=np.intp) for part in zip(*ranked, strict=True))
    assert find_atoms(*columns).tolist() == atoms_by_definition(ranked, values.size)


def test_pooled_steps_and_copies_of_one_episode_make_no_atom() -> None:
    X, y = np.zeros((4, 1)), [1.0, 1.0, 2.0, 3.0]
    by_row = Marginal().fit(X, y)
    by_episode = Marginal().fit(X, y, ids=["a", "a", "b", "c"])
    by_step = Marginal().fit(X, y, steps=[0, 1, 0, 0])
    assert by_row.support_.atoms.tolist() == [True, False, False]
    assert not by_episode.support_.atoms.any()
    assert not by_step.support_.atoms.any()


def test_a_once_seen_integer_is_an_atom_where_over_half_share_their_value() -> None:
    model = Marginal().fit(np.zeros((5, 1)), [1, 1, 2, 2, 7])
    left, right = model.cdf_limits([[0.0]], [[6.9, 7.0]])
    assert (left.tolist(), right.tolist()) == ([[0.8, 0.8]], [[0.8, 1.0]])


def test_mass_is_spread_evenly_over_the_gap_before_its_value() -> None:
    model = Marginal().fit(np.zeros((4, 1)), [0.0, 1.0, 3.0, 7.0])
    grid = [[-7 / 3, -7 / 6, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 9.0]]
    expected = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.8125, 1.0, 1.0]
    assert np.allclose(model.cdf([[0.0]], grid), [expected], atol=2e-6)


def test_tails_follow_a_logistic_of_one_part_in_a_million() -> None:
    model = Marginal().fit(np.zeros((5, 1)), [0.0, 1.0, 2.0, 4.0, 5.0])
    far = np.array([[-30.0, 40.0]])
    z = (far - 2.0) / (4.0 - 1.0)
    assert np.allclose(
        model.cdf([[0.0]], far), [0.0, 1 - 1e-6] + 1e-6 / (1 + np.exp(-z)), rtol=0, atol=1e-15
    )


def test_continuous_outcomes_get_a_strictly_increasing_cdf() -> None:
    rng = np.random.default_rng(0)
    model = Marginal().fit(np.zeros((50, 1)), rng.normal(size=50))
    ranks = model.cdf([[0.0]], np.sort(rng.normal(size=(1, 5000)) * 3, axis=1))
    assert np.all(np.diff(ranks) > 0.0)


def test_negative_zero_is_zero() -> None:
    model = Marginal().fit(np.zeros((2, 1)), [0.0, -0.0])
    assert np.array_equal(model.support_.values, [0.0])


@pytest.mark.parametrize(
    ("values", "atoms", "tail"),
    [
        ([], [], [0, 0, 0, 0]),
        ([1, np.nan], [1, 1], [0, 0, 0, 0]),
        ([2, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 2], [1], [0, 0, 0, 0]),
        ([1, 2], [1, 1], [0, 0, 0]),
        ([1, 2], [1, 0], [0, 0, 0, 0]),
        ([1, 2], [1, 0], [0, 0, 0, 0.5]),
        ([1, 2], [1, 0], [5, 0, 1, 0.5]),
        ([1, 2], [1, 0], [0, 0, 1, 1.5]),
        ([1, 2], [1, 0], [0, 0, 1, 0]),
        ([1, 2], [1, 0], [0, 0, -1, 0.5]),
        ([1, 2], [1, 1], [0, 5, 0, 0.5]),
    ],
)
def test_a_damaged_support_is_refused(values: object, atoms: object, tail: object) -> None:
    with pytest.raises(ModelFileError):
        Support.from_arrays(
            {
                "support": np.array(values, dtype=float),
                "atoms": np.array(atoms, dtype=bool),
                "tail": np.array(tail, dtype=float),
            }
        )
