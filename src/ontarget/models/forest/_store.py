"""Forests as flat arrays: put together from trees, and written to and checked from model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.errors import InputError
from ontarget.models._support import Support
from ontarget.models.base import TrainingRows
from ontarget.models.forest._asking_kernel import LOW31, LOW32, MAX_SLOTS, ForestTable
from ontarget.models.forest._binning_kernel import MISSING, BinTable
from ontarget.models.stored import flat_array, partitions, require, rises_within

_SMALL = np.iinfo(np.uint16).max


class RowOrigins(NamedTuple):
    """The episode and the step of each training row, rows sorted as by `in_canonical_order`.

    Episodes are numbered in the order of their sorted ids, or as `number_episodes` sets them; in a
    monitor, the number is the episode's position in the learn part. Steps are stored as they are if
    they are whole numbers from 0 to below 2**32; otherwise they are numbered in order.
    """

    episode: IntArray  # uint16, or uint32 where a number needs it; so is the step
    step: IntArray

    @classmethod
    def of(cls, rows: TrainingRows) -> Self:
        """The episode and the step of each row; rows must be sorted as by `in_canonical_order`."""
        labels = rows.step_labels
        kept = labels.dtype.kind in "iu" and labels[0] >= 0 and labels[-1] < 2**32
        step = labels[rows.steps] if kept else rows.steps
        return cls(in_few_bytes(rows.units), in_few_bytes(step))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_rows: int) -> Self:
        """The episode and the step of each training row, from arrays, or a `ModelFileError`."""
        return cls(_numbers(arrays, "row_episode", n_rows), _numbers(arrays, "row_step", n_rows))

    def to_arrays(self) -> dict[str, AnyArray]:
        """The episode and the step of each training row, as flat read-only arrays by name."""
        return {"row_episode": self.episode, "row_step": self.step}


def in_few_bytes(numbers: AnyArray) -> IntArray:
    """Whole numbers from 0 up as 16-bit integers, or as 32-bit integers if one needs it."""
    return read_only(numbers.astype(_type_of(numbers)))


def _numbers(arrays: Mapping[str, AnyArray], name: str, n_rows: int) -> IntArray:
    wide = name in arrays and arrays[name].dtype == np.uint32
    found: IntArray = flat_array(arrays, name, np.uint32 if wide else np.uint16)
    require(found.size == n_rows, f"{name} needs one number per training row ({n_rows})")
    require(
        found.dtype == _type_of(found), f"{name} needs two-byte numbers unless one is above 65,535"
    )
    return found


def _type_of(numbers: AnyArray) -> type[np.unsignedinteger]:
    return np.uint16 if numbers.max() <= _SMALL else np.uint32


_CODES = "tree_codes needs one code per tree and category"


class Tree(NamedTuple):
    """One grown tree; its nodes, and the entries of its leaves (training rows), as arrays."""

    nodes: IntArray
    entries: IntArray
    shares: FloatArray
    recodes: IntArray  # uint16: the tree's own codes of all categories; empty if it has none


def entry_type(n_rows: int) -> type[np.unsignedinteger]:
    """The integer type of leaf entries, which are numbers of training rows."""
    return np.uint16 if n_rows <= np.iinfo(np.uint16).max + 1 else np.uint32


def assemble(trees: list[Tree], bins: BinTable, support: Support, n_rows: IntArray) -> ForestTable:
    """The forest of these trees; ``n_rows`` is the number of training rows with each outcome."""
    # The list of trees is emptied on the way, so that memory holds every tree only once.
    n_nodes = sum(tree.nodes.size for tree in trees)
    n_entries = sum(tree.entries.size for tree in trees)
    if max(n_nodes, n_entries) > LOW32:
        raise InputError(
            f"a forest needs fewer than {LOW32:,} entries, got {n_entries:,}; "
            "lower n_trees or max_samples"
        )
    nodes = np.empty(n_nodes, dtype=np.int64)
    entries = np.empty(n_entries, dtype=trees[0].entries.dtype)
    shares = np.empty(sum(tree.shares.size for tree in trees))
    roots = np.empty(len(trees), dtype=np.int64)
    recodes = np.concatenate([tree.recodes for tree in trees])
    node, entry = n_nodes, n_entries
    for t in reversed(range(len(trees))):
        tree = trees.pop()
        node, entry = node - tree.nodes.size, entry - tree.entries.size
        roots[t] = node
        # A leaf points to entries, a split to nodes; both move by where the tree is put.
        nodes[node : node + tree.nodes.size] = tree.nodes + np.where(tree.nodes < 0, entry, node)
        entries[entry : entry + tree.entries.size] = tree.entries
        if tree.shares.size:
            shares[entry : entry + tree.shares.size] = tree.shares
    bins = drop_unused_edges(nodes, bins)
    return ForestTable(
        bins=bins,
        nodes=read_only(nodes),
        roots=read_only(roots),
        entries=read_only(entries),
        row_start=read_only(np.concatenate([[0], np.cumsum(n_rows)]).astype(np.uint32)),
        shares=read_only(shares),
        support=support.as_tuple(),
        recodes=read_only(recodes),
    )


def drop_unused_edges(nodes: IntArray, bins: BinTable) -> BinTable:
    """The bins without the edges that no split uses; updates the codes in ``nodes`` in place."""
    n_features = bins.categorical.size
    splits = np.flatnonzero(nodes >= 0)
    feature = (nodes[splits] >> 48) % max(1, n_features)
    code = (nodes[splits] >> 32) & MISSING
    numeric = ~bins.categorical[feature]
    splits, feature, code = splits[numeric], feature[numeric], code[numeric]
    n_edges = np.diff(bins.start)
    # A cut beyond the last edge has known values on the left and missing ones on the right.
    real = code < n_edges[feature]
    used = np.repeat(bins.categorical, n_edges)
    used[bins.start[feature[real]] + code[real]] = True
    place = np.concatenate([[0], np.cumsum(used)])
    start = place[bins.start]
    old_place = bins.start[feature] + np.minimum(code, n_edges[feature])
    nodes[splits] += (place[old_place] - start[feature] - code) << 32
    return BinTable(
        edges=read_only(bins.edges[used]),
        start=read_only(start.astype(np.int64)),
        categorical=bins.categorical,
        order=read_only(bins.order[used]) if bins.order.size else bins.order,
    )


def table_to_arrays(table: ForestTable) -> dict[str, AnyArray]:
    """The forest as flat read-only arrays by name."""
    values, atoms, tail = table.support
    own = {"tree_codes": table.recodes} if table.recodes.size else {}
    return {
        "support": values,
        "atoms": atoms,
        "tail": tail,
        "edges": table.bins.edges,
        "edge_start": table.bins.start,
        "categorical": table.bins.categorical,
        "category_order": table.bins.order,
        "nodes": table.nodes,
        "roots": table.roots,
        "entries": table.entries,
        "row_start": table.row_start,
        "shares": table.shares,
        **own,
    }


def table_from_arrays(arrays: Mapping[str, AnyArray]) -> ForestTable:
    """The forest in these arrays, after checking that every index is in bounds."""
    support = Support.from_arrays(arrays)
    bins = BinTable(
        edges=flat_array(arrays, "edges", np.float64),
        start=flat_array(arrays, "edge_start", np.int64),
        categorical=flat_array(arrays, "categorical", np.bool_),
        order=flat_array(arrays, "category_order", np.uint16),
    )
    row_start = flat_array(arrays, "row_start", np.uint32)
    require(
        row_start.size == support.values.size + 1, "row_start needs one number more than support"
    )
    rising = row_start[0] == 0 and (row_start[1:] > row_start[:-1]).all()
    require(bool(rising), "row_start needs to rise from 0")
    table = ForestTable(
        bins=bins,
        nodes=flat_array(arrays, "nodes", np.int64),
        roots=flat_array(arrays, "roots", np.int64),
        entries=flat_array(arrays, "entries", entry_type(int(row_start[-1]))),
        row_start=row_start,
        shares=flat_array(arrays, "shares", np.float64),
        support=support.as_tuple(),
        recodes=_recodes_in(arrays),
    )
    _check_table(table)
    return table


def _recodes_in(arrays: Mapping[str, AnyArray]) -> IntArray:
    """Each tree's own codes of categories; files of 0.2 have none, and one order for all trees."""
    if "tree_codes" not in arrays:
        return read_only(np.empty(0, dtype=np.uint16))
    found = flat_array(arrays, "tree_codes", np.uint16)
    require(found.size > 0, _CODES)
    return found


def _check_table(table: ForestTable) -> None:
    """Raise a `ModelFileError` unless all indices are in bounds and every path ends in a leaf."""
    check_bins(table.bins)
    n_categories = np.diff(table.bins.start)[table.bins.categorical].sum()
    require(
        table.recodes.size in (0, table.roots.size * n_categories),
        _CODES,
    )
    if table.recodes.size:
        place = np.arange(table.bins.order.size) - np.repeat(
            table.bins.start[:-1], np.diff(table.bins.start)
        )
        named = np.repeat(table.bins.categorical, np.diff(table.bins.start))
        require(
            bool((table.bins.order == place)[named].all()),
            "category_order needs the places of categories where trees have own codes",
        )
    require(bool((table.recodes < MISSING).all()), "tree_codes needs codes that are bins")
    starts = _check_nodes(table)
    entries, shares = table.entries, table.shares
    require(
        entries.max() < table.row_start[-1],
        "entries need to be numbers of training rows that exist",
    )
    inside = np.ones(entries.size, dtype=np.bool_)
    inside[starts] = False  # an entry that continues its leaf
    rising = entries[1:] >= entries[:-1]
    require(bool(rising[inside[1:]].all()), "entries need to ascend within a leaf")
    if shares.size:
        require(shares.shape == entries.shape, "shares needs one number per entry")
        require(bool(((shares >= 0.0) & (shares <= 1.0)).all()), "shares needs numbers from 0 to 1")
        rising = shares[1:] >= shares[:-1]
        require(bool(rising[inside[1:]].all()), "shares need to rise within a leaf")
        ends = np.append(starts[1:], entries.size) - 1
        require(bool((shares[ends] == 1.0).all()), "shares need to end at 1 in each leaf")


def _check_nodes(table: ForestTable) -> IntArray:
    """Check every node; return the sorted starts of all leaves."""
    nodes, roots = table.nodes, table.roots
    require(roots.size > 0 and nodes.size > 0, "a forest needs at least one tree")
    require(max(nodes.size, table.entries.size) <= LOW32, f"a forest needs up to {LOW32:,} entries")
    rising = roots[0] == 0 and (roots[1:] > roots[:-1]).all() and roots[-1] < nodes.size
    require(bool(rising), "roots need to rise from 0, within the nodes")
    splits = np.flatnonzero(nodes >= 0)
    child = nodes[splits] & LOW32
    end = np.append(roots[1:], nodes.size)[np.searchsorted(roots, splits, side="right") - 1]
    # Children come after their parent and within its tree, so that every descent ends.
    require(
        bool(((child > splits) & (child + 1 < end)).all()),
        "in nodes, a split has children that are not after it in its tree",
    )
    slot, code = nodes[splits] >> 48, (nodes[splits] >> 32) & MISSING
    require(
        bool((slot < 2 * table.bins.categorical.size).all()),
        "in nodes, a split has a feature that does not exist",
    )
    require(bool((code < MISSING).all()), "in nodes, a split has a code that is not a bin")
    leaves = nodes[nodes < 0]
    start, size = leaves & LOW32, (leaves >> 32) & LOW31
    order = np.argsort(start)
    start, size = start[order], size[order]
    covered = bool((size > 0).all()) and start[0] == 0
    covered = covered and bool((start[1:] == start[:-1] + size[:-1]).all())
    require(
        covered and start[-1] + size[-1] == table.entries.size,
        "the leaves in nodes need to cover entries exactly once",
    )
    return np.asarray(start)


def check_bins(bins: BinTable) -> None:
    """Raise a `ModelFileError` unless every feature's bins are in bounds and in order."""
    n_features, start = bins.categorical.size, bins.start
    most = MAX_SLOTS // 2
    require(1 <= n_features <= most, f"a forest needs 1 to {most} features, got {n_features}")
    require(
        start.size == n_features + 1, "edge_start needs one number more than there are features"
    )
    bounded = partitions(start, bins.edges.size)
    require(bounded, "edge_start needs to rise from 0 to the number of edges")
    few = start[1:] <= start[:-1] + MISSING  # both lie within the edges by now
    require(bool(few.all()), f"a feature needs at most {MISSING} edges")
    require(rises_within(bins.edges, start), "edges need to rise within a feature")
    require(not np.isnan(bins.edges).any(), "edges need numbers, got NaN")
    if bins.categorical.any() or bins.order.size:
        require(bins.order.size == bins.edges.size, "category_order needs one code per edge")
        require(bool((bins.order < MISSING).all()), "category_order needs codes that are bins")
