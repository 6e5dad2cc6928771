"""Compiled code that gives the states of live runs the columns of earlier steps.

Recorded states have the same columns. A run's memory has one row for each of its last k steps, the
latest first: the features, then the reward (or behavior) that came with them. The last two rows of
the memory are the sums of all values so far, and how many values are in each sum.
"""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import BoolArray, FloatArray, IndexArray


@kernel
def recall_rows(
    memory: FloatArray,
    at: IndexArray,
    brought: FloatArray,
    measured: BoolArray,
    states: FloatArray,
) -> None:
    """Fill in the columns of ``states`` that hold earlier steps, for the runs in rows ``at``.

    It also stores the new states in ``memory``. The first columns of ``states`` are the features.
    ``brought`` is what came with each state (such as a reward), or NaN. ``measured`` says which
    features are numbers (not categories), so that they have a mean.
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
