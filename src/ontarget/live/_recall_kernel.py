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
from ontarget.episodes.history import CHANGE, COUNT, FEATURE, MEAN, REWARD


@kernel
def recall_rows(
    memory: FloatArray,
    lags: int,
    at: IndexArray,
    brought: FloatArray,
    columns: IntArray,
    states: FloatArray,
) -> None:
    """Fill in the columns of ``states`` behind the features, for the runs in rows ``at``.

    It also stores the new states in ``memory``. ``brought`` is what came with each state (such as a
    reward), or NaN. ``columns`` says what each column holds; see `History.columns`.
    """
    width = memory.shape[2]
    d = width - 1
    for i in range(at.size):
        own, row = memory[at[i]], states[i]
        for c in range(columns.shape[0]):
            holds, j, number = columns[c, 0], columns[c, 1], columns[c, 2]
            if holds == FEATURE:
                row[d + c] = own[number - 1, j]
            elif holds == CHANGE:
                row[d + c] = row[j] - own[0, j]
        for lag in range(lags - 1, 0, -1):
            own[lag] = own[lag - 1]
        for j in range(width):
            seen = row[j] if j < d else brought[i]
            known = np.isfinite(seen)
            if lags:
                own[0, j] = seen if known else np.nan
            if known:
                own[lags, j] += seen
                own[lags + 1, j] += 1.0
        counted = 0
        for c in range(columns.shape[0]):
            holds, j, number = columns[c, 0], columns[c, 1], columns[c, 2]
            if holds == REWARD:
                row[d + c] = own[number - 1, d]
            elif holds == MEAN:
                n = own[lags + 1, j]
                row[d + c] = own[lags, j] / n if n > 0.0 else np.nan
            elif holds == COUNT:
                k, place = lags + 2 + counted // width, counted % width
                counted += 1
                if row[j] == number:
                    own[k, place] += 1.0
                row[d + c] = own[k, place]
