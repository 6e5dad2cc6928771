"""Compiled code that gives the states of live runs the columns of their history.

Recorded states have the same columns (`ontarget.episodes.history`). A run's memory has one row for
each of the last steps, the latest first: the features, then the reward (or behavior) that came with
them. Then come the sums of all values so far, how many values are in each sum, and in the rows
after these how often each counted category has occurred.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import FloatArray, IndexArray, IntArray


@kernel
def recall_rows(
    memory: FloatArray,
    lags: int,
    at: IndexArray,
    brought: FloatArray,
    columns: tuple[IntArray, IntArray, IntArray, IntArray, IntArray],
    states: FloatArray,
) -> None:
    """Fill in the columns of ``states`` behind the features, for the runs in rows ``at``.

    It also stores the new states in ``memory``. ``brought`` is what came with each state (such as a
    reward), or NaN. ``columns`` says for each kind of column where it is in a state, the position
    of its feature, and a number; see `History.by_kind`.
    """
    earlier, rewards, changes, means, counts = columns
    width = memory.shape[2]
    for i in range(at.size):
        own, row = memory[at[i]], states[i]
        for c in range(earlier.shape[0]):
            row[earlier[c, 0]] = own[earlier[c, 2] - 1, earlier[c, 1]]
        for c in range(changes.shape[0]):
            row[changes[c, 0]] = row[changes[c, 1]] - own[0, changes[c, 1]]
        for lag in range(lags - 1, 0, -1):
            own[lag] = own[lag - 1]
        for j in range(width):
            seen = row[j] if j < width - 1 else brought[i]
            known = np.isfinite(seen)
            if lags:
                own[0, j] = seen if known else np.nan
            if known:
                own[lags, j] += seen
                own[lags + 1, j] += 1.0
        for c in range(rewards.shape[0]):
            row[rewards[c, 0]] = own[rewards[c, 2] - 1, width - 1]
        for c in range(means.shape[0]):
            n = own[lags + 1, means[c, 1]]
            row[means[c, 0]] = own[lags, means[c, 1]] / n if n > 0.0 else np.nan
        for c in range(counts.shape[0]):
            k, place = lags + 2 + c // width, c % width
            if row[counts[c, 1]] == counts[c, 2]:
                own[k, place] += 1.0
            row[counts[c, 0]] = own[k, place]
