"""Reliability: how often runs with a forecast of about p met the target, for each p."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._readonly import freeze
from ontarget._typing import AnyArray, ArrayLike, FloatArray, IndexArray
from ontarget.errors import InputError
from ontarget.evaluation._inputs import (
    check_flags,
    check_probabilities,
    check_same_size,
)
from ontarget.evaluation.binomial import exact_interval


class Bin(NamedTuple):
    """One bin of forecasts: their number, their mean, and how often their runs met the target.

    ``low`` to ``high`` is the confidence interval of that rate.
    """

    n: int
    mean_p: float
    rate_met: float
    low: float
    high: float


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
        names = ("count", "mean_p", "rate_met", "low", "high")
        arrays = {name: np.asarray(getattr(self, name)) for name in names}
        if arrays["count"].ndim != 1 or arrays["count"].sum() == 0:
            raise InputError("Reliability needs at least one forecast in its bins, got none")
        check_same_size(**arrays)
        freeze(self, **arrays)

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
        """The expected calibration error (ECE).

        Each bin has a gap: |mean p − share that met the target|. The ECE is the mean gap, where
        each bin counts as often as it has forecasts.
        """
        gap = np.where(self.count > 0, np.abs(self.mean_p - self.rate_met), 0.0)
        return float(self.count @ gap / self.n)

    def at(self, p: float) -> Bin:
        """The bin that contains the forecast p; it says how often such forecasts came true."""
        i = int(bin_of(check_probabilities("p", [p]), self.count.size)[0])
        numbers = (self.mean_p[i], self.rate_met[i], self.low[i], self.high[i])
        return Bin(int(self.count[i]), *(float(number) for number in numbers))


def reliability(
    p: ArrayLike,
    met: ArrayLike,
    bins: int = 30,
    *,
    level: float = 0.95,
    episode: ArrayLike | None = None,
) -> Reliability:
    """Forecasts p in bins of equal width, and how often the target was met in each bin.

    Parameters
    ----------
    p
        Forecast probabilities, of one step or of many.
    met
        Whether each forecast's run ended inside the target.
    bins
        The number of bins; a forecast is in bin ``min(floor(bins * p), bins - 1)``.
    level
        The confidence level of each bin's interval.
    episode
        Which episode each forecast belongs to. Pass it if the forecasts are from several steps of
        the same episodes: the steps of one episode share its outcome, so they are not independent
        trials.

    Notes
    -----
    Without ``episode``, a bin has the exact (Clopper–Pearson) interval, which assumes independent
    forecasts. With ``episode``, the exact interval is computed for a smaller, effective number of
    trials. It follows from how much the rate differs between episodes (Korn and Graubard, 1998). If
    all outcomes in a bin are the same, it is the number of episodes in the bin.

    Examples
    --------
    >>> found = reliability([0.1, 0.9, 0.9, 0.9], [0, 1, 1, 0], bins=2)
    >>> print(found.count, found.rate_met.round(2), round(found.ece, 3))
    [1 3] [0.   0.67] 0.2
    """
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
    """The expected calibration error (ECE) of the forecasts, from 0 to 1; lower is better.

    Forecasts are sorted into bins of equal width. The result is the sum over bins of
    (share of forecasts in the bin) × |mean p − share that met the target|.

    Notes
    -----
    On finite data the ECE is above 0 even for perfect forecasts, because chance leaves a difference
    in every bin. `pooled_ece` says how large this part is.

    Examples
    --------
    >>> ece([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 0])
    0.25
    """
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
    """The effective number of independent trials in each bin, (bins,).

    It is smaller than the number of forecasts, because those of one episode depend on each other.
    """
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
