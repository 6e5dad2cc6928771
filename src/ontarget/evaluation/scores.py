"""Scores of probabilities: Brier score, log loss, and the distance to a known true probability.

`squared_errors`, `log_losses` and `excess_errors` return one value per forecast, in the shape of p,
and NaN where p is NaN. Average them with `pooled_mean` or `mean_by_step`. The other functions
return one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import Argument, InputError
from ontarget.evaluation._inputs import (
    check_flags,
    check_numbers,
    check_probabilities,
    check_same_size,
)
from ontarget.evaluation.calibration import bin_of


class BrierParts(NamedTuple):
    """The parts of a Brier score, which is ``reliability - resolution + uncertainty + within``.

    ``reliability`` is the cost of miscalibration. ``resolution`` is the gain from different
    forecasts for runs that differ. ``uncertainty`` is the score of always forecasting the overall
    rate. ``within`` corrects for forecasts that differ inside a bin; it is 0 if all forecasts of a
    bin are equal.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @property
    def brier(self) -> float:
        """The Brier score that the parts add up to."""
        return self.reliability - self.resolution + self.uncertainty + self.within


def squared_errors(p: ArrayLike, met: ArrayLike) -> FloatArray:
    """(p − met)² of each forecast, where met is 1 or 0; NaN where p is NaN.

    The mean of these is the Brier score.
    """
    return (_unit("p", p) - np.asarray(met, dtype=np.float64)) ** 2


def log_losses(p: ArrayLike, met: ArrayLike, n_calibration: ArrayLike) -> FloatArray:
    """The log loss of each forecast: −log of the probability of what happened; NaN where p is NaN.

    p is clipped as in `log_loss`, because ``n_calibration`` episodes cannot tell very small
    probabilities from 0. ``n_calibration`` may be one number, or an array that differs between
    forecasts.
    """
    forecasts, outcomes = _unit("p", p), np.asarray(met, dtype=np.float64)
    n = np.asarray(n_calibration, dtype=np.float64)
    if not (n >= 0.0).all():
        raise InputError(Argument("n_calibration"), f" needs numbers from 0 up, got {np.min(n)}")
    least = 0.5 / (n + 1.0)
    clipped = np.clip(forecasts, least, 1.0 - least)
    return -np.log(np.where(outcomes == 1.0, clipped, 1.0 - clipped))


def excess_errors(p: ArrayLike, p_true: ArrayLike, rollouts: int) -> FloatArray:
    """How much higher each forecast's Brier score is than that of the true probability.

    ``p_true`` is the share of R = ``rollouts`` simulated runs that met the target. The result is
    (p − p_true)² − p_true (1 − p_true)/(R − 1), as in `excess_brier`; NaN where p is NaN.
    """
    whole_number("rollouts", rollouts, least=2)
    forecasts, truth = _unit("p", p), _unit("p_true", p_true)
    return (forecasts - truth) ** 2 - truth * (1.0 - truth) / (rollouts - 1)


def brier(p: ArrayLike, met: ArrayLike) -> float:
    """The Brier score: the mean of (p − met)², where met is 1 or 0; lower is better.

    Examples
    --------
    >>> brier([1.0, 0.5], [1, 0])
    0.125
    """
    return float(squared_errors(*_forecasts(p, met)).mean())


def log_loss(p: ArrayLike, met: ArrayLike, n_calibration: int) -> float:
    """The log loss: the mean of −log of the probability of what happened; lower is better.

    p is clipped to [½/(n + 1), 1 − ½/(n + 1)], where n is ``n_calibration``: n calibration episodes
    cannot tell smaller probabilities from 0. Without clipping, a single p = 0 that came true would
    make the loss infinite.

    Examples
    --------
    >>> round(log_loss([1.0, 1.0], [1, 0], n_calibration=99), 3)
    2.652
    """
    whole_number("n_calibration", n_calibration, least=0)
    forecasts, outcomes = _forecasts(p, met)
    return float(log_losses(forecasts, outcomes, n_calibration=n_calibration).mean())


def sharpness(p: ArrayLike) -> float:
    """The mean of p (1 − p): the expected Brier score if every p were the true probability.

    A lower number means sharper forecasts, closer to 0 or 1. Sharp forecasts are good only if they
    come true. If the Brier score is well above this number, the forecasts are overconfident.

    Examples
    --------
    >>> sharpness([0.5, 1.0])
    0.125
    """
    forecasts = check_probabilities("p", p)
    return float((forecasts * (1.0 - forecasts)).mean())


def murphy(p: ArrayLike, met: ArrayLike, *, bins: int | None = None) -> BrierParts:
    """The parts of the Brier score (Murphy's decomposition): reliability, resolution and others.

    See `BrierParts` for what each part means. The parts add up to the Brier score, except for
    rounding. With ``bins=None``, forecasts that are equal form one bin. A number makes that many
    bins of equal width, as in `reliability`.

    Examples
    --------
    >>> parts = murphy([0.0, 0.5, 0.5], [0, 1, 0])
    >>> print(parts.reliability, round(parts.brier, 3), round(brier([0, 0.5, 0.5], [0, 1, 0]), 3))
    0.0 0.167 0.167
    """
    forecasts, outcomes = _forecasts(p, met)
    places = (
        np.unique(forecasts, return_inverse=True)[1] if bins is None else bin_of(forecasts, bins)
    )
    count = np.maximum(np.bincount(places), 1)
    mean_p = np.bincount(places, weights=forecasts) / count
    rate = np.bincount(places, weights=outcomes) / count
    overall = outcomes.mean()
    # With p̄ the bin's mean, (p − z)² = (p̄ − z)² + (p − p̄)² + 2 (p − p̄)(p̄ − z). The last two
    # terms are `within`.
    drift = forecasts - mean_p[places]
    within = (drift**2 + 2.0 * drift * (mean_p[places] - outcomes)).mean()
    return BrierParts(
        reliability=float(((mean_p - rate)[places] ** 2).mean()),
        resolution=float(((rate - overall)[places] ** 2).mean()),
        uncertainty=float(overall * (1.0 - overall)),
        within=0.0 if bins is None else float(within),
    )


def excess_brier(p: ArrayLike, p_true: ArrayLike, rollouts: int) -> float:
    """How much higher the Brier score of p is than that of the true probability, estimated.

    The result is the mean of (p − p_true)² − p_true (1 − p_true)/(R − 1), with R rollouts.

    Parameters
    ----------
    p
        Forecast probabilities.
    p_true
        For each forecast, the share of R independent simulated runs (rollouts) from the same state
        that met the target.
    rollouts
        R, at least 2. ``p_true`` is itself an estimate, whose error makes the first term too large.
        The second term corrects this on average, so the result may be slightly below 0.

    Examples
    --------
    >>> round(excess_brier([0.5, 0.9], [0.5, 0.8], rollouts=101), 5)
    0.00295
    """
    forecasts, truth = check_probabilities("p", p), check_probabilities("p_true", p_true)
    check_same_size(p=forecasts, p_true=truth)
    return float(excess_errors(forecasts, truth, rollouts=rollouts).mean())


def absolute_error(p: ArrayLike, p_true: ArrayLike) -> float:
    """The mean of |p − p_true|, the distance of p from the true probability.

    If ``p_true`` was itself estimated from simulated runs, the result includes the error of this
    estimate.

    Examples
    --------
    >>> absolute_error([0.5, 1.0], [0.25, 1.0])
    0.125
    """
    forecasts, truth = check_probabilities("p", p), check_probabilities("p_true", p_true)
    check_same_size(p=forecasts, p_true=truth)
    return float(np.abs(forecasts - truth).mean())


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
