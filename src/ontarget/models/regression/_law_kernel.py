"""The predicted distribution of a row by a distribution regression: its CDF and its quantiles."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from ontarget._kernel import inner_kernel, kernel
from ontarget._typing import AnyArray, FloatArray, IntArray
from ontarget.models._ranked_kernel import Columns, column_of, level_of, node_at, time_of
from ontarget.models.kernels import cdf_in_cell

# Effects that no feature has a part in: the spline in t (4), the slope of each piece of z (4), and
# how the two inner slopes change with t.
GLOBALS = 10
# Effects of each column: itself, on the inner slopes, times t, its square, and times both hinges.
WIDTH = 6
# The pieces of z end here, and the spline in t has its hinges there (t runs from 0 to 1).
_KNOT = 2.0
_HINGES = (0.5, 0.8)
_LEAST_SLOPE = 0.01

# Base, slope of each piece of z, the node before the row's step, and the weight of the next node.
Lines: TypeAlias = tuple[float, float, float, float, float, int, float]


class Regression(NamedTuple):
    """A fitted distribution regression, as kernels take it.

    A *cut* j divides the sorted distinct training outcomes into the first j and the rest.
    ``levels`` holds, for each of several evenly spaced times (*nodes*), the log odds of the share
    of outcomes before each cut. ``mass`` is the share of all training outcomes before each cut,
    from 0 to 1. ``effects`` are the coefficients.
    """

    columns: Columns
    effects: FloatArray
    levels: AnyArray  # float32
    mass: FloatArray
    support: tuple[FloatArray, AnyArray, FloatArray]


@inner_kernel
def _pieces(z: float) -> tuple[float, float, float, float]:
    """The parts of z below -2, from -2 to 0, from 0 to 2, and above 2; they add up to z."""
    return (
        min(z + _KNOT, 0.0),
        min(max(z, -_KNOT), 0.0),
        min(max(z, 0.0), _KNOT),
        max(z - _KNOT, 0.0),
    )


@inner_kernel
def _lines(row: FloatArray, model: Regression) -> Lines:
    """The parts of a row's predicted log odds that do not depend on the threshold."""
    columns, e = model.columns, model.effects
    t = time_of(row, columns)
    a, b = max(t - _HINGES[0], 0.0), max(t - _HINGES[1], 0.0)
    base, inner = e[0] + t * e[1] + a * e[2] + b * e[3], 0.0
    for f in range(columns.start.size - 1):
        k, v = column_of(row, f, columns)
        if k >= 0:
            own = GLOBALS + WIDTH * k
            changing = t * e[own + 2] + a * e[own + 4] + b * e[own + 5]
            base += v * (e[own] + v * e[own + 3] + changing)
            inner += v * e[own + 1]
    n_cuts = model.support[0].size - 1
    node, weight = node_at(t, model.levels.size // n_cuts) if n_cuts > 0 else (0, 0.0)
    return (
        base,
        max(1.0 + e[4], _LEAST_SLOPE),
        max(1.0 + e[5] + t * e[8] + inner, _LEAST_SLOPE),
        max(1.0 + e[6] + t * e[9] + inner, _LEAST_SLOPE),
        max(1.0 + e[7], _LEAST_SLOPE),
        node,
        weight,
    )


@inner_kernel
def _mass(cut: int, lines: Lines, model: Regression) -> float:
    """The row's probability of the first ``cut`` distinct outcomes (M2)."""
    n_cuts = model.support[0].size - 1
    if cut == 0:
        return 0.0
    if cut > n_cuts:
        return 1.0
    z = level_of(model.levels, n_cuts, cut, (lines[5], lines[6]))
    p = _pieces(z)
    logit = lines[0] + lines[1] * p[0] + lines[2] * p[1] + lines[3] * p[2] + lines[4] * p[3]
    mass = 1.0 / (1.0 + math.exp(-logit))
    tail = model.support[2]
    if tail[2] > 0.0:
        return mass
    return float((1.0 - tail[3]) * mass + tail[3] * model.mass[cut])


@kernel
def limits_of_rows(
    model: Regression, X: FloatArray, y: FloatArray, out: tuple[FloatArray, FloatArray]
) -> None:
    """Write P(Y < y) and P(Y <= y) of each row at each of its values y.

    ``y`` is (rows, values), and ``out`` holds two arrays of the same shape.
    """
    values = model.support[0]
    left, right = out
    for i in range(X.shape[0]):
        lines = _lines(X[i], model)
        for k in range(y.shape[1]):
            j = np.searchsorted(values, y[i, k])
            below, upto = _mass(j, lines, model), _mass(min(j + 1, values.size), lines, model)
            left[i, k], right[i, k] = cdf_in_cell(y[i, k], j, below, upto, model.support)


@kernel
def masses_of_rows(model: Regression, X: FloatArray, out: FloatArray) -> None:
    """Write the probability before each outcome of the support, for each row."""
    for i in range(X.shape[0]):
        lines = _lines(X[i], model)
        for cut in range(out.shape[1]):
            out[i, cut] = _mass(cut, lines, model)


@kernel
def fill_design(
    marginal: tuple[Columns, AnyArray, int],
    X: FloatArray,
    asked: tuple[IntArray, IntArray],
    active: IntArray,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Write the columns of the logistic regression, and the offset of its log odds."""
    columns, levels, n_cuts = marginal
    rows, cuts = asked
    design, offset = out
    n_nodes = levels.size // n_cuts
    terms = np.empty(GLOBALS + WIDTH * columns.codes.size)
    for i in range(rows.size):
        row = X[rows[i]]
        t = time_of(row, columns)
        a, b = max(t - _HINGES[0], 0.0), max(t - _HINGES[1], 0.0)
        z = level_of(levels, n_cuts, cuts[i], node_at(t, n_nodes))
        p = _pieces(z)
        terms[:] = 0.0
        terms[0], terms[1], terms[2], terms[3] = 1.0, t, a, b
        terms[4], terms[5], terms[6], terms[7] = p
        terms[8], terms[9] = t * p[1], t * p[2]
        for f in range(columns.start.size - 1):
            k, v = column_of(row, f, columns)
            if k >= 0:
                own = GLOBALS + WIDTH * k
                terms[own], terms[own + 1] = v, v * (p[1] + p[2])
                terms[own + 2], terms[own + 3] = v * t, v * v
                terms[own + 4], terms[own + 5] = v * a, v * b
        for j in range(active.size):
            design[i, j] = terms[active[j]]
        offset[i] = z
