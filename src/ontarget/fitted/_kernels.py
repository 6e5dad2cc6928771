"""Outlooks from CDF limits, row by row: what live runs and the batch share.

A row's target is translated here to what the run still has to earn (M18). Which limits of the law
each of its components takes is known beforehand; the behavior so far only moves ends, drops
components or opens them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal._kernels import end_counts, target_row, weighted_row
from ontarget.fitted._curve_kernel import on_curve, share_inside, spread_of_share

__all__ = [
    "ASSURANCE",
    "DECIDED",
    "HIGH",
    "LOW",
    "NUMBERS",
    "PLAUSIBILITY",
    "RAW",
    "SLACK",
    "SPREAD_HIGH",
    "SPREAD_LOW",
    "UNPROVED",
    "P",
    "Stored",
    "distance",
    "excess_of_rows",
    "gather",
    "holds",
    "outlook_of_row",
    "outlook_of_rows",
    "shift_ends",
    "shift_row",
    "snap_value",
]

# Ranks, excesses, envelopes, curve, bounds of shares and the target's map of a step and group; then
# the weights of ranks and of excesses, each with all below it, or nothing where episodes have no
# weights.
Stored: TypeAlias = tuple[
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
]

# The numbers of an outlook, by place. DECIDED is 0 or 1 where arithmetic alone settles the outcome
# and -1 elsewhere; RAW is the law's own probability, before calibration.
P: Final = 0
LOW: Final = 1
HIGH: Final = 2
PLAUSIBILITY: Final = 3
ASSURANCE: Final = 4
SPREAD_LOW: Final = 5
SPREAD_HIGH: Final = 6
DECIDED: Final = 7
RAW: Final = 8
NUMBERS: Final = 9

# What rounding may make of two equal distances from ½.
SLACK: Final = 1e-9
# How near to 0 or 1 an estimate may come without a proof.
UNPROVED: Final = 1e-6

# The codes of `ontarget.episodes.Translation` that kernels know.
_SHIFT, _FLOOR, _CEILING = 1, 2, 3
# What becomes of a component once the behavior so far is known.
_DROPPED, _KEPT, _OPEN_BELOW, _OPEN_ABOVE = 0, 1, 2, 3


@inner_kernel
def snap_value(value: float, amounts: FloatArray) -> float:
    """The value on the grid, as `ontarget._grid.snap` gives it.

    ``amounts`` begin with the spacing and the exact power of ten to scale by, 0 if there is none.
    """
    spacing, scale = amounts[0], amounts[1]
    snapped = np.rint(value * scale) / scale if scale > 0.0 else np.rint(value / spacing) * spacing
    return float((snapped if np.isfinite(snapped) else value) + 0.0)


@inner_kernel
def shift_row(
    values: FloatArray, so_far: float, way: tuple[int, float], amounts: FloatArray, ends: FloatArray
) -> None:
    """Write each target end as the law is asked for it: counted from the behavior so far, scaled.

    ``way`` holds the translation's code and the step's scale.
    """
    translation, scale = way
    for k in range(values.size):
        end = snap_value(values[k] - so_far, amounts) if translation == _SHIFT else values[k]
        ends[k] = end * scale


@kernel
def shift_ends(
    values: FloatArray,
    so_far: FloatArray,
    way: tuple[int, float],
    amounts: FloatArray,
    ends: FloatArray,
) -> None:
    """Write `shift_row` for rows of one step; the behavior so far is on the grid."""
    for i in range(so_far.size):
        shift_row(values, so_far[i], way, amounts, ends[i])


@inner_kernel
def holds(side: FloatArray, value: float) -> bool:
    """Whether a component, as (lower, upper, lower closed, upper closed), holds a value."""
    above = value > side[0] or (value == side[0] and side[2] > 0.0)
    below = value < side[1] or (value == side[1] and side[3] > 0.0)
    return bool(above and below)


@inner_kernel
def _fate(side: FloatArray, translation: int, so_far: float) -> int:
    """What becomes of a component of outcomes as a set of remainders (M18).

    A running maximum b leaves the components above it as they are, drops those below, and any
    remainder up to the upper end will do for the one that holds b; a minimum mirrors it.
    """
    if (translation != _FLOOR and translation != _CEILING) or np.isnan(so_far):
        return _KEPT
    if holds(side, so_far):
        return _OPEN_BELOW if translation == _FLOOR else _OPEN_ABOVE
    ahead = so_far <= side[0] if translation == _FLOOR else so_far >= side[1]
    return _KEPT if ahead else _DROPPED


@inner_kernel
def _settled(
    side: FloatArray, fate: int, asked: tuple[int, float, float, float], amounts: FloatArray
) -> int:
    """1 if every possible remainder lies in a component, 0 if none does, -1 if some may.

    ``asked`` holds the translation, the behavior so far, and the range that the remainder must lie
    in.
    """
    translation, so_far, least, most = asked
    if fate == _DROPPED:
        return 0
    if np.isinf(least) and np.isinf(most):
        return -1
    lower, upper = side[0], side[1]
    if translation == _SHIFT:
        lower, upper = snap_value(lower - so_far, amounts), snap_value(upper - so_far, amounts)
    if fate == _OPEN_BELOW:
        lower = -np.inf
    if fate == _OPEN_ABOVE:
        upper = np.inf
    lower_closed, upper_closed = side[2] > 0.0, side[3] > 0.0
    if most < lower or (most == lower and not lower_closed):
        return 0
    if least > upper or (least == upper and not upper_closed):
        return 0
    above = np.isinf(lower) or least > lower or (least == lower and lower_closed)
    below = np.isinf(upper) or most < upper or (most == upper and upper_closed)
    return 1 if above and below else -1


@inner_kernel
def _interpolated(ranks: FloatArray, query: float, from_right: bool) -> float:
    """c̃(a): linear through (0, 0), (α_(j), j/(n + 1)) and (1, 1); 0 and 1 at infinite ends (M19).

    Tied ranks stand above one another, so the map jumps there, from (below + 1)/(n + 1) to
    upto/(n + 1). At the jump it takes the limit from the right or from the left, as asked; either
    way it is monotone, which is all that M9 needs.
    """
    below, after = end_counts(ranks, query)
    whole = ranks.size + 1
    if after == below:
        return below / whole  # an infinite end
    if after - below > 1:
        return (after - 1 if from_right else below + 1) / whole
    left = ranks[below - 1] if below > 0 else 0.0
    right = ranks[below] if below < ranks.size else 1.0
    part = (query - left) / (right - left) if right > left else 0.0
    return (below + min(max(part, 0.0), 1.0)) / whole


@inner_kernel
def distance(ranks: FloatArray, curve: FloatArray, a_minus: float, a_plus: float) -> float:
    """How far outside ½ a component lies: max(0, c(a⁻) − ½, ½ − c(a⁺)) (M9, M19).

    c is the step's curve, learned without the assure episodes, or in the paper's way the
    interpolated ranks of the calibration episodes. At a tied rank each side takes the limit that is
    nearer to the component: from the left for its lower end, from the right for its upper one. So
    the least and greatest outcome of a band are in it.
    """
    if curve.size > 0:
        return max(0.0, max(on_curve(curve, a_minus) - 0.5, 0.5 - on_curve(curve, a_plus)))
    if ranks.size == 0:
        return 0.0
    above = _interpolated(ranks, a_minus, False) - 0.5
    return max(0.0, max(above, 0.5 - _interpolated(ranks, a_plus, True)))


@inner_kernel
def _plausibility(
    stored: Stored,
    a_minus: FloatArray,
    a_plus: FloatArray,
    own: float,
) -> float:
    """(1 + #{M_i ≥ s})/(m + 1) with the least distance s of the components; 0 if there is none.

    With weights, (w + Σ w_i 1[M_i ≥ s])/(W + w), where w is the run's own (M25).
    """
    if a_minus.size == 0:
        return 0.0
    ranks, excess, curve = stored[0], stored[1], stored[3]
    nearest = np.inf
    for c in range(a_minus.size):
        nearest = min(nearest, distance(ranks, curve, a_minus[c], a_plus[c]))
    # Distances are floats: one that rounding moved by a hair must still count as reached.
    below = np.searchsorted(excess, nearest - SLACK)
    upto = stored[7]
    if upto.size > 0:
        missed = upto[below - 1] if below > 0 else 0.0
        return float((own + upto[-1] - missed) / (upto[-1] + own))
    return (1 + excess.size - below) / (excess.size + 1)


@inner_kernel
def _raw(a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The uncalibrated probability of a target whose components have these CDF limits."""
    total = 0.0
    for c in range(a_minus.size):
        total += min(a_plus[c], 1.0) - max(a_minus[c], 0.0)
    return min(max(total, 0.0), 1.0)


@inner_kernel
def _venn_abers(envelope: FloatArray, score: float, out: FloatArray) -> None:
    """Write p, p0 and p1 of a score; ``envelope`` is a part of `TargetCalibration.table` (M7)."""
    scores = envelope[0]
    below = np.searchsorted(scores, score)
    p0 = envelope[1, below + (1 if scores[below] == score else 0)]
    p1 = envelope[2, below]
    # Between p0 and p1 in exact arithmetic; the bounds keep it there in floats.
    out[P] = min(max(p1 / (1.0 - p0 + p1), p0), p1)
    out[LOW] = p0
    out[HIGH] = p1


@inner_kernel
def _estimate(curve: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The estimate from the step's curve: what the curve gains over each component (M17).

    Never 0 or 1: what no recorded run ever did is not impossible, and only arithmetic decides.
    """
    total = 0.0
    for c in range(a_minus.size):
        total += max(0.0, on_curve(curve, a_plus[c]) - on_curve(curve, a_minus[c]))
    return min(max(total, UNPROVED), 1.0 - UNPROVED)


@inner_kernel
def _calibrate(
    stored: Stored,
    a_minus: FloatArray,
    a_plus: FloatArray,
    own: float,
    out: FloatArray,
) -> None:
    """Write p, its bounds and its spread; ``out`` holds the law's own probability already.

    Of runs that were stopped nobody knows whether they would have ended in the target: for low and
    the lower end of the spread none of them did, for high and the upper end all of them (M24).
    """
    ranks, excess, envelope, curve, bounds, own_map, upto, _ = stored
    stopped = 0
    if excess.size > 0 and excess[-1] == np.inf:
        stopped = excess.size - int(np.searchsorted(excess, 1.0))
    if envelope.shape[1] > 0:
        _venn_abers(envelope, out[RAW], out)
    else:
        whole = ranks.size + stopped + 1
        low, mid, high = target_row(ranks, a_minus, a_plus)
        out[P] = _estimate(curve, a_minus, a_plus) if curve.size > 0 else mid / (2 * whole)
        if own_map.size > 0:
            out[P] = min(max(on_curve(own_map, out[P]), UNPROVED), 1.0 - UNPROVED)
        out[LOW] = low / whole
        out[HIGH] = (high + stopped) / whole
    if stored[7].size > 0:
        if envelope.shape[1] == 0:
            out[LOW], out[HIGH] = weighted_row(ranks, upto, own, a_minus, a_plus)
        out[SPREAD_LOW] = out[SPREAD_HIGH] = np.nan  # there is none for weights (M25)
        return
    share = share_inside(ranks, a_minus, a_plus)
    known = ranks.size / max(1, ranks.size + stopped)
    out[SPREAD_LOW] = min(spread_of_share(bounds, share * known)[0], out[P])
    out[SPREAD_HIGH] = max(spread_of_share(bounds, share * known + (1.0 - known))[1], out[P])


@inner_kernel
def _limit(left: FloatArray, right: FloatArray, column: int) -> float:
    """A row's limit in ``[left | right | -inf | +inf]``."""
    m = left.size
    if column < m:
        return float(left[column])
    if column < 2 * m:
        return float(right[column - m])
    return -np.inf if column == 2 * m else np.inf


@inner_kernel
def gather(
    limits: tuple[FloatArray, FloatArray],
    components: tuple[IndexArray, FloatArray, int, int],
    asked: tuple[int, float, float, float],
    amounts: FloatArray,
    out: tuple[FloatArray, FloatArray],
) -> tuple[int, int]:
    """Write the limits of a target's components that are left; how many, and what is decided."""
    columns, sides, first, last = components
    a_minus, a_plus = out
    kept, possible, certain = 0, False, False
    for c in range(first, last):
        fate = _fate(sides[c], asked[0], asked[1])
        if fate == _DROPPED:
            continue
        settled = _settled(sides[c], fate, asked, amounts)
        possible = possible or settled != 0
        low = -np.inf if fate == _OPEN_BELOW else _limit(limits[0], limits[1], columns[0, c])
        high = np.inf if fate == _OPEN_ABOVE else _limit(limits[0], limits[1], columns[1, c])
        certain = certain or settled == 1 or (low == -np.inf and high == np.inf)
        a_minus[kept], a_plus[kept] = low, high
        kept += 1
    return kept, (1 if certain else -1 if possible else 0)


@inner_kernel
def outlook_of_row(
    stored: Stored,
    limits: tuple[FloatArray, FloatArray],
    target: tuple[IndexArray, FloatArray, IndexArray, int],
    asked: tuple[int, float, float, float],
    own: float,
    amounts: FloatArray,
    room: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Write the numbers of one row's outlook on one target.

    Parameters
    ----------
    stored
        Sorted ranks of the step, sorted excesses of the assure episodes (+inf for those that were
        stopped), the target's own envelopes (3, entries), the step's curve, the bounds of a share
        of its ranks (2, entries), the target's own map at the knots, and weights. Without envelopes
        p comes from the curve and, if there is one, the map; without a curve it is PCQR's.
    limits
        Left and right limits of the law at each finite end.
    target
        The components of all targets and then of their complements: their places among the limits
        (`TargetEnds.columns`), their ends, where each target's begin; and which target.
    asked
        The translation, the behavior so far, and the least and most that may remain.
    own
        The run's own weight, where the assure episodes have weights (M25).
    room
        To work in, as long as there are components.
    """
    columns, sides, first, j = target
    kept, decided = gather(limits, (columns, sides, first[j], first[j + 1]), asked, amounts, room)
    out[DECIDED] = decided
    if decided >= 0:
        for place in range(DECIDED):
            out[place] = decided
        out[RAW] = decided
        return
    a_minus, a_plus = room[0][:kept], room[1][:kept]
    out[RAW] = _raw(a_minus, a_plus)
    _calibrate(stored, a_minus, a_plus, own, out)
    out[PLAUSIBILITY] = _plausibility(stored, a_minus, a_plus, own)
    rest = (first.size - 1) // 2 + j
    kept, _ = gather(limits, (columns, sides, first[rest], first[rest + 1]), asked, amounts, room)
    out[ASSURANCE] = 1.0 - _plausibility(stored, room[0][:kept], room[1][:kept], own)


@kernel
def outlook_of_rows(
    stored: Stored,
    limits: tuple[FloatArray, FloatArray],
    target: tuple[IndexArray, FloatArray, IndexArray],
    asked: tuple[int, FloatArray, float, float],
    weights: FloatArray,
    amounts: FloatArray,
    out: FloatArray,
) -> None:
    """Write the numbers of each row of one step and each target, (rows, targets, numbers)."""
    columns, sides, first = target
    room = (np.empty(columns.shape[1]), np.empty(columns.shape[1]))
    translation, so_far, least, most = asked
    for i in range(so_far.size):
        here = (limits[0][i], limits[1][i])
        for j in range(out.shape[1]):
            outlook_of_row(
                stored,
                here,
                (columns, sides, first, j),
                (translation, so_far[i], least, most),
                weights[i],
                amounts,
                room,
                out[i, j],
            )


@kernel
def excess_of_rows(
    ranks: FloatArray, curve: FloatArray, left: FloatArray, right: FloatArray, out: FloatArray
) -> None:
    """Write d_t(y): how far outside ½ each outcome lies, from both CDF limits at it (M9)."""
    for i in range(left.size):
        out[i] = distance(ranks, curve, left[i], right[i])
