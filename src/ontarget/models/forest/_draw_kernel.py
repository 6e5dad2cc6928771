"""Random numbers inside kernels: SplitMix64 on a state that the caller owns."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._splitmix import GAMMA, mix_word
from ontarget._typing import AnyArray, KeyArray

__all__ = ["draw_below", "draw_with_replacement", "draw_without_replacement"]

_S32 = np.uint64(32)


@kernel
def draw_below(state: KeyArray, bound: int) -> int:
    """A whole number from 0 up to, not including, the bound; the bound is below 2**32."""
    z = mix_word(state[0])
    state[0] += GAMMA
    return int(np.int64(((z >> _S32) * np.uint64(bound)) >> _S32))


@kernel
def draw_with_replacement(state: KeyArray, n_draws: int, counts: AnyArray) -> None:
    """Add to each count how often its item was drawn."""
    for _ in range(n_draws):
        counts[draw_below(state, counts.size)] += 1


@kernel
def draw_without_replacement(state: KeyArray, n_draws: int, counts: AnyArray) -> None:
    """Set the count of each drawn item to 1, of every other to 0."""
    left = n_draws
    for i in range(counts.size):
        # Knuth's selection sampling: every set of n_draws items is equally likely.
        chosen = draw_below(state, counts.size - i) < left
        counts[i] = 1 if chosen else 0
        left -= 1 if chosen else 0
