"""The continuous ranked probability score (CRPS) of a whole predicted distribution.

For a predicted CDF F and an outcome y, CRPS(F, y) = ∫ (F(x) − 1[x ≥ y])² dx. It is in the unit of
the outcome; lower is better. Use it for the distribution that a model predicts. For a calibrated
distribution the score is infinite, because its CDF does not reach 0 or 1 at any finite value.
"""

from __future__ import annotations

import numpy as np

from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation._inputs import check_numbers, check_same_size

# Rows are processed in blocks, so that temporary arrays take only some tens of megabytes.
_BLOCK = 2**20


def crps(knots: ArrayLike, left: ArrayLike, right: ArrayLike, y: ArrayLike) -> FloatArray:
    """The exact CRPS (a score; lower is better) of each row's predicted distribution, (n,).

    A distribution is given by its CDF F at some values, the knots. At each knot, ``left`` is the
    limit of F from the left and ``right`` is F itself. Between two knots F is linear, from
    ``right`` of the one to ``left`` of the next. F is 0 before the first knot and 1 from the last
    knot on. So a step function has ``left[:, j + 1] == right[:, j]``, and a continuous CDF has
    ``left == right``.

    Parameters
    ----------
    knots
        Strictly ascending values: (m,), or (n, m) if they differ between rows.
    left, right
        P(Y < x) and P(Y <= x) at each knot x, (n, m).
    y
        The outcome of each row, (n,).

    Notes
    -----
    A quantile forest's smoothed CDF (method M2 in docs/methods.md) has these knots: all outcomes
    with a weight, and the start of the gap below the lowest one. The CDF also has a logistic part
    with a weight of one in a million. Leaving it out changes the score by about 1e-6 times the
    spread of the outcomes.

    Examples
    --------
    >>> print(crps([0.0, 1.0], [[0.0, 1.0]], [[0.0, 1.0]], [0.5]))  # uniform on [0, 1]
    [0.08333333]
    >>> print(crps([3.0], [[0.0]], [[1.0]], [5.0]))  # a point: the distance to it
    [2.]
    """
    outcomes = check_numbers("y", y)
    before, after = check_numbers("left", left, ndim=2), check_numbers("right", right, ndim=2)
    places = check_numbers("knots", knots, ndim=np.ndim(knots) if np.ndim(knots) in (1, 2) else 1)
    n_rows, n_knots = before.shape
    if after.shape != before.shape or n_rows != outcomes.size:
        raise InputError(
            Argument("left"),
            " and ",
            Argument("right"),
            f" need one row for each of {outcomes.size} outcomes, "
            f"got shapes {before.shape} and {after.shape}",
        )
    if places.shape not in ((n_knots,), (n_rows, n_knots)):
        raise InputError(
            Argument("knots"),
            f" needs shape ({n_knots},) or ({n_rows}, {n_knots}), got shape {places.shape}",
        )
    _check_finite(y=outcomes, knots=places)
    if (np.diff(places, axis=-1) <= 0.0).any():
        raise InputError(Argument("knots"), " needs strictly ascending values in each row")
    _check_rising(before, after)
    scores = np.empty(n_rows)
    rows = max(1, _BLOCK // n_knots)
    for start in range(0, n_rows, rows):
        part = slice(start, start + rows)
        here = places if places.ndim == 1 else places[part]
        scores[part] = _scores(here, before[part], after[part], outcomes[part])
    return scores


def crps_of_points(
    points: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None
) -> FloatArray:
    """The exact CRPS (a score; lower is better) of a distribution on weighted points, (n,).

    The points may be an ensemble of forecasts, or the outcomes in a leaf of a tree.

    Parameters
    ----------
    points
        Values in any order, repeats allowed: (m,) or (n, m).
    y
        The outcome of each row, (n,).
    weights
        The weight of each point, (m,) or (n, m): not negative, with a sum above 0 in each row. By
        default all are equal.

    Examples
    --------
    >>> print(crps_of_points([[0.0, 1.0], [4.0, 4.0]], [0.0, 1.0]))
    [0.25 3.  ]
    """
    outcomes = check_numbers("y", y)
    values = check_numbers("points", points, ndim=np.ndim(points) if np.ndim(points) == 2 else 1)
    mass = np.ones(values.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    try:
        shape = np.broadcast_shapes(values.shape, mass.shape, (outcomes.size, 1))
    except ValueError as error:
        raise InputError(
            Argument("points"),
            " and ",
            Argument("weights"),
            f" need shape (m,) or ({outcomes.size}, m), got shapes {values.shape} and {mass.shape}",
        ) from error
    values, mass = np.broadcast_to(values, shape), np.broadcast_to(mass, shape)
    check_same_size(y=outcomes, rows=values[:, 0])
    _check_finite(y=outcomes, points=values)
    total = mass.sum(axis=1, keepdims=True)
    if not ((mass >= 0.0).all() and (total > 0.0).all() and np.isfinite(total).all()):
        raise InputError(
            Argument("weights"), " needs numbers from 0 up with a sum above 0 in each row"
        )
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    cdf = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1) / total
    # Equal points make cells of width 0, which add nothing: no need to merge them.
    before = np.concatenate((np.zeros((shape[0], 1)), cdf[:, :-1]), axis=1)
    return _scores(ordered, before, cdf, outcomes)


def _scores(knots: FloatArray, left: FloatArray, right: FloatArray, y: FloatArray) -> FloatArray:
    """The CRPS (a score; lower is better) of each row's predicted CDF F at its outcome y.

    It is ∫ F² below y plus ∫ (1 − F)² above y. Both integrals are sums over the gaps between
    neighbouring knots, the values at which F is given.
    """
    at = y[:, None]
    start, stop = knots[..., :-1], knots[..., 1:]
    first, last = right[:, :-1], left[:, 1:]
    # The part of each cell that is below y; a cell that contains y is cut in two at y.
    cut = np.clip(at, start, stop)
    width = stop - start
    part = np.divide(cut - start, width, out=np.zeros(first.shape), where=width > 0.0)
    middle = first + part * (last - first)
    below = (cut - start) * _mean_square(first, middle)
    above = (stop - cut) * _mean_square(1.0 - middle, 1.0 - last)
    outside = np.maximum(knots[..., 0] - y, 0.0) + np.maximum(y - knots[..., -1], 0.0)
    total: FloatArray = (below + above).sum(axis=1) + outside
    return total


def _mean_square(a: FloatArray, b: FloatArray) -> FloatArray:
    """The mean square of a linear function that runs from a to b."""
    return (a * a + a * b + b * b) / 3.0


def _check_finite(**arrays: FloatArray) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(Argument(name), " needs finite numbers, got an infinite one")


def _check_rising(left: FloatArray, right: FloatArray) -> None:
    # Rounding in a sum of weights may take a CDF past 1 by some last bits.
    slack = 1e-9
    outside = (left < -slack).any() or (right > 1.0 + slack).any()
    if outside or (right < left - slack).any() or (left[:, 1:] < right[:, :-1] - slack).any():
        raise InputError(
            Argument("left"),
            " and ",
            Argument("right"),
            " need to be values of a CDF: from 0 to 1, and never falling",
        )
