"""The map from the law's probabilities to calibrated ones (M17), and the spread of p (M20)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._kernel import inner_kernel
from ontarget._readonly import read_only
from ontarget._typing import FloatArray
from ontarget.conformal._kernels import end_counts

__all__ = ["KNOTS", "on_curve", "share_inside", "spread_of_share"]

# Where every curve is known: close together near 0 and 1, where whole runs are judged (M9).
_N_KNOTS: Final = 129
KNOTS: Final[FloatArray] = read_only(np.sin(np.linspace(0.0, np.pi / 2.0, _N_KNOTS)) ** 2)
_KNOTS = np.array(KNOTS)  # a constant of the kernels


@inner_kernel
def on_curve(curve: FloatArray, a: float) -> float:
    """c(a): linear between the knots; exactly 0 and 1 at the infinite ends of a target."""
    if a == -np.inf:
        return 0.0
    if a == np.inf:
        return 1.0
    low, high = 0, _N_KNOTS - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if _KNOTS[middle] <= a:
            low = middle
        else:
            high = middle
    part = (a - _KNOTS[low]) / (_KNOTS[high] - _KNOTS[low])
    return float(curve[low] + min(max(part, 0.0), 1.0) * (curve[high] - curve[low]))


@inner_kernel
def share_inside(ranks: FloatArray, a_minus: FloatArray, a_plus: FloatArray) -> float:
    """The share of the ranks in (a⁻, a⁺] of any component; from −∞ on, 0 counts too (M20)."""
    inside = 0
    for c in range(a_minus.size):
        below = 0 if a_minus[c] == -np.inf else end_counts(ranks, a_minus[c])[1] - 1
        upto = ranks.size if a_plus[c] == np.inf else end_counts(ranks, a_plus[c])[1] - 1
        inside += max(0, upto - below)
    return min(1.0, inside / max(1, ranks.size))


@inner_kernel
def spread_of_share(bounds: FloatArray, share: float) -> tuple[float, float]:
    """The range around a share of the ranks, from (2, entries): its bounds at even shares."""
    last = bounds.shape[1] - 1
    place = share * last
    below = min(int(place), last - 1)
    part = place - below
    low = bounds[0, below] + part * (bounds[0, below + 1] - bounds[0, below])
    high = bounds[1, below] + part * (bounds[1, below + 1] - bounds[1, below])
    return low, high
