from __future__ import annotations

import numpy as np
from scipy import stats

from ontarget._keyed import keyed_hash, keyed_uniform, keys_of


def test_keys_depend_on_the_id_and_not_on_its_place() -> None:
    ids = np.array(["a", "b", "c"])
    assert keys_of(ids)[::-1].tolist() == keys_of(ids[::-1]).tolist()
    numbers = np.arange(5)
    assert keys_of(numbers)[2:4].tolist() == keys_of(np.array([2, 3], dtype=np.int16)).tolist()


def test_seeds_and_purposes_give_independent_numbers() -> None:
    keys = keys_of(np.arange(20_000))
    first = keyed_uniform(keys, 0, 1)
    for other in (
        keyed_uniform(keys, 1, 1),
        keyed_uniform(keys, 0, 2),
        keyed_uniform(keys, 0, "1"),
    ):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.04
        assert not np.any(first == other)


def test_numbers_are_uniform_in_the_open_interval() -> None:
    for ids in (np.arange(20_000), np.array([f"run-{i}" for i in range(20_000)])):
        values = keyed_uniform(keys_of(ids), 7, "test")
        assert values.min() > 0
        assert values.max() < 1
        assert stats.kstest(values, "uniform").pvalue > 1e-6


def test_hashes_of_different_keys_differ() -> None:
    assert np.unique(keyed_hash(keys_of(np.arange(10_000)), 3, "x")).size == 10_000


def test_values_are_pinned_across_versions() -> None:
    # A change here changes every calibration with ties, every split and every saved model.
    assert keyed_uniform(keys_of(np.array([0, 1])), 0, 0).tolist() == PINNED_INTEGERS
    assert keyed_uniform(keys_of(np.array(["a"])), 0, "drift").tolist() == PINNED_TEXT


PINNED_INTEGERS = [0.29291247424830436, 0.4423305364314293]
PINNED_TEXT = [0.6549026974748738]
