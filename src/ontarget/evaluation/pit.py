"""The histogram of PIT values F(y); it is flat if the predicted distributions are right (M12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._readonly import freeze
from ontarget._typing import ArrayLike, FloatArray, IndexArray
from ontarget.errors import InputError
from ontarget.evaluation._inputs import (
    check_probabilities,
    check_same_size,
)
from ontarget.evaluation.binomial import beta_binomial_band, binomial_band
from ontarget.evaluation.calibration import bin_of

__all__ = ["PitHistogram", "pit_histogram", "rank_histogram"]


@dataclass(frozen=True, slots=True)
class PitHistogram:
    """Counts of PIT values in bins of [0, 1], with the range expected of calibrated forecasts.

    If the predictions are calibrated, all counts lie between ``low`` and ``high`` at once with
    probability at least ``band``.
    """

    edges: FloatArray
    count: IndexArray
    expected: FloatArray
    low: FloatArray
    high: FloatArray
    band: float

    def __post_init__(self) -> None:
        names = ("count", "expected", "low", "high")
        arrays = {name: np.asarray(getattr(self, name)) for name in names}
        check_same_size(**arrays)
        if np.asarray(self.edges).shape != (arrays["count"].size + 1,):
            raise InputError("edges needs one number more than there are bins")
        freeze(self, edges=self.edges, **arrays)

    @property
    def is_flat(self) -> bool:
        """Whether every count lies in its range."""
        return bool(((self.low <= self.count) & (self.count <= self.high)).all())


def pit_histogram(
    pit: ArrayLike, bins: int = 20, *, n_calibration: int | None = None, band: float = 0.95
) -> PitHistogram:
    """The histogram of PIT values F(y), with the range of each bar if they are uniform.

    Parameters
    ----------
    pit
        One value in [0, 1] per episode, all of the same step, with ties broken at random.
    bins
        The number of bars.
    n_calibration
        The number of calibration ranks used to compute the values. All test episodes share these
        ranks, so the bars vary more. Without it, F is assumed to be exact.
    band
        The probability, at least, that every bar of a calibrated method lies in its range
        (by Bonferroni's bound).

    Examples
    --------
    >>> found = pit_histogram([0.1, 0.3, 0.6, 1.0], bins=2)
    >>> print(found.count, found.low, found.high, found.is_flat)
    [2 2] [0 0] [4 4] True
    """
    values = check_probabilities("pit", pit)
    places = bin_of(values, bins)
    shares = np.full(bins, 1.0 / bins)
    return _histogram(places, shares, np.linspace(0.0, 1.0, bins + 1), (n_calibration, band))


def rank_histogram(
    ranks: ArrayLike, n_calibration: int, *, bins: int = 20, band: float = 0.95
) -> PitHistogram:
    """The histogram of the ranks, 1 to n + 1, of test scores among n calibration scores.

    Bins hold whole ranks, so their widths may differ; the range is exact for each of them.

    Examples
    --------
    >>> found = rank_histogram([1, 4, 7, 10], 9, bins=3)
    >>> print(found.count, found.edges.round(2), found.expected)
    [2 1 1] [0.  0.4 0.7 1. ] [1.6 1.2 1.2]
    """
    n = whole_number("n_calibration", n_calibration, least=1)
    wanted = whole_number("bins", bins, least=1)
    if wanted > n + 1:
        raise InputError(f"bins needs at most n_calibration + 1 = {n + 1}, got {wanted}")
    given = np.asarray(ranks)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InputError(f"ranks needs whole numbers in 1 dimension, got {ranks!r}")
    if given.min() < 1 or given.max() > n + 1:
        raise InputError(f"ranks needs numbers from 1 to {n + 1}, got {given.min()}..{given.max()}")
    bin_of_rank = np.arange(n + 1) * wanted // (n + 1)
    shares = np.bincount(bin_of_rank, minlength=wanted) / (n + 1)
    edges = np.concatenate(([0.0], np.cumsum(shares)))
    edges[-1] = 1.0
    return _histogram(bin_of_rank[given - 1], shares, edges, (n, band))


def _histogram(
    places: IndexArray, shares: FloatArray, edges: FloatArray, asked: tuple[int | None, float]
) -> PitHistogram:
    n_calibration, band = asked
    total, bins = places.size, shares.size
    # Bonferroni: each bar may leave its band with a share 1/bins of what all may together.
    each = 1.0 - (1.0 - fraction("band", band)) / bins
    limits = {}
    for share in np.unique(shares):
        if bins == 1:
            limits[share] = (total, total)
        elif n_calibration is None:
            limits[share] = binomial_band(total, share, band=each)
        else:
            # Of the n + 1 gaps between ranks, share · (n + 1) fall into the bin: their joint mass.
            gaps = share * (whole_number("n_calibration", n_calibration, least=1) + 1)
            rest = n_calibration + 1 - gaps
            limits[share] = beta_binomial_band(total, gaps, rest, band=each)
    low, high = np.array([limits[share] for share in shares]).T
    count = np.bincount(places, minlength=bins)
    return PitHistogram(edges, count, shares * total, low, high, band)
