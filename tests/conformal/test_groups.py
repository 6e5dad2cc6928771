"""Groups are calibrated by their own episodes, and an unknown one is never guessed."""

from __future__ import annotations

import numpy as np
import pytest

from known import Atoms, Uniform
from ontarget.conformal.pcqr import PCQR, GroupedPCQR
from ontarget.errors import CalibrationError, GroupError, InputError, UnfittedError
from ontarget.target import Target
from refusals import refuses

RNG = np.random.default_rng(0)
N = 90
X = np.zeros((N, 1))
GROUPS = RNG.choice(["a", "b", "c"], N)
ROLLS = RNG.integers(1, 7, N).astype(float)
MODEL = Atoms(range(1, 7), [1, 2, 1, 3, 2, 1])
IDS = np.arange(1000, 1000 + N)


def grouped() -> GroupedPCQR:
    return GroupedPCQR(MODEL).calibrate(X, ROLLS, groups=GROUPS, ids=IDS)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_each_group_answers_as_its_own_pcqr_would(name: str) -> None:
    own = name == GROUPS
    alone = PCQR(MODEL).calibrate(X[own], ROLLS[own], ids=IDS[own])
    offset = RNG.integers(0, 3, N).astype(float)
    targets = [Target(2, 4), Target.at_least(5)]
    ours = grouped().probability(X, targets, offset, groups=GROUPS)
    expected = alone.probability(X[own], targets, offset[own])
    assert all(np.array_equal(a[own], b) for a, b in zip(ours, expected, strict=True))
    for kind in ("at_least", "at_most"):
        ends = grouped().interval(X, 0.8, kind, groups=GROUPS)
        assert np.array_equal(ends.lower[own], alone.interval(X[own], 0.8, kind).lower)
        assert np.array_equal(ends.upper[own], alone.interval(X[own], 0.8, kind).upper)
    for side in ("lower", "upper"):
        bound = grouped().promise(X, 0.8, side, groups=GROUPS)
        assert np.array_equal(bound[own], alone.promise(X[own], 0.8, side))
    assert np.array_equal(
        grouped().cdf(X, ROLLS, groups=GROUPS).mid[own], alone.cdf(X[own], ROLLS[own]).mid
    )


def test_no_rows_get_no_answers() -> None:
    low, p, high = grouped().probability(np.zeros((0, 1)), Target(1, 2), groups=np.array([]))
    assert low.shape == p.shape == high.shape == (0,)


def test_unseen_group_is_an_error_that_names_it() -> None:
    with refuses(GroupError, None, "'z'", "'a', 'b', 'c'"):
        grouped().probability(X[:2], Target(1, 2), groups=["a", "z"])


def test_small_group_is_an_error_that_counts_it() -> None:
    few = np.where(np.arange(N) < 3, "tiny", "rest")
    with refuses(GroupError, None, 20, "'tiny' (3)"):
        GroupedPCQR(MODEL).calibrate(X, ROLLS, groups=few)
    assert set(GroupedPCQR(MODEL, min_size=3).calibrate(X, ROLLS, groups=few).groups) == {
        "tiny",
        "rest",
    }


def test_bad_input_is_refused_with_a_reason() -> None:
    with refuses(UnfittedError, None, "GroupedPCQR"):
        GroupedPCQR(MODEL).promise(X, 0.9, groups=GROUPS)
    with refuses(InputError, "groups", 90, "(1,)"):
        GroupedPCQR(MODEL).calibrate(X, ROLLS, groups=["a"])
    with refuses(InputError, "groups", "NaN"):
        GroupedPCQR(MODEL).calibrate(X, ROLLS, groups=np.full(N, np.nan))
    with refuses(InputError, "min_size", 0):
        GroupedPCQR(Uniform(), min_size=0)
    with refuses(CalibrationError, "level", 0.99, 99, 24):
        grouped().interval(X, 0.99, groups=GROUPS)
