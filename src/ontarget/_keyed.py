"""Random numbers computed from ids, so that they do not depend on the order of rows.

A number drawn here depends on the seed, an identity (an episode's id) and a purpose, so a result
does not change when rows are reordered, batched or spread over threads. The generator is SplitMix64
(Steele, Lea and Flood, 2014). `mix` is for NumPy arrays; `mix_word`, the same function for kernels,
is compiled only when a module with kernels imports it, so code that uses arrays alone does not load
Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from ontarget._typing import AnyArray, FloatArray, KeyArray

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(words: KeyArray) -> KeyArray:
    """The 64-bit words after one step of the generator; different words stay different."""
    z = words + GAMMA
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


if TYPE_CHECKING:
    mix_word: Callable[[np.uint64], np.uint64]


def __getattr__(name: str) -> object:
    if name != "mix_word":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ontarget._kernel import inner_kernel

    globals()[name] = inner_kernel(mix)
    return globals()[name]


def keys_of(ids: AnyArray) -> KeyArray:
    """One 64-bit key per id: computed from an integer's value, or a hash of any other id's text."""
    array = np.asarray(ids)
    if array.dtype.kind in "iub":
        return mix(array.astype(np.uint64))
    texts = (str(value).encode() for value in array.tolist())
    words = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(words, dtype="<u8").astype(np.uint64)


def keyed_hash(keys: KeyArray, seed: int, *purpose: int | str) -> KeyArray:
    """A 64-bit hash of each key together with the seed and the purpose (numbers or words)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (int(seed), *purpose))
    word = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return mix(mix(keys ^ np.uint64(word)) + np.uint64(word))


def keyed_uniform(keys: KeyArray, seed: int, *purpose: int | str) -> FloatArray:
    """A random number for each key, uniform in the open interval (0, 1)."""
    bits = keyed_hash(keys, seed, *purpose) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def uniform_by_id(ids: AnyArray, seed: int, *purpose: int | str) -> FloatArray:
    """A random number for each episode id, uniform in the open interval (0, 1)."""
    return keyed_uniform(keys_of(ids), seed, *purpose)
