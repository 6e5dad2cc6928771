"""Outlooks from CDF limits, row by row: the piece that live watches and the batch share."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal._kernels import end_counts, target_row

__all__ = ["excess_of_rows", "outlook_of_rows", "scores_of_rows", "shift_ends", "snap_value"]


@kernel
def shift_ends(
    values: FloatArray, behavior: FloatArray, grid: FloatArray, ends: FloatArray
) -> None:
    """Write, for each row, every target end less the behavior so far, both on the grid (M1).

    ``grid`` holds the spacing and the exact power of ten to scale by, 0 where there is none.
    """
    for i in range(behavior.size):
        offset = _snap(behavior[i], grid)
        for k in range(values.size):
            ends[i, k] = _snap(values[k] - offset, grid)


@kernel
def snap_value(value: float, grid: FloatArray) -> float:
    """The value on the grid, as `ontarget._grid.snap` gives it."""
    return _snap(value, grid)


@inner_kernel
def _snap(value: float, grid: FloatArray) -> float:
    spacing, scale = grid[0], grid[1]
    snapped = np.rint(value * scale) / scale if scale > 0.0 else np.rint(value / spacing) * spacing
    return float((snapped if np.isfinite(snapped) else value) + 0.0)


@inner_kernel
def _distance(ranks: FloatArray, a_minus: float, a_plus: float) -> float:
    """How far outside ½ a component lies: max(0, c(a⁻) − ½, ½ − c(a⁺)), one division (M9)."""
    if ranks.size == 0:
        return 0.0
    whole = ranks.size + 1
    minus_lo, minus_hi = end_counts(ranks, a_minus)
    plus_lo, plus_hi = end_counts(ranks, a_plus)
    far = max(0, max(minus_lo + minus_hi - whole, whole - plus_lo - plus_hi))
    return far / (2 * whole)


@inner_kernel
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
def _score(a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The uncalibrated probability of a target whose components have these CDF limits."""
    total = 0.0
    for c in range(a_minus.size):
        total += min(a_plus[c], 1.0) - max(a_minus[c], 0.0)
    return min(max(total, 0.0), 1.0)


@inner_kernel
def _venn_abers(envelope: FloatArray, score: float, out: FloatArray) -> None:
    """Write (p0, p, p1) of a score; ``envelope`` is a part of `TargetCalibration.table` (M7)."""
    scores = envelope[0]
    below = np.searchsorted(scores, score)
    p0 = envelope[1, below + (1 if scores[below] == score else 0)]
    p1 = envelope[2, below]
    out[0] = p0
    # Between p0 and p1 in exact arithmetic; the bounds keep it there in floats.
    out[1] = min(max(p1 / (1.0 - p0 + p1), p0), p1)
    out[2] = p1


@inner_kernel
def _outlook_of_row(
    stored: tuple[FloatArray, FloatArray, FloatArray],
    limits: tuple[FloatArray, FloatArray],
    first: IndexArray,
    out: FloatArray,
) -> None:
    """Write (low, p, high, plausibility, assurance) of each target."""
    ranks, excess, envelope = stored
    a_minus, a_plus = limits
    n_targets = (first.size - 1) // 2
    whole = ranks.size + 1
    for j in range(n_targets):
        own = slice(first[j], first[j + 1])
        if envelope.shape[1] > 0:
            _venn_abers(envelope, _score(a_minus[own], a_plus[own]), out[j])
        else:
            low, mid, high = target_row(ranks, a_minus[own], a_plus[own])
            out[j, 0] = low / whole
            out[j, 1] = mid / (2 * whole)
            out[j, 2] = high / whole
        out[j, 3] = _plausibility(ranks, excess, a_minus[own], a_plus[own])
        rest = slice(first[n_targets + j], first[n_targets + j + 1])
        out[j, 4] = 1.0 - _plausibility(ranks, excess, a_minus[rest], a_plus[rest])


@inner_kernel
def _limit(limits: tuple[FloatArray, FloatArray], i: int, column: int) -> float:
    """Row i's limit in ``[left | right | -inf | +inf]``."""
    m = limits[0].shape[1]
    if column < m:
        return float(limits[0][i, column])
    if column < 2 * m:
        return float(limits[1][i, column - m])
    return -np.inf if column == 2 * m else np.inf


@kernel
def outlook_of_rows(
    stored: tuple[FloatArray, FloatArray, FloatArray],
    spans: IndexArray,
    limits: tuple[FloatArray, FloatArray],
    components: tuple[IndexArray, IndexArray],
    out: FloatArray,
) -> None:
    """Write (low, p, high, plausibility, assurance) of each row and target.

    ``stored`` are sorted ranks, sorted excesses of assure episodes, and a target's own envelopes
    (3, entries), one set after the other; row i has those from ``spans[i, 0]`` to ``spans[i, 1]``
    and so on. Without envelopes p is PCQR's. ``limits`` are the left and right ones at each finite
    end, (rows, ends). ``components`` say which limits each component has, among the left ones, the
    right ones, -inf and +inf, and where each target's components start: those of all targets come
    first, then those of their complements.
    """
    columns, first = components
    a_minus, a_plus = np.empty(columns.shape[1]), np.empty(columns.shape[1])
    for i in range(spans.shape[0]):
        for c in range(columns.shape[1]):
            a_minus[c] = _limit(limits, i, columns[0, c])
            a_plus[c] = _limit(limits, i, columns[1, c])
        own = (
            stored[0][spans[i, 0] : spans[i, 1]],
            stored[1][spans[i, 2] : spans[i, 3]],
            stored[2][:, spans[i, 4] : spans[i, 5]],
        )
        _outlook_of_row(own, (a_minus, a_plus), first, out[i])


@kernel
def scores_of_rows(
    limits: tuple[FloatArray, FloatArray],
    components: tuple[IndexArray, IndexArray],
    scores: FloatArray,
) -> None:
    """Write each row's uncalibrated probability of the first target."""
    columns, first = components
    n = first[1] - first[0]
    a_minus, a_plus = np.empty(n), np.empty(n)
    for i in range(scores.size):
        for c in range(n):
            a_minus[c] = _limit(limits, i, columns[0, c])
            a_plus[c] = _limit(limits, i, columns[1, c])
        scores[i] = _score(a_minus, a_plus)


@kernel
def excess_of_rows(ranks: FloatArray, left: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Write d_t(y): how far outside ½ each outcome lies, from both CDF limits at it (M9)."""
    for i in range(left.size):
        out[i] = _distance(ranks, left[i], right[i])
