"""Prepares the outcomes that models of ranks learn from: cuts, shares before each cut, folds.

A rank is the share of the outcomes around the same step that are lower. A cut divides the sorted
outcomes into lower and higher ones. The share before each cut is computed around each step. Folds
are parts of the episodes that are held out together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keys_of, mix
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.models._support import Support, find_atoms
from ontarget.models.base import TrainingRows

# Of many outcomes, so many of the outermost on each side are kept one by one.
_OUTERMOST = 20
# A node's levels come from at least so many rows.
_FEWEST_AT_NODE = 100


class Outcomes(NamedTuple):
    """The distinct outcomes that are kept, and where each row's outcome lies among them.

    A *cut* k divides the kept outcomes, which are sorted, into the first k and the rest. ``mass``
    is the share of all rows before each cut.
    """

    support: Support
    mass: FloatArray  # before each cut
    ranks: IndexArray
    weight: FloatArray  # the mean row weighs 1


def cut_outcomes(rows: TrainingRows, most: int) -> Outcomes:
    """The distinct outcomes to keep: all of them, or about ``most`` quantiles and every atom.

    An atom is an outcome with positive probability.
    """
    weight = np.ones(rows.y.size) if rows.weight is None else rows.weight / rows.weight.mean()
    values, ranks = np.unique(rows.y, return_inverse=True)
    atoms = find_atoms(ranks, rows.units, rows.steps)
    kept = _kept_values(atoms, np.bincount(ranks, weights=weight).astype(np.float64), most)
    values, atoms = values[kept], atoms[kept]
    ranks = np.searchsorted(values, rows.y)
    mass = np.bincount(ranks, weights=weight, minlength=values.size).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(mass)))
    support = Support.of(values, atoms, mass, smooth=True)
    return Outcomes(support, read_only(total / total[-1]), ranks, weight)


def folds_of(rows: TrainingRows, n_folds: int, seed: tuple[int, ...]) -> IndexArray:
    """The fold of each episode, drawn at random by the seed; all folds have similar sizes.

    A fold is a part of the episodes that is held out together. The result is empty if the rows have
    no ids. A single episode is in no fold: it gets -1.
    """
    if rows.keys is None:
        return np.empty(0, dtype=np.intp)
    fold = np.full(rows.keys.size, -1, dtype=np.intp)
    if rows.keys.size > 1:
        order = np.argsort(keyed_hash(rows.keys, seed[0], *seed[1:], "fold"))
        fold[order] = np.arange(fold.size) % min(n_folds, fold.size)
    return fold


def levels_by_node(
    rows: TrainingRows,
    times: FloatArray,
    outcomes: Outcomes,
    fold: IndexArray,
    *,
    most_nodes: int,
) -> AnyArray:
    """The log odds of the share of outcomes before each cut, around evenly spaced times.

    The result has the shape (folds + 1, nodes, cuts). Entry f is computed without part (fold) f of
    the episodes, the last entry from all rows. A *cut* k divides the sorted outcomes into the first
    k and the rest. A *node* is one of the evenly spaced times; its share comes from the rows at
    steps near it.
    """
    n_folds, n_values = int(fold.max(initial=-1)) + 1, outcomes.support.values.size
    n_nodes = 1 if times.max() == 0.0 else min(most_nodes, rows.step_labels.size)
    own = fold[rows.episodes] if n_folds else np.zeros(rows.y.size, dtype=np.intp)
    place = own * n_values + outcomes.ranks
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    found = np.empty((n_folds + 1, n_nodes, n_values - 1), dtype=np.float32)
    for node in range(n_nodes):
        half, centre = 0.5 / max(1, n_nodes - 1), node / max(1, n_nodes - 1)
        while True:
            a = np.searchsorted(ordered, centre - half - 1e-9)
            b = np.searchsorted(ordered, centre + half + 1e-9, side="right")
            if b - a >= min(_FEWEST_AT_NODE, order.size):
                break
            half *= 1.5
        near = order[a:b]
        n_groups = max(1, n_folds)
        mass = np.bincount(place[near], outcomes.weight[near], minlength=n_groups * n_values)
        by_fold = mass.reshape(n_groups, n_values)
        total = by_fold.sum(axis=0)
        for k in range(n_folds + 1):
            own_mass = np.maximum(total - by_fold[k], 0.0) if k < n_folds else total
            before = np.cumsum(own_mass)
            after = np.maximum(before[-1] - before[:-1], 0.0)
            found[k, node] = np.log((before[:-1] + 0.5) / (after + 0.5))
    # Whatever a logarithm rounds to, levels never fall.
    return np.maximum.accumulate(found, axis=2)


def row_keys(rows: TrainingRows) -> KeyArray:
    """A 64-bit hash for each row, of its episode and step.

    If the rows have no ids, it is a hash of the row's position.
    """
    if rows.keys is None:
        return keys_of(np.arange(rows.y.size))
    return mix(rows.keys[rows.episodes] ^ keys_of(rows.step_labels)[rows.steps])


def _kept_values(atoms: BoolArray, mass: FloatArray, most: int) -> IndexArray:
    """The indices of the outcomes to keep: all if there are at most ``most``, otherwise a part.

    The part has every atom (outcome with positive probability), the outermost outcomes on each
    side, and about ``most`` quantiles.
    """
    n = atoms.size
    if atoms.all() or n <= most:
        return np.arange(n)
    kept = atoms.copy()
    kept[:-1] |= atoms[1:]  # so that what lies just before an atom is no part of it
    kept[:_OUTERMOST] = kept[-_OUTERMOST:] = True
    total = np.cumsum(mass)
    even = np.arange(1, most) / most * total[-1]
    kept[np.searchsorted(total, even)] = True
    return np.flatnonzero(kept)
