"""Random numbers inside kernels: SplitMix64, with a state that the caller passes."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._keyed import GAMMA, mix_word
from ontarget._typing import AnyArray, IntArray, KeyArray

_S32 = np.uint64(32)


@kernel
def draw_below(state: KeyArray, bound: int) -> int:
    """A random whole number from 0 up to, not including, the bound, which is below 2**32."""
    z = mix_word(state[0])
    state[0] += GAMMA
    return int(np.int64(((z >> _S32) * np.uint64(bound)) >> _S32))


@kernel
def draw_with_replacement(
    state: KeyArray, limits: tuple[int, int], sizes: IntArray, counts: AnyArray
) -> None:
    """Draw items at random with replacement; add to ``counts`` how often each was drawn.

    ``limits`` is how many to draw, and a limit on the sum of their sizes. Drawing stops before the
    sum exceeds the limit, but at least one item is drawn.
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
    """Draw items at random without replacement; ``counts`` becomes 1 for them, 0 for the others.

    ``limits`` is as in `draw_with_replacement`.
    """
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
