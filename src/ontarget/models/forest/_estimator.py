"""What a forest and a guided forest do the same way as parts of a monitor and of scikit-learn."""

from __future__ import annotations

from typing import Self

from sklearn.base import clone

from ontarget._arguments import whole_number
from ontarget.models._estimator import DistributionEstimator

__all__ = ["ForestEstimator"]


class ForestEstimator(DistributionEstimator):
    """An estimator with leaves of at least ``min_leaf`` rows and at most ``n_jobs`` threads."""

    min_leaf: int
    n_jobs: int | None

    def pooled_over(self, n_steps: int) -> Self:
        """An unfitted copy for rows that pool this many steps, so that leaves count episodes (M14).

        An episode then has up to ``n_steps`` rows, and ``min_leaf`` grows by that factor. A monitor
        calls this for every model it fits.

        Examples
        --------
        >>> from ontarget.models import QuantileForest
        >>> QuantileForest(min_leaf=7).pooled_over(5)
        QuantileForest(min_leaf=35)
        """
        copy: Self = clone(self)
        least = whole_number("min_leaf", self.min_leaf, least=1)
        copy.min_leaf = least * whole_number("n_steps", n_steps, least=1)
        return copy
