"""Calibration ranks, how many of them lie below a number, and the results they give per row.

The rank of an episode is where its outcome fell in the distribution that was predicted for it: 0.3
if the predicted probability of a lower outcome was 30 % (method M3 in docs/methods.md). Nothing
here depends on a model. Most results are whole numbers, which the caller divides as the last step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._keyed import keyed_hash, keyed_uniform
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.conformal.kernels import end_counts_many, target_rows
from ontarget.errors import Argument, CalibrationError, InputError

_BLOCK = 16_384
# A set of more ranks is thinned to at most so many, and never to fewer than about half of them.
MOST_RANKS = 20_000
FEWEST_THINNED = MOST_RANKS // 2 - 1


class Probability(NamedTuple):
    """The probability of a target by a conformal method, per row: ``low <= p <= high``."""

    low: FloatArray
    p: FloatArray
    high: FloatArray


class CalibratedCDF(NamedTuple):
    """The calibrated CDF at a value, one entry per row: ``low <= mid <= high``."""

    low: FloatArray
    mid: FloatArray
    high: FloatArray


class Interval(NamedTuple):
    """The ends of one interval per row.

    Intervals of ``kind="at_least"`` are closed, those of ``kind="at_most"`` are open. An interval
    with ``lower > upper`` (for an open one, ``lower >= upper``) is empty.
    """

    lower: FloatArray
    upper: FloatArray

    def contains(self, outcomes: ArrayLike, *, closed: bool = True) -> BoolArray:
        """Whether each row's outcome lies in its interval, (rows,).

        The ends belong to the interval if ``closed`` is True.
        """
        values = np.asarray(outcomes, dtype=np.float64)
        if closed:
            return (values >= self.lower) & (values <= self.upper)
        return (values > self.lower) & (values < self.upper)


def draw_ranks(
    left: FloatArray, right: FloatArray, keys: KeyArray, *, seed: int, step: int
) -> FloatArray:
    """One rank per calibration episode, (episodes,): where its outcome fell in its prediction."""
    broken = ~((left >= 0.0) & (left <= right) & (right <= 1.0))  # NaN is broken too
    if broken.any():
        raise CalibrationError(
            "the model's cdf_limits need 0 <= left <= right <= 1 for every calibration row; "
            f"{np.count_nonzero(broken)} rows do not have this"
        )
    atom = left < right
    if not atom.any():
        return left
    inside = left + keyed_uniform(keys, seed, "rank", step) * (right - left)
    # Keep the rank off the limits: there it would count as an outcome below or above this one.
    inside = np.clip(inside, np.nextafter(left, math.inf), np.nextafter(right, -math.inf))
    return np.where(atom, inside, left)


def thinned_ranks(ranks: FloatArray, keys: KeyArray, *, seed: int, step: int) -> FloatArray:
    """At most `MOST_RANKS` of these sorted ranks; bounds that use only these are still valid.

    Examples
    --------
    >>> all_of_them = np.linspace(0.0, 1.0, 60_002)
    >>> some = thinned_ranks(all_of_them, np.arange(60_002, dtype=np.uint64), seed=0, step=0)
    >>> some.size
    20000
    """
    n, every = ranks.size, -(-(ranks.size + 1) // (MOST_RANKS + 1))
    if every == 1:
        return ranks
    spare = (n + 1) % every
    lots = np.argsort(keyed_hash(keys, seed, "thinned", step), kind="stable")
    kept: FloatArray = np.delete(ranks, lots[:spare])[every - 1 :: every]
    return kept


@dataclass(frozen=True, eq=False)
class Ranks:
    """Sorted calibration ranks, read-only.

    The rank of an episode is where its outcome fell in the distribution predicted for it, from 0
    to 1.

    Examples
    --------
    >>> ranks = Ranks.of([0.7, 0.2, 0.5])
    >>> ranks.counts([0.5, 0.6])
    (array([1, 2]), array([2, 2]))
    >>> low, mid, high = ranks.bounds([0.5])
    >>> print(low, mid, high)
    [0.25] [0.5] [0.75]
    """

    values: FloatArray

    def __post_init__(self) -> None:
        array = np.array(self.values, dtype=np.float64)
        if array.ndim != 1 or not np.all(np.isfinite(array)):
            raise InputError(
                Argument("values"),
                f" of Ranks needs a 1-D array of finite numbers, got shape {array.shape}",
            )
        if np.any(array[1:] < array[:-1]):
            raise InputError(
                Argument("values"),
                " of Ranks needs numbers in ascending order; Ranks.of(values) sorts them",
            )
        object.__setattr__(self, "values", read_only(array))

    @classmethod
    def of(cls, values: ArrayLike) -> Ranks:
        """The sorted ranks, made from numbers in any order."""
        return cls(np.sort(np.asarray(values, dtype=np.float64)))

    @property
    def n(self) -> int:
        """The number of ranks, which is the number of calibration episodes."""
        return int(self.values.size)

    def __len__(self) -> int:
        return self.n

    def counts(self, query: ArrayLike) -> tuple[IndexArray, IndexArray]:
        """How many of the ranks are below each number in ``query``, and how many are at most it."""
        below = np.searchsorted(self.values, query, side="left")
        upto = np.searchsorted(self.values, query, side="right")
        return np.asarray(below), np.asarray(upto)

    def end_counts(self, query: ArrayLike) -> tuple[IndexArray, IndexArray]:
        """The lower and upper calibrated CDF at each query, as whole numbers to divide by n + 1."""
        queries = np.asarray(query, dtype=np.float64)
        flat = np.ascontiguousarray(queries).ravel()
        counts = np.empty((flat.size, 2), dtype=np.intp)
        run_blocks(
            lambda a, b: end_counts_many(self.values, flat[a:b], counts[a:b]),
            flat.size,
            block=_BLOCK,
        )
        return counts[:, 0].reshape(queries.shape), counts[:, 1].reshape(queries.shape)

    def bounds(self, query: ArrayLike) -> CalibratedCDF:
        """Lower, middle and upper calibrated CDF at each query, a predicted CDF value."""
        lo, hi = self.end_counts(query)
        whole = self.n + 1
        return CalibratedCDF(lo / whole, (lo + hi) / (2 * whole), hi / whole)

    def mid(self, query: ArrayLike) -> FloatArray:
        """The calibrated CDF at each query (a predicted CDF value): the middle of its bounds."""
        return self.bounds(query).mid

    def order(self, k: int) -> float:
        """The k-th smallest rank, k from 1 to n; -inf for k = 0 and +inf for k = n + 1."""
        if not 0 <= k <= self.n + 1:
            raise InputError(
                "Ranks.order needs ", Argument("k"), f" from 0 to {self.n + 1}, got {k}"
            )
        if k == 0:
            return -math.inf
        return math.inf if k == self.n + 1 else float(self.values[k - 1])

    def depth(self, k: int) -> float:
        """The number d, from 0 to 0.5, for which k ranks lie between d and 1 − d."""
        # Let α be the rank that is k-th closest to 0.5; then d = min(α, 1 − α). d is not computed
        # as 0.5 − |0.5 − α|, because floats would round.
        if not 1 <= k <= self.n:
            raise InputError("Ranks.depth needs ", Argument("k"), f" from 1 to {self.n}, got {k}")
        depths = np.where(self.values < 0.5, self.values, 1.0 - self.values)
        return float(np.partition(depths, self.n - k)[self.n - k])


class TargetCounts(NamedTuple):
    """The probability of targets as whole numbers: counts that are not yet divided.

    Calibration episodes are counted by where their outcomes fell in their predicted distributions.
    With n such episodes, divide ``low`` and ``high`` by n + 1, and ``mid`` by 2(n + 1), which gives
    p.
    """

    low: IndexArray
    mid: IndexArray
    high: IndexArray
    n: int

    def probability(self) -> Probability:
        """The probabilities (low, p, high): the counts, divided by n + 1 or 2(n + 1)."""
        whole = self.n + 1
        return Probability(self.low / whole, self.mid / (2 * whole), self.high / whole)


def target_counts(
    ranks: Ranks, a_minus: FloatArray, a_plus: FloatArray, first: ArrayLike | None = None
) -> TargetCounts:
    """The probability (low, p, high) of each target for each row, as whole numbers."""
    minus = np.ascontiguousarray(a_minus, dtype=np.float64)
    plus = np.ascontiguousarray(a_plus, dtype=np.float64)
    starts = [0, minus.shape[1]] if first is None else first
    borders = np.array(starts, dtype=np.intp)
    counts = np.empty((minus.shape[0], borders.size - 1, 3), dtype=np.intp)
    run_blocks(
        lambda a, b: target_rows(ranks.values, minus[a:b], plus[a:b], borders, counts[a:b]),
        minus.shape[0],
        block=_BLOCK,
    )
    low, mid, high = np.moveaxis(counts[:, 0] if first is None else counts, -1, 0)
    return TargetCounts(low, mid, high, ranks.n)
