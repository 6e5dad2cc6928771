from __future__ import annotations

import numpy as np
import pytest

from ontarget.errors import InputError
from ontarget.evaluation import Resampling, corrected_difference, paired_difference
from refusals import refuses

DRAWN = np.array([1.0, 2.0, 3.0, 6.0])  # mean 3, variance 14/3


def test_the_error_agrees_with_a_hand_calculation() -> None:
    found = corrected_difference(DRAWN, n_past=60, n_new=30)
    error = np.sqrt(14.0 / 3.0 * (1.0 / 4.0 + 30.0 / 60.0))
    assert found.value == 3.0
    assert found.error == pytest.approx(error)
    # Student's 97.5 % quantile with three degrees of freedom is 3.18245.
    assert found.low == pytest.approx(3.0 - 3.18245 * error, abs=1e-4)
    assert found.high == pytest.approx(3.0 + 3.18245 * error, abs=1e-4)
    assert found.reach == pytest.approx(found.high - 3.0)


def test_without_common_episodes_the_error_is_the_usual_one() -> None:
    assert corrected_difference(DRAWN, n_past=100, n_new=0).error == pytest.approx(
        DRAWN.std(ddof=1) / 2.0
    )


def test_the_error_of_one_split_is_unknown_and_shows_nothing() -> None:
    found = corrected_difference([1.0], n_past=1, n_new=1)
    assert np.isnan(found.error)
    assert not found.shows


def test_a_difference_shows_only_if_its_interval_leaves_out_0() -> None:
    assert corrected_difference([1.0, 1.1, 0.9, 1.0], n_past=2, n_new=1).shows
    assert not corrected_difference(DRAWN, n_past=2, n_new=1).shows
    with refuses(InputError, "level", 95):
        corrected_difference(DRAWN, n_past=2, n_new=1, level=95)


def test_overlapping_splits_of_equal_methods_rarely_show_a_difference() -> None:
    # A mean over random halves: independence would call one study in three a difference.
    rng = np.random.default_rng(0)
    found = {"corrected": 0, "naive": 0}
    for _ in range(400):
        episodes = rng.normal(size=90)
        drawn = [rng.permutation(episodes)[:30].mean() for _ in range(10)]
        found["corrected"] += corrected_difference(drawn, n_past=60, n_new=30).shows
        found["naive"] += corrected_difference(drawn, n_past=60, n_new=0).shows
    assert found["corrected"] < 0.08 * 400
    assert found["naive"] > 0.2 * 400


def test_a_paired_difference_resamples_whole_episodes() -> None:
    rng = np.random.default_rng(1)
    own = rng.normal(size=100)  # one number per episode, repeated at every step
    ours = np.tile(own, (50, 1))
    found = paired_difference(ours, np.zeros((50, 100)), resampling=Resampling(1000))
    assert found.value == pytest.approx(own.mean())
    assert found.error == pytest.approx(own.std() / 10.0, rel=0.15)  # not √50 times smaller
