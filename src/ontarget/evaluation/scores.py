"""Scores of probabilities: the Brier score and the log loss.

`squared_errors` and `log_losses` return one value per forecast, in the shape of p, and NaN where p
is NaN. Average them with `pooled_mean` or `mean_by_step`. `brier` and `log_loss` return one number.
"""

from __future__ import annotations

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
