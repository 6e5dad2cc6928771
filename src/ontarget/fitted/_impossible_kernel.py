"""Takes outcomes that never happen out of a predicted distribution, and scales up the rest."""

from __future__ import annotations

from ontarget._kernel import kernel
from ontarget._typing import FloatArray

# If the rest has less probability than this, the distribution stays as it is.
_LEAST_REST = 1e-3


@kernel
def leave_out(
    values: FloatArray,
    limits: tuple[FloatArray, FloatArray],
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write P(outcome < v) and P(outcome <= v) for each row, given that some values never happen.

    ``values`` is (rows, m + k): m values v that are asked about, then the k impossible ones.
    ``limits`` are the two predicted probabilities at all of them. ``out`` is (rows, m), twice.
    """
    left, right = limits
    n_asked, n_values = out[0].shape[1], values.shape[1]
    for i in range(values.shape[0]):
        rest = 1.0
        for v in range(n_asked, n_values):
            rest -= right[i, v] - left[i, v]
        for j in range(n_asked):
            low, high = left[i, j], right[i, j]
            if rest >= _LEAST_REST:
                for v in range(n_asked, n_values):
                    mass = right[i, v] - left[i, v]
                    low -= mass if values[i, v] < values[i, j] else 0.0
                    high -= mass if values[i, v] <= values[i, j] else 0.0
                low, high = low / rest, high / rest
            out[0][i, j] = min(max(low, 0.0), 1.0)
            out[1][i, j] = min(max(high, out[0][i, j]), 1.0)
