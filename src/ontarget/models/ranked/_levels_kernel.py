"""Levels: for each cut between outcomes, the log odds of the share of outcomes before it."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import AnyArray


@inner_kernel
def node_at(t: float, n_nodes: int) -> tuple[int, float]:
    """The last node at or before time t, from 0 to 1, and the weight of the node after it.

    A *node* is one of the evenly spaced times at which levels are stored.
    """
    place = t * (n_nodes - 1)
    node = max(0, min(int(place), n_nodes - 2))
    return node, place - node


@inner_kernel
def level_of(levels: AnyArray, n_cuts: int, cut: int, at: tuple[int, float]) -> float:
    """The level of a cut: the log odds of the share of outcomes before the cut, at one time.

    A cut divides the sorted outcomes into lower and higher ones. The level is interpolated between
    two nodes, the times at which levels are stored. ``at`` is what `node_at` returns. ``levels``
    holds ``n_cuts`` numbers for each node.
    """
    node, weight = at
    before = np.float64(levels[node * n_cuts + cut - 1])
    if weight == 0.0:
        return float(before)
    after = np.float64(levels[(node + 1) * n_cuts + cut - 1])
    return float((1.0 - weight) * before + weight * after)
