"""The histogram of PIT values, which is flat if the predicted distributions are right.

PIT is the probability integral transform: the predicted CDF at the outcome that occurred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._readonly import freeze
from ontarget._typing import ArrayLike, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation._inputs import (
    check_probabilities,
    check_same_size,
)
from ontarget.evaluation.binomial import beta_binomial_band, binomial_band
from ontarget.evaluation.calibration import bin_of


@dataclass(frozen=True, slots=True)
class PitHistogram:
    """Counts of PIT values in bins of [0, 1], with the range expected of calibrated forecasts.

    A PIT value is the predicted CDF at the outcome that occurred. If the predictions are
    calibrated, all counts lie between ``low`` and ``high`` at once, with probability at least
    ``band``.
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
            raise InputError(
                Argument("edges"), " needs one number more than there are bins (counts)"
            )
        freeze(self, edges=self.edges, **arrays)

    @property
    def is_flat(self) -> bool:
        """Whether every count lies in the range ``low`` to ``high`` of its bin."""
        return bool(((self.low <= self.count) & (self.count <= self.high)).all())


def pit_histogram(
    pit: ArrayLike, bins: int = 20, *, n_calibration: int | None = None, band: float = 0.95
) -> PitHistogram:
    """The histogram of PIT values, with the range expected for each bar if they are uniform.

    A PIT value is the predicted CDF at the outcome that occurred.

    Parameters
    ----------
    pit
        One value in [0, 1] per episode, all of the same step, with ties broken at random.
    bins
        The number of bars.
    n_calibration
        The number of calibration episodes that the values were computed with. All test episodes
        share these calibration episodes, so the bars vary more. Without this number, the predicted
        CDF is taken as exact.
    band
        All bars of a calibrated method lie in their ranges with at least this probability (by
        Bonferroni's bound).

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
    """The histogram of the ranks of test scores among n calibration scores.

    Here a rank is a whole number from 1 to n + 1: one more than the number of calibration scores
    below the test score. If n + 1 is not a multiple of ``bins``, some bins contain one rank more
    than others. The expected range is exact for each bin.

    Examples
    --------
    >>> found = rank_histogram([1, 4, 7, 10], 9, bins=3)
    >>> print(found.count, found.edges.round(2), found.expected)
    [2 1 1] [0.  0.4 0.7 1. ] [1.6 1.2 1.2]
    """
    n = whole_number("n_calibration", n_calibration, least=1)
    wanted = whole_number("bins", bins, least=1)
    if wanted > n + 1:
        raise InputError(
            Argument("bins"),
            f" needs a number of at most n_calibration + 1 = {n + 1}, got {wanted}",
        )
    given = np.asarray(ranks)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InputError(Argument("ranks"), f" needs whole numbers in 1 dimension, got {ranks!r}")
    if given.min() < 1 or given.max() > n + 1:
        raise InputError(
            Argument("ranks"),
            f" needs numbers from 1 to {n + 1}, got numbers from {given.min()} to {given.max()}",
        )
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
    # Bonferroni: each bar may leave its range with probability (1 − band)/bins.
    each = 1.0 - (1.0 - fraction("band", band)) / bins
    limits = {}
    for share in np.unique(shares):
        if bins == 1:
            limits[share] = (total, total)
        elif n_calibration is None:
            limits[share] = binomial_band(total, share, band=each)
        else:
            # The bin contains share · (n + 1) of the n + 1 gaps between ranks. The probability of
            # all of them together has a Beta distribution.
            gaps = share * (whole_number("n_calibration", n_calibration, least=1) + 1)
            rest = n_calibration + 1 - gaps
            limits[share] = beta_binomial_band(total, gaps, rest, band=each)
    low, high = np.array([limits[share] for share in shares]).T
    count = np.bincount(places, minlength=bins)
    return PitHistogram(edges, count, shares * total, low, high, band)
