from __future__ import annotations

import numpy as np
import pytest

from ontarget.domains.draws import below, episode_keys, stream, streams, uniform

MASK = 2**64 - 1


def slow_mix(word: int) -> int:
    z = (word + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("key", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("t", [-1, 0, 49])
def test_draws_agree_with_whole_number_arithmetic(key: int, t: int) -> None:
    of_step = slow_mix(key ^ slow_mix(((t + 2) * 0xD1342543DE82EF95) & MASK))
    assert stream(np.uint64(key), t) == of_step
    for counter in (0, 1, 1000):
        word = slow_mix((of_step + counter * 0x9E3779B97F4A7C15) & MASK)
        assert uniform(np.uint64(of_step), counter) == (word >> 11) * 2.0**-53
        assert below(np.uint64(of_step), counter, 7) == int((word >> 11) * 2.0**-53 * 7)


def test_streams_are_the_streams_of_each_key() -> None:
    keys = episode_keys(3, 0, 5, "x")
    assert streams(keys, 4).tolist() == [stream(key, 4) for key in keys]


def test_an_episodes_key_does_not_depend_on_where_its_block_begins() -> None:
    assert np.array_equal(episode_keys(0, 0, 100, "x")[40:60], episode_keys(0, 40, 60, "x"))


def test_seeds_and_purposes_give_other_keys() -> None:
    keys = [episode_keys(0, 0, 50, "x"), episode_keys(1, 0, 50, "x"), episode_keys(0, 0, 50, "y")]
    assert np.unique(np.concatenate(keys)).size == 150


@pytest.mark.parametrize("axis", ["counter", "step", "episode"])
def test_neighbouring_draws_are_uniform_and_uncorrelated(axis: str) -> None:
    n = 20_000
    if axis == "counter":
        of_step = np.uint64(stream(episode_keys(0, 0, 1)[0], 0))
        u = np.array([uniform(of_step, i) for i in range(n)])
    elif axis == "step":
        key = episode_keys(0, 0, 1)[0]
        u = np.array([uniform(np.uint64(stream(key, t)), 0) for t in range(n)])
    else:
        u = np.array([uniform(s, 0) for s in streams(episode_keys(0, 0, n), 0)])
    # Kolmogorov–Smirnov and first correlation, both at about five standard errors.
    gap = np.abs(np.sort(u) - (np.arange(n) + 0.5) / n).max()
    assert gap < 2.7 / np.sqrt(n)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 5.0 / np.sqrt(n)
