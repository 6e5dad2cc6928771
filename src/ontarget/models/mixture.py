"""Predictions of a weighted mixture of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.errors import InputError
from ontarget.models.base import ConditionalDistribution, Side, check_levels, check_side

# Each part's weight, and its fitted model. The weights sum to 1.
Parts: TypeAlias = Sequence[tuple[float, ConditionalDistribution]]

_SIGN = np.uint64(1 << 63)


def mixture_limits(
    parts: Parts, inputs: Sequence[Any], y: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """``P(Y < y | x)`` and ``P(Y <= y | x)`` of a mixture of models for each row, as two arrays."""
    found = [_limits(model, X, y) for (_, model), X in zip(parts, inputs, strict=True)]
    weights = [weight for weight, _ in parts]
    left = weighted(weights, [one for one, _ in found])
    return left, weighted(weights, [one for _, one in found])


def mixture_quantile(
    parts: Parts, inputs: Sequence[Any], q: ArrayLike, side: Side = "left"
) -> FloatArray:
    """The quantiles of a mixture of models at level q, which invert `mixture_limits` exactly."""
    if len(parts) == 1:
        return parts[0][1].quantile(inputs[0], q, side=side)
    levels, flat = check_levels(q)
    strictly = check_side(side) == "right"
    rows = [np.asarray(X) for X in inputs]

    def reached(which: IndexArray, values: FloatArray) -> BoolArray:
        """Whether the CDF of each of these rows has reached each level at the given values."""
        finite = np.isfinite(values)
        asked = [X[which] for X in rows]
        mass = mixture_limits(parts, asked, np.where(finite, values, 0.0))[1]
        mass = np.where(finite, mass, values > 0.0)
        return mass > levels if strictly else mass >= levels

    own = [m.quantile(X, levels, side=side) for (_, m), X in zip(parts, rows, strict=True)]
    # Below all parts' quantiles the level is not reached, and at the largest it is: up to rounding.
    low, high = np.nextafter(np.min(own, axis=0), -np.inf), np.max(own, axis=0)
    everyone = np.arange(low.shape[0])
    low = np.where(reached(everyone, low), -np.inf, low)
    high = np.where(reached(everyone, high), high, np.inf)
    found = _first_reached(reached, low, high)
    found[:, levels < 0.0 if strictly else levels <= 0.0] = -np.inf
    return found[:, 0] if flat else found


def quantile_of(
    limits: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    X: FloatArray,
    q: ArrayLike,
    side: Side = "left",
) -> FloatArray:
    """The quantiles at level q of any distribution whose CDF is known, found by bisection."""
    levels, flat = check_levels(q)
    strictly = check_side(side) == "right"

    def reached(which: IndexArray, values: FloatArray) -> BoolArray:
        finite = np.isfinite(values)
        mass = limits(X[which], np.where(finite, values, 0.0))[1]
        mass = np.where(finite, mass, values > 0.0)
        return mass > levels if strictly else mass >= levels

    ends = np.full((X.shape[0], levels.size), np.inf)
    found = _first_reached(reached, -ends, ends)
    found[:, levels < 0.0 if strictly else levels <= 0.0] = -np.inf
    return found[:, 0] if flat else found


def _limits(model: ConditionalDistribution, X: Any, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """What the model's `cdf_limits` returns, as two arrays of floats."""
    # An answer of another shape is refused, because NumPy might broadcast it silently.
    left, right = (np.asarray(one, dtype=np.float64) for one in model.cdf_limits(X, y))
    shape = np.shape(y) or (len(X),)
    if left.shape != shape or right.shape != shape:
        raise InputError(
            f"cdf_limits of {type(model).__name__} needs to answer with two arrays of shape "
            f"{shape}, one number per row and value, got {left.shape} and {right.shape}"
        )
    return left, right


def weighted(weights: Sequence[float], limits: Sequence[FloatArray]) -> FloatArray:
    """The weighted sum of the CDF values that several models give, added in the given order."""
    total = weights[0] * limits[0]
    if len(weights) == 1:
        return total
    for weight, limit in zip(weights[1:], limits[1:], strict=True):
        total = total + weight * limit
    # Rounded weights may sum to a little more or less than 1: certainty stays exactly 1.
    certain = np.all([limit == 1.0 for limit in limits], axis=0)
    return np.where(certain, 1.0, np.minimum(total, 1.0))


def _first_reached(
    reached: Callable[[IndexArray, FloatArray], BoolArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """The smallest float at which ``reached`` is true, above ``low`` and at most ``high``."""
    below, at = _places(low), _places(high)
    while (open_rows := np.flatnonzero((at - below > 1).any(axis=1))).size:
        a, b = below[open_rows], at[open_rows]
        middle = a + ((b - a) >> np.uint64(1))
        hit = reached(open_rows, _floats(middle))
        below[open_rows], at[open_rows] = np.where(hit, a, middle), np.where(hit, middle, b)
    return _floats(at) + 0.0  # -0.0 and 0.0 are one outcome


def _places(values: FloatArray) -> KeyArray:
    """The position of each float in the sorted order of all floats."""
    bits = values.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _floats(places: KeyArray) -> FloatArray:
    return np.where(places & _SIGN, places ^ _SIGN, ~places).view(np.float64)
