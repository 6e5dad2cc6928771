"""SplitMix64 (Steele, Lea and Flood, 2014): a generator of random numbers from 64-bit keys.

`mix` is for NumPy arrays. `mix_word` is the same function for kernels. `mix_word` is compiled only
when a module with kernels (compiled functions) imports it, so code that uses arrays alone does not
load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ontarget._typing import KeyArray

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(words: KeyArray) -> KeyArray:
    """The 64-bit words after one step of the generator; different words stay different.

    Examples
    --------
    >>> print(mix(np.zeros(1, dtype=np.uint64)))
    [16294208416658607535]
    """
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
