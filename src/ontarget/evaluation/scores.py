"""Scores of probabilities: Brier, log loss, their parts, and the distance to the truth (M12).

`squared_errors`, `log_losses` and `excess_errors` keep one value per forecast, in any shape and
with NaN where there is none, for `pooled_mean` and `mean_by_step`; the others give one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ontarget._arguments import whole_number
from ontarget._typing import ArrayLike, FloatArray
from ontarget.errors import InputError
from ontarget.evaluation._inputs import (
    check_flags,
    check_numbers,
    check_probabilities,
    check_same_size,
)
from ontarget.evaluation.calibration import bin_of

__all__ = [
    "BrierParts",
    "absolute_error",
    "brier",
    "excess_brier",
    "excess_errors",
    "log_loss",
    "log_losses",
    "murphy",
    "squared_errors",
]


class BrierParts(NamedTuple):
    """The parts of a Brier score: ``reliability - resolution + uncertainty + within``.

    ``reliability`` is what miscalibration costs, ``resolution`` what telling runs apart gains,
    ``uncertainty`` the score of always forecasting the overall rate, and ``within`` what the bins
    blur: 0 where all forecasts of a bin are the same.
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
    """(p − met)² of each forecast; NaN where p is."""
    return (_unit("p", p) - np.asarray(met, dtype=np.float64)) ** 2


def log_losses(p: ArrayLike, met: ArrayLike, n_calibration: ArrayLike) -> FloatArray:
    """−log of the probability given to what happened, clipped as `log_loss` does; NaN where p is.

    ``n_calibration`` may differ from forecast to forecast; it broadcasts against p.
    """
    forecasts, outcomes = _unit("p", p), np.asarray(met, dtype=np.float64)
    n = np.asarray(n_calibration, dtype=np.float64)
    if not (n >= 0.0).all():
        raise InputError(f"n_calibration needs numbers from 0 up, got {np.min(n)}")
    least = 0.5 / (n + 1.0)
    clipped = np.clip(forecasts, least, 1.0 - least)
    return -np.log(np.where(outcomes == 1.0, clipped, 1.0 - clipped))


def excess_errors(p: ArrayLike, p_true: ArrayLike, rollouts: int) -> FloatArray:
    """(p − p̂)² − p̂(1 − p̂)/(R − 1) of each forecast, p̂ from R rollouts; NaN where p is (M12)."""
    whole_number("rollouts", rollouts, least=2)
    forecasts, truth = _unit("p", p), _unit("p_true", p_true)
    return (forecasts - truth) ** 2 - truth * (1.0 - truth) / (rollouts - 1)


def brier(p: ArrayLike, met: ArrayLike) -> float:
    """Brier score: the mean of (p − met)².

    Examples
    --------
    >>> brier([1.0, 0.5], [1, 0])
    0.125
    """
    return float(squared_errors(*_forecasts(p, met)).mean())


def log_loss(p: ArrayLike, met: ArrayLike, n_calibration: int) -> float:
    """Mean of −log of the probability given to what happened (M12).

    p is clipped to [½/(n+1), 1 − ½/(n+1)], half the finest step that n calibration episodes can
    tell apart; an unclipped 0 that came true would cost infinitely much.

    Examples
    --------
    >>> round(log_loss([1.0, 1.0], [1, 0], n_calibration=99), 3)
    2.652
    """
    whole_number("n_calibration", n_calibration, least=0)
    forecasts, outcomes = _forecasts(p, met)
    return float(log_losses(forecasts, outcomes, n_calibration=n_calibration).mean())


def murphy(p: ArrayLike, met: ArrayLike, *, bins: int | None = None) -> BrierParts:
    """The parts of the Brier score; they add up to it exactly, but for rounding.

    ``bins=None`` puts forecasts together that are equal; a number takes that many bins of equal
    width, as `reliability` does.

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
    # (p − z)² = (p̄ − z)² + (p − p̄)² + 2 (p − p̄)(p̄ − z): the last two are what binning hides.
    drift = forecasts - mean_p[places]
    within = (drift**2 + 2.0 * drift * (mean_p[places] - outcomes)).mean()
    return BrierParts(
        reliability=float(((mean_p - rate)[places] ** 2).mean()),
        resolution=float(((rate - overall)[places] ** 2).mean()),
        uncertainty=float(overall * (1.0 - overall)),
        within=0.0 if bins is None else float(within),
    )


def excess_brier(p: ArrayLike, p_true: ArrayLike, rollouts: int) -> float:
    """Brier score in excess of the oracle's: mean of (p − p̂)² − p̂(1 − p̂)/(R − 1) (M12).

    Parameters
    ----------
    p
        Forecast probabilities.
    p_true
        The share p̂ of R independent rollouts from each state that met the target.
    rollouts
        R, at least 2. The second term takes away what their chance adds to the first, so the
        mean is unbiased; it may come out a little below 0.

    Examples
    --------
    >>> round(excess_brier([0.5, 0.9], [0.5, 0.8], rollouts=101), 5)
    0.00295
    """
    forecasts, truth = check_probabilities("p", p), check_probabilities("p_true", p_true)
    check_same_size(p=forecasts, p_true=truth)
    return float(excess_errors(forecasts, truth, rollouts=rollouts).mean())


def absolute_error(p: ArrayLike, p_true: ArrayLike) -> float:
    """Mean distance of p from the true probability.

    Where the truth is a share of rollouts its own chance counts as error too.

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
    """Numbers in [0, 1] or NaN, of any shape."""
    array = np.asarray(values, dtype=np.float64)
    inside = array[~np.isnan(array)]
    if inside.size:
        check_probabilities(name, inside)
    else:
        check_numbers(name, inside)
    return array
