"""Computes the monitor's answers (outlooks) row by row, for live runs and for batches (M18)."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray
from ontarget.conformal.kernels import end_counts, target_row

# The points where every calibration curve is stored: close together near 0 and 1, where the
# guarantees for whole runs need precision (M9).
_N_KNOTS: Final = 129
KNOTS: Final[FloatArray] = read_only(np.sin(np.linspace(0.0, np.pi / 2.0, _N_KNOTS)) ** 2)
_CURVE_KNOTS = np.array(KNOTS)  # a constant of the kernels


@inner_kernel
def on_curve(curve: FloatArray, a: float) -> float:
    """The calibrated probability for the predicted probability a, from a calibration curve.

    The curve is linear between 129 fixed probabilities (`KNOTS`). An infinite a stands for the
    infinite end of a target and gives 0 (for -inf) or 1 (for +inf).
    """
    if a == -np.inf:
        return 0.0
    if a == np.inf:
        return 1.0
    low, high = 0, _N_KNOTS - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if _CURVE_KNOTS[middle] <= a:
            low = middle
        else:
            high = middle
    part = (a - _CURVE_KNOTS[low]) / (_CURVE_KNOTS[high] - _CURVE_KNOTS[low])
    return float(curve[low] + min(max(part, 0.0), 1.0) * (curve[high] - curve[low]))


@inner_kernel
def count_inside(ranks: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> int:
    """How many ranks are inside any of the intervals (a_minus, a_plus].

    A rank is where an episode's outcome fell in its predicted distribution. A rank of exactly 0
    counts as inside an interval that begins at -inf. See method M20 in docs/methods.md.
    """
    inside = 0
    for c in range(a_minus.size):
        below = 0 if a_minus[c] == -np.inf else end_counts(ranks, a_minus[c])[1] - 1
        upto = ranks.size if a_plus[c] == np.inf else end_counts(ranks, a_plus[c])[1] - 1
        inside += max(0, upto - below)
    return min(inside, ranks.size)


SPREAD_LEVEL: Final = 0.9
_TAIL: Final = 0.05
_NORMAL: Final = 1.6448536269514722  # a standard normal number is larger with probability _TAIL
_HALF_LOG_TAU: Final = 0.9189385332046727  # ½ log 2π
_MOST_ROUNDS: Final = 20


@inner_kernel
def _stirling(n: float) -> float:
    """By how much log n! exceeds Stirling's formula, (n + ½) log n − n + ½ log 2π; n is whole."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TAU
    s = 1.0 / (n * n)
    series = 1.0 / 12.0 - s * (
        1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))
    )
    return series / n


@inner_kernel
def _guess(k: float, rest: float) -> float:
    """About the odds that `_low_odds` finds (Carter's formula; Abramowitz and Stegun 26.5.22)."""
    a, b = 1.0 / (2.0 * k - 1.0), 1.0 / (2.0 * rest + 1.0)
    r, h = (_NORMAL * _NORMAL - 3.0) / 6.0, 2.0 / (a + b)
    w = _NORMAL * math.sqrt(h + r) / h - (b - a) * (r + 5.0 / 6.0 - 2.0 / (3.0 * h))
    return k / (rest + 1.0) * math.exp(-2.0 * w)


@inner_kernel
def _low_odds(inside: int, n: int) -> float:
    """The odds x/(1 − x) of the share x at which P(Binomial(n, x) >= inside) is 5 %."""
    if inside == 1:
        return math.expm1(-math.log1p(-_TAIL) / n)
    if inside == n:
        return 1.0 / math.expm1(-math.log(_TAIL) / n)
    k, rest = float(inside), float(n - inside)
    fixed = 0.5 * math.log(n / (k * rest)) - _HALF_LOG_TAU - math.log(_TAIL)
    fixed += _stirling(float(n)) - _stirling(k) - _stirling(rest)
    odds = _guess(k, rest)
    for _ in range(_MOST_ROUNDS):
        x, y = odds / (1.0 + odds), 1.0 / (1.0 + odds)
        # P(at least k) is P(k) times this sum, whose terms fall from the start.
        terms, term, j = 1.0, 1.0, k
        while term > 1e-17 * terms:
            term *= (n - j) / (j + 1.0) * odds
            terms += term
            j += 1.0
        more = n * x - k if x < 0.5 else rest - n * y
        # f is the logarithm of P(at least k) / 5 %; then its derivatives by the log of the odds.
        f = fixed + k * math.log1p(more / k) + rest * math.log1p(-more / rest) + math.log(terms)
        f1 = k * y / terms
        bend = f1 - k + (n + 1.0) * x
        f2 = -f1 * bend
        f3 = -(f2 * bend + f1 * (f2 + (n + 1.0) * x * y))
        step, a, b = f / f1, f2 / (2.0 * f1), f3 / (6.0 * f1)
        odds *= math.exp(-step * (1.0 + step * (a + step * (2.0 * a * a - b))))
        if abs(f) < 1e-4:  # what is left is of the order of its fourth power
            break
    return odds


@inner_kernel
def share_low(inside: int, n: int) -> float:
    """The lower end of the 90 % interval of a share, if it was met in ``inside`` of n episodes."""
    if inside <= 0:
        return 0.0
    odds = _low_odds(inside, n)
    return odds / (1.0 + odds)


@inner_kernel
def share_high(inside: int, n: int) -> float:
    """The upper end of the 90 % interval of a share, if it was met in ``inside`` of n episodes."""
    if inside >= n:
        return 1.0
    return 1.0 / (1.0 + _low_odds(n - inside, n))


@kernel
def share_bounds(inside: IndexArray, n: int) -> FloatArray:
    """(2, counts): the 90 % Clopper–Pearson intervals of shares met in ``inside`` of n episodes.

    The first row has the lower ends, the second row the upper ends.

    Examples
    --------
    >>> print(np.round(share_bounds(np.arange(3), 2), 3))
    [[0.    0.025 0.224]
     [0.776 0.975 1.   ]]
    """
    bounds = np.empty((2, inside.size))
    for i in range(inside.size):
        bounds[0, i] = share_low(inside[i], n)
        bounds[1, i] = share_high(inside[i], n)
    return bounds


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


# Of a step and group: ranks, excesses, calibration curve, target map.
Stored: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]

# The numbers of an outlook, by place. DECIDED is 0 or 1 if arithmetic alone decides whether the
# target is met, and -1 otherwise; RAW is the predicted probability before calibration.
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

# By how much rounding may make two equal distances from ½ differ.
SLACK: Final = 1e-9
# How near to 0 or 1 p may come if arithmetic does not decide the run.
UNPROVED: Final = 1e-6

# From here on, float64 has no digits behind the point, as in `ontarget._grid.snap`.
_WHOLE = 2.0**52
# The codes of `ontarget.episodes.Translation` that kernels know.
_SHIFT, _FLOOR, _CEILING = 1, 2, 3
# What becomes of an interval of the target (a component) once the behavior so far is known.
_DROPPED, _KEPT, _OPEN_BELOW, _OPEN_ABOVE = 0, 1, 2, 3


@inner_kernel
def snap_value(value: float, amounts: FloatArray) -> float:
    """The value rounded to the grid, as `ontarget._grid.snap` rounds it.

    ``amounts`` begins with the unit to which values are rounded (the grid), then the power of ten
    to scale by, or 0.
    """
    spacing, scale = amounts[0], amounts[1]
    units = value * scale if scale > 0.0 else value / spacing
    if not abs(units) < _WHOLE:
        return value + 0.0
    snapped = np.rint(units) / scale if scale > 0.0 else np.rint(units) * spacing
    return float(snapped + 0.0)


@inner_kernel
def shift_row(
    values: FloatArray, so_far: float, way: tuple[int, float], amounts: FloatArray, ends: FloatArray
) -> None:
    """Write each bound of the targets as a bound for what is still to earn, as models scale it.

    ``values`` are bounds of outcomes, and ``ends`` receives the results. ``way`` has two numbers:
    the code of the behavior's `Translation`, and the factor by which what is still to earn is
    multiplied for the models of this step.
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
    """For each run at one step, write the bounds of the targets as `shift_row` does."""
    for i in range(so_far.size):
        shift_row(values, so_far[i], way, amounts, ends[i])


@inner_kernel
def holds(side: FloatArray, value: float) -> bool:
    """Whether an interval contains a value.

    ``side`` is (lower end, upper end, 1 if the lower end belongs to it, 1 if the upper one does).
    """
    above = value > side[0] or (value == side[0] and side[2] > 0.0)
    below = value < side[1] or (value == side[1] and side[3] > 0.0)
    return bool(above and below)


@inner_kernel
def _fate(side: FloatArray, translation: int, so_far: float) -> int:
    """A code for what becomes of an interval of the target, given the behavior so far."""
    # If the behavior is a maximum, and b is the maximum so far: an interval above b stays as it is,
    # one below b is dropped, and one that contains b becomes open below, because any later value up
    # to its upper end will do. A minimum is the mirror image.
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
    """1 if a run is certain to end in an interval of the target, 0 if it cannot, otherwise -1."""
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
    """The calibrated probability of a predicted probability, interpolated between ranks."""
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
    """How far an interval is from the median of the predicted distribution, in probability."""
    # It is max(0, c(a_minus) − ½, ½ − c(a_plus)): 0 if the interval contains the median, at most ½.
    # ``a_minus`` and ``a_plus`` are the predicted probabilities of an outcome below the interval,
    # and below or in it. c is the step's calibration curve, from predicted to calibrated
    # probabilities. It is learned without the assure episodes (held-out runs). With
    # ``preset="paper"``, c interpolates ranks, which are where the outcomes of calibration episodes
    # fell in their predicted distributions (method M19). Where ranks are equal, c takes the value
    # that makes the distance smaller, so that a band contains both its ends.
    if curve.size > 0:
        return max(0.0, max(on_curve(curve, a_minus) - 0.5, 0.5 - on_curve(curve, a_plus)))
    if ranks.size == 0:
        return 0.0
    above = _interpolated(ranks, a_minus, False) - 0.5
    return max(0.0, max(above, 0.5 - _interpolated(ranks, a_plus, True)))


@inner_kernel
def _plausibility(stored: Stored, a_minus: FloatArray, a_plus: FloatArray) -> float:
    """Whether the target is still possible, as a number from 0 (no) to 1 (yes)."""
    if a_minus.size == 0:
        return 0.0
    ranks, excess, curve, _ = stored
    nearest = np.inf
    for c in range(a_minus.size):
        nearest = min(nearest, distance(ranks, curve, a_minus[c], a_plus[c]))
    # Distances are floats: an excess that is smaller only by rounding must still count.
    below = np.searchsorted(excess, nearest - SLACK)
    return (1 + excess.size - below) / (excess.size + 1)


@inner_kernel
def _raw(a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The uncalibrated probability of a target: the sum of a_plus − a_minus over its intervals."""
    total = 0.0
    for c in range(a_minus.size):
        total += min(a_plus[c], 1.0) - max(a_minus[c], 0.0)
    return min(max(total, 0.0), 1.0)


@inner_kernel
def _estimate(curve: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The p of a target: with the calibration curve c, the sum of c(a_plus) − c(a_minus)."""
    # The sum is over the target's intervals. p is never exactly 0 or 1: what no recorded run ever
    # did may still be possible, and only arithmetic can decide a run.
    total = 0.0
    for c in range(a_minus.size):
        total += max(0.0, on_curve(curve, a_plus[c]) - on_curve(curve, a_minus[c]))
    return min(max(total, UNPROVED), 1.0 - UNPROVED)


@inner_kernel
def _calibrate(stored: Stored, a_minus: FloatArray, a_plus: FloatArray, out: FloatArray) -> None:
    """Write p, ``low``, ``high`` and the spread."""
    # Nobody knows whether runs that were stopped would have ended in the target. ``low`` and the
    # lower end of the spread assume that none would, ``high`` and the upper end that all would.
    ranks, excess, curve, own_map = stored
    stopped = 0
    if excess.size > 0 and excess[-1] == np.inf:
        stopped = excess.size - int(np.searchsorted(excess, 1.0))
    whole = ranks.size + stopped + 1
    low, mid, high = target_row(ranks, a_minus, a_plus)
    out[P] = _estimate(curve, a_minus, a_plus) if curve.size > 0 else mid / (2 * whole)
    if own_map.size > 0:
        out[P] = min(max(on_curve(own_map, out[P]), UNPROVED), 1.0 - UNPROVED)
    out[LOW] = low / whole
    out[HIGH] = (high + stopped) / whole
    inside, n = count_inside(ranks, a_minus, a_plus), ranks.size + stopped
    out[SPREAD_LOW] = min(share_low(inside, n), out[P])
    out[SPREAD_HIGH] = max(share_high(inside + stopped, n), out[P])


@inner_kernel
def _limit(left: FloatArray, right: FloatArray, column: int) -> float:
    """The predicted probability at one end of a target's interval."""
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
    """Write the predicted probabilities at the ends of a target's intervals.

    For each interval that is still possible, ``out`` receives the probability of an outcome below
    it, and of one below or in it. Returns how many intervals are left; then 1 if the run is certain
    to meet the target, 0 if it is certain to miss it, and -1 if it is not decided.
    """
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
    amounts: FloatArray,
    room: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Write the monitor's answer (outlook) about one run and one target: p and other numbers."""
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
    _calibrate(stored, a_minus, a_plus, out)
    out[PLAUSIBILITY] = _plausibility(stored, a_minus, a_plus)
    rest = (first.size - 1) // 2 + j
    kept, _ = gather(limits, (columns, sides, first[rest], first[rest + 1]), asked, amounts, room)
    out[ASSURANCE] = 1.0 - _plausibility(stored, room[0][:kept], room[1][:kept])


@kernel
def outlook_of_rows(
    stored: Stored,
    limits: tuple[FloatArray, FloatArray],
    target: tuple[IndexArray, FloatArray, IndexArray],
    asked: tuple[int, FloatArray, float, float],
    amounts: FloatArray,
    out: FloatArray,
) -> None:
    """Write the monitor's answer (outlook) for each run and target at one step.

    ``out`` is (runs, targets, numbers). The arguments are those of `outlook_of_row`, with one entry
    per run.
    """
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
                amounts,
                room,
                out[i, j],
            )


@kernel
def excess_of_rows(
    ranks: FloatArray, curve: FloatArray, left: FloatArray, right: FloatArray, out: FloatArray
) -> None:
    """Write how far each outcome is from the median of its predicted distribution.

    ``left`` and ``right`` are the predicted P(outcome < y) and P(outcome <= y) at the outcome y.
    The distance is in probability; see `distance`. See method M9 in docs/methods.md.
    """
    for i in range(left.size):
        out[i] = distance(ranks, curve, left[i], right[i])
