"""A mixture of models for rows that come live."""

from __future__ import annotations

from ontarget._kernel import kernel
from ontarget._typing import FloatArray

__all__ = ["blend"]


@kernel
def blend(found: FloatArray, weights: FloatArray, left: FloatArray, right: FloatArray) -> None:
    """Write both limits of a mixture, bit for bit as `weighted` adds them up.

    ``found`` is (parts, 2, rows, values): what each part answered.
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
