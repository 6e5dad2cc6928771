"""How good probabilities are: scores, calibration (how often they came true), and PIT values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._arrays import freeze
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation.rates import (
    beta_binomial_band,
    binomial_band,
    check_flags,
    check_numbers,
    check_probabilities,
    check_same_size,
    exact_interval,
)


def squared_errors(p: ArrayLike, met: ArrayLike) -> FloatArray:
    """(p − met)² of each forecast, where met is 1 or 0; NaN where p is NaN."""
    return (_unit("p", p) - np.asarray(met, dtype=np.float64)) ** 2


def log_losses(p: ArrayLike, met: ArrayLike, n_calibration: ArrayLike) -> FloatArray:
    """−log of the probability of what happened, p clipped as in `log_loss`; NaN where p is NaN."""
    forecasts, outcomes = _unit("p", p), np.asarray(met, dtype=np.float64)
    n = np.asarray(n_calibration, dtype=np.float64)
    if not (n >= 0.0).all():
        raise InputError(Argument("n_calibration"), f" needs numbers from 0 up, got {np.min(n)}")
    least = 0.5 / (n + 1.0)
    clipped = np.clip(forecasts, least, 1.0 - least)
    return -np.log(np.where(outcomes == 1.0, clipped, 1.0 - clipped))


def brier(p: ArrayLike, met: ArrayLike) -> float:
    """The Brier score: the mean of (p − met)², where met is 1 or 0; lower is better."""
    return float(squared_errors(*_forecasts(p, met)).mean())


def log_loss(p: ArrayLike, met: ArrayLike, n_calibration: int) -> float:
    """The log loss: the mean of −log of the probability of what happened; lower is better."""
    # p is clipped to [½/(n + 1), 1 − ½/(n + 1)], where n is ``n_calibration``: n calibration
    # episodes cannot tell smaller probabilities from 0. Without clipping, a single p = 0 that came
    # true would make the loss infinite.
    whole_number("n_calibration", n_calibration, least=0)
    forecasts, outcomes = _forecasts(p, met)
    return float(log_losses(forecasts, outcomes, n_calibration=n_calibration).mean())


def _forecasts(p: ArrayLike, met: ArrayLike) -> tuple[FloatArray, FloatArray]:
    forecasts, outcomes = check_probabilities("p", p), check_flags("met", met)
    check_same_size(p=forecasts, met=outcomes)
    return forecasts, outcomes.astype(np.float64)


def _unit(name: str, values: ArrayLike) -> FloatArray:
    """The values as an array of any shape; refused unless each is in [0, 1] or NaN."""
    array = np.asarray(values, dtype=np.float64)
    inside = array[~np.isnan(array)]
    if inside.size:
        check_probabilities(name, inside)
    else:
        check_numbers(name, inside)
    return array


@dataclass(frozen=True, slots=True)
class Reliability:
    """Forecasts in bins of equal width: their number, their mean, how often the target was met.

    All arrays have shape (bins,). ``low`` to ``high`` is the confidence interval of ``rate_met``.
    ``mean_p``, ``rate_met``, ``low`` and ``high`` are NaN for an empty bin.
    """

    count: IndexArray
    mean_p: FloatArray
    rate_met: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    def __post_init__(self) -> None:
        freeze(self, "count", "mean_p", "rate_met", "low", "high")

    @property
    def n(self) -> int:
        """The number of forecasts."""
        return int(self.count.sum())

    @property
    def edges(self) -> FloatArray:
        """The edges of the bins, from 0 to 1."""
        return np.linspace(0.0, 1.0, self.count.size + 1)

    @property
    def ece(self) -> float:
        """The expected calibration error (ECE)."""
        gap = np.where(self.count > 0, np.abs(self.mean_p - self.rate_met), 0.0)
        return float(self.count @ gap / self.n)


def reliability(
    p: ArrayLike,
    met: ArrayLike,
    bins: int = 30,
    *,
    level: float = 0.95,
    episode: ArrayLike | None = None,
) -> Reliability:
    """Forecasts p in bins of equal width, and how often the target was met in each bin."""
    forecasts, outcomes = check_probabilities("p", p), check_flags("met", met)
    check_same_size(p=forecasts, met=outcomes)
    fraction("level", level)
    places = bin_of(forecasts, bins)
    count = np.bincount(places, minlength=bins)
    hits = np.bincount(places, weights=outcomes, minlength=bins)
    safe = np.maximum(count, 1)
    total_p = np.bincount(places, weights=forecasts, minlength=bins)
    mean_p = np.where(count > 0, total_p / safe, np.nan)
    rate = np.where(count > 0, hits / safe, np.nan)
    trials = count.astype(np.float64)
    if episode is not None:
        owners = np.asarray(episode)
        if owners.ndim != 1:
            raise InputError(f"episode needs 1 dimension, got shape {owners.shape}")
        check_same_size(p=forecasts, episode=owners)
        trials = _effective_trials(places, outcomes.astype(np.float64), owners, count)
    low, high = exact_interval(np.nan_to_num(rate) * trials, trials, level=level)
    low, high = (np.where(count > 0, end, np.nan) for end in (low, high))
    return Reliability(count, mean_p, rate, low, high, level)


def ece(p: ArrayLike, met: ArrayLike, bins: int = 30) -> float:
    """The expected calibration error (ECE) of the forecasts, from 0 to 1; lower is better."""
    # Forecasts are sorted into bins of equal width. The result is the sum over bins of (share of
    # forecasts in the bin) × |mean p − share that met the target|.
    forecasts, outcomes = check_probabilities("p", p), check_flags("met", met)
    check_same_size(p=forecasts, met=outcomes)
    gaps = np.bincount(bin_of(forecasts, bins), weights=forecasts - outcomes)
    return float(np.abs(gaps).sum() / forecasts.size)


def bin_of(p: FloatArray, bins: int) -> IndexArray:
    """The number of each forecast's bin, ``min(floor(bins * p), bins - 1)``."""
    width = whole_number("bins", bins, least=1)
    places: IndexArray = np.minimum(np.floor(width * p).astype(np.intp), width - 1)
    return places


def _effective_trials(
    places: IndexArray, met: FloatArray, owners: AnyArray, count: IndexArray
) -> FloatArray:
    """The effective number of independent trials in each bin, (bins,)."""
    # It is smaller than the number of forecasts, because those of one episode depend on each other.
    bins = count.size
    # A cluster is the forecasts of one episode that are in one bin.
    clusters, cluster_of = np.unique(
        np.unique(owners, return_inverse=True)[1] * bins + places, return_inverse=True
    )
    bin_of_cluster = clusters % bins
    size = np.bincount(cluster_of).astype(np.float64)
    hits = np.bincount(cluster_of, weights=met)
    episodes = np.bincount(bin_of_cluster, minlength=bins).astype(np.float64)
    total = np.maximum(count, 1).astype(np.float64)
    rate = np.bincount(bin_of_cluster, weights=hits, minlength=bins) / total
    residual = np.bincount(
        bin_of_cluster, weights=(hits - rate[bin_of_cluster] * size) ** 2, minlength=bins
    )
    spread = rate * (1.0 - rate)
    variance = residual / total**2
    trials = np.where(variance > 0.0, spread / np.where(variance > 0.0, variance, 1.0), episodes)
    # Forecasts of one episode share its outcome, so there are no more trials than episodes.
    return np.clip(trials, np.minimum(1.0, episodes), episodes)


@dataclass(frozen=True, slots=True)
class PitHistogram:
    """Counts of PIT values in bins of [0, 1], with the range expected of calibrated forecasts.

    If the predictions are calibrated, all counts lie between ``low`` and ``high`` at once, with
    probability at least ``band``.
    """

    edges: FloatArray
    count: IndexArray
    expected: FloatArray
    low: FloatArray
    high: FloatArray
    band: float

    def __post_init__(self) -> None:
        freeze(self, "edges", "count", "expected", "low", "high")

    @property
    def is_flat(self) -> bool:
        """Whether every count lies in the range ``low`` to ``high`` of its bin."""
        return bool(((self.low <= self.count) & (self.count <= self.high)).all())


def pit_histogram(
    pit: ArrayLike, bins: int = 20, *, n_calibration: int | None = None, band: float = 0.95
) -> PitHistogram:
    """The histogram of PIT values, with the range expected for each bar if they are uniform."""
    values = check_probabilities("pit", pit)
    places = bin_of(values, bins)
    shares = np.full(bins, 1.0 / bins)
    return _histogram(places, shares, np.linspace(0.0, 1.0, bins + 1), (n_calibration, band))


def rank_histogram(
    ranks: ArrayLike, n_calibration: int, *, bins: int = 20, band: float = 0.95
) -> PitHistogram:
    """The histogram of the ranks of test scores among n calibration scores."""
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
