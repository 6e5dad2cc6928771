"""Measures with confidence intervals from resampled episodes, and differences of two methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from ontarget._arguments import fraction, whole_number
from ontarget._keyed import keyed_uniform, keys_of
from ontarget._typing import ArrayLike, BoolArray, FloatArray, IndexArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation.calibration import bin_of
from ontarget.evaluation.rates import (
    check_flags,
    check_numbers,
    check_panel,
    check_same_size,
)

T = TypeVar("T")

# P(Poisson(1) <= k); a weight of 18 or more has a probability below 1e-16.
_POISSON_CDF = np.cumsum(np.exp(-1.0) / np.cumprod(np.concatenate(([1.0], np.arange(1.0, 18.0)))))


class Estimate(NamedTuple, Generic[T]):
    """A measure ``value`` and its confidence interval ``low`` to ``high``.

    All three are numbers if measured over all steps together, and arrays (steps,) if measured by
    step.
    """

    value: T
    low: T
    high: T


class CalibrationEstimate(NamedTuple, Generic[T]):
    """An expected calibration error (ECE) and its confidence interval ``low`` to ``high``.

    ``floor`` is about the ECE that chance alone would give perfect forecasts. All are numbers, or
    arrays (steps,) if measured by step.
    """

    value: T
    low: T
    high: T
    floor: T


class Forecasts(NamedTuple):
    """Forecasts of all steps in flat arrays: p, whether the target was met, the episode's index."""

    p: FloatArray
    met: BoolArray
    episode: IndexArray


@dataclass(frozen=True, slots=True)
class Resampling:
    """The settings of the Poisson bootstrap over whole episodes that intervals come from."""

    resamples: int = 200
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("resamples", self.resamples, least=2)
        fraction("level", self.level)

    def weights(self, n_episodes: int, ids: ArrayLike | None = None) -> FloatArray:
        """How often each resample contains each episode, as an array (resamples, episodes)."""
        names = np.arange(n_episodes) if ids is None else np.asarray(ids)
        if names.shape != (n_episodes,):
            raise InputError(
                Argument("ids"),
                f" needs one id per episode ({n_episodes}), got shape {names.shape}",
            )
        keys = keys_of(names)
        draws = (keyed_uniform(keys, self.seed, "bootstrap", r) for r in range(self.resamples))
        counts = np.empty((self.resamples, n_episodes))
        for row, draw in zip(counts, draws, strict=True):
            row[:] = np.searchsorted(_POISSON_CDF, draw, side="right")
        return counts


def pool(p: ArrayLike, met: ArrayLike) -> Forecasts:
    """All forecasts of p (steps, episodes) that are not NaN, in flat arrays."""
    panel, outcomes = _forecasts(p, met)
    steps, episodes = np.nonzero(~np.isnan(panel))
    return Forecasts(panel[steps, episodes], outcomes[episodes], episodes)


def pooled_mean(
    values: ArrayLike, *, ids: ArrayLike | None = None, resampling: Resampling | None = None
) -> Estimate[float]:
    """The mean of all values (steps, episodes) that are not NaN, with its confidence interval."""
    plan = resampling or Resampling()
    total, alive = _sums(check_panel("values", values))
    weights = plan.weights(total.shape[1], ids)
    sums, sizes = weights @ total.sum(axis=0), weights @ alive.sum(axis=0)
    low, high = _percentiles(_ratio(sums, sizes), plan.level)
    return Estimate(float(total.sum() / alive.sum()), float(low), float(high))


def mean_by_step(
    values: ArrayLike, *, ids: ArrayLike | None = None, resampling: Resampling | None = None
) -> Estimate[FloatArray]:
    """The mean of values (steps, episodes) at each step, with its confidence interval."""
    plan = resampling or Resampling()
    total, alive = _sums(check_panel("values", values))
    weights = plan.weights(total.shape[1], ids)
    low, high = _percentiles(_ratio(weights @ total.T, weights @ alive.T), plan.level)
    return Estimate(_ratio(total.sum(axis=1), alive.sum(axis=1)), low, high)


def pooled_ece(
    p: ArrayLike,
    met: ArrayLike,
    *,
    bins: int = 30,
    ids: ArrayLike | None = None,
    resampling: Resampling | None = None,
) -> CalibrationEstimate[float]:
    """The expected calibration error (ECE) of all forecasts p (steps, episodes).

    It comes with its confidence interval, and with ``floor``: about the ECE that perfectly
    calibrated forecasts would show on as many episodes, by chance alone.

    Notes
    -----
    Forecasts are sorted into bins, and the ECE adds up the bins' gaps, |mean p − share met|. Chance
    widens these gaps and never cancels out. So the ECE of a resample tends to be larger than the
    ECE itself, and an interval from percentiles might not even contain the ECE. Instead, let g_b be
    the gap of bin b and g*_b its gap in a resample. The ECE cannot change by more than
    Σ_b |g*_b − g_b|. The interval reaches as far to both sides as this sum does in a share
    ``level`` of the resamples. ``floor`` is the mean of this sum.
    """
    plan = resampling or Resampling()
    panel, outcomes = _forecasts(p, met)
    alive = ~np.isnan(panel)
    steps, owners = np.nonzero(alive)
    forecasts = panel[steps, owners]
    cell = owners * bins + bin_of(forecasts, bins)
    gaps = np.zeros(outcomes.size * bins)
    gaps += np.bincount(cell, weights=forecasts - outcomes[owners], minlength=gaps.size)
    sizes = alive.sum(axis=0, dtype=np.float64)
    weights = plan.weights(outcomes.size, ids)
    found = _calibration(weights, gaps.reshape(-1, bins), sizes, plan.level)
    return CalibrationEstimate(*(float(part) for part in found))


def ece_by_step(
    p: ArrayLike,
    met: ArrayLike,
    *,
    bins: int = 30,
    ids: ArrayLike | None = None,
    resampling: Resampling | None = None,
) -> CalibrationEstimate[FloatArray]:
    """The expected calibration error (ECE) at each step of p (steps, episodes)."""
    plan = resampling or Resampling()
    panel, outcomes = _forecasts(p, met)
    weights = plan.weights(outcomes.size, ids)
    found = np.full((4, panel.shape[0]), np.nan)
    for t, row in enumerate(panel):
        alive = ~np.isnan(row)
        if alive.any():
            gaps = np.zeros((outcomes.size, bins))
            places = np.flatnonzero(alive), bin_of(row[alive], bins)
            gaps[places] = row[alive] - outcomes[alive]
            found[:, t] = _calibration(weights, gaps, alive.astype(np.float64), plan.level)
    return CalibrationEstimate(*found)


def _calibration(
    weights: FloatArray, gaps: FloatArray, sizes: FloatArray, level: float
) -> tuple[float, float, float, float]:
    """The expected calibration error (ECE), the ends of its interval, and its floor."""
    # The floor is about the ECE that chance alone would give perfect forecasts. ``weights``,
    # (resamples, episodes), is how often each resample contains each episode. ``gaps``, (episodes,
    # bins), is each episode's sum of p − met in each bin. ``sizes``, (episodes,), is each episode's
    # number of forecasts.
    gap = gaps.sum(axis=0) / sizes.sum()
    value = float(np.abs(gap).sum())
    moved = np.abs(_ratio(weights @ gaps, (weights @ sizes)[:, None]) - gap).sum(axis=1)
    moved = moved[~np.isnan(moved)]
    if moved.size == 0:
        return value, 0.0, 1.0, np.nan
    reach = float(np.quantile(moved, level))
    return value, max(0.0, value - reach), min(1.0, value + reach), float(moved.mean())


def _forecasts(p: ArrayLike, met: ArrayLike) -> tuple[FloatArray, BoolArray]:
    panel, outcomes = check_panel("p", p, unit=True), check_flags("met", met)
    check_same_size(p=panel, met=outcomes)
    return panel, outcomes


def _sums(panel: FloatArray) -> tuple[FloatArray, FloatArray]:
    alive = ~np.isnan(panel)
    return np.where(alive, panel, 0.0), alive.astype(np.float64)


def _ratio(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    """``sums / sizes``; NaN where the size is 0, because a resample has no value there."""
    shape = np.broadcast_shapes(sums.shape, sizes.shape)
    quotient: FloatArray = np.full(shape, np.nan)
    np.divide(sums, sizes, out=quotient, where=sizes > 0.0)
    return quotient


def _percentiles(resamples: FloatArray, level: float) -> FloatArray:
    """The lower and upper end of the central interval over resamples (the first axis), (2, ...)."""
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    ends = np.full((2, *resamples.shape[1:]), np.nan)
    some = ~np.isnan(resamples).all(axis=0)
    ends[..., some] = np.nanquantile(resamples[..., some], tails, axis=0)
    return ends


class Difference(NamedTuple):
    """How much two methods differ: mean difference, standard error and confidence interval."""

    value: float
    error: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """Half the width of the confidence interval of the difference."""
        return self.high - self.value

    @property
    def shows(self) -> bool:
        """Whether 0 is outside the interval, so that chance hardly explains the difference."""
        return self.low > 0.0 or self.high < 0.0


def corrected_difference(
    differences: ArrayLike, *, n_past: int, n_new: int, level: float = 0.95
) -> Difference:
    """The mean of a difference over random splits of the same episodes, with its interval.

    Examples
    --------
    >>> found = corrected_difference([-0.03, -0.01, -0.02], n_past=200, n_new=100)
    >>> print(round(found.value, 3), round(found.error, 4), found.shows)
    -0.02 0.0091 False
    """
    drawn = check_numbers("differences", differences)
    whole_number("n_past", n_past, least=1)
    whole_number("n_new", n_new, least=0)
    splits, value = drawn.size, float(drawn.mean())
    if splits < 2:
        return Difference(value, np.nan, np.nan, np.nan)
    error = float(np.sqrt(drawn.var(ddof=1) * (1.0 / splits + n_new / n_past)))
    reach = float(stdtrit(splits - 1, (1.0 + fraction("level", level)) / 2.0)) * error
    return Difference(value, error, value - reach, value + reach)


def paired_difference(
    ours: ArrayLike,
    theirs: ArrayLike,
    *,
    ids: ArrayLike | None = None,
    resampling: Resampling | None = None,
) -> Difference:
    """The mean of ``ours`` minus ``theirs``, two methods' losses on the same episodes."""
    plan = resampling or Resampling()
    losses = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    found = pooled_mean(losses, ids=ids, resampling=plan)
    # Make the interval symmetric, as wide as its wider side, so that it can be written with ±.
    reach = max(found.high - found.value, found.value - found.low)
    error = reach / float(ndtri((1.0 + plan.level) / 2.0))
    return Difference(found.value, error, found.value - reach, found.value + reach)
