from __future__ import annotations

import numpy as np
import pytest

from ontarget.episodes import Episodes
from ontarget.paper.experiment import partition_of, simulated
from paper.small import TAMARISK


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return simulated(TAMARISK, "tamarisk")


def test_parts_are_disjoint_and_complete(episodes: Episodes) -> None:
    found = partition_of(TAMARISK, episodes, 0, "noise")
    ids = np.concatenate([found.train.ids, found.calibrate.ids, found.test.ids])
    assert sorted(ids) == list(range(TAMARISK.episodes))
    assert (len(found.train), len(found.calibrate), len(found.test)) == (50, 60, 50)


def test_partitions_differ_and_modes_share_them(episodes: Episodes) -> None:
    first, other, atoms = (
        partition_of(TAMARISK, episodes, k, mode).test.ids
        for k, mode in ((0, "noise"), (1, "noise"), (0, "atoms"))
    )
    assert not np.array_equal(first, other)
    assert np.array_equal(first, atoms)


def test_noise_leaves_no_two_outcomes_equal_and_none_far_from_its_own(episodes: Episodes) -> None:
    noisy, exact = (partition_of(TAMARISK, episodes, 0, mode) for mode in ("noise", "atoms"))
    assert np.unique(noisy.outcomes).size == noisy.outcomes.size
    assert np.unique(exact.outcomes).size < exact.outcomes.size
    shift = noisy.outcomes - exact.outcomes
    assert np.abs(shift).max() <= 5e-6 * (1 + 1e-6)
    assert shift.min() < -3e-6 < 3e-6 < shift.max()


def test_noise_belongs_to_the_episode(episodes: Episodes) -> None:
    first, second = (partition_of(TAMARISK, episodes, k, "noise") for k in (0, 1))
    common, i, j = np.intersect1d(first.test.ids, second.test.ids, return_indices=True)
    assert common.size > 5
    assert np.array_equal(first.outcomes[i], second.outcomes[j])


@pytest.mark.parametrize("mode", ["noise", "atoms"])
def test_what_remains_and_what_is_behind_add_up(episodes: Episodes, mode: str) -> None:
    found = partition_of(TAMARISK, episodes, 0, mode)  # type: ignore[arg-type]
    for t in (0, 3, 49):
        rows = found.rows(found.test, t)
        assert np.allclose(rows.y + rows.offset, found.outcomes, atol=1e-12)


def test_the_target_reaches_from_the_tenth_to_the_ninetieth_percent(episodes: Episodes) -> None:
    found = partition_of(TAMARISK, episodes, 0, "noise")
    ordered = np.sort(found.outcomes)
    n = ordered.size
    assert (found.target.lower, found.target.upper) == (
        ordered[n // 10 - 1],
        ordered[9 * n // 10 - 1],
    )
    assert found.met.sum() == 9 * n // 10 - n // 10 + 1
