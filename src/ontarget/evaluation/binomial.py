"""Exact confidence intervals of a share, and the range in which a calibrated count should lie."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, betaln, gammaln, xlog1py, xlogy

from ontarget._arguments import fraction, whole_number
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of independent trials, with its exact (Clopper–Pearson) confidence interval.

    With no trials, the share is NaN and the interval is all of [0, 1].

    Examples
    --------
    >>> print(Rate.of(8, 10))
    0.800 (0.444 to 0.975, 8 of 10)
    """

    count: int
    n: int
    low: float
    high: float
    level: float

    @classmethod
    def of(cls, count: int, n: int, *, level: float = 0.95) -> Rate:
        """The share ``count / n``, with its confidence interval at this level."""
        whole, trials = whole_number("count", count, least=0), whole_number("n", n, least=0)
        if whole > trials:
            raise InputError(Argument("count"), f" needs to be at most n, got {whole} of {trials}")
        low, high = exact_interval(whole, trials, level=level)
        return cls(whole, trials, float(low), float(high), level)

    @property
    def value(self) -> float:
        """The share; NaN if there were no trials."""
        return self.count / self.n if self.n else math.nan

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.value:.3f} ({interval}, {self.count} of {self.n})"


def exact_interval(
    count: ArrayLike, n: ArrayLike, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """The exact (Clopper–Pearson) interval of each share ``count / n``, as arrays (low, high).

    It is [0, 1] if n is 0. ``n`` need not be a whole number: it may be an effective number of
    trials.

    Notes
    -----
    If the trials are independent, the interval contains the true share with probability at least
    ``level``.
    """
    tail = (1.0 - fraction("level", level)) / 2.0
    hits, trials = np.broadcast_arrays(
        np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    misses = trials - hits
    # At the ends one parameter is 0 and the quantile is known; the 1 put there only avoids NaN.
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1.0), misses + 1.0, tail), 0.0)
    high = np.where(
        misses > 0, betaincinv(hits + 1.0, np.where(misses > 0, misses, 1.0), 1.0 - tail), 1.0
    )
    return low, high


def binomial_band(n: int, share: float, *, band: float) -> tuple[int, int]:
    """A range (lowest, highest) that contains a Binomial(n, share) count with probability ``band``.

    The probability is at least ``band``. Counts below and above the range have at most half of the
    remaining probability each.

    Examples
    --------
    >>> binomial_band(100, 0.5, band=0.95)
    (40, 60)
    """
    counts = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return _central(np.exp(ways + xlogy(counts, share) + xlog1py(n - counts, -share)), band)


def beta_binomial_band(n: int, a: float, b: float, *, band: float) -> tuple[int, int]:
    """A range (lowest, highest) for a BetaBinomial(n, a, b) count, as from `binomial_band`."""
    counts = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return _central(np.exp(ways + betaln(counts + a, n - counts + b) - betaln(a, b)), band)


def _central(mass: FloatArray, band: float) -> tuple[int, int]:
    tail = (1.0 - fraction("band", band)) / 2.0
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])
    last = mass.size - 1
    low = int(np.searchsorted(below, tail, side="right"))
    high = last - int(np.searchsorted(above, tail, side="right"))
    return min(low, last), max(high, 0)
