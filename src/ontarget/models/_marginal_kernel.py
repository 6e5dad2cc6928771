"""Kernels of a predicted distribution that is the same for every row."""

from __future__ import annotations

import numpy as np

from ontarget._kernel import kernel
from ontarget._typing import AnyArray, FloatArray
from ontarget.models._support_kernel import cdf_in_cell, quantile_in_cell, reaches


@kernel
def marginal_limits(
    y: FloatArray,
    mass: FloatArray,
    support: tuple[FloatArray, AnyArray, FloatArray],
    left: FloatArray,
    right: FloatArray,
) -> None:
    """Write P(Y < y) and P(Y <= y) for each number in ``y``.

    ``mass[j]`` is the probability of the first j training outcomes. ``support`` describes these
    outcomes and the smoothing between them, as `Support.as_tuple`.
    """
    n_values = support[0].size
    for k in range(y.size):
        j = np.searchsorted(support[0], y[k])
        upto = mass[min(j + 1, n_values)]
        left[k], right[k] = cdf_in_cell(y[k], j, mass[j], upto, support)


@kernel
def marginal_quantiles(
    q: FloatArray,
    strictly: bool,
    mass: FloatArray,
    support: tuple[FloatArray, AnyArray, FloatArray],
    found: FloatArray,
) -> None:
    """Write the quantile at each level in ``q``: ``inf{y : F(y) >= q}`` (``> q`` if ``strictly``).

    F is the CDF. ``mass[j]`` is the probability of the first j training outcomes, and ``support``
    is `Support.as_tuple`.
    """
    values = support[0]
    n_values = values.size
    for k in range(q.size):
        if q[k] < 0.0 or (q[k] == 0.0 and not strictly):
            found[k] = -np.inf
            continue
        if q[k] > 1.0 or (q[k] == 1.0 and strictly):
            found[k] = np.inf
            continue
        low, high = 0, n_values
        while low < high:
            j = (low + high) // 2
            here = cdf_in_cell(values[j], j, mass[j], mass[j + 1], support)[1]
            if reaches(here, q[k], strictly):
                high = j
            else:
                low = j + 1
        upto = mass[min(low + 1, n_values)]
        found[k] = quantile_in_cell(q[k], strictly, low, mass[low], upto, support)
