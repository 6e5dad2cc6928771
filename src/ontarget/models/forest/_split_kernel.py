"""What a split is worth, and where it cuts: shared by both ways to find one.

A split is judged by two scores per row: the one that explains most of their variance wins. With
the outcome as the only score that is the classic rule; a second score for the spread of the
outcome aims the trees at the whole distribution.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import FloatArray, IntArray, KeyArray
from ontarget.models.forest._draw_kernel import draw_below

__all__ = [
    "NO_SPLIT",
    "GrowthRules",
    "Index",
    "Split",
    "Sums",
    "TrainingTable",
    "draw_feature",
    "gain_of",
    "least_gain",
]

# An unsigned index spares the question whether it counts from the end.
Index: TypeAlias = int | np.unsignedinteger
# Rows, weight, and the weighted sums of both scores.
Sums: TypeAlias = tuple[float, float, float, float]


class TrainingTable(NamedTuple):
    """All training rows, sorted by outcome. A missing feature has the code after the last bin."""

    codes: IntArray  # (features, rows) uint16
    n_bins: IntArray  # (features,)
    scores: FloatArray  # (rows, 2)
    weight: FloatArray  # (rows,), empty where all rows weigh the same
    ranks: IntArray  # (rows,) place among the distinct outcomes


class GrowthRules(NamedTuple):
    """When to split, and how many features to try."""

    min_leaf: int
    max_depth: int
    n_tried: int


class Split(NamedTuple):
    """The best split of a node so far; feature -1 while there is none."""

    gain: float
    feature: int
    code: int  # the highest on the left
    missing_left: bool


NO_SPLIT = Split(-1.0, -1, 0, False)


@inner_kernel
def gain_of(weight: float, one: float, two: float, total: Sums) -> float:
    """Squared score sums by weight, of the left side with these sums and of the rest together."""
    rest, rest_one, rest_two = total[1] - weight, total[2] - one, total[3] - two
    on_left, on_right = one * one + two * two, rest_one * rest_one + rest_two * rest_two
    return (on_left * rest + on_right * weight) / (weight * rest)


@inner_kernel
def least_gain(total: Sums) -> float:
    """What a split must exceed; a gain below rounding error is none."""
    return (total[2] * total[2] + total[3] * total[3]) / total[1] * (1.0 + 1e-12) + 1e-12


@inner_kernel
def draw_feature(features: IntArray, k: int, state: KeyArray) -> int:
    """Draw the k-th feature among those not drawn yet: one step of a shuffle in place."""
    pick = k + draw_below(state, features.size - k)
    feature = features[pick]
    features[pick] = features[k]
    features[k] = feature
    return int(feature)
