"""Random numbers computed from an episode's key, a step and a counter, and from nothing else.

Each episode has a 64-bit key, a hash of (seed, episode number). The key and a step give a stream of
random numbers, and a counter selects a number of the stream. So a random number does not depend on
the order or thread in which the episode is simulated, or on which episodes are simulated together.
The generator is SplitMix64 (Steele, Lea and Flood, 2014), which can be read at any position.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._keyed import GAMMA, keyed_hash, keys_of, mix_word
from ontarget._typing import FloatArray, KeyArray

_STEP = np.uint64(0xD1342543DE82EF95)
_UNIT = 2.0**-53


def episode_keys(seed: int, start: int, stop: int, *purpose: int | str) -> KeyArray:
    """The keys of episodes ``start`` to ``stop - 1``, as hashes of seed and episode number."""
    return keyed_hash(keys_of(np.arange(start, stop, dtype=np.uint64)), seed, *purpose)


@kernel
def stream(key: np.uint64, t: int) -> np.uint64:
    """The stream of random numbers that belongs to an episode's key at step t."""
    return mix_word(np.uint64(key) ^ mix_word(np.uint64(t + 2) * _STEP))


@kernel
def streams(keys: KeyArray, t: int) -> KeyArray:
    """The stream of random numbers of each key at step t."""
    of_step = np.empty_like(keys)
    for row in range(keys.size):
        of_step[row] = stream(keys[row], t)
    return of_step


@kernel
def uniform(of_stream: np.uint64, counter: int) -> float:
    """The random number in [0, 1) at position ``counter`` of a stream of random numbers."""
    # Numba adds signed and unsigned integers as floats, so every word is made unsigned first.
    word = np.uint64(of_stream) + np.uint64(counter) * GAMMA
    return np.float64(mix_word(word) >> np.uint64(11)) * _UNIT


@kernel
def below(of_stream: np.uint64, counter: int, n: int) -> int:
    """A random whole number from 0 to n - 1, for n up to a few thousand."""
    return int(uniform(of_stream, counter) * n)


def uniforms(keys: KeyArray, t: int, n: int) -> FloatArray:
    """Random numbers in [0, 1): n for each episode's key at step t; step -1 is before the first."""
    out = np.empty((keys.size, n))
    _fill(streams(keys, t), out)
    return out


@kernel
def _fill(of_streams: KeyArray, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = uniform(of_streams[i], j)
