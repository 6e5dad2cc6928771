"""How good a split is; used with histograms and with sorted lists."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._typing import FloatArray, IntArray, KeyArray
from ontarget.models.forest._draw_kernel import draw_below

# An unsigned index spares the question whether it counts from the end.
Index: TypeAlias = int | np.unsignedinteger
# Rows, weight, and the weighted sums of both scores.
Sums: TypeAlias = tuple[float, float, float, float]


class TrainingTable(NamedTuple):
    """All training rows, sorted by outcome, with codes of bins in place of numbers."""

    codes: IntArray  # (features, rows) uint16
    n_bins: IntArray  # (features,)
    scores: FloatArray  # (rows, 2)
    weight: FloatArray  # (rows,), empty where all rows weigh the same
    ranks: IntArray  # (rows,) place among the distinct outcomes


class GrowthRules(NamedTuple):
    """The smallest leaf, the largest depth, and how many features to try at each split."""

    min_leaf: int
    max_depth: int
    n_tried: int


class Split(NamedTuple):
    """The best split of a node found so far; ``feature`` is -1 if there is none yet."""

    gain: float
    feature: int
    code: int  # the highest on the left
    missing_left: bool


NO_SPLIT = Split(-1.0, -1, 0, False)


@inner_kernel
def gain_of(weight: float, one: float, two: float, total: Sums) -> float:
    """How good a split is: squared sums of both scores over weight, added up for both sides.

    ``weight``, ``one`` and ``two`` are the sums of the left side, ``total`` those of the node.
    """
    rest, rest_one, rest_two = total[1] - weight, total[2] - one, total[3] - two
    on_left, on_right = one * one + two * two, rest_one * rest_one + rest_two * rest_two
    return (on_left * rest + on_right * weight) / (weight * rest)


@inner_kernel
def least_gain(total: Sums) -> float:
    """The value of `gain_of` that a split must exceed; less would be rounding error."""
    return (total[2] * total[2] + total[3] * total[3]) / total[1] * (1.0 + 1e-12) + 1e-12


@inner_kernel
def draw_feature(features: IntArray, k: int, state: KeyArray) -> int:
    """The k-th feature in a random order; one step of a shuffle in place."""
    pick = k + draw_below(state, features.size - k)
    feature = features[pick]
    features[pick] = features[k]
    features[k] = feature
    return int(feature)
