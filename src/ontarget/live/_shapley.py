"""How much each cause contributes to a change: Shapley values, exact or sampled.

See method M28 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import factorial, fsum
from typing import NamedTuple

import numpy as np

from ontarget._typing import BoolArray, FloatArray, IndexArray

MOST_EXACT = 8
# If sampled: about this many sets of causes, but at least four orders and their reverses.
_SETS = 220
_FEWEST = 4
_SEED = 0


class Shares(NamedTuple):
    """The contribution of each cause to a change (its Shapley value), and its standard error.

    The standard error is 0 if the contribution is exact. ``none`` and ``all`` are the worth of no
    cause and of all causes: here, p before and p after the change.
    """

    values: FloatArray
    errors: FloatArray
    none: float  # the worth of no cause
    all: float  # the worth of all causes


def shapley(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    """The contributions of n causes; they add up to the worth of all causes minus that of none.

    Parameters
    ----------
    worth
        A function of sets of causes, given as flags (sets, causes). It returns the worth of each
        set: here, the p if only the causes in the set had changed.
    n
        How many causes there are. For up to eight, all orders in which causes can be added are
        used. For more, some orders are drawn with a fixed seed, each together with its reverse.

    Examples
    --------
    >>> shapley(lambda sets: sets @ np.array([1.0, 2.0]) + sets.all(axis=1), 2).values
    array([1.5, 2.5])
    """
    return _exact(worth, n) if n <= MOST_EXACT else _sampled(worth, n)


def _exact(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    numbers = np.arange(2**n)
    sets = (numbers[:, None] >> np.arange(n)) & 1 == 1
    found, size = worth(sets), sets.sum(axis=1)
    weight = np.array([factorial(k) * factorial(n - k - 1) / factorial(n) for k in range(n)] or [0])
    values = np.empty(n)
    for i in range(n):
        without = np.flatnonzero(~sets[:, i])
        gains = weight[size[without]] * (found[without | 1 << i] - found[without])
        values[i] = fsum(gains)  # a matrix product would depend on the processor in the last bits
    return Shares(values, np.zeros(n), float(found[0]), float(found[-1]))


class _Design(NamedTuple):
    """Some orders in which causes are added one by one, and the sets of causes on the way."""

    place: IndexArray  # (orders, causes): the place of each cause in each order
    sets: BoolArray  # (sets, causes), all different
    met: IndexArray  # (orders, causes + 1): the set after each addition


@cache
def _design(n: int) -> _Design:
    """Some random orders of n causes, each with its reverse; the same ones at every call."""
    rng, n_pairs = np.random.default_rng(_SEED), max(_FEWEST, _SETS // (2 * n))
    orders = np.array([rng.permutation(n) for _ in range(n_pairs)])
    orders = np.stack([orders, orders[:, ::-1]], axis=1).reshape(-1, n)
    place = np.argsort(orders, axis=1)
    sets = place[:, None, :] < np.arange(n + 1)[None, :, None]
    distinct, back = np.unique(sets.reshape(-1, n), axis=0, return_inverse=True)
    return _Design(place, distinct, back.reshape(-1, n + 1))


def _sampled(worth: Callable[[BoolArray], FloatArray], n: int) -> Shares:
    design = _design(n)
    found = worth(design.sets)[design.met]
    gains = np.take_along_axis(np.diff(found, axis=1), design.place, axis=1)
    pairs = gains.reshape(-1, 2, n).mean(axis=1)
    errors = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
    return Shares(pairs.mean(axis=0), errors, float(found[0, 0]), float(found[0, -1]))
