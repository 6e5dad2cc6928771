"""Levels: the logit of the share of outcomes before each cut of the support, around each step.

A *cut* j divides the sorted support into its first j values and the rest. Levels are kept at nodes
that lie evenly from the first step to the last, and are straight between two of them.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import AnyArray

__all__ = ["level_of", "node_at"]


@inner_kernel
def node_at(t: float, n_nodes: int) -> tuple[int, float]:
    """The node at or before t, and the weight of the one after it."""
    place = t * (n_nodes - 1)
    node = max(0, min(int(place), n_nodes - 2))
    return node, place - node


@inner_kernel
def level_of(levels: AnyArray, n_cuts: int, cut: int, at: tuple[int, float]) -> float:
    """The level z of a cut, straight between two nodes."""
    node, weight = at
    before = np.float64(levels[node * n_cuts + cut - 1])
    if weight == 0.0:
        return float(before)
    after = np.float64(levels[(node + 1) * n_cuts + cut - 1])
    return float((1.0 - weight) * before + weight * after)
