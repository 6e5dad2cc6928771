"""Random numbers computed from ids, so that they do not depend on the order of rows.

A number drawn here depends on the seed, an identity (an episode's id) and a purpose, so a result
does not change when rows are reordered, batched or spread over threads.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ontarget._splitmix import mix
from ontarget._typing import AnyArray, FloatArray, KeyArray


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
    """A random number for each key, uniform in the open interval (0, 1).

    Examples
    --------
    >>> keys = keys_of(np.array(["a", "b"]))
    >>> bool(np.all(keyed_uniform(keys, 0, 3) == keyed_uniform(keys[::-1], 0, 3)[::-1]))
    True
    """
    bits = keyed_hash(keys, seed, *purpose) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def uniform_by_id(ids: AnyArray, seed: int, *purpose: int | str) -> FloatArray:
    """A random number for each episode id, uniform in the open interval (0, 1).

    The number depends only on the id, the seed and the purpose. So a random choice of episodes
    stays the same if they are reordered or some are left out.

    Examples
    --------
    >>> one, other = uniform_by_id(np.array(["a", "b"]), 0, "sample")
    >>> bool(one == uniform_by_id(np.array(["a"]), 0, "sample")[0]), bool(one == other)
    (True, False)
    """
    return keyed_uniform(keys_of(ids), seed, *purpose)
