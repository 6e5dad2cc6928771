"""What the leaves of a forest say, for tests that compare its answers with them."""

from __future__ import annotations

import numpy as np

from ontarget.models import QuantileForest


def mass_by_outcome(forest: QuantileForest, rows: np.ndarray) -> np.ndarray:
    """The weight of each distinct training outcome for each row, before smoothing."""
    weights = forest.row_weights(rows).toarray()
    ends = np.column_stack([np.zeros(len(weights)), np.cumsum(weights, axis=1)])
    return np.diff(ends[:, forest.to_arrays()["row_start"]], axis=1)
