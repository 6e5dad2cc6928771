"""Learns the weight of each expert (model) in a mixture (M16)."""

from __future__ import annotations

import numpy as np

from ontarget._keyed import keyed_hash, keys_of
from ontarget._typing import FloatArray, IndexArray
from ontarget.models.base import TrainingRows

# Rows and thresholds that weights are learned from: more would not move them.
_ROWS, _THRESHOLDS = 2_048, 4
_ROUNDS, _STILL = 200, 1e-7  # rounds, unless no weight moves by so much any more
# An answer counts as at least this probable, so that no single one decides.
_LEAST = 1e-4
# An expert that would count less is left out, and costs nothing.
_NEGLIGIBLE = 0.02
# Weights are rounded: processors differ in the last bits of sums.
_DIGITS = 4


def some_rows(rows: TrainingRows, seed: tuple[int, ...]) -> IndexArray:
    """The indices of up to 2,048 rows, ascending; chosen at random by the seed and the position."""
    places = np.arange(rows.y.size)
    order = np.argsort(keyed_hash(keys_of(places), *seed, "weighed"), kind="stable")
    return np.sort(order[:_ROWS])


def thresholds_of(rows: TrainingRows, which: IndexArray, seed: tuple[int, ...]) -> FloatArray:
    """Random thresholds for each of the rows ``which``: (rows, thresholds)."""
    by_step = np.argsort(rows.steps, kind="stable")
    size = np.bincount(rows.steps)
    start = np.cumsum(size) - size
    found = np.empty((which.size, _THRESHOLDS))
    for k in range(_THRESHOLDS):
        drawn = keyed_hash(keys_of(which), *seed, f"threshold {k}")
        step = rows.steps[which]
        place = start[step] + (drawn % size[step].astype(np.uint64)).astype(np.intp)
        found[:, k] = rows.y[by_step[place]]
    return found


def learned_weights(answers: FloatArray, below: FloatArray, n_episodes: int) -> FloatArray:
    """The weight of each expert in a mixture; weights add up to 1, some may be exactly 0."""
    # The method is expectation–maximisation on the log score. Each expert starts with as much
    # evidence as one episode gives, so that with few episodes the weights stay close together.
    n_experts = answers.shape[0]
    known = ~np.isnan(answers).any(axis=0)
    if n_experts == 1 or not known.any():
        return np.full(n_experts, 1.0 / n_experts)
    told = np.where(below == 1.0, answers, 1.0 - answers)[:, known].clip(_LEAST, 1.0)
    weights = _maximised(told, np.full(n_experts, 1.0 / n_experts), n_episodes)
    if (weights < _NEGLIGIBLE).any():
        kept = np.where(weights < _NEGLIGIBLE, 0.0, weights)
        weights = _maximised(told, kept / kept.sum(), n_episodes)
    rounded: FloatArray = np.round(weights, _DIGITS)
    found: FloatArray = rounded / rounded.sum()
    return found


def _maximised(told: FloatArray, weights: FloatArray, n_episodes: int) -> FloatArray:
    used, n = weights > 0.0, told.shape[1]
    for _ in range(_ROUNDS):
        # Each is owed its share of every answer; products need no array of the shares.
        owed = weights * (told @ (1.0 / (weights @ told))) / n
        found = np.where(used, n_episodes * owed + 1.0, 0.0)
        found /= found.sum()
        moved, weights = np.abs(found - weights).max(), found
        if moved < _STILL:
            break
    return weights
