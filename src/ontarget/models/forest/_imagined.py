"""Imagined outcomes: how a run might have ended, predicted from its state a few steps later.

If the state says all that matters for the rest of a run (a Markov process), the distribution
predicted a few steps later is less noisy than the single outcome that the run had, so it is better
to learn from. Half of the trees of a forest store such imagined outcomes. See method M23 in
docs/methods.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray, IntArray
from ontarget.models.base import TrainingRows
from ontarget.models.forest._asking_kernel import ForestTable
from ontarget.models.forest._bags import Bags
from ontarget.models.forest._batch_kernel import leaves_of_rows
from ontarget.models.forest._node_kernel import LOW31, LOW32
from ontarget.models.forest._store import Tree

__all__ = ["COLUMNS", "column_of", "imagined_ranks", "with_imagined"]

COLUMNS: Final = 8  # imagined outcomes of a row
_AHEAD: Final = 3  # so many rows later in its run a row's successor stands, if there are so many
_BLOCK: Final = 4096


def column_of(tree: int) -> int | None:
    """Which column of imagined outcomes a tree stores, by the tree's number.

    An imagined outcome is how a run might have ended. The result is None for every second tree,
    which stores the recorded outcomes.
    """
    return None if tree % 2 == 0 else (tree // 2) % COLUMNS


def imagined_ranks(
    rows: TrainingRows, values: FloatArray, table: ForestTable, bags: Bags
) -> IntArray:
    """The imagined outcomes of each row, as indices of distinct outcomes: (columns, rows).

    An imagined outcome is how a run might have ended. It is drawn from the distribution predicted
    at the row's successor (a few steps later), by trees that have not seen the episode. What was
    earned in between is added, and the sum is rounded to the nearest training outcome, so that
    outcomes with positive probability (atoms) keep it. A row without a successor, or whose episode
    every tree has seen, keeps its own outcome.
    """
    successor = successors_of(rows)
    own = np.searchsorted(values, rows.y)
    found = np.tile(own, (COLUMNS, 1))
    outcomes = np.repeat(values, np.diff(table.row_start))
    rng = np.random.default_rng([*bags.sampling.seed, 23])
    everywhere: BoolArray = np.all(bags.held, axis=0)
    able = np.flatnonzero((successor >= 0) & ~everywhere[rows.units])
    for a in range(0, able.size, _BLOCK):
        some = able[a : a + _BLOCK]
        there = successor[some]
        leaves = np.empty((some.size, table.roots.size), dtype=np.uint32)
        leaves_of_rows(table, np.ascontiguousarray(rows.X[there]), leaves)
        unseen = ~bags.held[:, rows.units[some]].T
        earned = rows.y[some] - rows.y[there]
        for column in range(COLUMNS):
            drawn = outcomes[_entries(table, leaves, unseen, rng)]
            found[column, some] = _nearest(values, drawn + earned)
    return found


def successors_of(rows: TrainingRows) -> IndexArray:
    """For each row, the row three rows later in the same episode, or the episode's last row.

    The result is -1 for the last row of an episode.
    """
    order = np.lexsort([rows.steps, rows.units])
    unit = rows.units[order]
    place = np.arange(order.size)
    last = np.searchsorted(unit, unit, side="right") - 1
    ahead = np.minimum(place + _AHEAD, last)
    found = np.full(order.size, -1, dtype=np.intp)
    found[order] = np.where(ahead > place, order[ahead], -1)
    return found


def with_imagined(tree: Tree, ranks: IntArray, row_start: IntArray) -> Tree:
    """The tree with imagined outcomes (how runs might have ended) in its leaves.

    The entries of a leaf are numbers of training rows. Each entry is replaced by the number of a
    training row whose recorded outcome equals the imagined outcome of the entry. Then the entries
    of each leaf are sorted again.
    """
    leaves = tree.nodes[tree.nodes < 0]
    start, size = leaves & LOW32, (leaves >> 32) & LOW31
    order = np.argsort(start)
    leaf = np.repeat(np.arange(order.size), size[order])
    rows = row_start[ranks[tree.entries]]
    entries = rows[np.lexsort([rows, leaf])].astype(tree.entries.dtype)
    return tree._replace(entries=entries)


def _entries(
    table: ForestTable, leaves: IntArray, unseen: BoolArray, rng: np.random.Generator
) -> IntArray:
    """For each row, one training row, drawn at random from a leaf that the row reaches.

    The leaf belongs to a random tree that has not seen the row's episode; ``unseen`` says which
    trees these are.
    """
    lots = np.where(unseen, rng.random(unseen.shape), -1.0)
    node = table.nodes[leaves[np.arange(len(leaves)), lots.argmax(axis=1)]]
    start, size = node & LOW32, (node >> 32) & LOW31
    found: IntArray = table.entries[start + (rng.random(len(leaves)) * size).astype(np.int64)]
    return found


def _nearest(values: FloatArray, wanted: FloatArray) -> IndexArray:
    """The index of the value that is nearest to each wanted number."""
    upper = np.clip(np.searchsorted(values, wanted), 1, max(values.size - 1, 1))
    upper = np.minimum(upper, values.size - 1)
    lower = np.maximum(upper - 1, 0)
    return np.where(wanted - values[lower] <= values[upper] - wanted, lower, upper)
