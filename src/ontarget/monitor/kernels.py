"""Outlooks from CDF limits, row by row: the piece that live watches and the batch share."""

from __future__ import annotations

import numpy as np

from ontarget.conformal.kernels import end_counts, target_row
from ontarget.kernel import inner_kernel, kernel
from ontarget.typing import FloatArray, IndexArray

__all__ = ["excess_of_rows", "outlook_of_rows", "shift_ends", "snap_value"]


@kernel
def shift_ends(
    values: FloatArray, behavior: FloatArray, grid: FloatArray, ends: FloatArray
) -> None:
    """Write, for each row, every target end less the behavior so far, both on the grid (M1).

    ``grid`` holds the spacing and the exact power of ten to scale by, 0 where there is none.
    """
    for i in range(behavior.size):
        offset = snap_value(behavior[i], grid)
        for k in range(values.size):
            ends[i, k] = snap_value(values[k] - offset, grid)


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


@inner_kernel
def _outlook_of_row(
    ranks: FloatArray,
    excess: FloatArray,
    limits: tuple[FloatArray, FloatArray],
    first: IndexArray,
    out: FloatArray,
) -> None:
    """Write (low, p, high, plausibility, assurance) of each target."""
    a_minus, a_plus = limits
    n_targets = (first.size - 1) // 2
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
    stored: tuple[FloatArray, FloatArray],
    spans: IndexArray,
    limits: tuple[FloatArray, FloatArray],
    components: tuple[IndexArray, IndexArray],
    out: FloatArray,
) -> None:
    """Write (low, p, high, plausibility, assurance) of each row and target.

    ``stored`` are sorted ranks and sorted excesses of assure episodes, one set after the other;
    row i has those from ``spans[i, 0]`` to ``spans[i, 1]`` and from ``spans[i, 2]`` to
    ``spans[i, 3]``. ``limits`` are the left and right ones at each finite end, (rows, ends).
    ``components`` say which limits each component has, among the left ones, the right ones, -inf
    and +inf, and where each target's components start: those of all targets come first, then
    those of their complements.
    """
    left, right = limits
    columns, first = components
    n_ends, n_components = left.shape[1], columns.shape[1]
    every = np.empty(2 * n_ends + 2)
    every[2 * n_ends] = -np.inf
    every[2 * n_ends + 1] = np.inf
    a_minus, a_plus = np.empty(n_components), np.empty(n_components)
    for i in range(left.shape[0]):
        every[:n_ends] = left[i]
        every[n_ends : 2 * n_ends] = right[i]
        for c in range(n_components):
            a_minus[c] = every[columns[0, c]]
            a_plus[c] = every[columns[1, c]]
        ranks = stored[0][spans[i, 0] : spans[i, 1]]
        excess = stored[1][spans[i, 2] : spans[i, 3]]
        _outlook_of_row(ranks, excess, (a_minus, a_plus), first, out[i])


@kernel
def excess_of_rows(ranks: FloatArray, left: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Write d_t(y): how far outside ½ each outcome lies, from both CDF limits at it (M9)."""
    for i in range(left.size):
        out[i] = _distance(ranks, left[i], right[i])
