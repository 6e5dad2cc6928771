"""How much one column says about another, from 0 (nothing) to 1 (everything)."""

from __future__ import annotations

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray

_MEMBERS = 5  # a value that fewer rows share does not count as a group
_BEYOND_CHANCE = 5.0  # groups must explain this many times what groups drawn at random explain


def determined(x: FloatArray, y: FloatArray) -> float:
    """How much x says about y: the share of the variance of y's ranks that x explains.

    The rank of a value is its place in ascending order. Each row's rank is predicted from the other
    rows with the same x, or else from its two neighbours in the order of x. So a column of unique
    values explains nothing unless y really follows it. NaN counts as a value of x.
    """
    response = _ranks(y)
    total = float(np.square(response - response.mean()).sum())
    codes, sizes = _coded(x)
    if total == 0.0 or sizes.size < 2:
        return 0.0
    sums = np.bincount(codes, weights=response)
    means = sums / sizes
    predicted = (sums[codes] - response) / np.maximum(sizes[codes] - 1, 1)
    alone = np.flatnonzero(sizes[codes] == 1)
    own, last = codes[alone], sizes.size - 1
    # At either end of x there is only one neighbour.
    below, above = np.where(own == 0, 1, own - 1), np.where(own == last, last - 1, own + 1)
    predicted[alone] = (means[below] + means[above]) / 2.0
    return 1.0 - float(np.square(response - predicted).sum()) / total


def separated(x: FloatArray, y: FloatArray) -> float:
    """How well x separates the outcomes y: 1 if each value of x has an unbroken range of outcomes.

    This finds columns such as "won" or "lost". They explain only a part of the variance of the
    outcomes, but they say on which side of a limit an outcome fell. The result is 0 if chance may
    explain the separation.
    """
    codes, sizes = _coded(x)
    large: BoolArray = (sizes >= _MEMBERS)[codes]
    if np.count_nonzero(large) < max(2 * _MEMBERS, x.size // 2):
        return 0.0
    codes, sizes = _coded(x[large])
    response = _ranks(y[large])
    response -= response.mean()
    sums = np.bincount(codes, weights=response)
    between, total = float((sums**2 / sizes).sum()), float(np.square(response).sum())
    if between <= _BEYOND_CHANCE * total * (sizes.size - 1) / (response.size - 1):
        return 0.0
    # The most that groups of these sizes could explain, if they followed each other by outcome.
    order = np.argsort(sums / sizes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes[order])[:-1]])
    blocks = np.add.reduceat(np.sort(response), starts)
    return between / float((blocks**2 / sizes[order]).sum())


def linear_share(X: FloatArray, y: FloatArray) -> float:
    """The share of y's variance that a linear function of the columns of X explains."""
    if not X.shape[1]:
        return 0.0
    columns, deviation = _standard(X), _standard(y[:, None])[:, 0]
    if not deviation.any():
        return 0.0
    rest = deviation - columns @ np.linalg.lstsq(columns, deviation, rcond=1e-10)[0]
    return 1.0 - float(rest @ rest) / float(deviation @ deviation)


def _standard(X: FloatArray) -> FloatArray:
    """The columns of X, scaled to mean 0 and variance 1; a constant column becomes 0."""
    largest = np.abs(X).max(axis=0)
    columns = X / np.where(largest > 0.0, largest, 1.0)
    columns = columns - columns.mean(axis=0)
    spread = columns.std(axis=0)
    steady = spread <= 1e-12
    found: FloatArray = np.where(steady, 0.0, columns / np.where(steady, 1.0, spread))
    return found


def _ranks(values: FloatArray) -> FloatArray:
    """The place of each value in ascending order; equal values get the mean of their places."""
    codes, sizes = _coded(values)
    means: FloatArray = np.cumsum(sizes) - (sizes + 1) / 2.0
    return means[codes]


def _coded(x: FloatArray) -> tuple[IndexArray, IndexArray]:
    """Each value's index among the sorted distinct values, and how often each of these occurs."""
    _, codes, sizes = np.unique(x, return_inverse=True, return_counts=True)
    return codes, sizes
