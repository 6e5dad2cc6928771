"""The smallest reproduction that has everything in it."""

from __future__ import annotations

from ontarget.paper.experiment import Plan

SMALL = Plan(
    episodes=160,
    train=50,
    calibrate=60,
    partitions=2,
    n_trees=4,
    min_leaf=5,
    bins=5,
    quick=True,
)
TAMARISK = Plan(
    domains=("tamarisk",), episodes=160, train=50, calibrate=60, partitions=2, n_trees=4, quick=True
)
