"""Whether one method is better than another, on the same splits or on the same episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from ontarget._arguments import fraction, whole_number
from ontarget._typing import ArrayLike
from ontarget.evaluation._inputs import check_numbers
from ontarget.evaluation.resampling import Resampling, pooled_mean


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

    Parameters
    ----------
    differences
        One number per split: a measure of one method minus that of the other.
    n_past, n_new
        How many episodes of a split were learned from, and how many were forecast.
    level
        The confidence level of the interval.

    Notes
    -----
    The splits overlap, so their differences are not independent, and the usual standard error is
    far too small. Nadeau and Bengio (2003) multiply the variance by 1/J + n_new/n_past, where
    independence would give 1/J for J splits. The interval is Student's, with J − 1 degrees of
    freedom. The correction is a good approximation, not a guarantee. With only one split,
    the error is unknown (NaN).

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
    """The mean of ``ours`` minus ``theirs``, two methods' losses on the same episodes.

    Both arguments are arrays (steps, episodes), NaN where there is no forecast. The confidence
    interval comes from resampling whole episodes. So the interval reflects that other episodes
    might have been tested, but not that the methods might have learned from other episodes.

    Examples
    --------
    >>> found = paired_difference([[0.1, 0.2, 0.3]], [[0.2, 0.3, 0.4]])
    >>> print(round(found.value, 3), found.shows)
    -0.1 True
    """
    plan = resampling or Resampling()
    losses = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    found = pooled_mean(losses, ids=ids, resampling=plan)
    # Make the interval symmetric, as wide as its wider side, so that it can be written with ±.
    reach = max(found.high - found.value, found.value - found.low)
    error = reach / float(ndtri((1.0 + plan.level) / 2.0))
    return Difference(found.value, error, found.value - reach, found.value + reach)
