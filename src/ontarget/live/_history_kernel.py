"""What live runs remember of earlier steps, compiled: the columns that recorded states have, too.

A run's memory has one row for each of its last k steps, the latest first: the features, then what
came with them. Below are the sums of all that was seen so far, and how many there were of each.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import BoolArray, FloatArray, IndexArray

__all__ = ["recall_rows"]


@kernel
def recall_rows(
    memory: FloatArray,
    at: IndexArray,
    brought: FloatArray,
    measured: BoolArray,
    states: FloatArray,
) -> None:
    """Complete the states of runs in rows ``at`` by what they remember, and remember the states.

    The first columns of ``states`` hold the features, ``brought`` what came with them, NaN for
    nothing. ``measured`` are the features that have a mean.
    """
    k, d = memory.shape[1] - 2, memory.shape[2] - 1
    for i in range(at.size):
        own, row = memory[at[i]], states[i]
        for lag in range(k):
            for j in range(d):
                row[(lag + 1) * d + j] = own[lag, j]
        for lag in range(k - 1, 0, -1):
            own[lag] = own[lag - 1]
        for j in range(d + 1):
            seen = row[j] if j < d else brought[i]
            known = np.isfinite(seen)
            own[0, j] = seen if known else np.nan
            if known:
                own[k, j] += seen
                own[k + 1, j] += 1.0
        place = (k + 1) * d
        for lag in range(k):
            row[place] = own[lag, d]
            place += 1
        for j in range(d + 1):
            if j == d or measured[j]:
                row[place] = own[k, j] / own[k + 1, j] if own[k + 1, j] > 0.0 else np.nan
                place += 1
