"""Random numbers inside kernels: SplitMix64 on a state that the caller owns."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._splitmix import GAMMA, mix_word
from ontarget._typing import AnyArray, IntArray, KeyArray

__all__ = ["draw_below", "draw_with_replacement", "draw_without_replacement"]

_S32 = np.uint64(32)


@kernel
def draw_below(state: KeyArray, bound: int) -> int:
    """A whole number from 0 up to, not including, the bound; the bound is below 2**32."""
    z = mix_word(state[0])
    state[0] += GAMMA
    return int(np.int64(((z >> _S32) * np.uint64(bound)) >> _S32))


@kernel
def draw_with_replacement(
    state: KeyArray, limits: tuple[int, int], sizes: IntArray, counts: AnyArray
) -> None:
    """Add to each count how often its item was drawn.

    The limits are how many to draw, and which sum of sizes to stop before; one is always drawn.
    """
    n_draws, most = limits
    total = 0
    for k in range(n_draws):
        item = draw_below(state, counts.size)
        total += sizes[item]
        if k > 0 and total > most:
            return
        counts[item] += 1


@kernel
def draw_without_replacement(
    state: KeyArray, limits: tuple[int, int], sizes: IntArray, counts: AnyArray
) -> None:
    """Set the count of each drawn item to 1, of every other to 0; limits as with replacement."""
    n_draws, most = limits
    left, total = n_draws, 0
    for i in range(counts.size):
        # Knuth's selection sampling: every set of n_draws items is equally likely.
        chosen = draw_below(state, counts.size - i) < left
        counts[i] = 1 if chosen else 0
        left -= 1 if chosen else 0
        total += sizes[i] if chosen else 0
    if total <= most:
        return
    drawn = np.flatnonzero(counts)
    total = 0
    for k in range(drawn.size):  # in random order, so that no item is favoured by its place
        pick = k + draw_below(state, drawn.size - k)
        item = drawn[pick]
        drawn[pick] = drawn[k]
        total += sizes[item]
        if k > 0 and total > most:
            counts[item] = 0
