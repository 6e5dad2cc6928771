"""What a forest and a guided forest do the same way as parts of a monitor and of scikit-learn."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import clone

from ontarget._arguments import whole_number
from ontarget.errors import Argument, InputError
from ontarget.models._estimator import DistributionEstimator

__all__ = ["ForestEstimator"]

# Leaves on pooled steps have at least this many rows, however short most episodes are.
_LEAST_POOLED = 5


class ForestEstimator(DistributionEstimator):
    """An estimator with leaves of at least ``min_leaf`` rows and at most ``n_jobs`` threads."""

    min_leaf: int
    n_jobs: int | None

    def pooled_over(self, n_steps: int | float) -> Self:
        """An unfitted copy for rows that pool this many steps, so that leaves count episodes (M14).

        An episode then has ``n_steps`` rows, and ``min_leaf`` grows by that factor. Where episodes
        end early, give the mean number of rows of an episode as a float: the product is rounded,
        and a leaf on pooled steps has at least five rows. A monitor calls this for every model it
        fits.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> QuantileForest(min_leaf=7).pooled_over(5)
        QuantileForest(min_leaf=35)
        >>> QuantileForest(min_leaf=7).pooled_over(2.5)
        QuantileForest(min_leaf=18)
        """
        copy: Self = clone(self)
        least = whole_number("min_leaf", self.min_leaf, least=1)
        if not isinstance(n_steps, float):
            copy.min_leaf = least * whole_number("n_steps", n_steps, least=1)
        elif 1.0 <= n_steps < np.inf:
            copy.min_leaf = max(_LEAST_POOLED if n_steps > 1.0 else least, round(least * n_steps))
        else:
            raise InputError(Argument("n_steps"), f" needs a number from 1 up, got {n_steps!r}")
        return copy
