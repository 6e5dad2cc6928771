"""Converts a fitted scikit-learn forest to the arrays of a `QuantileForest`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ontarget._typing import ArrayLike, FloatArray, IndexArray, IntArray
from ontarget.errors import InputError, UnfittedError
from ontarget.models._support import Support, find_atoms
from ontarget.models.base import TrainingRows
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._binning import MAX_BINS, bin_table
from ontarget.models.forest._binning_kernel import BinTable
from ontarget.models.forest._origins import RowOrigins
from ontarget.models.forest._store import Tree, assemble, check_table, entry_type

__all__ = ["table_of_sklearn"]


def table_of_sklearn(
    forest: Any, X: ArrayLike, y: ArrayLike, *, smooth: bool
) -> tuple[ForestTable, RowOrigins]:
    """The arrays of a scikit-learn forest, and the episode and step of each training row.

    ``X`` and ``y`` are the rows that the forest was fitted to; the leaves refer to these rows.
    """
    trees = _fitted_trees(forest)
    matrix = np.asarray(X, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != forest.n_features_in_:
        raise InputError(
            f"X needs the forest's {forest.n_features_in_} features, got shape {matrix.shape}"
        )
    rows = TrainingRows.of(matrix, np.asarray(y, dtype=np.float64), None, ids=None, steps=None)
    values, ranks = np.unique(rows.y, return_inverse=True)
    bins = _bins(trees, forest.n_features_in_)
    samples = _samples(forest, rows.y.size)
    as_trained = np.asarray(rows.X, dtype=np.float32)
    order = np.argsort(ranks, kind="stable")
    numbers = np.empty(order.size, dtype=entry_type(order.size))
    numbers[order] = np.arange(order.size)
    ours = [
        _convert(tree, bins, tree.apply(as_trained)[sample], numbers[sample])
        for tree, sample in zip(trees, samples, strict=True)
    ]
    atoms = find_atoms(ranks, rows.episodes, rows.steps)
    counts = np.bincount(ranks)
    support = Support.of(values, atoms, counts.astype(np.float64), smooth=smooth)
    table = assemble(ours, bins, support, counts)
    check_table(table)
    return table, RowOrigins.of(rows.take(order), order)


def _fitted_trees(forest: Any) -> list[Any]:
    if not hasattr(forest, "estimators_"):
        raise UnfittedError(f"this {type(forest).__name__} is not fitted yet; fit it first")
    trees = [getattr(estimator, "tree_", None) for estimator in forest.estimators_]
    if any(tree is None or tree.n_outputs != 1 or tree.n_classes[0] != 1 for tree in trees):
        raise InputError(
            "`forest` needs a scikit-learn regression forest for one outcome, such as "
            "RandomForestRegressor, "
            f"got {type(forest).__name__}"
        )
    return trees


def _samples(forest: Any, n_rows: int) -> list[IndexArray]:
    """The training rows of each tree; a row is repeated as often as it was drawn."""
    if not forest.bootstrap:
        return [np.arange(n_rows)] * len(forest.estimators_)
    samples: list[IndexArray] = forest.estimators_samples_
    if any(int(sample.max()) >= n_rows for sample in samples):
        raise InputError(f"X needs all rows that the forest was fitted on, got only {n_rows}")
    return samples


def _bins(trees: list[Any], n_features: int) -> BinTable:
    """The bins of each feature, with one edge for each distinct threshold of the trees."""
    feature = np.concatenate([tree.feature for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    edges = [np.unique(_float32_edges(threshold[feature == f])) for f in range(n_features)]
    for f, part in enumerate(edges):
        if part.size >= MAX_BINS:
            raise InputError(
                f"a feature needs fewer than {MAX_BINS} distinct thresholds to be converted, got "
                f"{part.size} for feature {f}; fit fewer trees or larger leaves, or round the "
                f"feature"
            )
    return bin_table(edges, {})


def _float32_edges(threshold: FloatArray) -> FloatArray:
    """For each threshold, the largest float64 that does not exceed it after rounding to float32.

    Scikit-learn rounds features to float32 before it compares them. With these edges, no rounding
    is needed.
    """
    rounded = threshold.astype(np.float32)
    low = np.where(
        rounded.astype(np.float64) > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded
    )
    high = np.nextafter(low, np.float32(np.inf))
    middle: FloatArray = 0.5 * low.astype(np.float64) + 0.5 * high.astype(np.float64)
    # A tie rounds to the even neighbour, which may be the upper one.
    return np.where(middle.astype(np.float32) > low, np.nextafter(middle, -np.inf), middle)


def _convert(tree: Any, bins: BinTable, leaf_of_row: IndexArray, numbers: IntArray) -> Tree:
    """One scikit-learn tree in the format of `QuantileForest`.

    The two children of a node are neighbours, and the rows of each leaf are sorted.
    """
    is_split = tree.children_left >= 0
    splits = np.flatnonzero(is_split)
    first_child = 1 + 2 * np.arange(splits.size, dtype=np.int64)
    place = np.zeros(tree.node_count, dtype=np.int64)
    place[tree.children_left[splits]] = first_child
    place[tree.children_right[splits]] = first_child + 1

    feature = tree.feature[splits].astype(np.int64)
    edges = _float32_edges(tree.threshold[splits])
    code = np.array(
        [
            np.searchsorted(bins.edges[bins.start[f] : bins.start[f + 1]], edge)
            for f, edge in zip(feature, edges, strict=True)
        ],
        dtype=np.int64,
    )
    slot = feature + np.where(tree.missing_go_to_left[splits] != 0, bins.categorical.size, 0)
    nodes = np.zeros(tree.node_count, dtype=np.int64)
    nodes[place[splits]] = (slot << 48) | (code << 32) | first_child

    size = np.bincount(place[leaf_of_row], minlength=tree.node_count)
    leaves = np.flatnonzero(np.isin(np.arange(tree.node_count), place[splits], invert=True))
    if (size[leaves] == 0).any():
        raise InputError(
            "X needs the rows that the forest was fitted on; with these rows, a leaf is empty"
        )
    start = np.cumsum(size) - size
    nodes[leaves] = (size[leaves] << 32 | start[leaves]) | np.int64(-(1 << 63))
    return Tree(nodes, numbers[np.lexsort((numbers, place[leaf_of_row]))], np.empty(0))
