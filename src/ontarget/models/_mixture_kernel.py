"""The CDF of a mixture of models, from the answers of its parts, for runs in progress."""

from __future__ import annotations

from ontarget._kernel import kernel
from ontarget._typing import FloatArray


@kernel
def blend(found: FloatArray, weights: FloatArray, left: FloatArray, right: FloatArray) -> None:
    """Write P(Y < y) and P(Y <= y) of a mixture of models, exactly as `weighted` computes them.

    ``found`` holds the answers of the parts: (parts, 2, rows, values), where the second axis is P(Y
    < y) and P(Y <= y). ``left`` and ``right`` are (rows, values).
    """
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            for side in range(2):
                total, certain = 0.0, True
                for part in range(weights.size):
                    limit = found[part, side, i, j]
                    total = weights[part] * limit + (total if part > 0 else 0.0)
                    certain = certain and limit == 1.0
                total = 1.0 if certain else min(total, 1.0)
                if side == 0:
                    left[i, j] = total
                else:
                    right[i, j] = total
