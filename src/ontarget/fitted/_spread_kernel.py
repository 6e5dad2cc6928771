"""The spread of p: the share of episodes that n assure episodes allow, with 90 % confidence."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import FloatArray, IndexArray

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
