"""Checks of single arguments: what each lets through, and what its message says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor

from ontarget._arguments import fraction, share, whole_number
from ontarget.conformal import GroupedPCQR
from ontarget.conformal.levels import needed_for_coverage, uniform_margin
from ontarget.domains import simulate
from ontarget.episodes import Episodes
from ontarget.errors import EpisodesError, InputError
from ontarget.evaluation import reliability
from ontarget.models import Marginal, QuantileForest, RegressorQuantiles
from refusals import refuses

X, Y = np.arange(40.0)[:, None], np.arange(40.0)


@pytest.mark.parametrize("value", [3.0, np.float64(3), True, "3", None, 2.5, 1])
def test_what_is_no_whole_number_in_range_is_refused(value: object) -> None:
    with refuses(InputError, "n", "2 to 9", f"got {value!r}"):
        whole_number("n", value, least=2, most=9)


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2)])
def test_whole_numbers_of_any_type_pass_as_int(value: object) -> None:
    assert type(whole_number("n", value, least=2)) is int


@pytest.mark.parametrize("value", [0, 1, -0.1, float("nan"), "0.5", None])
def test_what_is_no_fraction_is_refused(value: object) -> None:
    with refuses(InputError, "level", f"got {value!r}"):
        fraction("level", value)


@pytest.mark.parametrize("value", [0, 1.1, True, float("nan"), "0.5", None])
def test_what_is_no_share_is_refused(value: object) -> None:
    with refuses(InputError, "max_samples", f"got {value!r}"):
        share("max_samples", value)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (
            lambda: RegressorQuantiles(QuantileRegressor(), n_levels=5.0).fit(X, Y),
            (InputError, "n_levels", 5.0),
        ),
        (lambda: QuantileForest(n_trees=3.0).fit(X, Y), (InputError, "n_trees", 3.0)),
        (lambda: GroupedPCQR(Marginal().fit(X, Y), min_size=3.0), (InputError, "min_size", 3.0)),
        (lambda: reliability(np.full(40, 0.5), Y > 20, bins=3.0), (InputError, "bins", 3.0)),
        (lambda: simulate("tamarisk", 3.0, seed=0), (InputError, "episodes", 3.0)),
        (
            lambda: Episodes.from_arrays(np.zeros((2, 3, 1)), np.zeros((2, 3)), horizon=3.0),
            (EpisodesError, "horizon", 3.0),
        ),
    ],
)
def test_a_whole_float_is_refused_everywhere(call, refusal: tuple) -> None:
    with refuses(*refusal):
        call()


def test_a_level_that_is_none_is_blamed_by_its_own_name() -> None:
    with refuses(InputError, "level", "got 2"):
        uniform_margin(10, level=2)
    with refuses(InputError, "coverage", "got 2"):
        needed_for_coverage(2, 0.02)
