"""Reads a calibration curve at a point, and counts ranks inside a target.

See methods M17 and M20 in docs/methods.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ontarget._arrays import read_only
from ontarget._kernel import inner_kernel
from ontarget._typing import FloatArray
from ontarget.conformal.kernels import end_counts

# The points where every calibration curve is stored: close together near 0 and 1, where the
# guarantees for whole runs need precision (M9).
_N_KNOTS: Final = 129
KNOTS: Final[FloatArray] = read_only(np.sin(np.linspace(0.0, np.pi / 2.0, _N_KNOTS)) ** 2)
_KNOTS = np.array(KNOTS)  # a constant of the kernels


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
        if _KNOTS[middle] <= a:
            low = middle
        else:
            high = middle
    part = (a - _KNOTS[low]) / (_KNOTS[high] - _KNOTS[low])
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
