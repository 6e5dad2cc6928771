"""One row's outlook from its CDF limits: the piece that the live watch and the batch share."""

from __future__ import annotations

import numpy as np

from ontarget.conformal.kernels import end_counts, target_row
from ontarget.kernel import kernel
from ontarget.typing import FloatArray, IndexArray

__all__ = ["excess_of_rows", "outlook_of_row", "outlook_of_rows", "shift_ends", "snap_value"]


@kernel
def shift_ends(values: FloatArray, behavior: float, grid: FloatArray, ends: FloatArray) -> None:
    """Write each target end less the behavior so far, both on the grid (M1).

    ``grid`` holds the spacing and the exact power of ten to scale by, 0 where there is none.
    """
    offset = snap_value(behavior, grid)
    for i in range(values.size):
        ends[i] = snap_value(values[i] - offset, grid)


@kernel
def snap_value(value: float, grid: FloatArray) -> float:
    """The value on the grid, as `ontarget.grid.snap` gives it."""
    spacing, scale = grid[0], grid[1]
    snapped = np.rint(value * scale) / scale if scale > 0.0 else np.rint(value / spacing) * spacing
    return (snapped if np.isfinite(snapped) else value) + 0.0


@kernel
def _distance(ranks: FloatArray, a_minus: float, a_plus: float) -> float:
    """How far outside ½ a component lies: max(0, c(a⁻) − ½, ½ − c(a⁺)), one division (M9)."""
    if ranks.size == 0:
        return 0.0
    whole = ranks.size + 1
    minus_lo, minus_hi = end_counts(ranks, a_minus)
    plus_lo, plus_hi = end_counts(ranks, a_plus)
    far = max(0, max(minus_lo + minus_hi - whole, whole - plus_lo - plus_hi))
    return far / (2 * whole)


@kernel
def _plausibility(
    ranks: FloatArray, excess: FloatArray, a_minus: FloatArray, a_plus: FloatArray
) -> float:
    """(1 + #{M_i ≥ s})/(m + 1) with the least distance s of the components; 0 if there is none."""
    if a_minus.size == 0:
        return 0.0
    nearest = np.inf
    for c in range(a_minus.size):
        nearest = min(nearest, _distance(ranks, a_minus[c], a_plus[c]))
    reached = excess.size - np.searchsorted(excess, nearest)
    return (1 + reached) / (excess.size + 1)


@kernel
def outlook_of_row(
    ranks: FloatArray,
    excess: FloatArray,
    limits: FloatArray,
    columns: IndexArray,
    first: IndexArray,
    out: FloatArray,
) -> None:
    """Write (low, p, high, plausibility, assurance) of each target.

    ``limits`` are the left limits at the finite ends, then the right ones, then -inf and +inf;
    ``columns`` say where each component's two limits stand among them. The components of all
    targets come first, then those of their complements; ``first`` says where each one's start.
    """
    n_targets = (first.size - 1) // 2
    a_minus = np.empty(columns.shape[1])
    a_plus = np.empty(columns.shape[1])
    for c in range(columns.shape[1]):
        a_minus[c] = limits[columns[0, c]]
        a_plus[c] = limits[columns[1, c]]
    whole = ranks.size + 1
    for j in range(n_targets):
        own = slice(first[j], first[j + 1])
        low, mid, high = target_row(ranks, a_minus[own], a_plus[own])
        out[j, 0] = low / whole
        out[j, 1] = mid / (2 * whole)
        out[j, 2] = high / whole
        out[j, 3] = _plausibility(ranks, excess, a_minus[own], a_plus[own])
        rest = slice(first[n_targets + j], first[n_targets + j + 1])
        out[j, 4] = 1.0 - _plausibility(ranks, excess, a_minus[rest], a_plus[rest])


@kernel
def outlook_of_rows(
    ranks: FloatArray,
    excess: FloatArray,
    left: FloatArray,
    right: FloatArray,
    columns: IndexArray,
    first: IndexArray,
    out: FloatArray,
) -> None:
    """Write the outlook of each row, from both limits at every finite end."""
    m = left.shape[1]
    limits = np.empty(2 * m + 2)
    limits[2 * m] = -np.inf
    limits[2 * m + 1] = np.inf
    for i in range(left.shape[0]):
        limits[:m] = left[i]
        limits[m : 2 * m] = right[i]
        outlook_of_row(ranks, excess, limits, columns, first, out[i])


@kernel
def excess_of_rows(ranks: FloatArray, left: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Write d_t(y): how far outside ½ each outcome lies, from both CDF limits at it (M9)."""
    for i in range(left.size):
        out[i] = _distance(ranks, left[i], right[i])
